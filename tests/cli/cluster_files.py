"""A small cluster for the commands that look at one: nodes of ours and of others, pods that run and that wait."""

from __future__ import annotations

from typing import Any

from controller.kube.client import KubeClient
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    ENDPOINT_SLICES,
    NODES,
    PODS,
    PROVISIONERS,
    SERVICES,
    Resource,
)
from tests.cli.conftest import TEMPLATE, container, provisioner

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
REGION = "us-east-1"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
WAITING = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
OURS, GROUP, FARGATE = "ours-1", "group-1", "fargate-1"
SECRET = "s3cr3t"
M5 = ("karpenter.k8s.aws/instance-family", "In", ["m5"])
ON_DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])


def labels(instance_type: str, **more: str) -> dict[str, str]:
    """The well-known labels of a node."""
    return {
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": f"{REGION}a",
        "topology.kubernetes.io/region": REGION,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **more,
    }


def fill(kube: KubeClient, crds: list[dict[str, Any]]) -> None:
    """Make all of it."""
    for crd in crds:
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    kube.create(AWS_NODE_TEMPLATES, TEMPLATE)
    consolidated = provisioner(
        "default", M5, ON_DEMAND, consolidation={"enabled": True}, limits={"resources": {"cpu": "100"}}
    )
    kube.create(PROVISIONERS, consolidated)
    kube.create(PROVISIONERS, provisioner("lonely", ("karpenter.k8s.aws/instance-family", "In", ["m99"]), weight=50))
    settings = {"aws.clusterName": "shop-prod", "aws.tags": f'{{"team": "{SECRET}"}}'}
    kube.create(CONFIG_MAPS, {"metadata": {"name": "karpenter-global-settings"}, "data": settings}, "default")
    ours = labels("m5.2xlarge", **{
        "karpenter.sh/provisioner-name": "default", "karpenter.sh/initialized": "true",
        "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/hostname": OURS,
    })  # fmt: skip
    _node(kube, OURS, ours, {"cpu": "8", "memory": "32Gi", "pods": "58"})
    group = labels("m5.large", **{"eks.amazonaws.com/nodegroup": "system", "eks.amazonaws.com/capacityType": "SPOT"})
    _node(kube, GROUP, group, {"cpu": "2", "memory": "8Gi", "pods": "29"})
    fargate = labels("", **{"eks.amazonaws.com/compute-type": "fargate"})
    del fargate["node.kubernetes.io/instance-type"]
    _node(kube, FARGATE, fargate, {"cpu": "2", "memory": "4Gi", "pods": "1"})
    kube.create(DAEMON_SETS, _daemon(), "kube-system")
    for number in range(2):
        _pod(kube, f"web-{number}", OURS, cpu="500m")
    _pod(kube, "coredns", GROUP, cpu="100m", namespace="kube-system")
    _pod(kube, "waiting", cpu="7500m")
    _pod(kube, "stuck", nodeSelector={"topology.kubernetes.io/zone": "us-east-9z"})
    _pod(kube, "gated", schedulingGates=[{"name": "example.com/hold"}], status={})
    _hinted(kube)


def _hinted(kube: KubeClient) -> None:
    """A Service that asks for topology hints: four endpoints, three of them Ready, one with a hint."""
    annotations = {"service.kubernetes.io/topology-mode": "Auto"}
    spec = {"selector": {"app": "hinted"}, "ports": [{"port": 80}]}
    kube.create(SERVICES, {"metadata": {"name": "hinted", "annotations": annotations}, "spec": spec}, "default")
    endpoints: list[dict[str, Any]] = [
        {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": number < 3}, "zone": f"{REGION}a"}
        for number in range(4)
    ]
    endpoints[0]["hints"] = {"forZones": [{"name": f"{REGION}b"}]}
    metadata = {"name": "hinted-1", "labels": {"kubernetes.io/service-name": "hinted"}}
    document = {"metadata": metadata, "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": endpoints}
    kube.create(ENDPOINT_SLICES, document, "default")


def _daemon() -> dict[str, Any]:
    spec = {"containers": [container("50m", "64Mi")], "tolerations": [{"operator": "Exists"}]}
    selector = {"matchLabels": {"app": "agent"}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    return {"metadata": {"name": "agent"}, "spec": {"selector": selector, "template": template}}


def _node(kube: KubeClient, name: str, of: dict[str, str], room: dict[str, str]) -> None:
    kube.create(NODES, {"metadata": {"name": name, "labels": of}})
    status = {"capacity": room, "allocatable": room, "conditions": [READY]}
    kube.patch(NODES, name, {"status": status}, subresource="status")
    kube.patch(NODES, name, {"spec": {"taints": None}})


def _pod(
    kube: KubeClient, name: str, node: str = "", *, cpu: str = "1", namespace: str = "default",
    status: dict[str, Any] | None = None, **spec: Any,
) -> None:  # fmt: skip
    selector = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container()]}}
    owner = {"metadata": {"name": f"{name}-rs"}, "spec": {"replicas": 0, "selector": selector, "template": template}}
    uid = kube.create(REPLICA_SETS, owner, namespace)["metadata"]["uid"]
    secret = {"env": [{"name": "PASSWORD", "value": SECRET}], "image": f"registry.example.com/{SECRET}:1"}
    pod = {
        "metadata": {
            "name": name,
            "labels": {"app": name.partition("-")[0]},
            "annotations": {"example.com/note": SECRET},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-rs", "uid": uid}],
        },
        "spec": {"containers": [{**container(cpu), **secret}], **({"nodeName": node} if node else {}), **spec},
    }
    kube.create(PODS, pod, namespace)
    status = status if status is not None else {"phase": "Running"} if node else {"conditions": [WAITING]}
    if status:
        kube.patch(PODS, name, {"status": status}, namespace=namespace, subresource="status")
