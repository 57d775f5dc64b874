"""What provisioning makes, consolidation leaves: a freshly provisioned cluster is a fixed point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import CpuCredits, InstanceType
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation_search import find
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning.plan import PlannedNode, SolveOptions
from controller.core.provisioning.solver.solver import solve
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning.builders import owner, parts
from tests.core.provisioning.plans import near, solved, spread
from tests.examples import examples

NOW = 1_700_000_000.0
WEB = {"labels": {"app": "web"}}
SIZES = (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16))
MARKET = tuple(
    factories.instance_type(
        name=f"{family}.{size}",
        cpu=cpu,
        memory=f"{cpu * ratio}Gi",
        price=price * cpu,
        pods=58,
        overhead={"cpu": "80m", "memory": "400Mi"},
    )
    for family, ratio, price in (("c5", 2, 0.0425), ("m5", 4, 0.048), ("r5", 8, 0.063))
    for size, cpu in SIZES
)
OWNER = owner()


def up(name: str, kind: InstanceType, own: Mapping[str, str], pods: Sequence[Pod]) -> StateNode:
    """A node of a type, all in order, with these labels beside its type's own, and these pods."""
    of_type = {key: next(iter(r.values)) for key, r in kind.requirements.items() if r.values and not r.complement}
    fixed = {keys.PROVISIONER_NAME: OWNER.name, keys.HOSTNAME: name, keys.INITIALIZED: "true"}
    node = factories.node(name=name, instance_type=kind.name, created=NOW - 9000)
    node = replace(
        node, labels=FrozenMap(of_type | fixed | dict(own)), capacity=kind.capacity, allocatable=kind.allocatable
    )
    return replace(factories.state_node(node=node, pods=pods), capacity=kind.capacity, allocatable=kind.allocatable)


def bound(pod: Pod, node: str) -> Pod:
    return replace(pod, node_name=node, phase="Running", unschedulable=False, ready=True)


def launched(number: int, planned: PlannedNode, pods: dict[Any, Pod], types: Sequence[InstanceType]) -> StateNode:
    """The planned node as it stands when its instance came up as planned and its pods were bound."""
    kind = next(each for each in types if each.name == planned.offering.instance_type)
    where = {keys.ZONE: planned.offering.zone, keys.CAPACITY_TYPE: planned.offering.capacity_type}
    name = f"node-{number}"
    return up(name, kind, {**planned.labels, **where}, [bound(pods[key], name) for key in planned.pods])


def undone(
    pods: Sequence[Pod], standing: Sequence[StateNode] = (), market: tuple[InstanceType, ...] = MARKET
) -> list[str]:
    """What consolidation would do to the nodes that a plan for these pods adds to the standing ones."""
    plan = solved(factories.problem(pending=pods, provisioners=[OWNER], catalog=market, nodes=standing))
    assert plan.unplaced == ()
    by_key = {pod.key: pod for pod in pods}
    nodes = [launched(number, planned, by_key, market) for number, planned in enumerate(plan.new_nodes)]
    taken = {placed.node: [bound(by_key[key], placed.node) for key in placed.pods] for placed in plan.existing}
    fuller = [replace(node, pods=(*node.pods, *taken.get(node.name, ()))) for node in standing]
    view = factories.snapshot(nodes=[*nodes, *fuller], provisioners=[OWNER])
    catalog = {OWNER.name: market}
    simulator = Simulator(view, catalog)
    looked = candidates(view, catalog, NOW, beside=simulator.options.beside)
    added = {node.name for node in nodes}
    assert {candidate.name for candidate in looked} >= added
    search = find(looked, simulator, Gate(view, NOW))
    judged = {candidate.name for candidate, _ in search.kept}
    assert judged >= added or search.commands
    return [command.because for command in search.commands]


