"""What a command writes on nodes: its record with the cordon, and their deletion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import structlog

from controller.core.api.frozen import FrozenMap
from controller.core.decisions.decision import Decision, Kind, node_details
from controller.core.deprovisioning.backoff import (
    FAILURE_ANNOTATION,
    RESTING_ANNOTATION,
    Failure,
    stale,
    write_failure,
    write_resting,
)
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, read_record, write_record
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import StateNode
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES
from controller.reconcilers.context import ReconcilerContext

STATE_TIMEOUT_SECONDS = 5.0


class NodeWrites:
    """Writes that may be repeated: a node that is gone, or another of its name, is never an error."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._informers, self._events = context.kube, context.informers, context.events
        self._clock, self._ledger = context.clock, context.ledger
        self._log = structlog.get_logger("deprovisioning")

    def record(self, nodes: Iterable[StateNode], record: Record) -> None:
        """Put the record on all of them, and cordon them. Raises KubeError; then none of them has it."""
        written: list[StateNode] = []
        try:
            for node in nodes:
                self._write(node, record)
                written.append(node)
        except KubeError:
            for node in written:
                self.erase(node, record)
            raise

    def _write(self, node: StateNode, record: Record) -> None:
        own = replace(record, cordoned=not node.node.unschedulable)
        patch = {
            "metadata": {"annotations": {COMMAND_ANNOTATION: write_record(own)}},
            "spec": {"unschedulable": True},
        }
        self._informers.learn(NODES, self._kube.patch(NODES, node.name, patch))

    def erase(self, node: StateNode, record: Record, failure: Failure | None = None) -> None:
        """Record and cordon off and the failure on, in one patch. Raises KubeError."""
        own = read_record(node) or replace(record, cordoned=not node.node.unschedulable)
        annotations: dict[str, str | None] = {COMMAND_ANNOTATION: None}
        if failure is not None:
            annotations[FAILURE_ANNOTATION] = write_failure(failure)
        patch: dict[str, object] = {"metadata": {"annotations": annotations}}
        if own.cordoned:
            patch["spec"] = {"unschedulable": None}
        try:
            self._informers.learn(NODES, self._kube.patch(NODES, node.name, patch))
        except NotFoundError:
            self._log.debug("Node was gone before its record was taken off", node=node.name)

    def delete(self, nodes: Sequence[StateNode], record: Record) -> bool:
        """Ask for their deletion; False when one of them may not go by what is known in this moment.

        Raises KubeError; those that were not asked for then stay as they are.
        """
        if not self._mark(nodes):
            return False
        for position, node in enumerate(nodes):
            try:
                self._kube.delete(NODES, node.name, uid=node.node.uid)
            except (NotFoundError, ConflictError) as error:
                self._log.debug("Node was gone before it was deleted", node=node.name, error=str(error))
            except KubeError:
                self._unmark(nodes[position:])
                raise
            message = f"Deleting node, {record.method}: {record.reason}"
            self._events.publish(
                ObjectRef.of(node.node), "Normal", "DeprovisioningTerminating", message, (node.node.uid,)
            )
            self._record("remove", node, record, record.reason)
            self._log.info(
                "Deprovisioned node", id=record.id, node=node.name, method=record.method, because=record.reason
            )
        return True

    def given_up(self, node: StateNode, record: Record, because: str, action: str = "") -> None:
        """The node stays after all: that is a decision too. `action` where the record does not show it yet."""
        self._record("skip", node, record, f"{record.reason}, but {because}", action)

    def _record(self, kind: Kind, node: StateNode, record: Record, reason: str, action: str = "") -> None:
        decision = Decision(
            kind=kind,
            method=record.method,
            subject=f"Node/{node.name}",
            reason=reason,
            provisioner=node.provisioner_name,
            action=action or ("replace" if record.replacements else "delete"),
            details=FrozenMap({**node_details(node), "command": record.id}),
        )
        self._ledger.record(decision)

    def rest(self, nodes: Iterable[StateNode], workloads: Collection[str], until: float) -> None:
        """Note on the nodes that take a command's pods that these workloads rest. Raises KubeError."""
        now = self._clock.now()
        for node in nodes:
            self._annotate(node, RESTING_ANNOTATION, write_resting(node, workloads, now, until))

    def clean(self, nodes: Iterable[StateNode]) -> None:
        """Take off what was noted and means nothing any more. Raises KubeError."""
        now = self._clock.now()
        for node in nodes:
            for key in stale(node, now):
                self._annotate(node, key, None)

    def _annotate(self, node: StateNode, key: str, value: str | None) -> None:
        try:
            self._informers.learn(
                NODES, self._kube.patch(NODES, node.name, {"metadata": {"annotations": {key: value}}})
            )
        except NotFoundError:
            self._log.debug("Node was gone before it was annotated", node=node.name, annotation=key)

    def discard(self, replacements: Iterable[StateNode], record: Record, because: str) -> None:
        """Replacements that nobody uses are not paid for."""
        for node in replacements:
            if leaving_pods(node) or node.leaving or not self._mark((node,)):
                continue
            try:
                self._kube.delete(NODES, node.name, uid=node.node.uid)
            except (NotFoundError, ConflictError):
                continue
            except KubeError as error:
                self._unmark([node])
                text = "Unused replacement not removed; it stays as capacity"
                self._log.warning(text, node=node.name, error=str(error))
            else:
                self._record("remove", node, replace(record, replacements=()), f"unused replacement: {because}")
                self._log.info("Removed unused replacement", id=record.id, node=node.name)

    def nominate(self, nodes: Iterable[StateNode], until: float) -> None:
        """Pods will come to them until then (Unix seconds): they are not empty for want of use."""
        names = [node.name for node in nodes]

        def nominate(cluster: Cluster) -> None:
            for name in names:
                cluster.nominate(name, until)

        self._informers.submit(nominate)

    def _mark(self, nodes: Sequence[StateNode]) -> bool:
        """Mark them in the thread that owns the state, if nothing came that the check did not see."""

        def decide(cluster: Cluster) -> None:
            present = cluster.snapshot().nodes
            now = self._clock.now()
            if all(node.name in present and unchanged(node, present[node.name], now) for node in nodes):
                cluster.mark_for_deletion(node.name for node in nodes)

        after = self._informers.submit(decide).result(STATE_TIMEOUT_SECONDS).nodes
        return all(node.name in after and after[node.name].marked_for_deletion for node in nodes)

    def _unmark(self, nodes: Iterable[StateNode]) -> None:
        names = [node.name for node in nodes]
        self._informers.submit(lambda cluster: cluster.unmark(names))


def unchanged(seen: StateNode, present: StateNode, now: float) -> bool:
    """Whether a node may still go by what was decided of `seen`: the same node, no further pod, none expected."""
    if present.node.uid != seen.node.uid or present.nominated_until > now or present.node.deleted_at is not None:
        return False
    known = {pod.uid for pod in seen.pods}
    return all(pod.uid in known for pod in leaving_pods(present))
