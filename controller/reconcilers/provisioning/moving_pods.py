"""Pods that move to closed nodes: their places, until pods that owners make in their stead have taken them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from itertools import chain

from controller.core.api.pod import Pod, PodKey
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.machines.opening import is_closed
from controller.core.state.snapshot import Snapshot

PLACE_SECONDS = 10.0
"""A place that no pod takes so long after the eviction is given up: its owner may want fewer pods now."""


class MovingPods:
    """Not thread-safe. A place is given up when its node opens: kube-scheduler has its room then."""

    def __init__(self) -> None:
        self._staying: dict[str, tuple[str, ExpectedPod]] = {}
        """By uid the pods that still run on the nodes that they leave, each with its owner's uid and its place."""
        self._free: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        """By owner's uid the places that no pod has taken yet: the node's name, and when the place became free."""

    @property
    def uids(self) -> Container[str]:
        """The uids of the pods that still run on the nodes that they leave: they need no plan."""
        return self._staying.keys()

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the nodes with places that no pod has taken yet."""
        free = (node for places in self._free.values() for node, _ in places)
        return frozenset(chain((place.node for _, place in self._staying.values()), free))

    def begin(self, pods: Iterable[tuple[Pod, ExpectedPod]]) -> None:
        """Note pods that are about to be evicted, each with its place."""
        self._staying.update((pod.uid, (pod.owners[0].uid, place)) for pod, place in pods if pod.owners)

    def follow(self, snapshot: Snapshot, expected: Container[str], now: float) -> Iterator[tuple[Pod, str]]:
        """Yield the pods that take a place now, each with its node's name.

        expected: the uids of pods that have a place already. now: seconds of a monotonic clock.
        """
        if not self._staying and not self._free:
            return
        closed = {n.name for n in snapshot.nodes.values() if is_closed(n.node) and n.takes_pods}
        for uid, (owner, place) in list(self._staying.items()):
            pod = snapshot.pods.get(place.key)
            if place.node not in closed:
                del self._staying[uid]
            elif pod is None or pod.uid != uid or pod.terminating or pod.terminal:
                del self._staying[uid]
                self._free[owner].append((place.node, now))
        for owner, places in list(self._free.items()):
            left = [(node, since) for node, since in places if node in closed and now - since < PLACE_SECONDS]
            self._free[owner] = left
            if not left:
                del self._free[owner]
        for pod in snapshot.unbound if self._free else ():
            owner = pod.owners[0].uid if pod.owners else ""
            if pod.uid not in expected and self._free.get(owner):
                yield pod, self._free[owner].pop(0)[0]

    def placed(self, snapshot: Snapshot) -> dict[str, list[PodKey]]:
        """Return the pods that still run on the nodes that they leave, by the node of their place."""
        placed: defaultdict[str, list[PodKey]] = defaultdict(list)
        for uid, (_, place) in self._staying.items():
            pod = snapshot.pods.get(place.key)
            if pod is not None and pod.uid == uid and place.node in snapshot.nodes:
                placed[place.node].append(place.key)
        return placed
