"""`python -m bench.consolidation [NODES]`: measure a complete consolidation search over NODES nodes, in CPU seconds.

A search takes passes, as the controller makes them, until every node has been judged; commands of one pass count
against the disruption budgets of the next. Four clusters: as provisioned, where no move saves enough; the same with
half of its pods gone; one with four Provisioners that grew over time, with PodDisruptionBudgets that allow nothing; and
the worst case, free room that no pod may use. `--write` writes docs/benchmarks/consolidation.md.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from controller.core.api import labels
from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import (
    LabelSelector,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodSpec,
    PodVolume,
    SelectorRequirement,
)
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.api.workloads import PersistentVolume, PersistentVolumeClaim, PodDisruptionBudget
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation_search import BEGIN, find
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.problem import build
from controller.core.provisioning.solver.solver import solve
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot, StateNode

ZONES = ("a", "b", "c")
PAGE = Path(__file__).parents[1] / "docs/benchmarks/consolidation.md"
NOW = 1_000_000.0
SPECS = tuple(
    PodSpec(FrozenMap({**resources({"cpu": cpu, "memory": memory}), "pods": 1}))
    for cpu in ("250m", "500m", "1", "2")
    for memory in ("512Mi", "1Gi", "2Gi", "4Gi")
)
PODS_PER_NODE = 15.5


def instance_types() -> tuple[InstanceType, ...]:
    """Twelve types of three shapes, on demand in three zones."""
    types = []
    for family, ratio, price in (("c5", 2, 0.0425), ("m5", 4, 0.048), ("r5", 8, 0.063)):
        for size, cpu in (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)):
            name = f"{family}.{size}"
            own = {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
            capacity = resources({"cpu": str(cpu), "memory": f"{cpu * ratio}Gi", "pods": 58})
            offered = tuple(Offering(zone, labels.ON_DEMAND, price * cpu) for zone in ZONES)
            types.append(InstanceType(name, Requirements.from_labels(own), capacity, FrozenMap(), offered))
    return tuple(types)


def packed(count: int, types: tuple[InstanceType, ...], seed: int = 1) -> Snapshot:
    """About so many nodes as provisioning makes them: the plan for pods of 16 workloads, come true."""
    chance = random.Random(seed)
    apps = [chance.randrange(len(SPECS)) for _ in range(int(count * PODS_PER_NODE))]
    pods = [_pod(f"app-{app}-{number}", app) for number, app in enumerate(apps)]
    view = Snapshot(version=1, synced=True, provisioners=_provisioners(1))
    plan = solve(build(view, {"default-0": types}, pods=pods))
    by_key, by_name = {pod.key: pod for pod in pods}, {kind.name: kind for kind in types}
    nodes = [
        _node(number, by_name[one.offering.instance_type], one.offering.zone, [by_key[key] for key in one.pods])
        for number, one in enumerate(plan.new_nodes)
    ]
    return _snapshot(nodes, view)


def halved(count: int, types: tuple[InstanceType, ...], seed: int = 1) -> Snapshot:
    """As many nodes, when every other pod is gone."""
    chance, whole = random.Random(seed), packed(count, types, seed)
    kept = {node.name: tuple(pod for pod in node.pods if chance.random() < 0.5) for node in whole.nodes.values()}
    return _snapshot([replace(node, pods=kept[node.name]) for node in whole.nodes.values()], whole)


def grown(count: int, types: tuple[InstanceType, ...], seed: int = 1) -> Snapshot:
    """Nodes of any type, 50 to 95 % full, of four Provisioners; every fourth workload has a budget that is used up."""
    chance, nodes = random.Random(seed), list[StateNode]()
    while len(nodes) < count:
        number, kind, room = len(nodes), chance.choice(types), chance.uniform(0.5, 0.95)
        used, pods = {"cpu": 0, "memory": 0}, list[Pod]()
        while True:
            app = chance.choices(range(len(SPECS)), [1 if app % 4 == 0 else 8 for app in range(len(SPECS))])[0]
            used = {key: amount + SPECS[app].requests[key] for key, amount in used.items()}
            if any(amount > room * kind.capacity[key] for key, amount in used.items()):
                break
            pods.append(_pod(f"app-{app}-{number}-{len(pods)}", app))
        if pods:
            nodes.append(_node(number, kind, chance.choice(ZONES), pods, number % 4))
    budgets = [
        PodDisruptionBudget("default", f"app-{app}", LabelSelector((SelectorRequirement("app", "In", (str(app),)),)), 0)
        for app in range(0, len(SPECS), 4)
    ]
    by_key = FrozenMap({(budget.namespace, budget.name): budget for budget in budgets})
    view = Snapshot(version=1, synced=True, provisioners=_provisioners(4), budgets=by_key)
    return _snapshot(nodes, view)


def pinned(count: int, types: tuple[InstanceType, ...], seed: int = 1) -> Snapshot:
    """The same without budgets, when each pod's volume is a disk of its node: there is room, and no pod may use it."""
    whole = grown(count, types, seed)
    nodes, claims, volumes = list[StateNode](), list[PersistentVolumeClaim](), list[PersistentVolume]()
    for node in whole.nodes.values():
        here = (NodeSelectorTerm((SelectorRequirement(labels.HOSTNAME, "In", (node.name,)),)),)
        for pod in node.pods:
            claims.append(PersistentVolumeClaim(pod.namespace, pod.name, volume_name=pod.name))
            volumes.append(PersistentVolume(pod.name, node_affinity=here, claim=pod.key, phase="Bound", local=True))
        pods = (replace(pod, volumes=(PodVolume("data", pod.name),)) for pod in node.pods)
        nodes.append(replace(node, pods=tuple(pods)))
    disks = replace(
        whole,
        budgets=FrozenMap(),
        claims=FrozenMap({claim.key: claim for claim in claims}),
        volumes=FrozenMap({volume.name: volume for volume in volumes}),
    )
    return _snapshot(nodes, disks)