SHAPES = {
    "small pods": factories.pending_pods(60, requests={"cpu": "250m", "memory": "512Mi"}),
    "memory and cpu": (
        *factories.pending_pods(20, requests={"cpu": "1500m", "memory": "1Gi"}),
        *factories.pending_pods(20, requests={"cpu": "300m", "memory": "7Gi"}),
    ),
    "spread over zones": factories.pending_pods(
        21, requests={"cpu": "700m", "memory": "1Gi"}, topology_spread=(spread(),), **WEB
    ),
    "apart over hosts": (
        *factories.pending_pods(
            8, requests={"cpu": "500m", "memory": "1Gi"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), **WEB
        ),
        *factories.pending_pods(30, requests={"cpu": "400m", "memory": "900Mi"}),
    ),
    "one node each": factories.pending_pods(5, requests={"cpu": "3500m", "memory": "6Gi"}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_consolidation_finds_nothing_to_do_in_a_fresh_cluster(shape: str) -> None:
    assert undone(SHAPES[shape]) == []


MIXES = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(("100m", "300m", "800m", "1700m", "3")),
        st.sampled_from(("128Mi", "700Mi", "2Gi", "5Gi", "11Gi")),
    ),
    min_size=1,
    max_size=5,
)
FILLED = st.lists(
    st.tuples(st.sampled_from(MARKET), st.sampled_from((20, 50, 80, 95)), st.sampled_from((20, 50, 80, 95))),
    min_size=1,
    max_size=6,
)


def waiting(mix: list[tuple[int, str, str]]) -> list[Pod]:
    return [
        pod
        for count, cpu, memory in mix
        for pod in factories.pending_pods(count, requests={"cpu": cpu, "memory": memory})
    ]


@given(MIXES)
@examples(8)
def test_nor_in_a_fresh_cluster_of_any_mix(mix: list[tuple[int, str, str]]) -> None:
    assert undone(waiting(mix)) == []


BURSTING = tuple(
    replace(
        factories.instance_type(name=f"t3.{size}", cpu=cpu, memory=f"{cpu * 2}Gi", price=0.02 * cpu, pods=58),
        credits=CpuCredits(baseline=0.1 * cpu, surplus_price=0.1),
    )
    for size, cpu in SIZES[:2]
)
"""Half the price of a c5. What their pods use beyond a tenth of their CPU costs as much again."""


def test_what_a_plan_pays_for_is_not_undone_for_a_lower_price() -> None:
    """Plans minimise the whole cost: a burstable type of half the price does not take the place of the plan's node."""
    market = tuple(
        replace(kind, offerings=tuple(o for o in kind.offerings if o.capacity_type == keys.ON_DEMAND))
        for kind in (*MARKET, *BURSTING)
    )
    pods = factories.pending_pods(4, requests={"cpu": "900m", "memory": "1700Mi"})
    posed = factories.problem(pending=pods, provisioners=[OWNER], catalog=market)
    cheapest = solve(posed, SolveOptions().of_prices_alone())
    assert cheapest.price_per_hour < 0.85 * solve(posed, SolveOptions()).price_per_hour
    assert undone(pods, market=market) == []


def test_what_a_plan_would_not_pay_for_is_replaced_though_its_price_is_lower() -> None:
    """Eight nodes by one of their price together; a filled burstable node by one of twice its price."""
    little = factories.instance_type(name="c6.large", cpu="2", memory="4Gi", price=0.05)
    big = factories.instance_type(name="c6.4xlarge", cpu="16", memory="32Gi", price=0.4, pods=58)
    dear, burst = (next(t for t in (*MARKET, *BURSTING) if t.name == name) for name in ("c5.xlarge", "t3.xlarge"))

    def removed(market: tuple[InstanceType, ...], count: int, pods: int, cpu: str) -> tuple[int, list[str]]:
        kind, where = market[0], {keys.ZONE: factories.ZONES[0], keys.CAPACITY_TYPE: keys.ON_DEMAND}
        nodes = [
            up(name, kind, where, [factories.running_pod(node=name, requests={"cpu": cpu}) for _ in range(pods)])
            for name in (f"n{number}" for number in range(count))
        ]
        everyone, simulator, gate = parts(factories.snapshot(nodes=nodes, provisioners=[OWNER]), market)
        (command,) = find(everyone, simulator, gate).commands
        return len(command.candidates), [node.offering.instance_type for node in command.replacements]

    assert removed((little, big), 8, 1, "2") == (8, ["c6.4xlarge"])
    assert removed((burst, dear), 1, 4, "900m") == (1, ["c5.xlarge"])


