"""DefaultPreemption: which lower-priority pods would have to go from which node, so that a pod fits.

Rule (kube-scheduler, "Pod Priority and Preemption" page): on each node that eviction could help, take all pods of lower
priority away; if the pod fits then, give back as many as possible, the most important first, those whose going would
break a PodDisruptionBudget before the others. Choose the node with the fewest broken budgets, then the lowest highest
victim, the lowest sum of priorities, the fewest victims, the youngest important victim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sandbox.world.resources import Obj
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.selectors import LabelSelector
from sandbox.world.scheduling.verdict import Checks, Verdict
from sandbox.world.scheduling.view import ClusterView


@dataclass(frozen=True, slots=True)
class Preemption:
    """Delete `victims`, and `node` has room."""

    node: str
    victims: tuple[PodInfo, ...]
    broken_budgets: int


def choose_preemption(
    pod: PodInfo, view: ClusterView, verdict: Verdict, budgets: Iterable[Obj] = ()
) -> Preemption | None:
    """The best way to make room, or None where there is none; `verdict` is the refusal that is to be overcome."""
    known = list(budgets)
    found = []
    for name, rejection in verdict.rejections.items():
        if rejection.resolvable:
            option = _on_node(pod, view, view.nodes[name], known)
            if option is not None:
                found.append(option)
    return min(found, key=_rank, default=None)


def _rank(option: Preemption) -> tuple[object, ...]:
    priorities = [victim.priority for victim in option.victims]
    highest = max(priorities)
    started = min(_started(victim) for victim in option.victims if victim.priority == highest)
    # A later start is better; RFC 3339 texts of one length sort as their times, reversed digit by digit.
    younger_first = tuple(-ord(letter) for letter in started)
    return option.broken_budgets, highest, sum(priorities), len(priorities), younger_first, option.node


def _started(pod: PodInfo) -> str:
    return str((pod.obj.get("status") or {}).get("startTime") or "9999")


def _importance(pod: PodInfo) -> tuple[object, ...]:
    """The most important first: higher priority, then longer running."""
    return -pod.priority, _started(pod), pod.name


def _on_node(pod: PodInfo, view: ClusterView, node: NodeInfo, budgets: list[Obj]) -> Preemption | None:
    lower = sorted((other for other in node.pods.values() if other.priority < pod.priority), key=_importance)
    if not lower:
        return None
    trial = _copy(node, without=lower)
    trial_view = replace(view, nodes={**view.nodes, node.name: trial})
    if not _fits(pod, trial, trial_view):
        return None
    breaking = _breaking(lower, budgets)
    victims: list[PodInfo] = []
    for other in [*breaking, *(o for o in lower if o not in breaking)]:
        trial.add(other)
        if not _fits(pod, trial, trial_view):
            trial.remove(other.uid)
            victims.append(other)
    return Preemption(node.name, tuple(sorted(victims, key=_importance)), sum(v in breaking for v in victims))


def _copy(node: NodeInfo, without: Iterable[PodInfo]) -> NodeInfo:
    gone = {pod.uid for pod in without}
    copy = NodeInfo(node.obj)
    for pod in node.pods.values():
        if pod.uid not in gone:
            copy.add(pod)
    return copy


def _fits(pod: PodInfo, node: NodeInfo, view: ClusterView) -> bool:
    checks = Checks.prepare(pod, view, view.nodes.values())
    return isinstance(checks, Checks) and checks.rejection(node) is None


def _breaking(pods: list[PodInfo], budgets: list[Obj]) -> list[PodInfo]:
    """Those of `pods` whose going, in this order, would take a budget below zero."""
    left = [int((budget.get("status") or {}).get("disruptionsAllowed") or 0) for budget in budgets]
    found = []
    for pod in pods:
        broken = False
        for index, budget in enumerate(budgets):
            if _covers(budget, pod):
                left[index] -= 1
                broken = broken or left[index] < 0
        if broken:
            found.append(pod)
    return found


def _covers(budget: Obj, pod: PodInfo) -> bool:
    selector = LabelSelector.parse(budget["spec"].get("selector"))
    if budget["metadata"].get("namespace") != pod.namespace or selector is None or not selector.requirements:
        return False
    already = pod.name in ((budget.get("status") or {}).get("disruptedPods") or {})
    return selector.matches(pod.labels) and not already