def _pod(name: str, app: int) -> Pod:
    owner = OwnerReference("apps/v1", "ReplicaSet", f"app-{app}", f"uid-{app}")
    own = FrozenMap({"app": str(app)})
    return Pod("default", name, name, SPECS[app], labels=own, owners=(owner,), unschedulable=True)


def _provisioners(count: int) -> FrozenMap[str, Provisioner]:
    names = [f"default-{number}" for number in range(count)]
    policy = DisruptionPolicy(consolidation=True)
    return FrozenMap({name: Provisioner(name, uid=name, disruption=policy) for name in names})


def _node(number: int, kind: InstanceType, zone: str, pods: Sequence[Pod], owner: int = 0) -> StateNode:
    name = f"node-{number:05}"
    own = {labels.INSTANCE_TYPE: kind.name, labels.ZONE: zone, labels.CAPACITY_TYPE: labels.ON_DEMAND}
    own |= {labels.HOSTNAME: name, labels.PROVISIONER_NAME: f"default-{owner}", labels.INITIALIZED: "true"}
    own |= {labels.ARCH: "amd64", labels.OS: "linux"}
    node = Node(name, uid=name, labels=FrozenMap(own), capacity=kind.capacity, allocatable=kind.capacity, ready=True)
    bound = (replace(pod, node_name=name, phase="Running", unschedulable=False) for pod in pods)
    return StateNode(node, tuple(sorted(bound, key=lambda pod: pod.key)), kind.capacity, kind.capacity, ())


def _snapshot(nodes: Sequence[StateNode], like: Snapshot) -> Snapshot:
    pods = {pod.key: pod for node in nodes for pod in node.pods}
    return replace(
        like, nodes=FrozenMap({node.name: node for node in nodes}), pods=FrozenMap(dict(sorted(pods.items())))
    )


@dataclass(frozen=True, slots=True)
class Search:
    """Passes until every node was judged; CPU seconds of all, and of the longest. `saved` in $ an hour."""

    passes: int
    simulations: int
    seconds: float
    longest_seconds: float
    judged: int
    removed: int
    saved: float


def search(snapshot: Snapshot, types: tuple[InstanceType, ...]) -> Search:
    """Run a complete search, candidates and gate of each pass included."""
    catalog = dict.fromkeys(snapshot.provisioners, types)
    tables = TableCache()
    cursor, simulations, seconds = BEGIN, 0, list[float]()
    judged, commands = set[str](), list[Command]()
    while True:
        began = time.process_time()
        gate = Gate(snapshot, NOW)
        for command in commands:
            gate.grant(command.candidates)
        simulator = Simulator(snapshot, catalog, snapshot_index=SnapshotIndex(snapshot, tables))
        everyone = candidates(snapshot, catalog, NOW, beside=simulator.options.beside)
        outcome = find(everyone, simulator, gate, cursor=cursor)
        seconds.append(time.process_time() - began)
        simulations += outcome.simulations
        commands += outcome.commands
        judged.update(candidate.name for candidate, _ in (*outcome.kept, *outcome.blocked))
        judged.update(candidate.name for command in outcome.commands for candidate in command.candidates)
        cursor = outcome.cursor
        if cursor == BEGIN:
            removed = sum(len(command.candidates) for command in commands)
            saved = sum(command.price_before - command.price_after for command in commands)
            return Search(len(seconds), simulations, sum(seconds), max(seconds), len(judged), removed, saved)


SHAPES = (
    ("as provisioned: nothing is worth a move", packed),
    ("half of its pods gone", halved),
    ("grown by itself, four Provisioners, PodDisruptionBudgets", grown),
    ("the same, all pods bound to their nodes by their disks", pinned),
)


def report(count: int) -> str:
    """A row for each shape, as a page."""
    types = instance_types()
    rows = []
    for what, make in SHAPES:
        snapshot = make(count, types)
        whole = search(snapshot, types)
        price = sum(c.price or 0.0 for c in candidates(snapshot, dict.fromkeys(snapshot.provisioners, types), NOW))
        passes = f"{whole.passes}, the longest {whole.longest_seconds:.2f}"
        saving = f"{whole.removed} | {whole.saved:.2f} of {price:.2f}"
        took = f"{whole.simulations} | {whole.seconds:.2f} | {passes}"
        size = f"{len(snapshot.nodes):,} | {len(snapshot.pods):,}"
        rows.append(f"| {what} | {size} | {took} | {whole.judged:,} | {saving} |")
    return (
        f"# Consolidation over {count:,} nodes\n\n"
        f"`python -m bench.consolidation {count} --write`: a complete search, in as many passes as it takes to judge "
        f"every node; CPU seconds of one core. {len(SPECS)} workloads, {len(types)} instance types. A tenth of a "
        "Provisioner's nodes may be removed at once, empty ones not counted; the others wait.\n\n"
        "| cluster | nodes | pods | simulations | CPU seconds | passes | judged | to remove now | $ an hour saved |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def main() -> None:
    """Print the page, or write it."""
    words = [word for word in sys.argv[1:] if word != "--write"]
    page = report(int(words[0]) if words else 1000)
    if "--write" in sys.argv:
        PAGE.write_text(page)
    sys.stdout.write(page)


if __name__ == "__main__":
    main()
