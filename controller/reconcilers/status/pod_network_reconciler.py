"""Tell the cloud which subnets pods take addresses of, as the VPC CNI is set up: those of ENIConfigs, or the nodes'."""

from __future__ import annotations

import structlog

from controller.core.state.snapshot import Snapshot
from controller.core.zones.pod_network import DAEMON_SET, NAMESPACE, PodNetwork, pod_network
from controller.errors import KubeError, NotFoundError
from controller.kube.resources import DAEMON_SETS, ENI_CONFIGS
from controller.reconcilers.context import ReconcilerContext

READ_SECONDS = 60.0


class PodNetworkReconciler:
    """Read both each minute. What cannot be read, or is not there, leaves addresses to be counted in nodes' subnets."""

    name = "podnetwork"

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._cloud, self._clock = context.kube, context.cloud, context.clock
        self._log = structlog.get_logger(self.name)
        self._due_at = self._clock.monotonic()
        self._problem = ""

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Read what is due; without an answer what was told holds."""
        left = self._due_at - self._clock.monotonic()
        if left > 0:
            return left
        self._due_at = self._clock.monotonic() + READ_SECONDS
        try:
            network = self._read()
        except KubeError as error:
            self._tell(f"the VPC CNI's settings cannot be read: {error}")
            return READ_SECONDS
        self._tell(network.problem)
        self._cloud.use_pod_subnets(network.subnets)
        return READ_SECONDS

    def _read(self) -> PodNetwork:
        """What the VPC CNI is told. Clusters without custom networking need not serve ENIConfigs."""
        daemon_sets = self._kube.list(DAEMON_SETS, NAMESPACE, field_selector=f"metadata.name={DAEMON_SET}")
        network = pod_network(daemon_sets, ())
        try:
            return pod_network(daemon_sets, self._kube.list(ENI_CONFIGS)) if network.custom else network
        except NotFoundError:
            return network

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._log.warning("Addresses of pods are counted in the nodes' subnets", because=problem)
        self._problem = problem
