"""Remove nodes and instances, only once the cluster is proven to be the process's own.

Nothing else deletes a Node, takes our finalizer off one or terminates an instance: `Cloud`, as loops get it, cannot
terminate, and a test finds every other deletion of Nodes in the sources.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from controller.core.api.labels import TERMINATION_FINALIZER
from controller.core.api.node import Node
from controller.core.api.parse import parse_node
from controller.core.cloud import CloudInstance, CloudProvider
from controller.core.machines.cluster_proof import (
    GOING,
    NOT_YET,
    ClusterProof,
    Fate,
    Standing,
    claimants,
    elsewhere,
    fate,
    prove,
)
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot
from controller.errors import ConflictError, InstanceNotFoundError, NotFoundError, RemovalRefusedError
from controller.kube.client import KubeClient
from controller.kube.resources import NODES
from controller.runtime.clock import Clock
from controller.runtime.executors import Lock
from controller.runtime.failure_log import FailureLog, Words
from controller.runtime.metrics import CLUSTER_NOT_PROVEN, CONSISTENCY_ERRORS, Recorder

DOUBT_WORDS = Words("Nothing is removed", "The cluster is proven to be the controller's own; removals go on")
CLUSTER_TAGS = "kubernetes.io/cluster/"
"""Prefix of the ownership tags of all clusters."""


@dataclass(frozen=True, slots=True)
class Departure:
    """Evidence that a node's instance is gone or going. Made by Removals alone; it allows the finalizer's removal."""

    node: Node
    because: str


class Removals:
    """One per process. Thread-safe. Every method raises RemovalRefusedError while the cluster is not proven."""

    def __init__(
        self, *, kube: KubeClient, cloud: CloudProvider, clock: Clock, recorder: Recorder, cluster_arn: str = ""
    ) -> None:
        """`cluster_arn`: the setting aws.clusterArn; empty if absent."""
        self._kube, self._cloud, self._clock, self._recorder = kube, cloud, clock, recorder
        self._cluster_arn = cluster_arn
        self._log = structlog.get_logger("removals")
        self._doubts = FailureLog(clock, "removals")
        self._lock = Lock()
        self._proof = NOT_YET

    @property
    def proof(self) -> ClusterProof:
        """The verdict of the last check."""
        with self._lock:
            return self._proof

    def check(self, snapshot: Snapshot) -> ClusterProof:
        """Ask the cloud, and judge whether this is the process's own cluster.

        Raises CloudErrors; the last verdict then stays.
        """
        now = self._clock.now()
        nodes = claimants(snapshot)
        known = self._cloud.known(node.node.provider_id for node in nodes)
        proof = prove(self._cloud.identity(), self._cluster_arn, nodes, known, now)
        with self._lock:
            self._proof = proof
        self._report(proof)
        return proof

    def _report(self, proof: ClusterProof) -> None:
        held = {Standing.DOUBTED: "doubted", Standing.DISPROVED: "disproved"}
        values: dict[tuple[str, ...], float] = {
            (name,): float(proof.standing is standing) for standing, name in held.items()
        }
        self._recorder.replace(CLUSTER_NOT_PROVEN, values)
        if proof.proven:
            self._doubts.recovered("cluster")
        else:
            error = RemovalRefusedError(proof.because)
            self._doubts.failed("cluster", proof.standing, DOUBT_WORDS, error, means=proof.standing.value)

    def refusal(self, node: Node | None = None) -> str:
        """Return why nothing may be removed now, or not this node; empty when it may."""
        proof = self.proof
        if not proof.proven:
            return proof.because
        return elsewhere(node, proof.region) if node is not None else ""

    def delete(self, node: Node) -> None:
        """Delete the Node object; its finalizer does the rest. Raises KubeErrors, RemovalRefusedError among them."""
        self._permit(node)
        self._kube.delete(NODES, node.name, uid=node.uid)

    def departed(self, node: Node) -> Departure | None:
        """Return evidence that the node's instance is gone, by the instance's bare id; None without it.

        Raises RemovalRefusedError and CloudErrors; ValueError when the provider id is not readable.
        """
        self._permit(node)
        if fate(node, self._cloud.find(node.provider_id)) is not Fate.GONE:
            return None
        return Departure(node, "its instance is gone")

    def end_instance(self, node: Node) -> Departure | None:
        """Terminate the node's instance; the evidence once that has begun, None until then.

        An instance with none of our tags, on a Node that we did not launch, is left alone. Raises as `departed`.
        """
        self._permit(node)
        instance = self._cloud.find(node.provider_id)
        if instance is not None and instance.state not in GOING:
            if not _ours(instance, node):
                text = "Instance has none of the controller's tags and is left running"
                self._log.warning(text, node=node.name, id=instance.id)
                return Departure(node, "its instance is not ours")
            self._terminate(node.provider_id)
            instance = self._cloud.find(node.provider_id)
        return Departure(node, "its instance terminates") if fate(node, instance) is Fate.GONE else None

    def end_by_name(self, node: Node) -> tuple[Departure | None, int]:
        """For a node without a readable provider id: terminate the instances that have its name.

        Return the evidence once all of them terminate, and how many there are. Raises as `departed`.
        """
        self._permit(node)
        named = [entry for entry in self._cloud.list() if entry.node_name == node.name]
        ends = [self.end_instance(replace(node, provider_id=entry.provider_id)) for entry in named]
        gone = all(end is not None for end in ends)
        return (Departure(node, "instances of its name terminate") if gone else None), len(named)

    def terminate(self, instance: CloudInstance) -> None:
        """Terminate an instance that has no Node. Raises RemovalRefusedError and CloudErrors."""
        self._permit(None)
        self._cloud.delete(instance.provider_id)

    def abandon(self, instance: CloudInstance) -> None:
        """Terminate what this process launched just now and cannot use: no proof is needed. Raises CloudErrors."""
        self._cloud.delete(instance.provider_id)

    def release(self, departure: Departure) -> bool:
        """Remove our finalizer and no other; False when the Node is another one by now, or gone.

        Raises ConflictError when it changed meanwhile, and RemovalRefusedError.
        """
        node = departure.node
        self._permit(node)
        try:
            with suppress(ConflictError):
                self._unfinalize(node)
                return True
            present = parse_node(self._kube.get(NODES, node.name))
            if present.uid != node.uid or not finalizing(present):
                return False
            self._unfinalize(present)
        except NotFoundError:
            return False
        return True

    def _unfinalize(self, node: Node) -> None:
        """Raises ConflictError where this is not the Node's newest version, or another Node of its name."""
        rest = [name for name in node.finalizers if name != TERMINATION_FINALIZER]
        metadata = {"finalizers": rest or None, "resourceVersion": node.resource_version}
        self._kube.patch(NODES, node.name, {"metadata": metadata})

    def _terminate(self, provider_id: str) -> None:
        try:
            self._cloud.delete(provider_id)
        except InstanceNotFoundError as error:
            self._log.debug("Instance was gone before it was terminated", error=str(error))

    def _permit(self, node: Node | None) -> None:
        if because := self.refusal(node):
            self._recorder.count(CONSISTENCY_ERRORS, "RefusedRemoval")
            raise RemovalRefusedError(f"Not removed: {because}")


def finalizing(node: Node) -> bool:
    """Return whether the node is being deleted and has our finalizer."""
    return node.deleted_at is not None and TERMINATION_FINALIZER in node.finalizers


def _ours(instance: CloudInstance, node: Node) -> bool:
    """Return whether the controller launched it: by its tags, one of which may be lost, or its Node's launch token."""
    if any(key.startswith(CLUSTER_TAGS) and value == "owned" for key, value in instance.tags.items()):
        return instance.owned
    return instance.owned or bool(instance.provisioner_name) or LAUNCH_TOKEN in node.annotations
