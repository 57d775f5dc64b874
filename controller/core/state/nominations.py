"""Nominations: nodes on which pods are expected, and until when. A nominated node is not removed as empty.

A nomination for pods ends as soon as none of the pods of any nomination waits: kube-scheduler may bind each of them to
any nominated node. Karpenter v0.27 always waits for the time to pass (20 s by default).
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.api.pod import Pod, PodKey


class Nominations:
    """By node name; times are Unix seconds. Methods return the names of the nodes for which something changed."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._by_time: set[str] = set()
        """Nodes nominated for no pods in particular: only time ends these."""
        self._waiting: dict[PodKey, str] = {}
        """uids of pods that wait, by key."""

    def until(self, node_name: str) -> float:
        """Return when the node's nomination ends at the latest; 0.0 without one."""
        return self._until.get(node_name, 0.0)

    def nominate(self, node_name: str, until: float, waiting: Iterable[Pod] | None) -> tuple[str, ...]:
        """Nominate a node. waiting: those of its pods that still wait; None: for no pods in particular."""
        if waiting is None:
            self._by_time.add(node_name)
        else:
            self._waiting.update((pod.key, pod.uid) for pod in waiting)
            if not self._waiting:
                return ()
        if until <= self.until(node_name):
            return ()
        self._until[node_name] = until
        return (node_name,)

    def pod_changed(self, key: PodKey, new: Pod | None) -> tuple[str, ...]:
        """Update after a pod was bound, finished, was deleted, or was replaced by another of its name."""
        uid = self._waiting.get(key)
        if uid is None or (new is not None and new.uid == uid and not new.node_name and not new.terminal):
            return ()
        del self._waiting[key]
        if self._waiting:
            return ()
        return self.end([name for name in self._until if name not in self._by_time])

    def expire(self, now: float) -> tuple[str, ...]:
        """End the nominations that ran out by `now`."""
        ended = self.end([name for name, until in self._until.items() if until <= now])
        if not self._until:
            self._waiting.clear()
        return ended

    def end(self, node_names: Iterable[str]) -> tuple[str, ...]:
        """End these nodes' nominations."""
        ended = tuple(name for name in node_names if self._until.pop(name, None) is not None)
        self._by_time.difference_update(ended)
        return ended
