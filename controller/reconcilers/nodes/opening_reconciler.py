"""Open nodes that were created cordoned: bind their pods to them, then uncordon the nodes of a plan together.

Pods are bound as soon as their node is Ready. The nodes of a plan open together.

Replacements of a removal command stay closed until the pods of the removed nodes have moved, and so do the nodes in
service that take some of these pods: they are bound as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import OPENS_WITH
from controller.core.api.node import Node
from controller.core.api.parse import parse_node
from controller.core.api.pod import Pod
from controller.core.audit.plan_audit import Violation
from controller.core.deprovisioning.sets.planned_moves import kept_closed
from controller.core.machines.binding import bindings
from controller.core.machines.node_documents import taint_document
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.machines.opening import (
    Openings,
    closed_in_service,
    expected_on,
    in_turn,
    is_closed,
    openings,
    pending,
    with_startup_taints,
)
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
WORKERS = 24
"""Requests at once: a busy API server answers each late, and all pods of a plan wait for their bindings."""
MOST_AT_ONCE = 1000
"""Pods that are bound before their nodes open: five seconds at 200 requests a second."""
BINDING_SECONDS = 10.0
"""After this no further pod is bound: an API server that is slow, or a webhook that fails, keeps no node closed."""
MOVING_SECONDS = 60.0
"""The longest that replacements stay closed while pods move to them: a PodDisruptionBudget may hold up evictions."""
WORDS = Words("Pods are not bound to the nodes that were planned for them", "Pods are bound again")


class OpeningReconciler(ContextReconciler):
    """Act on nodes with the annotation `karpenter.sh/opens-with` or the taint `karpenter.sh/closed`, whoever put it
    there and whatever the setting is."""

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
        self._moving_since: dict[str, float] = {}
        """When a removal command was first seen to move pods to a closed node, by the node's name."""
        self._pending_since: dict[tuple[str, str], float] = {}
        """When a pod with its place on a kept node was first seen unbound, by its uid and the node's name."""
        self._early = frozenset[str]()
        """The uids of Ready nodes whose pods were looked at before all nodes of their plan are Ready."""
        self._reported: set[Violation] = set()
        """Those in the log since a node was closed last."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Bind the pods of the nodes that are due, and open these."""
        every = [node.node for node in snapshot.nodes.values() if is_closed(node.node) and not node.leaving]
        if not every:
            self._reported.clear()
            self._early = frozenset()
        now, wanted = self._clock.monotonic(), self._settings.current.place_as_planned
        kept = self._kept_closed(snapshot, now) if wanted else frozenset[str]()
        closed = [node for node in every if node.name not in kept]
        starting = self._starting(closed, snapshot, now) if wanted else frozenset[str]()
        self._openings = openings(closed, self._openings, now, OPEN_SECONDS if wanted else 0.0, starting)
        self._items.keep({node.uid for node in every})
        due = [node for node in closed if node.uid in self._openings.uids and self._items.ready(node.uid)]
        expected = self._planning.expected if wanted else EMPTY
        found = list[tuple[Pod, str]]()
        taking = [node for node in every if node.name in kept and node.ready]
        # Whatever is wrong with binding, it is logged, and keeps no node closed.
        look = partial(self._look_for_bindings, [*due, *taking], expected, snapshot, found)
        self._attempts.attempt("pods", look, WORDS.begins, Exception)
        self._bind_all([(pod, node) for pod, node in found if node in kept])
        self._note_pending(taking, expected, snapshot, now)
        if not due:
            early = [node for node in closed if node.ready and node.uid not in starting]
            self._attempts.attempt(
                "early", partial(self._bind_early, early, expected, snapshot), WORDS.begins, Exception
            )
        for nodes in in_turn(due, Counter(node for _, node in found if node not in kept), MOST_AT_ONCE):
            names = {node.name for node in nodes}
            self._bind_all([(pod, node) for pod, node in found if node in names])
            list(self._executor.map(self._open, nodes))
        ends = [self._startup_since[uid] + STARTUP_SECONDS for uid in starting]
        ends += [at + MOVING_SECONDS for at in self._moving_since.values()]
        ends += [at + OPEN_SECONDS for at in self._pending_since.values()]
        next_at = min((at for at in ends if at > now), default=inf)
        return min(self._items.next_try_seconds(), min(self._openings.next_at, next_at) - now)

    def _kept_closed(self, snapshot: Snapshot, now: float) -> frozenset[str]:
        """Return the names of nodes that a removal keeps closed, though they may be Ready.

        Not those with a pod that could not be bound for OPEN_SECONDS: kube-scheduler then tries it.
        """
        kept = kept_closed(snapshot)
        places = self._planning.nodes_with_places()
        kept.update((n, True) for n in places if n in snapshot.nodes and is_closed(snapshot.nodes[n].node))
        moving = [name for name, moves in kept.items() if moves]
        self._moving_since = {name: self._moving_since.get(name, now) for name in moving}
        late = {name for name, since in self._moving_since.items() if now - since >= MOVING_SECONDS}
        late |= {name for (_, name), since in self._pending_since.items() if now - since >= OPEN_SECONDS}
        return frozenset(kept) - late

    def _note_pending(
        self, nodes: Sequence[Node], expected: Mapping[str, ExpectedPod], snapshot: Snapshot, now: float
    ) -> None:
        """Note the pods that have their place on one of these nodes and are not bound."""
        places = [(uid, node) for uid, _, node in pending(expected_on(nodes, expected), snapshot.pods)]
        self._pending_since = {place: self._pending_since.get(place, now) for place in places}

    def _starting(self, closed: Sequence[Node], snapshot: Snapshot, now: float) -> frozenset[str]:
        """Return the uids of nodes whose startup taints are still waited for."""
        tainted = with_startup_taints(closed, snapshot.provisioners)
        self._startup_since = {uid: self._startup_since.get(uid, now) for uid in tainted}
        return frozenset(uid for uid, since in self._startup_since.items() if now - since < STARTUP_SECONDS)

    def _look_for_bindings(
        self,
        nodes: Sequence[Node],
        expected: Mapping[str, ExpectedPod],
        snapshot: Snapshot,
        found: list[tuple[Pod, str]],
    ) -> None:
        """Find the pods to bind to nodes that are about to be opened, each with its node's name."""
        judged = bindings(nodes, expected, snapshot)
        for violation in dict.fromkeys(judged.violations):
            if violation in self._reported:
                continue
            self._reported.add(violation)
            self._log.info("Pods are left to kube-scheduler", subject=violation.subject, rule=violation.rule)
        found += judged.pods

    def _bind_early(self, nodes: Sequence[Node], expected: Mapping[str, ExpectedPod], snapshot: Snapshot) -> None:
        """Bind pods to Ready nodes that stay closed for others of their plan; once for each set of Ready nodes.

        Pods of which a rule holds only along with those of nodes to come (a spread) wait for them.
        """
        uids = frozenset(node.uid for node in nodes)
        if not uids <= self._early:
            self._early |= uids
            self._bind_all(bindings(nodes, expected, snapshot).pods[:MOST_AT_ONCE])

    def _bind_all(self, pods: Sequence[tuple[Pod, str]]) -> None:
        began = self._clock.monotonic()
        done = self._executor.map(lambda each: self._bind(*each, began + BINDING_SECONDS), pods)
        if count := sum(done):
            seconds = round(self._clock.monotonic() - began, 3)
            self._log.info("Bound pods to the nodes that they were planned for", pod_count=count, seconds=seconds)

    def _bind(self, pod: Pod, node: str, end: float) -> bool:
        """Bind the pod; False if that failed, or if it is `end` (monotonic seconds) already."""
        if self._clock.monotonic() >= end:
            return False
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        try:
            self._kube.create(PODS, binding, pod.namespace, subresource="binding", name=pod.name)
        except (NotFoundError, ConflictError) as error:  # it has a node, ends, or is another of the same name
            self._log.debug("Pod has changed before it was bound", pod=pod.full_name, error=str(error))
            return False
        except KubeError as error:
            self._failures.failed("pods", type(error).__name__, WORDS, error)
            return False
        self._failures.recovered("pods")
        return True

    def _open(self, seen: Node) -> None:
        """Open the node as it is now: others change it in the moment in which it becomes Ready."""
        try:
            node = parse_node(self._kube.get(NODES, seen.name))
            if node.uid != seen.uid or node.deleted_at is not None or not is_closed(node):
                return
            self._informers.learn(NODES, self._make_schedulable(node))
        except NotFoundError as error:
            self._log.debug("Node was gone before it was opened", node=seen.name, error=str(error))
        except ConflictError:
            self._items.postpone(seen.uid)  # it has changed meanwhile: somebody may have opened, cordoned or deleted it
        except KubeError as error:
            self._items.failed(seen.uid, error, "Node is not opened to pods yet", node=seen.name)
        else:
            self._items.succeeded(seen.uid)
            self._log.info("Opened node to pods", node=seen.name)

    def _make_schedulable(self, node: Node) -> dict[str, Any]:
        """Uncordon a new node, and take off a node in service the taint that closes it: its cordon is somebody else's.

        The taint of the cordon goes too, which the node controller would take off some time later. Raises ConflictError
        if the Node is not the one that was seen any more, and other KubeErrors.
        """
        closed = closed_in_service(node)
        metadata: dict[str, Any] = {"resourceVersion": node.resource_version}
        taints = [taint_document(taint) for taint in node.taints if taint != closed]
        spec: dict[str, Any] = {"taints": taints or None}
        if OPENS_WITH in node.annotations:
            metadata["annotations"], spec["unschedulable"] = {OPENS_WITH: None}, None
        return self._kube.patch(NODES, node.name, {"metadata": metadata, "spec": spec})
