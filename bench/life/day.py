"""A day: Deployments, their budgets and a DaemonSet, how many replicas from which second on, and what may be launched.

The file has the members `region`, `zones`, `namespace`, `endsAtSecond`, `phases`, `objects` and `instanceTypes`
(allocatable in millicores and bytes, $ an hour by "zone/capacity type").
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import InstanceType, Offering
from controller.core.scheduling.requirements import Requirement, Requirements

Object = dict[str, Any]
DAY_FILE = "day.json"
PROVISIONER = "day"
FACTORS, DRIFT = (0.7, 1.3), (0.9, 1.1)
"""Of replicas in days that are varied: the least and the most of a Deployment's factor, and from phase to phase."""


@dataclass(frozen=True, slots=True)
class Phase:
    """From `at` on (seconds of the day), every Deployment has these replicas."""

    name: str
    at: float
    replicas: Mapping[str, int]

    @property
    def pods(self) -> int:
        """Of all Deployments."""
        return sum(self.replicas.values())


@dataclass(frozen=True, slots=True)
class Day:
    """What happens, and what may be launched."""

    name: str
    region: str
    namespace: str
    ends_at: float
    phases: tuple[Phase, ...]
    deployments: tuple[Object, ...]
    budgets: tuple[Object, ...]
    daemon_sets: tuple[Object, ...]
    types: tuple[InstanceType, ...]

    def ends(self) -> tuple[float, ...]:
        """When each phase ends, in seconds of the day."""
        return (*(phase.at for phase in self.phases[1:]), self.ends_at)


def read(path: Path) -> Day:
    """The day of a file, or of `day.json` in a folder. Raises OSError, KeyError and orjson.JSONDecodeError."""
    file = path / DAY_FILE if path.is_dir() else path
    document = orjson.loads(file.read_bytes())
    region, kinds = document["region"], document["objects"]
    return Day(
        name=file.stem,
        region=region,
        namespace=document["namespace"],
        ends_at=document["endsAtSecond"],
        phases=tuple(Phase(each["name"], each["atSecond"], each["replicas"]) for each in document["phases"]),
        deployments=_of("Deployment", kinds),
        budgets=_of("PodDisruptionBudget", kinds),
        daemon_sets=_of("DaemonSet", kinds),
        types=tuple(_instance_type(each, region) for each in document["instanceTypes"]),
    )


def shortened(day: Day, share: float, speed: float) -> Day:
    """The day with a share of its replicas, and so many times faster."""
    phases = tuple(
        replace(
            phase,
            at=phase.at / speed,
            replicas={name: math.ceil(share * count) for name, count in phase.replicas.items()},
        )
        for phase in day.phases
    )
    return replace(day, phases=phases, ends_at=day.ends_at / speed)


def varied(day: Day, seed: int) -> Day:
    """The day with other numbers of replicas, drawn from the seed: each Deployment's by a factor of its own, and a
    little from phase to phase. Where they stay the same from one phase to the next, they do so here."""
    chance = random.Random(seed)
    factors = {name: chance.uniform(*FACTORS) for name in day.phases[0].replicas}
    phases = list[Phase]()
    for number, phase in enumerate(day.phases):
        replicas = {name: round(n * factors[name] * chance.uniform(*DRIFT)) for name, n in phase.replicas.items()}
        if number:
            before = day.phases[number - 1].replicas
            replicas |= {name: phases[-1].replicas[name] for name, n in phase.replicas.items() if before[name] == n}
        phases.append(replace(phase, replicas=replicas))
    return replace(day, phases=tuple(phases))


def pool(annotations: Mapping[str, str] | None = None) -> Object:
    """Metadata and spec of the one Provisioner of all days: of all types, whose budgets are open."""
    wanted = {
        labels.CAPACITY_TYPE: [labels.SPOT, labels.ON_DEMAND],
        labels.ARCH: ["amd64", "arm64"],
        labels.INSTANCE_CATEGORY: ["c", "m", "r", "t"],
    }
    budgets = {"karpenter.sh/disruption-budgets": '[{"nodes": "100%"}]', **(annotations or {})}
    spec = {
        "providerRef": {"name": "default"},
        "consolidation": {"enabled": True},
        "requirements": [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()],
    }
    return {"metadata": {"name": PROVISIONER, "annotations": budgets}, "spec": spec}


def _of(kind: str, objects: list[Object]) -> tuple[Object, ...]:
    return tuple(each for each in objects if each["kind"] == kind)


def _instance_type(entry: Object, region: str) -> InstanceType:
    name, size = entry["name"], FrozenMap(entry["allocatable"])
    prices = [(*where.split("/"), price) for where, price in sorted(entry["prices"].items())]
    return InstanceType(
        name=name,
        requirements=type_requirements(name, entry["arch"], region, entry["vcpus"], size["memory"]),
        capacity=size,
        overhead=FrozenMap({}),
        offerings=tuple(Offering(zone, capacity_type, price) for zone, capacity_type, price in prices),
    )


def type_requirements(name: str, arch: str, region: str, vcpus: int, memory: int) -> Requirements:
    """The labels that every node of the type has; `memory` in bytes."""
    family, _, size = name.partition(".")
    category = "".join(itertools.takewhile(str.isalpha, family))
    generation = "".join(itertools.takewhile(str.isdecimal, family[len(category) :]))
    own = {
        labels.INSTANCE_TYPE: name,
        labels.ARCH: arch,
        labels.OS: "linux",
        labels.REGION: region,
        labels.INSTANCE_FAMILY: family,
        labels.INSTANCE_SIZE: size,
        labels.INSTANCE_CATEGORY: category,
        labels.INSTANCE_GENERATION: generation or "1",
        labels.INSTANCE_CPU: str(vcpus),
        labels.INSTANCE_MEMORY: str(memory // 2**20),
    }
    return Requirements(Requirement.of(key, "In", (value,)) for key, value in own.items())
