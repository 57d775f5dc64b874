"""Read how the VPC CNI is set up in the cluster."""

from __future__ import annotations

from controller.core.zones.pod_network import DAEMON_SET, NAMESPACE, PodNetwork, pod_network
from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import DAEMON_SETS, ENI_CONFIGS


def read_pod_network(kube: KubeClient) -> PodNetwork:
    """What its DaemonSet and its ENIConfigs tell. Clusters without custom networking need not serve ENIConfigs.

    Raises KubeError.
    """
    daemon_sets = kube.list(DAEMON_SETS, NAMESPACE, field_selector=f"metadata.name={DAEMON_SET}")
    network = pod_network(daemon_sets, ())
    try:
        return pod_network(daemon_sets, kube.list(ENI_CONFIGS)) if network.custom else network
    except NotFoundError:
        return network
