"""Settings of the VPC CNI: prefixes, and the subnets that pods take addresses of (custom networking, ENIConfig).

With custom networking a node's first interface is in the node's subnet and has no pods; its others are in the subnet of
the ENIConfig that a label of the node names, by zone as a rule. Source: amazon-vpc-cni-k8s, README ("CNI configuration
variables").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.document import Document, mapping, objects, text
from controller.core.api.frozen import EMPTY
from controller.core.api.labels import ZONE

NAMESPACE: Final = "kube-system"
DAEMON_SET: Final = "aws-node"
"""The VPC CNI's DaemonSet and the container in it that has its settings."""
ZONE_LABELS: Final = (ZONE, "failure-domain.beta.kubernetes.io/zone")
DEFAULT_LABEL: Final = "k8s.amazonaws.com/eniConfig"


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """`known`: the VPC CNI was found. `subnets`: by zone, the one that pods take addresses of; empty: the node's.

    `problem`: why the subnets are not known although custom networking is on.
    """

    known: bool = False
    prefixes: bool = False
    custom: bool = False
    subnets: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    problem: str = ""


def pod_network(daemon_sets: Iterable[Document], eni_configs: Iterable[Document]) -> PodNetwork:
    """Read the VPC CNI's DaemonSet, if it is among these, and its ENIConfigs."""
    cni = [each for each in daemon_sets if text(mapping(each.get("metadata")).get("name")) == DAEMON_SET]
    if not cni:
        return PodNetwork()
    variables = _environment(cni[0])
    prefixes = variables.get("ENABLE_PREFIX_DELEGATION", "").lower() == "true"
    if variables.get("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "").lower() != "true":
        return PodNetwork(known=True, prefixes=prefixes)
    label = variables.get("ENI_CONFIG_LABEL_DEF") or DEFAULT_LABEL
    if label not in ZONE_LABELS:
        problem = f"the node label {label} names the ENIConfig, not the zone ({ZONE})"
        return PodNetwork(known=True, prefixes=prefixes, custom=True, problem=problem)
    by_zone = {
        text(mapping(each.get("metadata")).get("name")): text(mapping(each.get("spec")).get("subnet"))
        for each in eni_configs
    }
    subnets = {zone: subnet for zone, subnet in sorted(by_zone.items()) if zone and subnet}
    return PodNetwork(True, prefixes, True, subnets, "" if subnets else "no ENIConfig names a subnet")


def _environment(daemon_set: Document) -> dict[str, str]:
    pod = mapping(mapping(mapping(daemon_set.get("spec")).get("template")).get("spec"))
    return {
        text(each.get("name")): text(each.get("value"))
        for container in objects(pod.get("containers"))
        if text(container.get("name")) == DAEMON_SET
        for each in objects(container.get("env"))
    }
