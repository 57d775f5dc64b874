"""Cordon and drain Nodes that are being deleted and have our finalizer, then terminate their instances.

Each step follows from the current state of API server and cloud and is idempotent: after a crash the next leader
continues at the same step. A drain that a PodDisruptionBudget blocks delays no other.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from controller.core.api.labels import EXCLUDE_BALANCERS, PROVISIONER_NAME
from controller.core.api.node import Node
from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod
from controller.core.machines.draining import (
    attached,
    cordon,
    deadline,
    first_wave,
    grace_period_seconds,
    holds,
    next_step,
)
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import (
    ConflictError,
    KubeError,
    NamespaceTerminatingError,
    NodelessError,
    NotFoundError,
    TooManyRequestsError,
)
from controller.kube.client import KubeClient
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES, PODS, VOLUME_ATTACHMENTS
from controller.machines.removals import Departure, finalizing
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.executors import Job, Lock
from controller.runtime.loops import IDLE_SECONDS, BackoffTimes, ItemBackoff
from controller.runtime.metrics import TERMINATION_TIME
from controller.telemetry.structured_logging import pod_names


class Attachments:
    """VolumeAttachments, listed once for all nodes of a pass, when the first of them asks. Thread-safe.

    The API has no selector by node. A list that is a pass old errs towards waiting: a volume may be detached by now.
    """

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._lock = Lock()
        self._by_node: dict[str, list[Mapping[str, Any]]] | None = None
        self._error: KubeError | None = None

    def of(self, node_name: str) -> Sequence[Mapping[str, Any]]:
        """Return those of one node. Raises KubeError, to every caller, if they cannot be listed."""
        with self._lock:
            if self._by_node is None and self._error is None:
                self._list()
            if self._by_node is None:
                assert self._error is not None
                raise copy.copy(self._error)  # threads must not share a traceback
            return self._by_node.get(node_name, ())

    def _list(self) -> None:
        try:
            documents = self._kube.list(VOLUME_ATTACHMENTS)
        except KubeError as error:
            self._error = error
            return
        self._by_node = {}
        for each in documents:
            self._by_node.setdefault(str((each.get("spec") or {}).get("nodeName")), []).append(each)


WORKERS = 30
"""Nodes handled concurrently. Their calls to EC2 are merged, and each waits for the others of its batch: with more
workers, more of them go into one call. Calls to the API server are limited by the client."""


DETACH_SECONDS = 120.0
"""How long a drained node waits at most for its volumes."""
DELETION_BACKOFF = BackoffTimes(0.5, 2.0)
"""Back-off of deletions of pods at their node's deadline."""


@dataclass(frozen=True, slots=True)
class TerminationTimes:
    """`poll_seconds`: between steps of a drain (Karpenter: 1 s). `instance_check_seconds`: between checks, while a
    node drains, whether its instance still exists. `eviction`: back-off of evictions. `pass_seconds`: how long a pass
    waits for its slowest node, whose step then continues in the background."""

    poll_seconds: float = 1.0
    instance_check_seconds: float = 10.0
    eviction: BackoffTimes = field(default_factory=lambda: BackoffTimes(0.5, 10.0))
    pass_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class _PassState:
    """The input that the steps of one pass share."""

    snapshot: Snapshot
    attachments: Attachments
    wave: frozenset[str]
    """The uids of the pods that are evicted in this pass, from nodes without a deadline."""


