"""Karpenter v0.27's fixtures: six fake instance types, its assorted catalog, its prices, and a cluster that lives on.

Types follow the core suites of Karpenter v0.27.5 (`pkg/cloudprovider/fake`): 4 cpu, 4Gi, 5 pods unless told otherwise;
kube-reserved 100m and 10Mi; spot in zones 1 and 2, on-demand in all three; $0.1 a cpu, $0.1 a GB and $1 a GPU resource.
Its fake types run several operating systems each. A type of ours carries what every node of it has, so where a case
needs another system it gets a type for it, as in Karpenter v0.27's own assorted catalog.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.parse import parse_daemon_set
from controller.core.api.pod import (
    LabelSelector,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PreferredTerm,
    SelectorRequirement,
    Toleration,
)
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.api.workloads import DaemonSet
from controller.core.audit.matching import selector_matches
from controller.core.cloud import InstanceType, Offering
from controller.core.provisioning import PlannedNode, SchedulingPlan, SolveOptions
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.scheduling.requirements import Requirement
from controller.core.state.effective import effective_taints
from controller.core.state.snapshot import StateNode
from tests.core.provisioning.plans import DEFAULTS, homes, solved
from tests.factories import Quantity, instance_type, problem, provisioner

ZONES = ("test-zone-1", "test-zone-2", "test-zone-3")
ZONE_1, ZONE_2, ZONE_3 = ZONES
GPU_A = "fake.com/vendor-a"
GPU_B = "fake.com/vendor-b"
DEFAULT, SMALL, ARM = "default-instance-type", "small-instance-type", "arm-instance-type"
VENDOR_A, VENDOR_B, SINGLE_POD = "gpu-vendor-instance-type", "gpu-vendor-b-instance-type", "single-pod-instance-type"
EVERYTHING = Toleration(operator="Exists")


def fake_price(cpu: Quantity, memory: Quantity, gpus: Iterable[str] = ()) -> float:
    """Karpenter v0.27's fake price in $/hour."""
    have = resources({"cpu": cpu, "memory": memory})
    return round(0.1 * have["cpu"] / 1000 + 0.1 * have["memory"] / 1e9 + len(tuple(gpus)), 6)


def fake_offerings(price: float) -> tuple[Offering, ...]:
    """Spot in zones 1 and 2, on-demand in all three, at one price."""
    return (
        *(Offering(zone, keys.SPOT, price) for zone in ZONES[:2]),
        *(Offering(zone, keys.ON_DEMAND, price) for zone in ZONES),
    )