@given(MIXES)
@examples(4)
def test_nor_where_burstable_types_are_on_offer(mix: list[tuple[int, str, str]]) -> None:
    assert undone(waiting(mix), market=(*MARKET, *BURSTING)) == []


def test_surplus_cpu_that_moved_pods_would_cause_on_a_burstable_node_counts() -> None:
    """Its room is free of charge up to its baseline; beyond that the small node that would go is cheaper."""

    def removed(moving: str, already: str) -> list[str]:
        large, burst = (next(t for t in (*MARKET, *BURSTING) if t.name == name) for name in ("c5.large", "t3.xlarge"))
        moves = factories.running_pod(node="small", requests={"cpu": moving})
        stays = {V1ALPHA5.keys.do_not_evict: "true"}
        there = factories.running_pod(node="burst", requests={"cpu": already}, annotations=stays)
        where = {keys.ZONE: factories.ZONES[0], keys.CAPACITY_TYPE: keys.ON_DEMAND}
        nodes = [up("small", large, where, [moves]), up("burst", burst, where, [there])]
        view = factories.snapshot(nodes=nodes, provisioners=[OWNER])
        everyone, simulator, gate = parts(view, (large, burst))
        return [each.name for command in find(everyone, simulator, gate).commands for each in command.candidates]

    assert removed("200m", "100m") == ["small"]
    assert removed("1800m", "2") == []


@given(MIXES, FILLED)
@examples(6)
def test_no_node_is_added_to_standing_ones_that_consolidation_would_at_once_remove(
    mix: list[tuple[int, str, str]], filled: list[tuple[InstanceType, int, int]]
) -> None:
    """What stands has room, and stays: a node is added for pods that neither that room nor a cheaper node holds."""
    standing = []
    for number, (kind, cpu, memory) in enumerate(filled):
        name, room = f"old-{number}", kind.allocatable
        requests = {"cpu": f"{room['cpu'] * cpu // 100}m", "memory": str(room["memory"] * memory // 100)}
        there = factories.running_pod(node=name, requests=requests, annotations={V1ALPHA5.keys.do_not_evict: "true"})
        standing.append(up(name, kind, {keys.ZONE: factories.ZONES[0], keys.CAPACITY_TYPE: keys.SPOT}, [there]))
    assert undone(waiting(mix), standing) == []


def test_room_that_stands_is_used_before_a_node_is_added_and_the_node_is_for_the_rest() -> None:
    """Three pods fit on what stands, two do not: the node for those takes none of the three."""
    kind = next(each for each in MARKET if each.name == "m5.xlarge")
    stays = {V1ALPHA5.keys.do_not_evict: "true"}
    there = factories.running_pod(node="old", requests={"cpu": "500m"}, annotations=stays)
    standing = up("old", kind, {keys.ZONE: factories.ZONES[0], keys.CAPACITY_TYPE: keys.SPOT}, [there])
    pods = factories.pending_pods(5, requests={"cpu": "1", "memory": "1Gi"})
    plan = solved(factories.problem(pending=pods, provisioners=[OWNER], catalog=MARKET, nodes=[standing]))
    assert [len(placed.pods) for placed in plan.existing] == [3]
    assert sum(len(node.pods) for node in plan.new_nodes) == 2
    assert undone(pods, [standing]) == []
