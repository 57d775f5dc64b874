"""A kube-scheduler: the sandbox's filters and scores on the pods that wait, kube-scheduler's default spreading and its
back-off."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from bench.life.default_spread import spread_points
from bench.life.memory_kube import Document, MemoryKube, timestamp
from bench.life.virtual_time import VirtualTime
from bench.life.workloads import Workloads
from controller.kube.resources import NODES, PODS
from sandbox.world.scheduling.node import NodeInfo, scheduling_fields
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.scoring import scores
from sandbox.world.scheduling.verdict import evaluate
from sandbox.world.scheduling.view import ClusterView

ROUND_SECONDS = 0.1
FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 1.0, 10.0
PODS_A_ROUND = 50
"""kube-scheduler binds some hundreds a second."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Attempts so far, when the next one may be, and how many changes there had been at the last."""

    attempts: int = 0
    not_before: float = 0.0
    changes: int = -1


NEVER = _Refusal()


class Binder:
    """Binds what fits whenever something changed, a new pod at once. Of equal nodes it draws one, as kube-scheduler
    does: scores are whole points."""

    def __init__(self, kube: MemoryKube, workloads: Workloads, time: VirtualTime, chance: random.Random) -> None:
        self.kube, self.workloads, self.time, self.chance = kube, workloads, time, chance
        self.view = ClusterView()
        self._refused: dict[str, _Refusal] = {}
        """By uid."""
        self._changes = 0
        """Changes that may make room for a pod."""
        self._due_at = math.inf
        """When the next round is; infinite: none is due."""
        self._waiting: dict[str, Document] = {}
        kube.listeners.append(self._heard)

    def _heard(self, kind: str, change: str, document: Document) -> None:
        if kind == NODES.kind:
            self._node_changed(change, document)
        elif kind == PODS.kind:
            self._pod_changed(change, document)

    def _node_changed(self, change: str, document: Document) -> None:
        name = document["metadata"]["name"]
        if change == "DELETED":
            self.view.nodes.pop(name, None)
            return
        known = self.view.nodes.get(name)
        if known is None:
            self.view.nodes[name] = NodeInfo(document)
        elif scheduling_fields(known.obj) == scheduling_fields(document):
            return
        else:
            known.update(document)
        keeping_away = (t for t in document["spec"].get("taints") or () if t["effect"] != "PreferNoSchedule")
        if not document["spec"].get("unschedulable") and not any(keeping_away):
            self._helped()

    def _pod_changed(self, change: str, document: Document) -> None:
        uid, node = document["metadata"]["uid"], document["spec"].get("nodeName", "")
        ends = change == "DELETED" or "deletionTimestamp" in document["metadata"]
        if node and node in self.view.nodes:
            if change == "DELETED":
                self.view.nodes[node].remove(uid)
                self._helped()
            else:
                self.view.place(PodInfo(document), node)
        if node or ends:
            self._waiting.pop(uid, None)
            self._refused.pop(uid, None)
        else:
            self._waiting[uid] = document
            if uid not in self._refused:
                self._soon()

    def _helped(self) -> None:
        self._changes += 1
        self._soon()

    def _soon(self, seconds: float = ROUND_SECONDS) -> None:
        at = self.time.clock.now() + seconds
        if at < self._due_at:
            self._due_at = at
            self.time.at(at, self._round)

    def _round(self) -> None:
        self._due_at = math.inf
        now, tried, hopeless = self.time.clock.now(), 0, set[bytes]()
        for uid, document in list(self._waiting.items()):
            known = self._refused.get(uid, NEVER)
            if known.not_before > now or known.changes == self._changes:
                continue
            if tried >= PODS_A_ROUND:
                self._soon()
                return
            pod = PodInfo(document)
            if not pod.spread and pod.signature in hopeless:
                self._refuse(uid, document)
                continue
            tried += 1
            if not self._attempt(pod):
                hopeless.add(pod.signature)
                self._refuse(uid, document)
        later = [e.not_before for e in self._refused.values() if e.not_before > now and e.changes < self._changes]
        if later:
            self._soon(max(ROUND_SECONDS, min(later) - now))

    def _attempt(self, pod: PodInfo) -> bool:
        repelling = [node for node in self.view.nodes.values() if any(p.anti_affinity for p in node.pods.values())]
        verdict = evaluate(pod, self.view, repelling)
        if not verdict.feasible:
            return False
        nodes = list(verdict.feasible)
        spread = spread_points(pod, nodes, self.view)
        points = [math.floor(each + more) for each, more in zip(scores(pod, nodes, self.view), spread, strict=True)]
        best = max(points)
        node = self.chance.choice([n for n, reached in zip(nodes, points, strict=True) if reached == best])
        self.workloads.bind(pod.obj, node.name)
        self._changes += bool(pod.spread)
        return True

    def _refuse(self, uid: str, document: Document) -> None:
        attempts = self._refused.get(uid, NEVER).attempts + 1
        backoff = min(FIRST_BACKOFF_SECONDS * 2.0 ** (attempts - 1), LAST_BACKOFF_SECONDS)
        self._refused[uid] = _Refusal(attempts, self.time.clock.now() + backoff, self._changes)
        if attempts == 1:
            since = timestamp(self.time.clock.now())
            refusal = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": since,
            }
            status = {"phase": "Pending", "conditions": [refusal]}
            self._waiting[uid] = self.kube.put(PODS, {**document, "status": status})
