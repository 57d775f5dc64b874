"""The executor's writes on nodes: records with the cordon, annotations, marks in the cluster state, deletions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from controller.core.api.frozen import FrozenMap
from controller.core.decisions.decision import Decision, Kind, node_details
from controller.core.deprovisioning.backoff import (
    FAILURE_ANNOTATION,
    RESTING_ANNOTATION,
    Failure,
    write_failure,
    write_resting,
)
from controller.core.deprovisioning.method import NodeAnnotations
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, read_record, write_record
from controller.core.deprovisioning.removal_command import Command
from controller.core.machines.node_documents import taint_document
from controller.core.machines.opening import closing_taint, is_closed
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.resources import NODES
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.events import RemovalEvents

STATE_TIMEOUT_SECONDS = 5.0

StillRemovable = Callable[[StateNode, Snapshot], bool]
"""Whether a node that was selected may still be removed, given the newest snapshot, which has a node of its name."""


class NodeWrites:
    """Idempotent writes: a node that is gone, or replaced by one of the same name, is no error. Thread-safe."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._informers, self._events = context.kube, context.informers, RemovalEvents(context.events)
        self._clock, self._ledger, self._removals = context.clock, context.ledger, context.removals
        self._log = structlog.get_logger("deprovisioning")

    def record(self, nodes: Iterable[StateNode], record: Record) -> None:
        """Write the record on all nodes and cordon them. Raises KubeError; then none of them has it."""
        written: list[StateNode] = []
        try:
            for node in nodes:
                own = replace(record, cordoned=not node.node.unschedulable)
                self._patch(node, {COMMAND_ANNOTATION: write_record(own)}, unschedulable=True)
                written.append(node)
        except KubeError:
            for node in written:
                self.erase(node, record)
            raise

    def erase(self, node: StateNode, record: Record, failure: Failure | None = None) -> None:
        """Remove record and cordon and write the failure, in one patch. Raises KubeError."""
        annotations: dict[str, str | None] = {COMMAND_ANNOTATION: None}
        if failure is not None:
            annotations[FAILURE_ANNOTATION] = write_failure(failure)
        own = read_record(node) or replace(record, cordoned=not node.node.unschedulable)
        cordon = {"unschedulable": None} if own.cordoned else {}
        try:
            self._patch(node, annotations, **cordon)
        except NotFoundError:
            self._log.debug("Node was gone before its record was taken off", node=node.name)

    def annotate(self, annotations: NodeAnnotations) -> bool:
        """Write or remove annotations; False when the node is gone. Raises KubeError."""
        try:
            self._patch(
                annotations.node, annotations.values, **({"unschedulable": None} if annotations.uncordon else {})
            )
        except (NotFoundError, ConflictError):
            self._log.debug("Node was gone before it was annotated", node=annotations.node.name)
            return False
        return True

    def _patch(self, node: StateNode, annotations: Mapping[str, str | None], **spec: object) -> None:
        patch: dict[str, object] = {"metadata": {"annotations": dict(annotations)}}
        if spec:
            patch["spec"] = spec
        self._informers.learn(NODES, self._kube.patch(NODES, node.name, patch))

    def rest(self, nodes: Iterable[StateNode], workloads: Collection[str], until: float) -> None:
        """Record the cool-down of these workloads on the nodes that take their pods. Raises KubeError."""
        now = self._clock.now()
        for node in nodes:
            self.annotate(NodeAnnotations(node, {RESTING_ANNOTATION: write_resting(node, workloads, now, until)}))

    def mark(self, nodes: Sequence[StateNode]) -> bool:
        """Mark a command's nodes for deletion; False when the current snapshot forbids it for one of them."""
        return self._mark(nodes, self._unchanged)

    def delete(self, nodes: Sequence[StateNode], record: Record) -> None:
        """Delete marked nodes of a command. Raises KubeError; the nodes not deleted until then are unmarked."""
        for position, node in enumerate(nodes):
            self._delete(node, marked=nodes[position:])
            self._events.deleted(node, f"Deleting node, {record.method}: {record.reason}")
            self._decided("remove", node, record, record.reason)
            self._log.info(
                "Deprovisioned node", id=record.id, node=node.name, method=record.method, because=record.reason
            )

    def close(self, nodes: Iterable[StateNode], record: Record, marked: Sequence[StateNode]) -> None:
        """Taint the nodes for kube-scheduler while pods move to them; one that changes in this moment stays open.

        One that another command has closed meanwhile keeps its taint: the API server accepts one of a key and effect.
        Raises KubeError, and takes the marks off `marked` then.
        """
        present, closed = self._informers.snapshot(), list[str]()
        still_there = (present.nodes[each.name].node for each in nodes if each.name in present.nodes)
        for node in (each for each in still_there if not is_closed(each)):
            taints = [taint_document(taint) for taint in (*node.taints, closing_taint(record.id))]
            patch = {"metadata": {"resourceVersion": node.resource_version}, "spec": {"taints": taints}}
            try:
                self._informers.learn(NODES, self._kube.patch(NODES, node.name, patch))
            except (NotFoundError, ConflictError) as error:
                self._log.debug("Node stays open to pods", node=node.name, error=str(error))
                continue
            except KubeError:
                self._unmark(marked)
                raise
            closed.append(node.name)
        if closed:
            self._log.info("Closed nodes while pods move to them", id=record.id, nodes=closed)

    def delete_unrecorded(self, node: StateNode, command: Command, still_removable: StillRemovable) -> bool:
        """Delete a node without a record; False when it may not be removed, or is gone. Raises KubeError."""
        if not self._mark([node], still_removable) or not self._delete(node, marked=[node]):
            return False
        self._events.deleted(node, f"Deleting node: {command.because}")
        self._decided("remove", node, Record("", command.method, command.because, (), (), 0.0), command.because)
        return True

    def discard(self, replacements: Iterable[StateNode], record: Record, because: str) -> None:
        """Delete replacements that no pod uses."""
        for node in replacements:
            if leaving_pods(node) or node.leaving or not self._mark([node], self._unchanged):
                continue
            try:
                deleted = self._delete(node, marked=[node])
            except KubeError as error:
                text = "Unused replacement not removed; it stays as capacity"
                self._log.warning(text, node=node.name, error=str(error))
                continue
            if deleted:
                self._decided("remove", node, replace(record, replacements=()), f"unused replacement: {because}")
                self._log.info("Removed unused replacement", id=record.id, node=node.name)

    def _delete(self, node: StateNode, marked: Sequence[StateNode]) -> bool:
        """Delete the node; False when it was gone. Raises KubeError, and takes the marks off `marked` then."""
        try:
            self._removals.delete(node.node)
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Node was gone before it was deleted", node=node.name, error=str(error))
            return False
        except KubeError:
            self._unmark(marked)
            raise
        return True

    def _unmark(self, nodes: Iterable[StateNode]) -> None:
        names = [node.name for node in nodes]
        self._informers.submit(lambda cluster: cluster.unmark(names))

    def skipped(self, node: StateNode, record: Record, because: str, action: str = "") -> None:
        """Record in the ledger that the node stays. `action` where the record does not imply it yet."""
        self._decided("skip", node, record, f"{record.reason}, but {because}", action)

    def _decided(self, kind: Kind, node: StateNode, record: Record, reason: str, action: str = "") -> None:
        command = {"command": record.id} if record.id else {}
        decision = Decision(
            kind=kind,
            method=record.method,
            subject=f"Node/{node.name}",
            reason=reason,
            provisioner=node.provisioner_name,
            action=action or ("replace" if record.replacements else "delete"),
            details=FrozenMap({**node_details(node), **command}),
        )
        self._ledger.record(decision)

    def nominate(self, nodes: Iterable[StateNode], until: float) -> None:
        """Nominate the nodes until then (Unix seconds), so that they do not count as empty."""
        names = [node.name for node in nodes]

        def nominate(cluster: Cluster) -> None:
            for name in names:
                cluster.nominate(name, until)

        self._informers.submit(nominate)

    def wait_until_applied(self) -> None:
        """Wait until the cluster state contains everything that was written before."""
        self._informers.submit(lambda _: None).result(STATE_TIMEOUT_SECONDS)

    def _mark(self, nodes: Sequence[StateNode], still_removable: StillRemovable) -> bool:
        """Mark all nodes for deletion if all are still removable, atomically in the cluster state's thread."""

        def decide(cluster: Cluster) -> None:
            present = cluster.snapshot()
            if all(node.name in present.nodes and still_removable(node, present) for node in nodes):
                cluster.mark_for_deletion(node.name for node in nodes)

        after = self._informers.submit(decide).result(STATE_TIMEOUT_SECONDS).nodes
        return all(node.name in after and after[node.name].marked_for_deletion for node in nodes)

    def _unchanged(self, seen: StateNode, present: Snapshot) -> bool:
        """Return whether the node is the same, not being deleted, without new pods and without a nomination."""
        node = present.nodes[seen.name]
        if node.node.uid != seen.node.uid or node.node.deleted_at is not None:
            return False
        known = {pod.uid for pod in seen.pods}
        return node.nominated_until <= self._clock.now() and all(pod.uid in known for pod in leaving_pods(node))
