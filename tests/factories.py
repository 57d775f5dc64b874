"""Builders of values and documents for tests: everything has a sensible default, every argument is a keyword.

`pod(...)`, `node(...)`, ... return the frozen values of `controller.core`; `pod_object(...)`, ... return the JSON
documents that the Kubernetes API would hold. Names count up where none is given.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import (
    LabelSelector,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodSpec,
    Resources,
    SelectorRequirement,
)
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.cloud import InstanceType, Offering
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.state.snapshot import Snapshot, StateNode

ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
REGION = "eu-west-1"
Quantity = str | int | float

_numbers = itertools.count(1)


def _name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers):04}"


def requirement(key: str, operator: str, *values: str) -> SelectorRequirement:
    """`requirement(keys.ZONE, "In", "a", "b")`."""
    return SelectorRequirement(key, operator, values)


def selector(**labels: str) -> LabelSelector:
    """A label selector of matchLabels: `selector(app="web")`."""
    return LabelSelector(tuple(SelectorRequirement(key, "In", (labels[key],)) for key in sorted(labels)))


def node_affinity(*expressions: SelectorRequirement) -> tuple[NodeSelectorTerm, ...]:
    """A required node affinity of one term, for `pod(required_node_affinity=...)`."""
    return (NodeSelectorTerm(expressions),)


def pod_requests(quantities: Mapping[str, Quantity] | None = None) -> Resources:
    """Requests as parsing gives them: quantities read, `pods: 1` added."""
    return FrozenMap({**resources(quantities or {}), "pods": 1})


def pod(
    *,
    name: str = "",
    namespace: str = "default",
    requests: Mapping[str, Quantity] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    pod_fields: Mapping[str, Any] | None = None,
    **spec_fields: Any,
) -> Pod:
    """A pod that asks for 1 cpu unless told otherwise.

    `spec_fields` are fields of PodSpec (`tolerations=`, `topology_spread=`, ...), `pod_fields` those of Pod.
    """
    chosen = name or _name("pod")
    spec = PodSpec(
        requests=pod_requests({"cpu": "1"} if requests is None else requests),
        node_selector=FrozenMap(node_selector or {}),
        **spec_fields,
    )
    return Pod(
        namespace=namespace,
        name=chosen,
        uid=f"uid-{namespace}-{chosen}",
        spec=spec,
        labels=FrozenMap(labels or {}),
        annotations=FrozenMap(annotations or {}),
        owners=(owner,) if owner else (),
        **(pod_fields or {}),
    )


def pending_pod(*, pod_fields: Mapping[str, Any] | None = None, **fields: Any) -> Pod:
    """A pod that kube-scheduler marked unschedulable."""
    return pod(pod_fields={"unschedulable": True, **(pod_fields or {})}, **fields)


def pending_pods(count: int, **fields: Any) -> tuple[Pod, ...]:
    """Replicas that differ in nothing but their names."""
    return tuple(pending_pod(**fields) for _ in range(count))


def running_pod(*, node: str, pod_fields: Mapping[str, Any] | None = None, **fields: Any) -> Pod:
    """A ready pod on a node."""
    bound = {"node_name": node, "phase": "Running", "ready": True, **(pod_fields or {})}
    return pod(pod_fields=bound, **fields)


def daemon_owner(*, name: str = "daemon") -> OwnerReference:
    """The owner that makes a pod a daemon."""
    return OwnerReference("apps/v1", "DaemonSet", name, f"uid-{name}")


def replica_set_owner(*, name: str = "web") -> OwnerReference:
    """The owner that makes a pod replaceable."""
    return OwnerReference("apps/v1", "ReplicaSet", name, f"uid-{name}")


def node(
    *,
    name: str = "",
    provisioner: str = "default",
    instance_type: str = "m5.large",
    zone: str = ZONES[0],
    capacity_type: str = keys.ON_DEMAND,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    allocatable: Mapping[str, Quantity] | None = None,
    capacity: Mapping[str, Quantity] | None = None,
    initialized: bool = True,
    **fields: Any,
) -> Node:
    """A ready, initialized node of the Provisioner `default`; `provisioner=""` makes it a stranger's."""
    chosen = name or _name("node")
    room = resources({"cpu": "2", "memory": "8Gi", "pods": 29} if allocatable is None else allocatable)
    own = {
        keys.HOSTNAME: chosen,
        keys.INSTANCE_TYPE: instance_type,
        keys.ZONE: zone,
        keys.CAPACITY_TYPE: capacity_type,
        keys.ARCH: "amd64",
        keys.OS: "linux",
    }
    if provisioner:
        own[keys.PROVISIONER_NAME] = provisioner
    if provisioner and initialized:
        own[keys.INITIALIZED] = "true"
    defaults = {
        "uid": f"uid-{chosen}",
        "provider_id": f"aws:///{zone}/i-{zlib.crc32(chosen.encode()):017x}",
        "finalizers": (keys.TERMINATION_FINALIZER,) if provisioner else (),
        "ready": True,
    }
    return Node(
        name=chosen,
        labels=FrozenMap({**own, **(labels or {})}),
        taints=tuple(taints),
        allocatable=room,
        capacity=room if capacity is None else resources(capacity),
        **{**defaults, **fields},
    )


