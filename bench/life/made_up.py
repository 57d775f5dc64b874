"""Days made up from a seed: other Deployments, other requests and rules, other prices, other phases."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

from bench.field import shipped
from bench.life.day import Day, Object, Phase, type_requirements
from controller.aws.catalog.offline_catalog import OfflineTypes
from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.settings import Settings

REGION = "us-east-1"
ZONES = frozenset(f"{REGION}{letter}" for letter in "abc")
FAMILIES = ("c5", "c6g", "c6i", "c7g", "m5", "m6g", "m6i", "m7g", "r5", "r6g", "r6i", "r7g", "t3", "t4g")
SIZES = ("medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge")
NAMESPACE = "day"
CPU = (50, 100, 230, 370, 530, 740, 990, 1130, 1550, 2130, 3240, 3770, 6530)
MEMORY_OF_CPU = (0.9, 1.5, 2.0, 3.5, 7.0, 15.0)
"""GiB for each CPU."""
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def made_up(seed: int, pods: int = 600) -> Day:
    """The day of a seed: about so many pods in its first phase, up to twice as many later."""
    chance = random.Random(seed)
    names = [f"app-{number:02}" for number in range(chance.randint(8, 16))]
    deployments = [_deployment(name, chance) for name in names]
    phases = _phases(names, pods, chance)
    return Day(
        name=f"seed {seed}",
        region=REGION,
        namespace=NAMESPACE,
        ends_at=phases[-1].at + 120.0,
        phases=tuple(phases),
        deployments=tuple(deployments),
        budgets=tuple(_budget(name, chance) for name in names if chance.random() < 0.4),
        daemon_sets=(_daemon(),),
        types=_types(chance.randrange(4)),
    )


def _phases(names: list[str], pods: int, chance: random.Random) -> list[Phase]:
    """Start, growth, a half goes, others grow, most goes, nothing: in another measure each time."""
    weights = {name: chance.choice((1, 2, 4, 8, 16)) for name in names}
    first = set(chance.sample(names, max(2, round(0.8 * len(names)))))
    total = sum(weights[name] for name in first)
    start = {name: pods * weights[name] // total if name in first else 0 for name in names}
    burst = {name: round(count * chance.uniform(1.0, 2.4)) for name, count in start.items()}
    kept = chance.uniform(0.35, 0.7)
    half = {name: round(count * kept) for name, count in burst.items()}
    others = {
        name: count + (pods * weights[name] // (2 * total) if name not in first else 0) for name, count in half.items()
    }
    few = chance.uniform(0.15, 0.35)
    down = {name: round(count * few) for name, count in others.items()}
    stages = (("start", start), ("burst", burst), ("part goes", half), ("others grow", others), ("most goes", down))
    phases, at = [], 0.0
    for name, replicas in (*stages, ("to nothing", dict.fromkeys(names, 0))):
        phases.append(Phase(name, at, replicas))
        at += chance.choice((120.0, 150.0, 180.0, 210.0))
    return phases


def _deployment(name: str, chance: random.Random) -> Object:
    cpu = chance.choice(CPU)
    memory = max(64, round(cpu / 1000 * chance.choice(MEMORY_OF_CPU) * 1024))
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    spec: Object = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9", "resources": {"requests": requests}}],
    }
    mine = {"matchLabels": {"app": name}}
    rule = chance.random()
    if rule < 0.25:
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
        ]
    elif rule < 0.32:
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 4, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
        ]
    elif rule < 0.55:
        key, values = chance.choice(((labels.CAPACITY_TYPE, ("spot", "on-demand")), (labels.ARCH, ("arm64", "amd64"))))
        spec["nodeSelector"] = {key: chance.choice(values)}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    metadata = {"name": name, "namespace": NAMESPACE}
    inside = {"replicas": 0, "selector": mine, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": inside}


def _budget(name: str, chance: random.Random) -> Object:
    spec = {"maxUnavailable": chance.choice((1, "10%", "25%", "30%")), "selector": {"matchLabels": {"app": name}}}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _daemon() -> Object:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9", "resources": {"requests": requests}}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    inside = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    metadata = {"name": "agent", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": inside}


@lru_cache
def _types(market: int) -> tuple[InstanceType, ...]:
    """EC2's types at its list prices, and at spot prices made up for the market of this number."""
    chance, catalog = random.Random(market), shipped()
    spot = {
        name: {zone: round(price * chance.uniform(0.15, 0.7), 4) for zone in sorted(ZONES)}
        for name, price in sorted(catalog.on_demand.items())
    }
    offline = OfflineTypes(replace(catalog, spot=spot), Settings(cluster_name="day"), ZONES)
    found = offline.instance_types(Provisioner(name="any"), AWSNodeTemplate(name="default"))
    return tuple(_plain(kind) for kind in found if _sold(kind.name))


def _sold(name: str) -> bool:
    family, _, size = name.partition(".")
    return family in FAMILIES and size in SIZES


def _plain(kind: InstanceType) -> InstanceType:
    """The type with the labels alone that a day's file tells, and with room instead of capacity and overhead."""
    cpus, memory = kind.capacity["cpu"] // 1000, kind.capacity["memory"]
    arch = next(iter(kind.requirements[labels.ARCH].values))
    room = FrozenMap({name: kind.allocatable[name] for name in ("cpu", "memory", "pods", "ephemeral-storage")})
    own = type_requirements(kind.name, arch, REGION, cpus, memory)
    return replace(kind, requirements=own, capacity=room, overhead=FrozenMap({}))
