"""Hypothesis strategies for clusters: few instance types, varied Provisioners, nodes, DaemonSets and deployments.

`clusters(...)` draws a whole problem. `rules` names which sorts of constraint its pods may carry, so that a property
can be stated where it holds: "labels", "ports", "spread", "affinity", "wishes", "volumes", "limits", and "own": rules
tie pods to others of their own deployment alone.

Strategies are made once (constants, and functions that keep what they made): hypothesis looks into every new one before
it draws, which takes longer than the drawing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import (
    HostPort,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodVolume,
    PreferredTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from controller.core.api.provisioner import Provisioner
from controller.core.api.workloads import DaemonSet, PersistentVolume, PersistentVolumeClaim
from controller.core.cloud import InstanceType
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.state.snapshot import StateNode
from tests.factories import (
    ZONES,
    instance_type,
    node,
    pod,
    pod_requests,
    problem,
    provisioner,
    requirement,
    selector,
    state_node,
)

EVERY_RULE = frozenset({"labels", "ports", "spread", "affinity", "wishes", "volumes", "limits"})
GPU = "nvidia.com/gpu"
TYPES: tuple[InstanceType, ...] = (
    instance_type(name="t3.small", cpu=1, memory="2Gi", price=0.03, pods=4),
    instance_type(name="c5.large", cpu=2, memory="4Gi", price=0.085, pods=8, zones=ZONES[:2]),
    instance_type(name="m5.xlarge", cpu=4, memory="16Gi", price=0.19, pods=20, capacity_types=(keys.ON_DEMAND,)),
    instance_type(name="m6g.xlarge", cpu=4, memory="16Gi", price=0.15, pods=20, arch="arm64", zones=ZONES[1:]),
    instance_type(name="g4.xlarge", cpu=4, memory="16Gi", price=0.5, pods=20, extended={GPU: 1}, zones=ZONES[:1]),
)
APPS = ("a", "b", "c")
NAMESPACES = ("default", "other")
SHAPES: tuple[dict[str, str | int | float], ...] = (
    {"cpu": "100m"},
    {"cpu": "900m", "memory": "1Gi"},
    {"cpu": "1900m"},
    {"cpu": "500m", "memory": "7Gi"},
    {"cpu": "3", "memory": "3Gi"},
    {"cpu": "100m", GPU: 1},
    {"cpu": "9"},
)
TAINTS = (Taint("dedicated", "x"), Taint("gpu", "", "NoExecute"), Taint("soft", "", "PreferNoSchedule"))
TOLERATIONS = st.sampled_from([(), (), (Toleration(operator="Exists"),), (Toleration("dedicated", "Equal", "x"),)])
OF_NODES = [
    requirement(keys.ZONE, "In", ZONES[0]),
    requirement(keys.ZONE, "NotIn", ZONES[0]),
    requirement(keys.ZONE, "In", *ZONES[1:]),
    requirement(keys.ARCH, "In", "amd64"),
    requirement(keys.CAPACITY_TYPE, "In", keys.SPOT),
    requirement(keys.INSTANCE_CPU, "Gt", "1"),
    requirement(keys.INSTANCE_CPU, "Lt", "3"),
]
OF_PODS = [
    *OF_NODES,
    requirement("team", "In", "red"),
    requirement("team", "NotIn", "red"),
    requirement("team", "Exists"),
    requirement("team", "DoesNotExist"),
    requirement("undefined", "NotIn", "x"),
]
TEAMS = requirement("team", "In", "red", "blue")
TERMS = st.lists(st.sampled_from(OF_PODS), max_size=2).map(lambda expressions: NodeSelectorTerm(tuple(expressions)))
TOPOLOGY = st.sampled_from([keys.ZONE, keys.ZONE, keys.HOSTNAME, keys.CAPACITY_TYPE, "team"])
APP = st.sampled_from(APPS)
NAMESPACE = st.sampled_from(NAMESPACES)
SHAPE = st.sampled_from(SHAPES)
ALTERNATIVES = st.none() | st.lists(TERMS, min_size=1, max_size=2).map(tuple)
PORTS = st.sampled_from([(), (), (), (HostPort(80),)])
CLAIM = st.sampled_from(("", "", *ZONES))
COUNT = st.integers(0, 2)
SEVERAL = st.integers(1, 3)
UP_TO_THREE = st.integers(0, 3)
YES_OR_NO = st.booleans()
POOL: dict[str, st.SearchStrategy[Any]] = {
    "weight": st.sampled_from([0, 0, 10]),
    "labels": st.sampled_from([{}, {"team": "red"}, {"rack": "r1"}]),
    "taints": st.sampled_from([(), (), TAINTS[:1], TAINTS[1:], TAINTS]),
    "startup_taints": st.sampled_from([(), (Taint("starting"),)]),
    "requirements": st.lists(st.sampled_from([*OF_NODES, TEAMS]), max_size=2, unique=True),
}
LIMITS = st.sampled_from([None, {"cpu": "0"}, {"cpu": "4"}, {"cpu": "9"}])
NODE: dict[str, st.SearchStrategy[Any]] = {
    "provisioner": st.sampled_from(["pool-0", "pool-0", ""]),
    "zone": st.sampled_from(ZONES),
    "capacity_type": st.sampled_from([keys.SPOT, keys.ON_DEMAND]),
    "labels": st.sampled_from([{}, {"team": "red"}]),
    "taints": st.sampled_from([(), (), TAINTS[:1]]),
    "deleted_at": st.sampled_from([None, None, None, 5.0]),
}
DAEMON_SHAPE = st.sampled_from([{"cpu": "50m"}, {"cpu": "300m", "memory": "1Gi"}])
SOME_NODES: list[dict[str, str]] = [{}, {keys.ARCH: "arm64"}]
DAEMON_NODES = {
    False: st.sampled_from(SOME_NODES),
    True: st.sampled_from([*SOME_NODES, {keys.ZONE: ZONES[0]}]),
}
"""By whether there are DaemonSets for one zone."""


@cache
def affinity_terms(apps: tuple[str, ...]) -> st.SearchStrategy[PodAffinityTerm]:
    """Terms that select one of these apps, sometimes in the other namespace."""
    spaces = st.sampled_from([(), (), ("other",), NAMESPACES])
    return st.builds(
        lambda key, app, where: PodAffinityTerm(key, selector(app=app), where), TOPOLOGY, st.sampled_from(apps), spaces
    )


@cache
def spreads(app: str, *, soft: bool, own: bool) -> st.SearchStrategy[TopologySpreadConstraint]:
    """Spread constraints of pods of an app, over its own pods or over all of them."""
    return st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 2),
        topology_key=TOPOLOGY,
        when_unsatisfiable=st.just("ScheduleAnyway" if soft else "DoNotSchedule"),
        label_selector=st.sampled_from(
            [selector(app=app), selector(app=app), selector(**({"app": app} if own else {}))]
        ),
        min_domains=st.none() if soft else st.sampled_from([None, None, 2, 4]),
        node_taints_policy=st.sampled_from(["Ignore", "Ignore", "Honor"]),
        node_affinity_policy=st.sampled_from(["Honor", "Honor", "Ignore"]),
    )


@cache
def few(strategy: st.SearchStrategy[Any], most: int = 1) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of at most `most` elements."""
    return st.lists(strategy, max_size=most).map(tuple)


