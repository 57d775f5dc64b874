"""Claims of devices (DRA): the controller launches nodes that have them, and kube-scheduler allocates them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.cluster import Cluster, labels
from e2e.scenario import Scenario
from e2e.workloads import deployment
from sandbox.environment import NAMESPACE
from sandbox.world.resources import Obj, Resource

SETTINGS = "karpenter-global-settings"
LEADER_SECONDS = 60.0
GROUP, DRIVER = "resource.k8s.io/v1", "gpu.nvidia.com"
SLICES = Resource(GROUP, "resourceslices", "ResourceSlice", namespaced=False)
CLAIMS = Resource(GROUP, "resourceclaims", "ResourceClaim", namespaced=True)


def test_pods_with_claims_get_nodes_with_the_devices(world: Scenario) -> None:
    """Each node's driver, here kubectl, publishes its devices once the node is there; a claim of each pod takes one."""
    cluster = world.cluster
    if cluster.http.get(SLICES.path()).code == 404:
        pytest.skip(f"the API server does not serve {GROUP}")
    manufacturer = {"key": "karpenter.k8s.aws/instance-gpu-manufacturer", "operator": "In", "values": ["nvidia"]}
    with _device_classes(cluster, json.dumps({DRIVER: "nvidia.com/gpu"})):
        world.provisioner(
            requirements=[manufacturer, {"key": "karpenter.k8s.aws/instance-category", "operator": "Exists"}]
        )
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        cluster.apply(
            {
                "apiVersion": GROUP,
                "kind": "DeviceClass",
                "metadata": {"name": DRIVER},
                "spec": {"selectors": [selector]},
            }
        )
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        template = {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": "gpus"}, "spec": spec}
        claiming = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}
        world.deploy(template, deployment("web", 2, **claiming))
        cluster.until(lambda: sum(map(_gpus, _nodes(world))) >= 2, "there are nodes with two GPUs")
        cluster.apply(*map(_slice, _nodes(world)))
        world.running("web", 2)
        allocated = [claim["status"]["allocation"] for claim in cluster.all(CLAIMS, world.namespace)]
        assert len(allocated) == 2
        cluster.until(lambda: all(map(_initialized, _nodes(world))), "every node is initialized")
        world.scale("deployment/web", 0)
        cluster.until(lambda: not cluster.all(CLAIMS, world.namespace), "the claims are gone with their pods")


@contextmanager
def _device_classes(cluster: Cluster, value: str) -> Iterator[None]:
    """Run the controller with this value of the setting, which it reads at its start."""
    _restart(cluster, value)
    try:
        yield
    finally:
        cluster.kubectl("delete", "resourceslices", "--all")
        _restart(cluster, "{}")


def _restart(cluster: Cluster, value: str) -> None:
    patch = json.dumps({"data": {"deviceClasses": value}})
    cluster.kubectl("patch", "configmap", SETTINGS, "--namespace", NAMESPACE, "--type=merge", "--patch", patch)
    logged = cluster.replicas.mark()
    cluster.replicas.roll_out(None)
    cluster.until(
        lambda: any(line["message"] == "Acts" for line in cluster.replicas.lines(logged)), "it leads", LEADER_SECONDS
    )


def _nodes(world: Scenario) -> list[Obj]:
    return world.cluster.nodes(world.namespace)


def _gpus(node: Obj) -> int:
    return int(labels(node).get("karpenter.k8s.aws/instance-gpu-count", "0"))


def _initialized(node: Obj) -> bool:
    return labels(node).get("karpenter.sh/initialized") == "true"


def _slice(node: Obj) -> Obj:
    name = str(node["metadata"]["name"])
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(_gpus(node))],
    }
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": name.partition(".")[0]}, "spec": spec}
