"""Clusters for tests of removals: nodes of a small market of instance types, and one look of consolidation at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from controller.core.api import labels as keys
from controller.core.api.disruption import DisruptionPolicy, parse_budgets
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import PodAffinityTerm
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.backoff import Moves
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation_search import BEGIN, NO_MOVES, Cursor, SearchResult, find
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning.plan import SolveOptions
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories

NOW = 1_700_000_000.0
GPU = "nvidia.com/gpu"
FREELY = DisruptionPolicy(
    consolidation=True, budgets=parse_budgets('[{"nodes": "100%"}]'), consolidation_threshold=0.25
)
"""Consolidation is on, all nodes may leave together, and what is saved has to be worth a quarter of the moves."""


def owner(**fields: Any) -> Provisioner:
    """A Provisioner with consolidation enabled, whose budget allows every removal."""
    return factories.provisioner(**{"disruption": FREELY, **fields})


def with_budget(text: str) -> Provisioner:
    """The same with disruption budgets."""
    return owner(disruption=replace(FREELY, budgets=parse_budgets(text)))


def types_of(*prices: tuple[str, str, str, float], spot: bool = False) -> tuple[InstanceType, ...]:
    """(name, cpu, memory, price) each, on demand or on the spot market alone."""
    market = (keys.SPOT,) if spot else (keys.ON_DEMAND,)
    made = []
    for name, cpu, memory, price in prices:
        offered = tuple(Offering(zone, kind, price) for zone in factories.ZONES for kind in market)
        made.append(factories.instance_type(name=name, cpu=cpu, memory=memory, offered=offered))
    return tuple(made)


MARKET = types_of(("c5.large", "2", "4Gi", 0.1), ("c5.xlarge", "4", "8Gi", 0.2), ("c5.2xlarge", "8", "16Gi", 0.4))


def priced(name: str, **prices: float) -> InstanceType:
    """A type of 2 cpu with an offering per keyword: od_ or spot_ and the last letter of the zone."""
    zones = {zone[-1]: zone for zone in factories.ZONES}
    kinds = {"od": keys.ON_DEMAND, "spot": keys.SPOT}
    offered = tuple(Offering(zones[key[-1]], kinds[key.split("_")[0]], price) for key, price in prices.items())
    return factories.instance_type(name=name, cpu="2", memory="4Gi", offered=offered)


def standing(
    name: str, kind: str, *requests: Mapping[str, str], types: Iterable[InstanceType] = MARKET, **fields: Any
) -> StateNode:
    """An initialized node of a type, with a pod for each of `requests`, and further `pods`."""
    entry = next(each for each in types if each.name == kind)
    room: dict[str, str | int | float] = {
        "cpu": f"{entry.capacity['cpu']}m",
        "memory": entry.capacity["memory"],
        "pods": 58,
        **{name: amount for name, amount in entry.capacity.items() if name == GPU},
    }
    pods = [factories.running_pod(node=name, name=f"{name}-{n}", requests=each) for n, each in enumerate(requests)]
    more = fields.pop("pods", ())
    node = factories.node(name=name, instance_type=kind, allocatable=room, created=NOW - 9000, **fields)
    return factories.state_node(node=node, pods=[*pods, *more])


def keeping_apart(name: str, kind: str = "c5.large", cpu: str = "1900m", **fields: Any) -> StateNode:
    """A node with a pod that shares no host with others of its app: only a simulation knows, the cost screen does not.

    Beside a large one of them with free room, the removal of a full small one needs a simulation, which refuses it.
    """
    term = PodAffinityTerm(keys.HOSTNAME, factories.selector(app="web"))
    labels, requests = FrozenMap({"app": "web"}), {"cpu": cpu}
    pod = factories.running_pod(node=name, labels=labels, required_pod_anti_affinity=(term,), requests=requests)
    return standing(name, kind, pods=[pod], **fields)


ROOM = keeping_apart("z", "c5.2xlarge", "100m", provisioner="")
"""Not ours, with room that no pod of the others may use."""


PRICES_ALONE = SolveOptions().of_prices_alone()


def parts(view: Snapshot, types: tuple[InstanceType, ...] = MARKET, options: SolveOptions | None = None) -> Any:
    """Candidates, simulator and gate."""
    catalog = dict.fromkeys(view.provisioners, types)
    simulator = Simulator(view, catalog, options=options or SolveOptions())
    return candidates(view, catalog, NOW, beside=simulator.options.beside), simulator, Gate(view, NOW)


def method_input(view: Snapshot, types: tuple[InstanceType, ...] = MARKET, **fields: Any) -> MethodInput:
    """What a method decides on."""
    everyone, simulator, _ = parts(view, types)
    gate = Gate(view, fields.setdefault("now", NOW))
    return MethodInput(simulator, gate, everyone, **fields)


def look(
    nodes: Iterable[StateNode],
    types: tuple[InstanceType, ...] = MARKET,
    provisioners: Iterable[Any] | None = None,
    cursor: Cursor = BEGIN,
    most: int = 24,
    moves: Moves = NO_MOVES,
    options: SolveOptions | None = None,
    **fields: Any,
) -> SearchResult:
    """One look of a search for savings."""
    view = factories.snapshot(nodes=nodes, provisioners=provisioners or [owner()], **fields)
    everyone, simulator, gate = parts(view, types, options)
    return find(everyone, simulator, gate, moves, cursor, most)


def removed(result: SearchResult | Proposal) -> list[list[str]]:
    """Names of the nodes of each command."""
    return sorted(sorted(c.name for c in command.candidates) for command in result.commands)


def only(result: SearchResult | Proposal) -> Command:
    """The one command."""
    (command,) = result.commands
    return command


def reasons(result: SearchResult | Proposal) -> str:
    """Why nodes stay."""
    return " | ".join(reason for _, reason in (*result.kept, *result.blocked))