@cache
def affinities(apps: tuple[str, ...]) -> tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]:
    """Few required terms, and few preferred ones."""
    towards = affinity_terms(apps)
    return few(towards), few(st.builds(WeightedPodAffinityTerm, st.integers(1, 100), towards))


WISHED_NODES = few(st.builds(PreferredTerm, st.integers(1, 100), TERMS))


@cache
@st.composite
def templates(draw: st.DrawFn, rules: frozenset[str], app: str = "") -> Pod:
    """The pod that a deployment makes, without a name."""
    app = app or draw(APP)
    required, wished = affinities((app,) if "own" in rules else APPS)
    fields: dict[str, Any] = {"tolerations": draw(TOLERATIONS)}
    if "labels" in rules:
        fields["required_node_affinity"] = draw(ALTERNATIVES)
    if "ports" in rules:
        fields["host_ports"] = draw(PORTS)
    if "spread" in rules:
        fields["topology_spread"] = draw(few(spreads(app, soft=False, own="own" in rules), 2))
    if "affinity" in rules:
        fields["required_pod_affinity"] = draw(required)
        fields["required_pod_anti_affinity"] = draw(required)
    if "wishes" in rules:
        fields["preferred_pod_affinity"] = draw(wished)
        fields["preferred_pod_anti_affinity"] = draw(wished)
        fields["preferred_node_affinity"] = draw(WISHED_NODES)
        fields["topology_spread"] = (*fields.get("topology_spread", ()), *draw(few(spreads(app, soft=True, own=False))))
    return pod(
        name="template",
        namespace=draw(NAMESPACE),
        labels={"app": app},
        requests=draw(SHAPE),
        **fields,
    )


