"""Open nodes that were created cordoned: nominate their pods to them, then uncordon the nodes of a plan together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import OPENS_WITH
from controller.core.api.node import Node
from controller.core.api.parse import parse_node
from controller.core.api.pod import Pod
from controller.core.machines.node_documents import taint_document
from controller.core.machines.nomination_order import by_turns
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.machines.opening import (
    Nomination,
    Openings,
    expected_on,
    in_turn,
    openings,
    pending,
    with_startup_taints,
)
from controller.core.provisioning.problem import depends_on_pods
from controller.core.state.snapshot import Snapshot
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.resources import NODES, PODS
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.failure_log import FailureLog, Words
from controller.runtime.loops import ItemBackoff

OPEN_SECONDS = 10.0
"""The longest that a Ready node waits for the others of its plan: as long as a batch window is open by default."""
STARTUP_SECONDS = 60.0
"""The longest that a Ready node is kept closed for its startup taints: what takes them off may have to run there."""
WORKERS = 8
MOST_AT_ONCE = 1000
"""Pods that are nominated before their nodes open: five seconds at 200 requests a second."""
NOMINATING_SECONDS = 10.0
"""After this no further pod is nominated at once: an API server that is slow, or a webhook that fails, keeps no node
closed."""
NOMINATED_SECONDS = 60.0
"""How long nominations are kept up. kube-scheduler clears one when an attempt to place the pod fails, as it may before
the last of the nodes is open."""
KEPT_SECONDS = 120.0
"""After this the nomination of a pod that still has no node is taken back: as long as it stands, kube-scheduler leaves
the node's room to that pod, and from Kubernetes 1.35 on it clears no nomination itself."""
RENEWAL_SECONDS = 2.0
"""Between two renewals: kube-scheduler clears nominations one after the other."""
MOST_NOMINATIONS = 5
"""Of one pod to one node: where kube-scheduler never agrees, it places the pod elsewhere."""
WORDS = Words("Pods are not nominated to the nodes that were planned for them", "Pods are nominated again")


