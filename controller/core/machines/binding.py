"""Which planned pods the controller binds itself, to new nodes that are still closed to kube-scheduler.

kube-scheduler places pods one after the other, and knows nothing of the plan that fills the new nodes to within a few
percent of their room. A pod is bound as planned where all of kube-scheduler's rules hold on the node as it is now. All
others are left to kube-scheduler, which finds the nodes open a moment later (ADR 84).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from controller.core.api.frozen import EMPTY
from controller.core.api.node import Node
from controller.core.api.pod import Pod, PodKey
from controller.core.api.replicas import Pods
from controller.core.audit.plan_audit import Violation, judge
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.machines.opening import expected_on, is_closed, pending
from controller.core.provisioning.plan import ExistingPlacement, SchedulingPlan, SchedulingProblem
from controller.core.provisioning.problem import depends_on_pods
from controller.core.state.effective import effective_taints
from controller.core.state.snapshot import Snapshot, StateNode

DEFAULT_SCHEDULER = "default-scheduler"
"""kube-scheduler's profile on EKS, where nobody can configure it: its rules are known."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """`pods`: those to bind, each with its node's name. `violations`: rules that pods planned for other nodes would
    break, as something has changed since the plan was made."""

    pods: tuple[tuple[Pod, str], ...]
    violations: tuple[Violation, ...] = ()


def bindings(nodes: Iterable[Node], expected: Mapping[str, ExpectedPod], snapshot: Snapshot) -> Bindings:
    """Return which of the expected pods (by uid) to bind to these nodes: those that break no rule there.

    Pods that kube-scheduler is about to bind to nodes which are open and Ready count as bound: the replicas of a spread
    may be planned for both. Where pods, or all of a node, are left out, the others are judged again without them.
    """
    due = {node.name: node for node in nodes}
    if not due:
        return Bindings(())
    planned, violations = _planned(due, expected, snapshot), list[Violation]()
    if due.keys().isdisjoint(planned):
        return Bindings(())
    while True:
        placements = tuple(ExistingPlacement(node, _keys(pods), "") for node, pods in planned.items())
        verdict = judge(SchedulingPlan(existing=placements), _problem(planned, snapshot))
        violations += verdict.violations
        if not verdict.violations:
            break
        before, planned = planned, _without(planned, {each.subject for each in verdict.violations})
        if planned == before:
            return Bindings((), tuple(violations))  # a rule that neither a pod nor a node of these is to blame for
    kept = ((pod, node) for node, pods in planned.items() if node in due for pod in pods)
    pods = tuple((pod, node) for pod, node in kept if verdict.topology_judged or not depends_on_pods(pod))
    return Bindings(pods, tuple(violations))


def _without(planned: Mapping[str, list[Pod]], breaking: Collection[str]) -> dict[str, list[Pod]]:
    """Leave out what breaks a rule: nodes by their names, pods by their full names."""
    kept = {
        node: [pod for pod in pods if pod.full_name not in breaking]
        for node, pods in planned.items()
        if node not in breaking
    }
    return {node: pods for node, pods in kept.items() if pods}


def may_be_bound(pod: Pod) -> bool:
    """Whether nothing but kube-scheduler's rules for pods and nodes is to be observed, and nothing lost if the kubelet
    refuses the pod after all.

    kube-scheduler chooses volumes and devices for pods, and removes others for those that it has nominated. A kubelet
    that has no room for a pod fails it: its owner makes another, a pod without one would be gone.
    """
    chosen_with_it = pod.volumes or pod.spec.resource_claims or pod.nominated_node_name
    return bool(pod.owners) and not chosen_with_it and pod.spec.scheduler_name == DEFAULT_SCHEDULER


def _planned(due: Mapping[str, Node], expected: Mapping[str, ExpectedPod], snapshot: Snapshot) -> dict[str, list[Pod]]:
    """The pods that wait, by the name of their node, which is due, or open and Ready."""
    there = [each.node for each in snapshot.nodes.values() if each.name in due or _is_open(each)]
    planned = defaultdict[str, list[Pod]](list)
    for _, pod, node in pending(expected_on(there, expected), snapshot.pods):
        if node not in due or may_be_bound(pod):
            planned[node].append(pod)
    return planned


def _is_open(state: StateNode) -> bool:
    """Return whether kube-scheduler binds pods to the node; until its kubelet is Ready it may report no room at all."""
    return state.takes_pods and state.node.ready and not is_closed(state.node)


def _keys(pods: Iterable[Pod]) -> tuple[PodKey, ...]:
    return tuple(sorted(pod.key for pod in pods))


def _problem(planned: Mapping[str, list[Pod]], snapshot: Snapshot) -> SchedulingProblem:
    """The nodes as kube-scheduler sees them: plans count on what a node that starts does not report yet."""
    seen = {name: _as_it_is(snapshot.nodes[name]) for name in planned}
    pods = Pods.of(pod for pods in planned.values() for pod in pods)
    return SchedulingProblem(pods, tuple(seen.values()), (), EMPTY, snapshot)


def _as_it_is(state: StateNode) -> StateNode:
    taints = effective_taints(state.node, (), initialized=True)
    return replace(state, allocatable=state.node.allocatable, taints=taints)