class TerminationReconciler(ContextReconciler):
    """Take the steps of all nodes concurrently."""

    name = "termination"

    def __init__(self, context: ReconcilerContext, times: TerminationTimes | None = None) -> None:
        super().__init__(context)
        self._times = times or TerminationTimes()
        self.unsynced_seconds = self._times.poll_seconds
        self._evictions = ItemBackoff(self._clock, self.name, self._times.eviction)
        self._deletions = ItemBackoff(self._clock, self.name, DELETION_BACKOFF)
        self._checked_at: dict[str, float] = {}
        self._drained_at: dict[str, float] = {}
        self._under_way: dict[str, Job[None]] = {}
        """Unfinished steps, by the node's uid."""
        self._executor = context.executors.executor("terminate", WORKERS)

    def _pass(self, snapshot: Snapshot) -> float:
        """Take one step for every node that is being deleted."""
        leaving = [node for node in snapshot.nodes.values() if finalizing(node.node)]
        self._items.keep({node.node.uid for node in leaving})
        for backoff in (self._evictions, self._deletions):
            backoff.keep({pod.uid for node in leaving for pod in node.pods})
        uids = {node.node.uid for node in leaving}
        for known in (self._checked_at, self._drained_at):
            for gone in [uid for uid in known if uid not in uids]:
                del known[gone]
        if not leaving:
            return IDLE_SECONDS
        self._under_way = {uid: step for uid, step in self._under_way.items() if not step.done()}
        due = [each for each in leaving if each.node.uid not in self._under_way and self._items.ready(each.node.uid)]
        state = _PassState(snapshot, Attachments(self._kube), self._wave(due))
        for node in due:
            self._under_way[node.node.uid] = self._executor.submit(self._step_safely, node, state)
        self._executor.wait(self._under_way.values(), self._times.pass_seconds)
        return self._times.poll_seconds

    def _wave(self, nodes: Sequence[StateNode]) -> frozenset[str]:
        """Return the uids of the pods that are to be evicted before others; those in back-off hold up nobody.

        nodes: those whose steps are taken now, as what cannot be evicted now holds up nobody either.
        """
        now = self._clock.now()
        next_ones = chain.from_iterable(next_step(node.pods, now).evict for node in nodes)
        return first_wave([pod for pod in next_ones if self._evictions.ready(pod.uid)])

    def _step_safely(self, node: StateNode, state: _PassState) -> None:
        try:
            self._step(node, state)
        except (NotFoundError, ConflictError) as error:
            # The node was changed meanwhile or is gone: the next snapshot shows which.
            self._log.debug("Node changed during its termination", node=node.name, error=str(error))
        except Exception as error:  # noqa: BLE001 - one node never stops the others; logged and retried
            self._items.failed(node.node.uid, error, "Termination failed", node=node.name)
        else:
            self._items.succeeded(node.node.uid)

    def _step(self, node: StateNode, state: _PassState) -> None:
        self._cordon(node.node)
        now = self._clock.now()
        settings, owner = self._settings.current, state.snapshot.provisioners.get(node.provisioner_name)
        broken_seconds = settings.node_repair_after_seconds if settings.node_repair else None
        until = deadline(node.node, owner, settings.termination_grace_period_seconds, broken_seconds)
        step = next_step(node.pods, now, until)
        if not step.drained:
            if (departure := self._departed(node.node)) is not None:
                keys = [pod.key for pod in step.waiting]
                text = "Instance is gone before its node was drained"
                self._log.info(text, node=node.name, pods=pod_names(keys), pod_count=len(keys))
                self._release(departure)
                return
            for pod in step.evict:
                if until is not None or pod.uid in state.wave:
                    self._evict(node.node, pod, until)
            for pod in step.delete:
                self._delete(node.node, pod, until)
            return
        late = until is not None and now >= until
        if not late and self._waits_for_volumes(node, state):
            return
        present = [parse_pod(each) for each in self._kube.list(PODS, field_selector=f"spec.nodeName={node.name}")]
        if not next_step(present, now, until).drained:
            return  # the API server has a pod that the watch has not delivered yet
        if late:
            self._report_deadline(node.node, [pod for pod in present if holds(pod, now)])
        if (departure := self._end_instance(node.node)) is not None:
            self._release(departure)

    def _cordon(self, node: Node) -> None:
        if node.unschedulable and node.labels.get(EXCLUDE_BALANCERS):
            return
        written = self._kube.patch(NODES, node.name, cordon({}))
        self._informers.learn(NODES, written)
        self._log.info("Cordoned node", node=node.name)

    def _evict(self, node: Node, pod: Pod, until: float | None) -> None:
        if not self._evictions.ready(pod.uid):
            return
        try:
            grace = grace_period_seconds(pod, until, self._clock.now())
            self._kube.evict(pod.namespace, pod.name, pod.uid, grace_period_seconds=grace)
        except (NotFoundError, ConflictError, NamespaceTerminatingError) as error:
            # The pod is gone, another one has its name, or it goes with its namespace: the watch will show it.
            self._evictions.postpone(pod.uid)
            self._log.debug("Pod needs no eviction", pod=pod.full_name, error=str(error))
            return
        except KubeError as error:
            self._report_blocked(node, pod, error)
            return
        self._evictions.postpone(pod.uid)  # ask again only if the watch does not show its termination
        self._events.publish(ObjectRef.of(pod), "Normal", "Evicted", "Evicted pod", (pod.uid,))

    def _delete(self, node: Node, pod: Pod, until: float | None) -> None:
        """Delete a pod regardless of PodDisruptionBudgets: only its grace period is left until the node's deadline."""
        if not self._deletions.ready(pod.uid):
            return
        grace = grace_period_seconds(pod, until, self._clock.now())
        try:
            self._kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=grace)
        except (NotFoundError, ConflictError):
            return
        except KubeError as error:  # a webhook or a policy refuses it: the pods after it are deleted all the same
            self._deletions.failed(pod.uid, error, "Deletion failed", pod=pod.full_name, node=node.name)
            self._say_not_drained(node, pod, f"Failed to delete pod {pod.full_name}: {error}")
            return
        message = f"Deleted: the deadline of node {node.name} leaves no more time than its grace period"
        self._events.publish(ObjectRef.of(pod), "Warning", "Evicted", message, (pod.uid, "deadline"))
        self._log.warning("Deleted pod at its node's deadline", pod=pod.full_name, node=node.name)

    def _report_deadline(self, node: Node, pods: list[Pod]) -> None:
        if pods:
            first = ", ".join(pod.full_name for pod in pods[:5])
            message = f"The node's deadline is over; its instance goes with {len(pods)} pods on it: {first}"
            self._events.publish(ObjectRef.of(node), "Warning", "FailedDraining", message, (node.uid, "deadline"))
            keys = [pod.key for pod in pods]
            text = "Deadline over before the node was drained"
            self._log.warning(text, node=node.name, pods=pod_names(keys), pod_count=len(keys))

    def _waits_for_volumes(self, drained: StateNode, state: _PassState) -> bool:
        """Return whether the instance must stay until its volumes are detached."""
        node = drained.node
        since = self._drained_at.setdefault(node.uid, self._clock.monotonic())
        if not state.snapshot.volumes:
            return False
        try:
            attachments = state.attachments.of(node.name)
            volumes = attached(attachments, drained.pods, state.snapshot, self._clock.now())
        except KubeError as error:
            volumes = (f"not known which ({error})",)
        if not volumes:
            return False
        named = ", ".join(volumes[:5])
        if self._clock.monotonic() - since < DETACH_SECONDS:
            message = f"Waits until {len(volumes)} volumes are detached: {named}"
            self._events.publish(ObjectRef.of(node), "Normal", "AwaitingVolumeDetachment", message, (node.uid,))
            return True
        self._log.warning("Volumes are not detached in time; the instance goes", node=node.name, volumes=named)
        return False

    def _report_blocked(self, node: Node, pod: Pod, error: KubeError) -> None:
        """Back off and publish why. A 429 is a PodDisruptionBudget's refusal, no error; several budgets give a 500."""
        if isinstance(error, TooManyRequestsError):
            self._evictions.postpone(pod.uid)
        else:
            self._evictions.failed(pod.uid, error, "Eviction failed", pod=pod.full_name, node=node.name)
        self._say_not_drained(node, pod, f"Failed to evict pod {pod.full_name}: {error}")

    def _say_not_drained(self, node: Node, pod: Pod, message: str) -> None:
        for ref in (ObjectRef.of(node), ObjectRef.of(pod)):
            self._events.publish(ref, "Warning", "FailedDraining", message, (node.name, pod.uid))

    def _departed(self, node: Node) -> Departure | None:
        """Return evidence that the instance is gone; asked for every `instance_check_seconds` while the node drains."""
        now = self._clock.monotonic()
        if now - self._checked_at.setdefault(node.uid, now) < self._times.instance_check_seconds:
            return None
        self._checked_at[node.uid] = now
        try:
            return self._removals.departed(node)
        except (NodelessError, ValueError) as error:
            self._log.debug("Instance of a draining node not looked up", node=node.name, error=str(error))
        return None

    def _end_instance(self, node: Node) -> Departure | None:
        """Ask for termination; the evidence once it has begun, or the instance no longer exists."""
        try:
            return self._removals.end_instance(node)
        except ValueError:
            self._log.warning("Node has no readable providerID", node=node.name, provider_id=node.provider_id)
        departure, count = self._removals.end_by_name(node)
        if departure is not None:
            message = (
                f"providerID {node.provider_id!r} is not readable; {count} instances terminated by the node's name"
            )
            self._events.publish(ObjectRef.of(node), "Warning", "UnreadableProviderID", message, (node.uid,))
        return departure

    def _release(self, departure: Departure) -> None:
        """Remove our finalizer and no other. Raises ConflictError when the node changed meanwhile."""
        node = departure.node
        if not self._removals.release(departure):
            return
        self._log.info("Terminated node", node=node.name, provider_id=node.provider_id, because=departure.because)
        if node.deleted_at is not None:
            # deletionTimestamp is the end of the grace period, which nodes do not have.
            took = max(0.0, self._clock.now() - node.deleted_at)
            self._recorder.observe(TERMINATION_TIME, took, node.labels.get(PROVISIONER_NAME, ""))
