"""Plan pods ahead: those that kube-scheduler has not tried yet, with one of their class that it could not place.

kube-scheduler tries pods one by one, in a large burst about a hundred a second, and marks each that fits on no node as
Unschedulable. Pods of one class differ in nothing that its filters read: the first mark holds for all of them. The
plan decides what room there is for them, since it fills existing nodes first. Pods of other classes that kube-scheduler
has not tried either take their room before: it tries them before it tries a marked pod again. Those that find none
are planned for as well: it will mark them, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod, PodKey, PodSpec
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.problem import build, opted_out, preempting, provisionable, serves
from controller.core.provisioning.topology.running_pods import selector_keys
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Untried:
    """Pods that wait for kube-scheduler's first try, in the snapshot's order."""

    ahead: tuple[Pod, ...] = ()
    """Of a class of which it has marked a pod: to be planned for with that one."""
    others: tuple[Pod, ...] = ()
    """Of the other classes: they take room on existing nodes, and those that find none are to be planned for."""
    apart: tuple[Pod, ...] = ()
    """They take room as well, but nothing is launched for them: their scheduler has marked no pod, or they have a
    higher priority than all that it marked, so that it may preempt others for them (unless their preemptionPolicy is
    Never)."""

    def without(self, placed: Iterable[Collection[PodKey]]) -> Untried:
        """Return these pods but for those that are placed already."""
        keys = set(chain.from_iterable(placed))
        left = ([pod for pod in pods if pod.key not in keys] for pods in (self.ahead, self.others, self.apart))
        return Untried(*map(tuple, left)) if keys else self


NONE_UNTRIED = Untried()


def untried(snapshot: Snapshot) -> Untried:
    """Return the untried pods; none where no pod is marked, since then nothing is launched for pending pods."""
    marked, rest = list[Pod](), list[Pod]()
    for pod in snapshot.unbound:
        if preempting(pod, snapshot) or not serves(snapshot, pod):
            continue
        if not pod.unschedulable:
            if not pod.spec.gated:
                rest.append(pod)
        elif provisionable(pod, snapshot) and not opted_out(pod):
            marked.append(pod)
    if not marked or not rest:
        return NONE_UNTRIED
    classes = _Classes(chain(marked, rest))
    known = set(map(classes.key, marked))
    priorities = _highest_priorities(marked)
    ahead, others, apart = list[Pod](), list[Pod](), list[Pod]()
    for pod in rest:
        if classes.key(pod) in known:
            ahead.append(pod)
        else:
            highest = priorities.get(pod.spec.scheduler_name)
            preempts = highest is None or (pod.spec.may_preempt and pod.spec.priority > highest)
            (apart if preempts or opted_out(pod) else others).append(pod)
    return Untried(tuple(ahead), tuple(others), tuple(apart))


def _highest_priorities(marked: Iterable[Pod]) -> dict[str, int]:
    """Return the highest priority of the marked pods, by scheduler."""
    highest: dict[str, int] = {}
    for spec in {id(pod.spec): pod.spec for pod in marked}.values():
        highest[spec.scheduler_name] = max(spec.priority, highest.get(spec.scheduler_name, spec.priority))
    return highest


class _Classes:
    """Keys of pods that kube-scheduler's filters treat alike: equal specs (which name the scheduler and the gates),
    claims, namespace, and labels as far as a selector of these pods looks at them."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._codes: dict[int, int] = {}
        self._labels: dict[int, FrozenMap[str, str]] = {}
        specs: dict[PodSpec, int] = {}
        by_id = {id(pod.spec): pod.spec for pod in pods}
        for identity, spec in by_id.items():
            self._codes[identity] = specs.setdefault(spec, len(specs))
        self._keys = selector_keys(specs)

    def key(self, pod: Pod) -> Hashable:
        labels = self._labels.get(id(pod.labels))
        if labels is None:
            labels = FrozenMap({name: value for name, value in pod.labels.items() if name in self._keys})
            self._labels[id(pod.labels)] = labels
        return (self._codes[id(pod.spec)], pod.namespace, labels, pod.volumes)


def room_problem(snapshot: Snapshot, others: Sequence[Pod]) -> SchedulingProblem:
    """Build the problem of which nodes kube-scheduler can bind `others` to now: none that still start, no new ones."""
    problem = build(snapshot, {}, pods=others)
    ready = tuple(node for node in problem.nodes if node.initialized or not node.provisioner_name)
    return replace(problem, nodes=ready)


def with_bound(snapshot: Snapshot, placed: Mapping[str, Sequence[PodKey]]) -> Snapshot:
    """Return the snapshot with the placed pods (by node) bound to their nodes, and on no other."""
    nodes, bound = dict(snapshot.nodes), dict[PodKey, Pod]()
    for name, keys in placed.items():
        arrived = [replace(snapshot.pods[key], node_name=name) for key in keys]
        bound.update((pod.key, pod) for pod in arrived)
        for source in {snapshot.pods[key].node_name for key in keys} & nodes.keys() - {name}:
            left = tuple(pod for pod in nodes[source].pods if pod.key not in bound)
            nodes[source] = replace(nodes[source], pods=left)
        nodes[name] = replace(nodes[name], pods=tuple(sorted((*nodes[name].pods, *arrived), key=lambda pod: pod.key)))
    if not bound:
        return snapshot
    return replace(snapshot, nodes=FrozenMap(nodes), pods=FrozenMap({**snapshot.pods, **bound}))


def wanted(snapshot: Snapshot, planned: Iterable[Pod], counts_ahead: bool) -> frozenset[PodKey]:
    """Return those of the planned pods that a plan on this snapshot would be made for, unless they have room now."""
    pods = untried(snapshot) if counts_ahead else NONE_UNTRIED
    ahead = {pod.uid for pod in chain(pods.ahead, pods.others)}
    return frozenset(pod.key for pod in planned if pod.uid in ahead or _still_waits(snapshot, pod))


def _still_waits(snapshot: Snapshot, planned: Pod) -> bool:
    now = snapshot.pods.get(planned.key)
    if now is None or now.uid != planned.uid or not serves(snapshot, now):
        return False
    return provisionable(now, snapshot) or now.node_name == planned.node_name != ""
