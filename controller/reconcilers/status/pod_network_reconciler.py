"""Pass on to the cloud which subnets pods take addresses of, by the VPC CNI's settings: ENIConfigs', or the nodes'."""

from __future__ import annotations

from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError
from controller.kube.vpc_cni import read_pod_network
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

READ_SECONDS = 60.0


class PodNetworkReconciler(ContextReconciler):
    """Read both each minute. What cannot be read, or is not there, leaves addresses to be counted in nodes' subnets."""

    name = "podnetwork"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._problem = ""

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Read the settings when due; if they cannot be read, the last ones hold."""
        if (left := self._left_seconds()) > 0:
            return left
        self._due_in(READ_SECONDS)
        try:
            network = read_pod_network(self._kube)
        except KubeError as error:
            self._report(f"the VPC CNI's settings cannot be read: {error}")
            return READ_SECONDS
        self._report(network.problem)
        self._cloud.use_pod_subnets(network.subnets)
        return READ_SECONDS

    def _report(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._log.warning("Addresses of pods are counted in the nodes' subnets", because=problem)
        self._problem = problem
