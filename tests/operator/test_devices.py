"""Claims of devices (DRA) over the API: kinds that the server lacks stop nothing; a pod with a claim gets its node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import INITIALIZED
from controller.kube.client import KubeClient
from controller.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DEVICES, PODS, Resource, device_resources
from controller.operator.startup import device_kinds
from tests import factories
from tests.operator.test_composition import SETTINGS, acting
from tests.reconcilers.conftest import World, await_served, world

__all__ = ["world"]

GPU, DEVICE_CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
MAPPED = replace(SETTINGS, device_classes=FrozenMap({DEVICE_CLASS: GPU}))
CLAIMING = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}


def serve(kube: KubeClient, resource: Resource) -> None:
    """Have the API server know a kind of DRA."""
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version: dict[str, Any] = {"name": resource.version, "served": True, "storage": True, "schema": schema}
    scope = "Namespaced" if resource.namespaced else "Cluster"
    spec = {"group": DEVICES, "scope": scope, "names": names, "versions": [version]}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    meta = {"name": f"{resource.plural}.{DEVICES}", "annotations": approved}
    kube.create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": meta, "spec": spec})
    await_served(kube, resource)


def make(kube: KubeClient, kind: str, name: str, spec: dict[str, Any]) -> None:
    (resource,) = (each for each in device_resources("v1beta1") if each.kind == kind)
    document = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    kube.create(resource, document, "default" if resource.namespaced else "")


def test_kinds_of_devices_are_watched_where_all_of_them_are_served(world: World) -> None:
    assert device_kinds(world.kube) == (), "the group is not there"
    *most, last = device_resources("v1beta1")
    for resource in most:
        serve(world.kube, resource)
    with capture_logs() as logs:
        assert device_kinds(world.kube) == (), "a watch without a first list would hold up everything"
    said = [line["event"] for line in logs if "claims" in line["event"]]  # the sandbox's loop logs, too
    assert said == ["Resource claims are not read: pods that have some get no node"]
    serve(world.kube, last)
    assert device_kinds(world.kube) == (*most, last)


def test_a_pod_with_a_claim_gets_a_node_that_is_initialized_by_its_slices(world: World) -> None:
    """From the pod to an initialized node, whose allocatable never has the extended resource."""
    for resource in device_resources("v1beta1"):
        serve(world.kube, resource)
    families = {"key": "karpenter.k8s.aws/instance-family", "operator": "Exists"}
    world.add_provisioner(requirements=[families])
    world.cloud.types = (factories.instance_type(), factories.instance_type(name="g5.xlarge", extended={GPU: 1}))
    request = {"name": "gpu", "deviceClassName": DEVICE_CLASS}
    with acting(world, settings=MAPPED, devices=device_kinds(world.kube)):
        make(world.kube, "ResourceClaimTemplate", "gpus", {"spec": {"devices": {"requests": [request]}}})
        world.add_pod("p", spec=CLAIMING)
        (name,) = world.until(lambda s: s.nodes, "the node").nodes
        assert world.node(name)["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.xlarge"
        world.come_up(name)
        assert INITIALIZED not in world.node(name)["metadata"]["labels"]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0", "basic": {}}]
        make(
            world.kube,
            "ResourceSlice",
            "s",
            {"driver": DEVICE_CLASS, "nodeName": name, "pool": pool, "devices": devices},
        )
        world.until(lambda s: s.nodes[name].initialized, "the node is initialized")


@pytest.mark.parametrize("served", [True, False])
def test_a_pod_with_a_claim_that_is_not_mapped_waits_alone(world: World, served: bool) -> None:
    """It is told why, and the others get their nodes."""
    if served:
        for resource in device_resources("v1beta1"):
            serve(world.kube, resource)
        request = {"name": "gpu", "deviceClassName": DEVICE_CLASS}
        make(world.kube, "ResourceClaimTemplate", "gpus", {"spec": {"devices": {"requests": [request]}}})
    world.add_provisioner()
    with acting(world, devices=device_kinds(world.kube)):
        world.add_pod("claims", spec=CLAIMING)
        world.add_pod("plain")
        world.until(lambda s: s.nodes, "a node for the other")
        message = world.await_event("FailedScheduling")["message"]
    assert f"DeviceClass {DEVICE_CLASS}" in message if served else "is not known" in message
    assert world.kube.get(PODS, "claims", "default")["spec"]["resourceClaims"]