def fake_type(
    name: str,
    *,
    cpu: Quantity = "4",
    memory: Quantity = "4Gi",
    pods: int = 5,
    arch: str = "amd64",
    os: str = "linux",
    gpus: Mapping[str, Quantity] | None = None,
    price: float | None = None,
    offered: tuple[Offering, ...] | None = None,
    labels: Mapping[str, str] | None = None,
) -> InstanceType:
    """One of Karpenter v0.27's fake types, with its labels `size`, `integer` and, on large ones, `special`."""
    have = resources({"cpu": cpu, "memory": memory})
    large = have["cpu"] > 4000 and have["memory"] > resources({"memory": "8Gi"})["memory"]
    own = {keys.OS: os, "size": "large" if large else "small", "integer": str(have["cpu"] // 1000)}
    cost = fake_price(cpu, memory, gpus or ()) if price is None else price
    return instance_type(
        name=name,
        cpu=cpu,
        memory=memory,
        pods=pods,
        arch=arch,
        extended=gpus,
        overhead={"cpu": "100m", "memory": "10Mi"},
        labels={**own, **({"special": "optional"} if large else {}), **(labels or {})},
        offered=fake_offerings(cost) if offered is None else offered,
    )


def six_types() -> tuple[InstanceType, ...]:
    """What Karpenter v0.27's fake cloud offers unless a case says otherwise."""
    return (
        fake_type(DEFAULT),
        fake_type(SMALL, cpu="2", memory="2Gi"),
        fake_type(VENDOR_A, gpus={GPU_A: 2}),
        fake_type(VENDOR_B, gpus={GPU_B: 2}),
        fake_type(ARM, cpu="16", memory="128Gi", arch="arm64"),
        fake_type(SINGLE_POD, pods=1),
    )


def numbered_types(count: int) -> tuple[InstanceType, ...]:
    """The i-th has i cpu, 2i Gi and 10i pods."""
    return tuple(
        fake_type(f"fake-it-{i}", cpu=i, memory=f"{2 * i}Gi", pods=10 * i, labels={"integer": str(i)})
        for i in range(1, count + 1)
    )


@cache
def assorted_types() -> tuple[InstanceType, ...]:
    """1,344 types of one offering each: 7 cpu x 8 memory sizes x 3 zones x 2 capacity types x 2 systems x 2 archs."""
    return tuple(
        fake_type(
            f"{cpu}-cpu-{memory}-mem-{arch}-{os}-{zone}-{capacity_type}",
            cpu=cpu,
            memory=f"{memory}Gi",
            pods=max(1, cpu * 10),
            arch=arch,
            os=os,
            offered=(Offering(zone, capacity_type, fake_price(cpu, f"{memory}Gi")),),
        )
        for cpu, memory in itertools.product((1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32, 64, 128))
        for zone, capacity_type in itertools.product(ZONES, (keys.SPOT, keys.ON_DEMAND))
        for os, arch in itertools.product(("linux", "windows"), ("amd64", "arm64"))
    )


def terms(*alternatives: Sequence[SelectorRequirement]) -> tuple[NodeSelectorTerm, ...]:
    """A required node affinity of these ORed terms."""
    return tuple(NodeSelectorTerm(tuple(each)) for each in alternatives)


def preferring(weight: int, *expressions: SelectorRequirement) -> PreferredTerm:
    """A preferred node affinity term."""
    return PreferredTerm(weight, NodeSelectorTerm(expressions))


def daemon_set(
    name: str = "agent",
    *,
    requests: Mapping[str, Quantity] | None = None,
    limits: Mapping[str, Quantity] | None = None,
    init: Mapping[str, Quantity] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> DaemonSet:
    """A DaemonSet read from its document, so that the rules of requests are the parser's own."""
    container = {"name": "main", "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})}}
    first = [{"name": "init", "resources": {"requests": dict(init)}}] if init else []
    document = {
        "metadata": {"namespace": "kube-system", "name": name, "uid": f"uid-{name}"},
        "spec": {"template": {"spec": {"containers": [container], "initContainers": first, **(spec or {})}}},
    }
    return parse_daemon_set(document)


def daemon_pod(owner: DaemonSet, node: str, template: Pod) -> Pod:
    """A running pod of a DaemonSet."""
    reference = OwnerReference("apps/v1", "DaemonSet", owner.name, owner.uid)
    return replace(
        template,
        namespace=owner.namespace,
        owners=(reference,),
        node_name=node,
        phase="Running",
        ready=True,
        unschedulable=False,
    )


@dataclass(frozen=True)
class Round:
    """One batch: the problem that was posed, and the plan that the auditor passed."""

    posed: SchedulingProblem
    plan: SchedulingPlan
    nodes: tuple[str, ...]
    """Names that the plan's new nodes got."""

    @property
    def new(self) -> tuple[PlannedNode, ...]:
        """Nodes that the plan launches."""
        return self.plan.new_nodes

    @property
    def only(self) -> PlannedNode:
        """The plan's one new node."""
        (planned,) = self.plan.new_nodes
        return planned

    @property
    def types(self) -> list[str]:
        """Instance types of the new nodes, sorted."""
        return sorted(planned.offering.instance_type for planned in self.plan.new_nodes)

    @property
    def left(self) -> set[str]:
        """Names of the pods left pending."""
        return {unplaced.pod[1] for unplaced in self.plan.unplaced}

    def placed(self, pod: Pod) -> bool:
        """Whether the pod found a place."""
        return pod.name not in self.left

    def home(self, pod: Pod, key: str = keys.ZONE) -> str:
        """The pod's domain."""
        return homes(self.plan, self.posed, key)[pod.key]

    def homes(self, key: str = keys.ZONE) -> list[str]:
        """Domains of all placed pods, sorted."""
        return sorted(homes(self.plan, self.posed, key).values())


@dataclass
class Cluster:
    """Nodes and their pods through several batches: every plan is audited, launched and, by default, bound.

    `objects` are further fields of the snapshot (claims, daemon_sets, ...). `tables`: compiled catalogs, which one
    cluster's batches share as the controller's do.
    """

    provisioners: Sequence[Provisioner] = field(default_factory=lambda: (provisioner(),))
    catalog: Mapping[str, Iterable[InstanceType]] | Iterable[InstanceType] = field(default_factory=six_types)
    nodes: dict[str, StateNode] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    tables: TableCache = field(default_factory=TableCache)
    options: SolveOptions = DEFAULTS
    _launched: int = 0

    def provision(self, *pods: Pod, bind: bool = True, initialized: bool = False) -> Round:
        """One batch of exactly these pods. `bind=False`: the nodes come up, kube-scheduler has not bound yet."""
        posed = problem(
            pending=pods,
            nodes=self.nodes.values(),
            provisioners=self.provisioners,
            catalog=self.catalog,
            **self.objects,
        )
        plan = solved(posed, self.options, self.tables)
        waiting = {pod.key: pod for pod in pods}
        for placement in plan.existing:
            if bind:
                self._bind(placement.node, [waiting[key] for key in placement.pods])
        names = []
        for planned in plan.new_nodes:
            name = self._launch(planned, posed, initialized=initialized)
            names.append(name)
            if bind:
                self._bind(name, [waiting[key] for key in planned.pods])
        return Round(posed, plan, tuple(names))

    def add(self, *nodes: StateNode) -> None:
        """Nodes that stand already."""
        self.nodes.update((node.name, node) for node in nodes)

    def change(self, name: str, **fields: Any) -> None:
        """Change fields of a StateNode."""
        self.nodes[name] = replace(self.nodes[name], **fields)

    def taint(self, name: str, *taints: Taint, initialized: bool) -> None:
        """Give a node taints; which of them scheduling respects is the cluster state's own rule."""
        standing = self.nodes[name]
        startup = next(p.startup_taints for p in self.provisioners if p.name == standing.provisioner_name)
        labels = dict(standing.node.labels) | ({keys.INITIALIZED: "true"} if initialized else {})
        node = replace(standing.node, taints=(*standing.node.taints, *taints), labels=FrozenMap(labels))
        self.change(name, node=node, taints=effective_taints(node, startup, initialized))

    def counts(self, key: str = keys.ZONE, of: LabelSelector | None = None) -> list[int]:
        """Running pods that match `of` (None: all) by domain, fewest first; nodes without the key count by nothing."""
        pods: Counter[str] = Counter()
        for standing in self.nodes.values():
            domain = standing.name if key == keys.HOSTNAME else standing.node.labels.get(key)
            if domain is not None:
                pods[domain] += sum(of is None or selector_matches(of, pod.labels) for pod in standing.pods)
        return sorted(count for count in pods.values() if count)

    def drop_pods(self, keep: Iterable[str] = ()) -> None:
        """Delete the pods of all nodes but those named."""
        kept = set(keep)
        for name in self.nodes:
            if name not in kept:
                self.change(name, pods=())

    def _bind(self, name: str, pods: Iterable[Pod]) -> None:
        running = [
            replace(pod, node_name=name, phase="Running", ready=True, unschedulable=False, namespace=pod.namespace)
            for pod in pods
        ]
        bound = sorted([*self.nodes[name].pods, *running], key=lambda pod: pod.key)
        self.change(name, pods=tuple(bound))

    def _launch(self, planned: PlannedNode, posed: SchedulingProblem, *, initialized: bool) -> str:
        self._launched += 1
        name = f"{planned.provisioner}-{self._launched:04}"
        types = posed.catalog[planned.provisioner]
        kind = next(each for each in types if each.name == planned.offering.instance_type)
        labels = {key: value for key, r in kind.requirements.items() if (value := _only(r)) is not None}
        labels |= dict(planned.labels)
        labels |= {
            keys.HOSTNAME: name,
            keys.ZONE: planned.offering.zone,
            keys.CAPACITY_TYPE: planned.offering.capacity_type,
            keys.PROVISIONER_NAME: planned.provisioner,
            **({keys.INITIALIZED: "true"} if initialized else {}),
        }
        node = Node(
            name=name,
            uid=f"uid-{name}",
            provider_id=f"fake:///{planned.offering.zone}/{name}",
            labels=FrozenMap(labels),
            taints=(*planned.taints, *planned.startup_taints),
            capacity=kind.capacity,
            allocatable=kind.allocatable,
            ready=initialized,
        )
        taints = effective_taints(node, planned.startup_taints, initialized)
        self.nodes[name] = StateNode(node, (), kind.capacity, kind.allocatable, taints)
        return name


def _only(requirement: Requirement) -> str | None:
    if requirement.complement or len(requirement.values) != 1:
        return None
    return next(iter(requirement.values))
