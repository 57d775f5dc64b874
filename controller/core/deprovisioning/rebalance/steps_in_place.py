"""Audit the cluster after each step of a rebalance.

The plan for all pods breaks no rule once it is complete; a topology spread, for instance, may be broken half-way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import CAPACITY_TYPE, HOSTNAME, INITIALIZED, PROVISIONER_NAME, ZONE
from controller.core.api.node import Node
from controller.core.api.pod import Pod, PodKey
from controller.core.audit.plan_audit import Violation, judge
from controller.core.cloud import Catalog
from controller.core.deprovisioning.rebalance.rebalance_plan import Launch, PodMove, Step
from controller.core.provisioning.plan import ExistingPlacement, SchedulingPlan
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import Snapshot, StateNode


def first_violation(snapshot: Snapshot, steps: Sequence[Step], catalog: Catalog) -> tuple[int, Violation] | None:
    """Return the position of the first step after which a rule is broken, and the violation; None if none is."""
    for position, step in enumerate(steps):
        launched = with_launches(snapshot, step.launches, catalog)
        names = frozenset(node.name for node in step.removes)
        pods = [snapshot.pods[move.pod] for move in step.moves]
        problem = build(launched, catalog, pods=pods, without_nodes=names)
        verdict = judge(SchedulingPlan(existing=_placements(step.moves)), problem)
        if verdict.violations:
            return position, verdict.violations[0]
        snapshot = after(launched, step)
    return None


def with_launches(snapshot: Snapshot, launches: Iterable[Launch], catalog: Catalog) -> Snapshot:
    """Return the cluster when these nodes have been launched and are ready."""
    nodes = {**snapshot.nodes, **{launch.name: _standing(launch, catalog) for launch in launches}}
    return replace(snapshot, nodes=FrozenMap(dict(sorted(nodes.items()))))


def after(snapshot: Snapshot, step: Step) -> Snapshot:
    """Return the cluster when the step is done; its launches are in the snapshot already."""
    moved: dict[PodKey, Pod] = {m.pod: replace(snapshot.pods[m.pod], node_name=m.target) for m in step.moves}
    arrived: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in moved.values():
        arrived[pod.node_name].append(pod)
    gone = {node.name for node in step.removes}
    nodes = {name: _with_pods(node, arrived[name]) for name, node in snapshot.nodes.items() if name not in gone}
    daemons = {pod.key for name in gone for pod in snapshot.nodes[name].pods} - moved.keys()
    pods = {key: moved.get(key, pod) for key, pod in snapshot.pods.items() if key not in daemons}
    return replace(snapshot, nodes=FrozenMap(nodes), pods=FrozenMap(pods))


def _with_pods(node: StateNode, pods: Sequence[Pod]) -> StateNode:
    return replace(node, pods=tuple(sorted((*node.pods, *pods), key=lambda pod: pod.key))) if pods else node


def _placements(moves: Iterable[PodMove]) -> tuple[ExistingPlacement, ...]:
    by_target: defaultdict[str, list[PodKey]] = defaultdict(list)
    for move in moves:
        by_target[move.target].append(move.pod)
    return tuple(ExistingPlacement(node, tuple(sorted(pods)), "moved") for node, pods in sorted(by_target.items()))


def _standing(launch: Launch, catalog: Catalog) -> StateNode:
    """Return the node as it will be if EC2 gives the planned offering."""
    planned = launch.planned
    kind = next(each for each in catalog[planned.provisioner] if each.name == planned.offering.instance_type)
    of_type = {
        key: next(iter(asked.values))
        for key, asked in kind.requirements.items()
        if len(asked.values) == 1 and not asked.complement
    }
    where = {ZONE: planned.offering.zone, CAPACITY_TYPE: planned.offering.capacity_type}
    own = {PROVISIONER_NAME: planned.provisioner, HOSTNAME: launch.name, INITIALIZED: "true"}
    labels = FrozenMap({**of_type, **planned.labels, **where, **own})
    node = Node(
        launch.name,
        uid=launch.name,
        labels=labels,
        taints=planned.taints,
        capacity=kind.capacity,
        allocatable=kind.allocatable,
        ready=True,
    )
    return StateNode(node, (), kind.capacity, kind.allocatable, planned.taints)
