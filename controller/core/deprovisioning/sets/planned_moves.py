"""Moves as planned: closed nodes take the pods that a removal's plan has on them.

The plan of a set of nodes is tight, and kube-scheduler follows no plan: it would give the room of the replacements to
whatever waits first. So replacements whose pods differ in their requests are created closed, like new nodes of one plan
(`core.machines.opening`), and stay so until the pods of the removed nodes have moved. The plan that they were launched
for is carried out if the audit finds that it still holds; its places are taken by the pods that owners make anew.
Nodes in service that take moved pods are closed for as long as these come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.core.api.pod import Pod, PodKey
from controller.core.audit.plan_audit import judge
from controller.core.cloud import Catalog
from controller.core.deprovisioning.records import RecordedCommand, recorded_commands
from controller.core.deprovisioning.removal_simulation import Outcome, Simulator
from controller.core.machines.binding import may_be_bound
from controller.core.machines.on_their_way import ExpectedPod, names_of
from controller.core.machines.opening import closed_in_service, is_closed, opens_together
from controller.core.machines.registration import runs_no_pods_because
from controller.core.provisioning.plan import ExistingPlacement, SchedulingPlan, SolvedProblem
from controller.core.provisioning.problem import build, leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode

MOST_CLOSED = 50
"""Nodes in service that a command may close. Where pods move to more of them, each has some choice."""


def takes_moved_pods(node: StateNode, snapshot: Snapshot, catalog: Catalog) -> bool:
    """Return whether a replacement can run pods: it is initialized, or lacks nothing but being opened."""
    if node.initialized or not is_closed(node.node):
        return node.initialized
    provisioner = snapshot.provisioners.get(node.provisioner_name)
    types = catalog.get(node.provisioner_name, ())
    capacity = next((each.capacity for each in types if each.name == node.node.instance_type), None)
    return (
        provisioner is not None and capacity is not None and not runs_no_pods_because(node.node, provisioner, capacity)
    )


def as_planned(
    planned: Mapping[str, Sequence[PodKey]],
    removed: Sequence[StateNode],
    command: RecordedCommand,
    simulator: Simulator,
) -> Outcome | None:
    """Return the outcome of the plan that a command's closed replacements were launched for.

    planned: pods by node, an existing one or the stand-in of a replacement. None where the plan does not hold any more:
    a replacement is open, a pod is not in the plan, or the audit refuses it as the cluster is now.
    """
    if not command.replacements or not all(is_closed(node.node) for node in command.replacements.values()):
        return None
    left = {pod.key: pod for node in removed for pod in leaving_pods(node)}
    own = tuple(left.values())
    names = {alias: node.name for node in simulator.snapshot.nodes.values() for alias in names_of(node.node)}
    placements: list[ExistingPlacement] = []
    for name, keys in planned.items():
        here = [key for key in keys if left.pop(key, None) is not None]
        if here and name not in names:
            return None
        if here:
            placements.append(ExistingPlacement(names[name], tuple(sorted(here)), ""))
    if left:
        return None
    without = simulator.going | {node.name for node in removed}
    problem = build(simulator.snapshot, simulator.catalog, own, without, simulator.skipped)
    plan = SchedulingPlan(existing=tuple(sorted(placements, key=lambda each: each.node)))
    verdict = judge(plan, problem)
    if verdict.violations or not verdict.topology_judged:
        return None
    return Outcome(targets=tuple(each.node for each in plan.existing), solved=SolvedProblem(problem, plan))


def places_on_closed_nodes(
    outcome: Outcome, removed: Sequence[StateNode], snapshot: Snapshot
) -> tuple[tuple[Pod, ExpectedPod], ...]:
    """Return the pods of removed nodes that the outcome has on closed nodes, each with its place there.

    kube-scheduler places all others: it finds open nodes by itself.
    """
    if outcome.solved is None:
        return ()
    closed = {name for name, node in snapshot.nodes.items() if is_closed(node.node)}
    where = {key: each.node for each in outcome.solved.plan.existing if each.node in closed for key in each.pods}
    pods = (pod for node in removed for pod in leaving_pods(node) if pod.key in where)
    return tuple((pod, ExpectedPod(pod.key, where[pod.key])) for pod in pods)


def to_close(outcome: Outcome, removed: Sequence[StateNode], snapshot: Snapshot) -> tuple[StateNode, ...]:
    """Return the open nodes of Provisioners that are to be closed while pods of the removed nodes move to them.

    None where it makes no difference which pod comes to which node: all pods come to one, or are of a size. A node
    stays open if it is to take a pod that only kube-scheduler may bind. None, too, if they would be too many.
    """
    if outcome.solved is None:
        return ()
    moved = {pod.key: pod for node in removed for pod in leaving_pods(node)}
    taking = [each for each in outcome.solved.plan.existing if not moved.keys().isdisjoint(each.pods)]
    if not opens_together(taking, moved):
        return ()
    nodes = (
        snapshot.nodes[each.node]
        for each in taking
        if all(may_be_bound(moved[key]) for key in each.pods if key in moved)
    )
    closing = tuple(node for node in nodes if _in_service(node) and not is_closed(node.node))
    return closing if len(closing) <= MOST_CLOSED else ()


def _in_service(node: StateNode) -> bool:
    return bool(node.provisioner_name) and node.initialized and node.node.ready


def kept_closed(snapshot: Snapshot) -> dict[str, bool]:
    """Return the names of closed nodes whose command has not moved all pods, and whether it moves them now.

    They are its replacements, and while its nodes go the nodes in service to which pods move.
    """
    kept = dict[str, bool]()
    moving = set[str]()
    for command in recorded_commands(snapshot):
        if any(node.leaving and leaving_pods(node) for node in command.carriers):
            moving.add(command.record.id)
        if not command.committed or any(leaving_pods(node) for node in command.carriers):
            closed = (node.name for node in command.replacements.values() if is_closed(node.node))
            kept.update(dict.fromkeys(closed, command.committed))
    for node in snapshot.nodes.values() if moving else ():
        taint = closed_in_service(node.node)
        if taint is not None and taint.value in moving:
            kept[node.name] = True
    return kept