def replica(template: Pod, name: str, **fields: Any) -> Pod:
    """One pod of a deployment."""
    return replace(template, name=name, uid=f"uid-{name}", **fields)


@cache
@st.composite
def deployments(draw: st.DrawFn, rules: frozenset[str], most: int) -> list[Pod]:
    """Pending replicas of one to three deployments, some with a volume claim."""
    pods: list[Pod] = []
    replicas = st.integers(1, most)
    for number in range(draw(SEVERAL)):
        template = draw(templates(rules, APPS[number] if "own" in rules else ""))
        for each in range(draw(replicas)):
            claim = draw(CLAIM) if "volumes" in rules else ""
            volumes = (PodVolume("data", f"claim-{claim}"),) if claim else ()
            pods.append(replica(template, f"d{number}-{each}", unschedulable=True, volumes=volumes))
    return pods


@cache
@st.composite
def pools(draw: st.DrawFn, rules: frozenset[str]) -> tuple[Provisioner, ...]:
    """One to three Provisioners with taints, labels, requirements, weights and, with the rule "limits", limits."""
    return tuple(
        provisioner(
            name=f"pool-{number}",
            **{field: draw(value) for field, value in POOL.items()},
            limits=draw(LIMITS) if "limits" in rules else None,
        )
        for number in range(draw(SEVERAL))
    )


@st.composite
def existing_nodes(draw: st.DrawFn, rules: frozenset[str], daemons: list[DaemonSet]) -> tuple[StateNode, ...]:
    """Up to three nodes, of a Provisioner or not, with pods; some being deleted, some with DaemonSet pods."""
    made = []
    for number in range(draw(UP_TO_THREE)):
        name = f"node-{number}"
        running = [
            replica(draw(templates(rules)), f"{name}-{each}", node_name=name, phase="Running")
            for each in range(draw(COUNT))
        ]
        small = FrozenMap(pod_requests({"cpu": "100m"}))
        running = [replace(each, spec=replace(each.spec, requests=small, host_ports=())) for each in running]
        for daemon in daemons if draw(YES_OR_NO) else ():
            running.append(replica(daemon.template, f"{daemon.name}-{number}", node_name=name, phase="Running"))
        each = node(name=name, **{field: draw(value) for field, value in NODE.items()})
        made.append(state_node(node=each, pods=running))
    return tuple(made)


@cache
@st.composite
def daemon_sets(draw: st.DrawFn, *, zonal: bool) -> list[DaemonSet]:
    """Up to two DaemonSets, for all nodes or for some; `zonal`: also for those of one zone."""
    made = []
    for number in range(draw(COUNT)):
        owner = OwnerReference("apps/v1", "DaemonSet", f"ds-{number}", f"uid-ds-{number}")
        template = pod(
            name="daemon",
            namespace="kube-system",
            requests=draw(DAEMON_SHAPE),
            node_selector=draw(DAEMON_NODES[zonal]),
            tolerations=draw(TOLERATIONS),
        )
        made.append(DaemonSet("kube-system", f"ds-{number}", owner.uid, replace(template, owners=(owner,))))
    return made


@cache
def storage() -> dict[str, Any]:
    """A claim per zone, bound to a volume there."""
    claims = {
        (space, f"claim-{zone}"): PersistentVolumeClaim(space, f"claim-{zone}", volume_name=f"pv-{zone}")
        for space in NAMESPACES
        for zone in ZONES
    }
    volumes = {
        f"pv-{zone}": PersistentVolume(
            f"pv-{zone}", node_affinity=(NodeSelectorTerm((requirement(keys.ZONE, "In", zone),)),), driver="ebs"
        )
        for zone in ZONES
    }
    return {"claims": claims, "volumes": volumes}


@st.composite
def clusters(
    draw: st.DrawFn, *, rules: Collection[str] = EVERY_RULE, replicas: int = 4, zonal_daemons: bool = True
) -> SchedulingProblem:
    """A whole problem; at most three deployments of `replicas` pods."""
    rules = frozenset(rules)
    daemons = draw(daemon_sets(zonal=zonal_daemons))
    return problem(
        pending=draw(deployments(rules, replicas)),
        nodes=draw(existing_nodes(rules, daemons)),
        provisioners=draw(pools(rules)),
        catalog=TYPES,
        daemon_sets={(each.namespace, each.name): each for each in daemons},
        **storage(),
    )