def state_node(
    *, node: Node, pods: Iterable[Pod] = (), nominated_until: float = 0.0, marked_for_deletion: bool = False
) -> StateNode:
    """A node as the cluster state shows it, with these pods bound."""
    bound = tuple(sorted(pods, key=lambda each: each.key))
    return StateNode(
        node=node,
        pods=bound,
        capacity=node.capacity,
        allocatable=node.allocatable,
        taints=node.taints,
        nominated_until=nominated_until,
        marked_for_deletion=marked_for_deletion,
    )


def provisioner(
    *,
    name: str = "default",
    requirements: Iterable[SelectorRequirement] = (),
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    limits: Mapping[str, Quantity] | None = None,
    **fields: Any,
) -> Provisioner:
    """A Provisioner with exactly these requirements (no defaults are added), of the node template `default`."""
    return Provisioner(
        name=name,
        requirements=tuple(requirements),
        labels=FrozenMap(labels or {}),
        taints=tuple(taints),
        limits=None if limits is None else resources(limits),
        **{"uid": f"uid-{name}", "generation": 1, "provider_ref": "default", **fields},
    )


def node_template(*, name: str = "default", **fields: Any) -> AWSNodeTemplate:
    """A node template that discovers its subnets and groups by tag."""
    discovery = FrozenMap({"karpenter.sh/discovery": "test"})
    defaults = {"uid": f"uid-{name}", "generation": 1, "subnet_selector": discovery}
    return AWSNodeTemplate(name=name, **{**defaults, "security_group_selector": discovery, **fields})


def offerings(
    *, price: float, zones: Sequence[str] = ZONES, capacity_types: Sequence[str] = (keys.ON_DEMAND, keys.SPOT)
) -> tuple[Offering, ...]:
    """One offering per zone and capacity type; spot costs 40 % of on-demand."""
    return tuple(
        Offering(zone, capacity_type, round(price * 0.4, 6) if capacity_type == keys.SPOT else price)
        for zone in zones
        for capacity_type in capacity_types
    )


def instance_type(
    *,
    name: str = "m5.large",
    cpu: Quantity = "2",
    memory: Quantity = "8Gi",
    pods: int = 29,
    price: float = 0.1,
    arch: str = "amd64",
    zones: Sequence[str] = ZONES,
    capacity_types: Sequence[str] = (keys.ON_DEMAND, keys.SPOT),
    overhead: Mapping[str, Quantity] | None = None,
    extended: Mapping[str, Quantity] | None = None,
    labels: Mapping[str, str] | None = None,
    offered: tuple[Offering, ...] | None = None,
) -> InstanceType:
    """An instance type whose labels follow from its name, as EC2's do; well-known labels that it lacks are absent."""
    capacity = resources({"cpu": cpu, "memory": memory, "pods": pods, **(extended or {})})
    return InstanceType(
        name=name,
        requirements=_type_requirements(name, arch, capacity, labels or {}),
        capacity=capacity,
        overhead=resources(overhead or {}),
        offerings=offerings(price=price, zones=zones, capacity_types=capacity_types) if offered is None else offered,
    )


