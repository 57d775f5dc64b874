"""Restart single-replica Deployments by a rollout, so that their pods start elsewhere before a node is removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import structlog

from controller.core.api.pod import Pod
from controller.core.deprovisioning.records import Record
from controller.core.deprovisioning.surge import may_surge, restart_patch, restarted_for, surges
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import StateNode
from controller.errors import NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import DEPLOYMENTS, REPLICA_SETS
from controller.reconcilers.context import ReconcilerContext


class Surge:
    """Start rollouts, one per command and Deployment: the command's id is written on the Deployment."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._events = context.kube, context.events
        self._log = structlog.get_logger("deprovisioning")
        self._owners: dict[str, str] = {}
        """Name of the Deployment by the uid of its ReplicaSet; empty: the ReplicaSet has none."""
        self._settled: set[tuple[str, str]] = set()
        """(command id, ReplicaSet uid) of pods that are evicted without a rollout."""

    def waits_for(self, record: Record, nodes: Iterable[StateNode]) -> tuple[str, ...]:
        """Start the rollouts that are due; return the pods that have not started elsewhere yet. Raises KubeError."""
        waiting: list[str] = []
        for pod in (pod for node in nodes for pod in leaving_pods(node) if may_surge(pod)):
            key = (record.id, pod.owners[0].uid if pod.owners else "")
            deployment = None if key in self._settled else self._deployment(pod)
            if deployment is None or not surges(deployment):
                self._settled.add(key)
                continue
            waiting.append(pod.full_name)
            if restarted_for(deployment) != record.id:
                name = deployment["metadata"]["name"]
                self._kube.patch(DEPLOYMENTS, name, restart_patch(record.id), namespace=pod.namespace)
                message = f"Is replaced on another node before this node is removed: rollout of Deployment {name}"
                self._events.publish(ObjectRef.of(pod), "Normal", "Surging", message, (pod.uid, record.id))
                self._log.info("Asked for a rollout", id=record.id, deployment=f"{pod.namespace}/{name}", pod=pod.name)
        return tuple(sorted(waiting))

    def keep(self, command_ids: Collection[str]) -> None:
        """Forget commands other than these."""
        self._settled = {key for key in self._settled if key[0] in command_ids}
        if not command_ids:
            self._owners.clear()

    def _deployment(self, pod: Pod) -> Mapping[str, Any] | None:
        owner = pod.owners[0] if pod.owners else None
        if owner is None or (owner.api_version, owner.kind) != (REPLICA_SETS.api_version, REPLICA_SETS.kind):
            return None
        try:
            if owner.uid not in self._owners:
                self._owners[owner.uid] = self._owner_of(self._kube.get(REPLICA_SETS, owner.name, pod.namespace))
            name = self._owners[owner.uid]
            return self._kube.get(DEPLOYMENTS, name, pod.namespace) if name else None
        except NotFoundError:
            return None

    @staticmethod
    def _owner_of(replica_set: Mapping[str, Any]) -> str:
        owners = replica_set["metadata"].get("ownerReferences") or ()
        return next((str(o["name"]) for o in owners if o.get("controller") and o["kind"] == DEPLOYMENTS.kind), "")
