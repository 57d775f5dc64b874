"""The subnets of pods, as the VPC CNI is set up, come to the cloud."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cli.check.check_pod_network import check_pod_network
from controller.errors import ForbiddenError
from controller.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, ENI_CONFIGS, Resource
from controller.reconcilers.status.pod_network_reconciler import READ_SECONDS, PodNetworkReconciler
from controller.settings import Settings
from tests.core.zones.test_pod_network import BY_ZONE, daemon_set, eni_configs
from tests.reconcilers.conftest import World

CRD = {
    "metadata": {"name": "eniconfigs.crd.k8s.amazonaws.com"},
    "spec": {
        "group": ENI_CONFIGS.group,
        "names": {"kind": "ENIConfig", "plural": "eniconfigs", "singular": "eniconfig", "listKind": "ENIConfigList"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def set_up(world: World, environment: dict[str, str], subnets: dict[str, str] | None = None) -> None:
    """The VPC CNI's DaemonSet, and ENIConfigs with their CRD; None: neither is served."""
    made = daemon_set(environment)
    pods = made["spec"]["template"]
    pods["metadata"] = {"labels": {"k8s-app": "aws-node"}}
    for container in pods["spec"]["containers"]:
        container["image"] = "amazon-k8s-cni"
    made["spec"]["selector"] = {"matchLabels": {"k8s-app": "aws-node"}}
    world.kube.create(DAEMON_SETS, made, "kube-system")
    if subnets is not None:
        world.kube.create(CUSTOM_RESOURCE_DEFINITIONS, CRD)
        for config in eni_configs(subnets):
            world.kube.create(ENI_CONFIGS, config)


def test_they_are_read_each_minute_and_without_an_answer_the_last_hold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(world, BY_ZONE, {"eu-west-1a": "subnet-9"})
    loop = PodNetworkReconciler(world.context)
    assert loop.reconcile(world.informers.snapshot()) == READ_SECONDS
    assert world.cloud.pod_subnets == {"eu-west-1a": "subnet-9"}
    world.kube.create(ENI_CONFIGS, eni_configs({"eu-west-1b": "subnet-8"})[0])
    assert loop.reconcile(world.informers.snapshot()) <= READ_SECONDS
    assert set(world.cloud.pod_subnets) == {"eu-west-1a"}, "it is not due"
    world.clock.ahead_seconds += READ_SECONDS + 1
    listed = world.kube.list

    def refused(resource: Resource, *args: Any, **fields: Any) -> Any:
        if resource is ENI_CONFIGS:
            raise ForbiddenError("eniconfigs is forbidden")
        return listed(resource, *args, **fields)

    monkeypatch.setattr(world.kube, "list", refused)
    loop.reconcile(world.informers.snapshot())
    assert set(world.cloud.pod_subnets) == {"eu-west-1a"}
    monkeypatch.undo()
    world.clock.ahead_seconds += READ_SECONDS + 1
    loop.reconcile(world.informers.snapshot())
    assert set(world.cloud.pod_subnets) == {"eu-west-1a", "eu-west-1b"}


def test_a_cluster_that_serves_no_eni_configs_counts_in_the_nodes_subnets(world: World) -> None:
    set_up(world, BY_ZONE)
    world.cloud.pod_subnets = {"eu-west-1a": "gone"}
    PodNetworkReconciler(world.context).reconcile(world.informers.snapshot())
    assert world.cloud.pod_subnets == {}


@pytest.mark.parametrize(
    ("environment", "settings", "said"),
    [
        ({}, {}, ["it is set up as plans count on"]),
        ({"ENABLE_PREFIX_DELEGATION": "true"}, {}, ["prefix delegation is on"]),
        ({}, {"enable_prefix_delegation": True}, ["prefix delegation is off"]),
        (BY_ZONE, {}, ["aws.reservedENIs is 0"]),
        (BY_ZONE, {"reserved_enis": 1}, ["pods take addresses of subnet-9"]),
        (BY_ZONE | {"ENI_CONFIG_LABEL_DEF": "pool"}, {"reserved_enis": 1}, ["the node label pool"]),
    ],
)
def test_nodeless_check_tells_what_differs(
    world: World, environment: dict[str, str], settings: dict[str, Any], said: list[str]
) -> None:
    set_up(world, environment, {"eu-west-1a": "subnet-9"})
    found = check_pod_network(world.kube, Settings(cluster_name="test", **settings))
    assert [text in each.text for each, text in zip(found, said, strict=True)] == [True]