def _type_requirements(name: str, arch: str, capacity: Resources, labels: Mapping[str, str]) -> Requirements:
    family, _, size = name.partition(".")
    category = "".join(itertools.takewhile(str.isalpha, family))
    generation = "".join(itertools.takewhile(str.isdecimal, family[len(category) :]))
    own = {
        keys.INSTANCE_TYPE: name,
        keys.ARCH: arch,
        keys.OS: "linux",
        keys.REGION: REGION,
        keys.INSTANCE_FAMILY: family,
        keys.INSTANCE_SIZE: size,
        keys.INSTANCE_CATEGORY: category,
        keys.INSTANCE_GENERATION: generation or "1",
        keys.INSTANCE_CPU: str(capacity["cpu"] // 1000),
        keys.INSTANCE_MEMORY: str(capacity["memory"] // 2**20),
        keys.INSTANCE_PODS: str(capacity["pods"]),
        **labels,
    }
    absent = keys.WELL_KNOWN - own.keys() - {keys.ZONE, keys.CAPACITY_TYPE, keys.PROVISIONER_NAME}
    return Requirements(
        [
            *(_requirement(key, value) for key, value in own.items()),
            *(_requirement(key) for key in absent),
        ]
    )


@cache
def _requirement(key: str, *values: str) -> Requirement:
    """In these values, or absence: one object for each, as in the catalogs of the provider."""
    return Requirement.of(key, "In" if values else "DoesNotExist", values)


@cache
def small_catalog() -> tuple[InstanceType, ...]:
    """Twelve types of three shapes (c, m, r: 2, 4 and 8 GiB a cpu), large to 4xlarge, priced by size."""
    shapes = (("c5", 2, 0.085), ("m5", 4, 0.096), ("r5", 8, 0.126))
    sizes = (("large", 2, 29), ("xlarge", 4, 58), ("2xlarge", 8, 58), ("4xlarge", 16, 234))
    return tuple(
        instance_type(
            name=f"{family}.{size}", cpu=cpu, memory=f"{cpu * ratio}Gi", pods=pods, price=round(price * cpu / 2, 4)
        )
        for family, ratio, price in shapes
        for size, cpu, pods in sizes
    )


def snapshot(
    *,
    nodes: Iterable[StateNode] = (),
    pending: Iterable[Pod] = (),
    provisioners: Iterable[Provisioner] = (),
    node_templates: Iterable[AWSNodeTemplate] = (),
    **fields: Any,
) -> Snapshot:
    """A synced snapshot of these nodes (with their pods) and pending pods."""
    standing = {each.name: each for each in sorted(nodes, key=lambda each: each.name)}
    pods = sorted([*pending, *(p for n in standing.values() for p in n.pods)], key=lambda each: each.key)
    return Snapshot(
        **{
            "version": 1,
            "synced": True,
            "nodes": FrozenMap(standing),
            "pods": FrozenMap({each.key: each for each in pods}),
            "provisioners": FrozenMap({each.name: each for each in sorted(provisioners, key=lambda each: each.name)}),
            "node_templates": FrozenMap({each.name: each for each in node_templates}),
            **fields,
        }
    )


def problem(
    *,
    pending: Iterable[Pod] = (),
    nodes: Iterable[StateNode] = (),
    provisioners: Iterable[Provisioner] | None = None,
    catalog: Mapping[str, Iterable[InstanceType]] | Iterable[InstanceType] | None = None,
    skipped: Mapping[str, str] | None = None,
    **snapshot_fields: Any,
) -> SchedulingProblem:
    """A scheduling problem over one Provisioner `default` and `small_catalog()` unless told otherwise.

    A plain catalog is offered to every Provisioner. Leaving nodes stand in the snapshot alone.
    """
    wanted = (provisioner(),) if provisioners is None else tuple(provisioners)
    types = small_catalog() if catalog is None else catalog
    by_name = types if isinstance(types, Mapping) else dict.fromkeys((p.name for p in wanted), tuple(types))
    waiting, standing = tuple(pending), tuple(nodes)
    view = snapshot(nodes=standing, pending=waiting, provisioners=wanted, **snapshot_fields)
    return SchedulingProblem(
        pending=waiting,
        nodes=tuple(each for each in standing if not each.leaving),
        provisioners=wanted,
        catalog=FrozenMap({name: tuple(each) for name, each in by_name.items()}),
        snapshot=view,
        skipped=FrozenMap(skipped or {}),
    )


def metadata(*, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """metadata as the API server fills it."""
    made = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": "2026-01-02T03:04:05Z"}
    return {**made, **({"namespace": namespace} if namespace else {}), **fields}


def pod_object(
    *,
    name: str = "",
    namespace: str = "default",
    requests: Mapping[str, Quantity] | None = None,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """A Pod document: pending, marked unschedulable, one container of 1 cpu."""
    container = {"name": "main", "image": "pause", "resources": {"requests": dict(requests or {"cpu": "1"})}}
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name=name or _name("pod"), namespace=namespace, labels=dict(labels or {}), **meta),
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **(spec or {})},
        "status": {"phase": "Pending", "conditions": [waiting], **(status or {})},
    }


def node_object(
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """A Node document: ready, 2 cpu, 8Gi, 29 pods."""
    room = {"cpu": "2", "memory": "8Gi", "pods": "29"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name=name or _name("node"), labels=dict(labels or {}), **meta),
        "spec": {"providerID": "aws:///eu-west-1a/i-0123456789abcdef0", **(spec or {})},
        "status": {"capacity": room, "allocatable": dict(room), "conditions": [ready], **(status or {})},
    }


def provisioner_object(*, name: str = "default", spec: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A valid Provisioner document; `spec` is merged over `providerRef: default`."""
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": metadata(name=name, generation=1, **meta),
        "spec": {"providerRef": {"name": "default"}, **(spec or {})},
    }


def node_template_object(
    *, name: str = "default", spec: Mapping[str, Any] | None = None, **meta: Any
) -> dict[str, Any]:
    """A valid AWSNodeTemplate document; `spec` is merged over both discovery selectors."""
    discovery = {"karpenter.sh/discovery": "test"}
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": metadata(name=name, generation=1, **meta),
        "spec": {"subnetSelector": dict(discovery), "securityGroupSelector": dict(discovery), **(spec or {})},
    }
