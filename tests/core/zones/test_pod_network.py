"""What the VPC CNI's DaemonSet and its ENIConfigs say of the subnets of pods."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.zones.pod_network import PodNetwork, pod_network

CUSTOM = {"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "true"}
BY_ZONE = CUSTOM | {"ENI_CONFIG_LABEL_DEF": "topology.kubernetes.io/zone"}
CONFIGS = {"b": "subnet-2", "a": "subnet-1"}
FOUND = {"a": "subnet-1", "b": "subnet-2"}


def daemon_set(environment: dict[str, str], name: str = "aws-node") -> dict[str, Any]:
    """The VPC CNI's DaemonSet, as far as it is read."""
    settings = [{"name": key, "value": value} for key, value in environment.items()]
    other = {"name": "aws-eks-nodeagent", "env": [{"name": "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "value": "no"}]}
    containers = [{"name": "aws-node", "env": settings}, other]
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": containers}}}}


def eni_configs(subnets: dict[str, str]) -> list[dict[str, Any]]:
    """ENIConfigs by name."""
    kind = {"apiVersion": "crd.k8s.amazonaws.com/v1alpha1", "kind": "ENIConfig"}
    return [kind | {"metadata": {"name": name}, "spec": {"subnet": subnet}} for name, subnet in subnets.items()]


@pytest.mark.parametrize(
    ("environment", "configs", "expected"),
    [
        ({}, CONFIGS, PodNetwork(known=True)),
        ({"ENABLE_PREFIX_DELEGATION": "true"}, {}, PodNetwork(known=True, prefixes=True)),
        (BY_ZONE, CONFIGS, PodNetwork(True, False, True, FOUND)),
        (BY_ZONE | {"ENABLE_PREFIX_DELEGATION": "true"}, CONFIGS, PodNetwork(True, True, True, FOUND)),
        (BY_ZONE | {"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "false"}, CONFIGS, PodNetwork(known=True)),
    ],
)
def test_the_settings_are_the_cnis_own_and_configs_are_named_after_zones(
    environment: dict[str, str], configs: dict[str, str], expected: PodNetwork
) -> None:
    assert pod_network([daemon_set(environment)], eni_configs(configs)) == expected


@pytest.mark.parametrize(
    ("environment", "configs", "said"),
    [
        (CUSTOM, CONFIGS, "k8s.amazonaws.com/eniConfig"),
        (BY_ZONE, {}, "no ENIConfig"),
        (BY_ZONE, {"a": ""}, "no ENIConfig"),
    ],
)
def test_where_the_subnets_are_not_known_it_says_why(
    environment: dict[str, str], configs: dict[str, str], said: str
) -> None:
    network = pod_network([daemon_set(environment)], eni_configs(configs))
    assert (network.custom, dict(network.subnets)) == (True, {})
    assert said in network.problem


@pytest.mark.parametrize("broken", [{}, {"metadata": {"name": "aws-node"}, "spec": 7}, daemon_set({}, name="other")])
def test_what_is_no_daemon_set_of_the_cni_says_nothing(broken: dict[str, Any]) -> None:
    assert not pod_network([broken], eni_configs(CONFIGS)).custom
