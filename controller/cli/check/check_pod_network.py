"""Checks of the VPC CNI: the settings say what it does."""

from __future__ import annotations

from collections.abc import Iterator

from controller.cli.check.findings import Finding, ok, warning
from controller.core.api.labels import ZONE
from controller.core.zones.pod_network import DAEMON_SET, PodNetwork
from controller.kube.client import KubeClient
from controller.kube.vpc_cni import read_pod_network
from controller.settings import Settings

SUBJECT = "VPC CNI"


def check_pod_network(kube: KubeClient, settings: Settings) -> Iterator[Finding]:
    """Check for differences between the VPC CNI and the settings; nothing where there is no VPC CNI."""
    network = read_pod_network(kube)
    if not network.known:
        return
    wrong = tuple(_differences(network, settings))
    yield from wrong
    if not wrong:
        where = f": pods take addresses of {', '.join(network.subnets.values())}" if network.custom else ""
        yield ok(SUBJECT, f"it is set up as plans count on{where}")


def _differences(network: PodNetwork, settings: Settings) -> Iterator[Finding]:
    if network.prefixes != settings.enable_prefix_delegation:
        state = "on" if network.prefixes else "off"
        text = f"prefix delegation is {state} in DaemonSet {DAEMON_SET}, and aws.enablePrefixDelegation says otherwise"
        yield warning(SUBJECT, text, "make them equal: plans count a node's pods and addresses by the setting")
    if network.custom and not settings.reserved_enis:
        text = "with custom networking pods get no address of a node's first interface, and aws.reservedENIs is 0"
        remedy = "set aws.reservedENIs to 1: else nodes take more pods than they have addresses for"
        yield warning(SUBJECT, text, remedy)
    if network.problem:
        remedy = f"name ENIConfigs after zones, with ENI_CONFIG_LABEL_DEF={ZONE}: then their addresses are counted"
        yield warning(SUBJECT, f"custom networking: {network.problem}", remedy)
