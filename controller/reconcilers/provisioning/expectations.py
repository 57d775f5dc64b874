"""Where the last plan has the pods that are not bound yet, and which of them wait for nodes on their way.

A pod whose node is being launched or still starts is not planned for again. Nor is one whose node is initialized, as
long as kube-scheduler binds pods: it may not have come to that one yet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from math import inf

from controller.core.api.node import Node
from controller.core.api.pod import Pod, PodKey
from controller.core.machines.arrivals import with_arrivals
from controller.core.machines.on_their_way import ExpectedPod, names_of, without_room
from controller.core.machines.opening import expected_on, is_closed, pending
from controller.core.provisioning.pods_to_come import is_to_come
from controller.core.provisioning.problem import depends_on_pods
from controller.core.state.snapshot import Snapshot

BINDING_SECONDS = 5.0
"""kube-scheduler counts as binding this long after its last binding, or after a node with planned pods was initialized,
and MOST_BINDING_SECONDS after the plan at most."""
MOST_BINDING_SECONDS = 120.0
FEW_LEFT, LEFT_SECONDS, PAUSE_SECONDS = 0.1, 5.0, 1.5
"""With no more than this share of the planned pods left so long after a node was initialized, and so long after the
last binding, they are planned anew: their room may be taken. Where it is not, the new plan has them there again."""
FEWEST_SECONDS = 2.0
"""Between two such plans."""
FEWEST_DISPLACED = 20
"""Pods whose room others have taken are planned anew at once if they are so many. In a trickle each would get a node of
its own, a small one: a few stay where they are expected, and are planned together when kube-scheduler has stopped."""


class Expectations:
    """Times are seconds of a monotonic clock. `pods`: planned pods that are not bound yet, by uid.

    `on_the_way`: the uids of those that wait for nodes on their way: a new plan leaves them where they are.
    """

    def __init__(self) -> None:
        self.pods: dict[str, ExpectedPod] = {}
        self.on_the_way: frozenset[str] = frozenset()
        self._most = 0
        """The most that they have been since the last plan."""
        self._tied: frozenset[str] = frozenset()
        """Those whose placement depends on where other pods run, by uid."""
        self._elsewhere = False
        """Whether a node got more of an owner's pods than were planned for it."""
        self.places = Counter[tuple[str, str]]()
        """How many of an owner's pods are still to come to a node, by its uid and the node's name."""
        self._count, self._starting = 0, frozenset[str]()
        """How many pods were to be planned for, and names of the nodes that were not initialized."""
        self._planned_at = self._initialized_at = self._bound_at = self._renewed_at = -inf
        """When a plan was made, a node initialized, that or a binding seen, and the nominations renewed, last."""

    def arrive(self, unbound: Iterable[Pod], to_come: Mapping[str, range]) -> None:
        """Expect pods that have come since the plan where they were planned for (see `with_arrivals`)."""
        self.pods = with_arrivals(self.pods, unbound, to_come)

    def observe(self, snapshot: Snapshot, count: int, launching: Collection[str], now: float) -> frozenset[str]:
        """Look which nodes are on their way; return the uids of the pods that waited for one before, and do not now.

        count: pods to plan for. While they become fewer, kube-scheduler binds. launching: names of stand-ins.
        """
        starting = frozenset(n.name for n in snapshot.nodes.values() if n.takes_pods and not n.initialized)
        if not self._starting <= starting:
            self._initialized_at = self._bound_at = now
        if count < self._count:
            self._bound_at = now
        self._count, self._starting = count, starting
        reserved = self._reserved(snapshot, launching)
        self._forget_bound(snapshot, reserved)
        binding = self._binding(now)
        if self._elsewhere and not binding:
            # Affinity, spread or a volume may exclude the nodes that they were planned for.
            self.pods = {uid: each for uid, each in self.pods.items() if uid not in self._tied or each.node in reserved}
        waits = binding and now < self._few_left_at()
        names = set(launching)
        for node in snapshot.nodes.values():
            if node.takes_pods and (waits or not node.initialized or is_closed(node.node)):
                names.update(names_of(node.node))
        before, self.on_the_way = self.on_the_way, frozenset(u for u, each in self.pods.items() if each.node in names)
        return before - self.on_the_way

    def seconds_left(self, now: float) -> float:
        """Return after how many seconds pods may not wait any more though nothing changes; inf for never."""
        if not self.pods:
            return inf
        ends = (self._few_left_at(), self._bound_at + BINDING_SECONDS, self._planned_at + MOST_BINDING_SECONDS)
        return min((at - now for at in ends if at > now), default=inf)

    def nominations(self, snapshot: Snapshot, now: float) -> tuple[list[str], list[Pod]]:
        """Return the names of nodes that have to stay nominated, and the pods expected on them, if it is time for that.

        kube-scheduler may bind any of the pods to any of the nodes.
        """
        if not self._binding(now) or now - self._renewed_at < BINDING_SECONDS:
            return [], []
        self._renewed_at = now
        planned = {each.node for each in self.pods.values()}
        names = [node.name for node in snapshot.nodes.values() if not planned.isdisjoint(names_of(node.node))]
        return names, [pod for pod in snapshot.unbound if pod.uid in self.pods]

    def plan_anew(self, pods: Iterable[Pod], snapshot: Snapshot) -> None:
        """Forget what the last plan says of pods that do not wait for nodes on their way.

        pods: of the new plan. snapshot: what it was made for, with the pods that it counts on.
        """
        self.pods = {uid: each for uid, each in self.pods.items() if uid in self.on_the_way}
        kept = ((snapshot.pods.get(each.key), each.node) for each in self.pods.values())
        self.places = Counter((_owner(pod), node) for pod, node in kept if pod is not None)
        self._elsewhere, self._most = False, len(self.pods)
        self._tied &= self.on_the_way
        self._tied |= {pod.uid for pod in pods if depends_on_pods(pod)}

    def expect(self, node: str, pods: Iterable[Pod]) -> None:
        """Expect the pods on a node, by its name or that of its stand-in."""
        for pod in pods:
            self.pods[pod.uid] = ExpectedPod(pod.key, node)
            self.places[_owner(pod), node] += 1

    def planned(self, now: float) -> None:
        """Note that a plan was made, and its nodes nominated."""
        self._planned_at = self._renewed_at = now

    def launch_failed(self, stand_in: str) -> list[str]:
        """Forget the pods that were expected on the node; return their uids."""
        uids = [uid for uid, each in self.pods.items() if each.node == stand_in]
        for uid in uids:
            del self.pods[uid]
        return uids

    def forget_displaced(self, snapshot: Snapshot, to_come: Mapping[PodKey, Pod]) -> dict[str, list[PodKey]]:
        """Forget pods whose room on a node on its way others have taken, if they are many: a new plan gives them room
        elsewhere, before anything counts as free there.

        Return the other pods that wait for nodes on their way, pods to come included, by node.
        """
        coming = {uid: each for uid, each in self.pods.items() if uid in self.on_the_way}
        here = expected_on((node.node for node in snapshot.nodes.values()), coming)
        planned: defaultdict[str, list[Pod]] = defaultdict(list)
        for pods in (snapshot.pods, to_come):
            for _, pod, node in pending(here, pods):
                planned[node].append(pod)
        without = {name: {p.uid for p in without_room(snapshot.nodes[name], pods)} for name, pods in planned.items()}
        displaced = frozenset(chain.from_iterable(without.values()))
        if len(displaced) < FEWEST_DISPLACED:
            displaced = frozenset()
        for uid in displaced:
            del self.pods[uid]
        return {name: [pod.key for pod in pods if pod.uid not in displaced] for name, pods in planned.items()}

    def _binding(self, now: float) -> bool:
        return now - self._bound_at < BINDING_SECONDS and now - self._planned_at < MOST_BINDING_SECONDS

    def _few_left_at(self) -> float:
        """Return from when on the last of the pods are planned anew; inf while there are more of them."""
        if len(self.pods) > FEW_LEFT * self._most:
            return inf
        return max(
            self._bound_at + PAUSE_SECONDS, self._initialized_at + LEFT_SECONDS, self._planned_at + FEWEST_SECONDS
        )

    def _reserved(self, snapshot: Snapshot, launching: Collection[str]) -> frozenset[str]:
        """Return the names of nodes to which kube-scheduler binds no pods yet: those being launched, and closed ones.

        The controller binds pods to closed nodes itself where the whole plan is judged to hold (ADR 84). A pod that was
        planned anew meanwhile would be missing from it.
        """
        if not self.pods:
            return frozenset()
        closed = (names_of(node.node) for node in snapshot.nodes.values() if is_closed(node.node))
        return frozenset(chain(launching, chain.from_iterable(closed)))

    def _forget_bound(self, snapshot: Snapshot, reserved: Collection[str]) -> None:
        """Forget the pods that are bound or gone, and note whether one was bound to another node than planned."""
        free = list[tuple[Pod, str]]()
        for uid, each in list(self.pods.items()):
            pod = snapshot.pods.get(each.key)
            if is_to_come(each.key):
                continue
            if pod is None or pod.uid != uid or pod.node_name:
                del self.pods[uid]
                node = snapshot.nodes.get(pod.node_name) if pod is not None and pod.uid == uid else None
                if pod is not None and node is not None:
                    self._take_place(_owner(pod), each.node, node.node)
                    if each.node in reserved and each.node not in names_of(node.node):
                        free.append((pod, each.node))
        if free:
            self._exchange(free, snapshot)
        self._most = max(len(self.pods), self._most)
        if not self.pods:
            self._most = 0
            self.places.clear()

    def _exchange(self, free: Iterable[tuple[Pod, str]], snapshot: Snapshot) -> None:
        """Let replicas whose places kube-scheduler gave to others of their owner have the places of these.

        free: pods that are bound, each with the reserved node that it was planned for. Without this its place there
        would stay empty, and a spread that counts on it would not hold.
        """
        waiting: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        planned = expected_on((node.node for node in snapshot.nodes.values()), self.pods)
        for _, pod, node in pending(planned, snapshot.pods):
            waiting[_owner(pod), node].append(pod)
        for bound, place in free:
            here = waiting[_owner(bound), bound.node_name]
            if alike := [pod for pod in here if _interchangeable(pod, bound)]:
                here.remove(alike[0])
                self.pods[alike[0].uid] = ExpectedPod(alike[0].key, place)

    def _take_place(self, owner: str, planned: str, bound_to: Node) -> None:
        """Note that a pod of the owner was bound to a node; `planned`: the node that it was expected on.

        Which of an owner's pods comes to a place makes no difference.
        """
        names = names_of(bound_to)
        place = next(((owner, name) for name in names if self.places[owner, name] > 0), None)
        if place is not None:
            self.places[place] -= 1
        elif planned not in names:
            self._elsewhere = True


def _interchangeable(pod: Pod, other: Pod) -> bool:
    """Return whether one may have the other's place: replicas of one template, without volumes of their own."""
    return pod.spec == other.spec and pod.labels == other.labels and not (pod.volumes or other.volumes)


def _owner(pod: Pod) -> str:
    return pod.owners[0].uid if pod.owners else pod.uid