class OpeningReconciler(ContextReconciler):
    """Act on nodes with the annotation `karpenter.sh/opens-with`, whoever created them and whatever the setting is."""

    name = "opening"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._planning = context.planning
        self._executor = context.executors.executor("open", WORKERS)
        self._attempts = ItemBackoff(context.clock, self.name)
        self._failures = FailureLog(context.clock, self.name)
        self._openings = Openings()
        self._startup_since: dict[str, float] = {}
        """When a node was first seen Ready with startup taints, by uid."""
        self._nominated: dict[str, Nomination] = {}
        """Nominations that are kept up, or to be taken back, by the pod's uid."""
        self._renewal_at = 0.0

    def _pass(self, snapshot: Snapshot) -> float:
        """Open the nodes that are due, and renew the nominations that were cleared."""
        closed = [
            node.node for node in snapshot.nodes.values() if OPENS_WITH in node.node.annotations and not node.leaving
        ]
        now, wanted = self._clock.monotonic(), self._settings.current.place_as_planned
        starting = self._starting(closed, snapshot, now) if wanted else frozenset[str]()
        self._openings = openings(closed, self._openings, now, OPEN_SECONDS if wanted else 0.0, starting)
        self._items.keep({node.uid for node in closed})
        due = [node for node in closed if node.uid in self._openings.uids and self._items.ready(node.uid)]
        expected = self._planning.expected if wanted else EMPTY
        for nodes in in_turn(due, expected, MOST_AT_ONCE):
            self._attempt(partial(self._nominate_first, nodes, expected, snapshot))
            list(self._executor.map(self._open, nodes))
        if now >= self._renewal_at:
            self._attempt(partial(self._renew, snapshot, now))
        renewal_at = self._renewal_at if self._nominated else inf
        started_at = min((self._startup_since[uid] + STARTUP_SECONDS for uid in starting), default=inf)
        return min(self._items.next_try_seconds(), min(self._openings.next_at, renewal_at, started_at) - now)

    def _starting(self, closed: Sequence[Node], snapshot: Snapshot, now: float) -> frozenset[str]:
        """Return the uids of nodes whose startup taints are still waited for."""
        tainted = with_startup_taints(closed, snapshot.provisioners)
        self._startup_since = {uid: self._startup_since.get(uid, now) for uid in tainted}
        return frozenset(uid for uid, since in self._startup_since.items() if now - since < STARTUP_SECONDS)

    def _attempt(self, nominate: Callable[[], None]) -> None:
        """Nominate pods. Whatever is wrong with that, it is logged, and keeps no node closed."""
        self._attempts.attempt("pods", nominate, WORDS.begins, Exception)

    def _nominate_first(self, nodes: Sequence[Node], expected: Mapping[str, ExpectedPod], snapshot: Snapshot) -> None:
        """Nominate the pods that are expected on nodes that are about to be opened, unless that was done before."""
        now, names = self._clock.monotonic(), {node.name for node in nodes}
        done = {uid for uid, each in self._nominated.items() if each.pod.node in names}
        pods = {uid: pod for uid, pod in expected_on(nodes, expected).items() if uid not in done}
        first = {uid: Nomination(pod, now) for uid, pod in by_turns(pods, snapshot).items()}
        self._nominated |= self._kept_up(first, snapshot, now)
        self._renewal_at = self._clock.monotonic() + RENEWAL_SECONDS

    def _renew(self, snapshot: Snapshot, now: float) -> None:
        if self._nominated:
            self._renewal_at = now + RENEWAL_SECONDS
            self._nominated = self._kept_up(self._nominated, snapshot, now)

    def _kept_up(self, nominations: Mapping[str, Nomination], snapshot: Snapshot, now: float) -> dict[str, Nomination]:
        """Nominate the pods that are pending and not nominated to their node; in the end take nominations back.

        Return the nominations that are still to be looked at.
        """
        kept, lacking, outdated = dict[str, Nomination](), list[tuple[Pod, str]](), list[tuple[Pod, None]]()
        waiting = pending({uid: each.pod for uid, each in nominations.items()}, snapshot.pods)
        staying = {name for name, node in snapshot.nodes.items() if not node.leaving}
        for uid, pod, node in waiting:
            each = nominations[uid]
            stands, seconds = pod.nominated_node_name == node, now - each.since
            if seconds >= KEPT_SECONDS and not stands:
                continue
            if seconds >= KEPT_SECONDS:
                outdated.append((pod, None))
            elif not stands and seconds < NOMINATED_SECONDS and each.times < _most(pod) and node in staying:
                lacking.append((pod, node))
                each = replace(each, times=each.times + 1)
            kept[uid] = each
        if lacking or outdated:
            self._write_all(lacking, outdated)
        return kept

    def _write_all(self, lacking: Sequence[tuple[Pod, str]], outdated: Sequence[tuple[Pod, None]]) -> None:
        began = self._clock.monotonic()
        end = began + NOMINATING_SECONDS
        done = list(self._executor.map(lambda each: self._write(*each, end), [*lacking, *outdated]))
        count, seconds = sum(done[: len(lacking)]), round(self._clock.monotonic() - began, 3)
        if count:
            self._log.info("Nominated pods to the nodes that they were planned for", pod_count=count, seconds=seconds)
        if taken_back := sum(done[len(lacking) :]):
            self._log.info("Took back nominations of pods that still have no node", pod_count=taken_back)

    def _write(self, pod: Pod, node: str | None, end: float) -> bool:
        """Nominate the pod, or take its nomination back; False if that failed, or if it is `end` (monotonic seconds)
        already."""
        if self._clock.monotonic() >= end:
            return False
        namespace, name = pod.key
        metadata = {"uid": pod.uid} if node else {"uid": pod.uid, "resourceVersion": pod.resource_version}
        patch = {"metadata": metadata, "status": {"nominatedNodeName": node}}
        try:
            written = self._kube.patch(PODS, name, patch, namespace=namespace, subresource="status")
        except NotFoundError as error:
            self._log.debug("Pod was gone before it was nominated", pod=f"{namespace}/{name}", error=str(error))
            return False
        except ConflictError as error:
            self._log.debug("Pod has changed before it was nominated", pod=f"{namespace}/{name}", error=str(error))
            return False
        except KubeError as error:
            self._failures.failed("pods", type(error).__name__, WORDS, error)
            return False
        self._failures.recovered("pods")
        self._informers.learn(PODS, written)
        return True

    def _open(self, seen: Node) -> None:
        """Open the node as it is now: others change it in the moment in which it becomes Ready."""
        try:
            node = parse_node(self._kube.get(NODES, seen.name))
            if node.uid != seen.uid or node.deleted_at is not None or OPENS_WITH not in node.annotations:
                return
            self._informers.learn(NODES, self._uncordon(node))
        except NotFoundError as error:
            self._log.debug("Node was gone before it was opened", node=seen.name, error=str(error))
        except ConflictError:
            self._items.postpone(seen.uid)  # it has changed meanwhile: somebody may have opened, cordoned or deleted it
        except KubeError as error:
            self._items.failed(seen.uid, error, "Node is not opened to pods yet", node=seen.name)
        else:
            self._items.succeeded(seen.uid)
            self._log.info("Opened node to pods", node=seen.name)

    def _uncordon(self, node: Node) -> dict[str, Any]:
        """Uncordon the node, without the taint of the cordon, which the node controller takes off some time later.

        Raises ConflictError if the Node is not the one that was seen any more, and other KubeErrors.
        """
        metadata = {"annotations": {OPENS_WITH: None}, "resourceVersion": node.resource_version}
        spec = {"unschedulable": None, "taints": [taint_document(taint) for taint in node.taints] or None}
        return self._kube.patch(NODES, node.name, {"metadata": metadata, "spec": spec})


def _most(pod: Pod) -> int:
    """Return how often the pod is nominated. Where it may run depends on which other pods are bound before it: then
    kube-scheduler may be right to refuse, and to place it elsewhere."""
    return 1 if depends_on_pods(pod) else MOST_NOMINATIONS
