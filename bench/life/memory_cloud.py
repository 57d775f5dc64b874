"""EC2 in memory: it launches the first offering that it is asked for, and keeps account of what machines cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import (
    CloudIdentity,
    CloudInstance,
    EmptyQueue,
    InstanceType,
    InterruptionQueue,
    LaunchRequest,
    TemplateStatus,
)
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.errors import InstanceNotFoundError
from controller.runtime.clock import Clock


@dataclass(slots=True)
class Machine:
    """An instance's times (Unix seconds), its $ an hour, and its allocatable CPU in millicores."""

    node_name: str
    type: str
    price: float
    launched_at: float
    ended_at: float | None = None
    zone: str = ""
    cpu: int = 0

    def dollars(self, since: float, until: float) -> float:
        """What it costs between two times."""
        end = until if self.ended_at is None else min(until, self.ended_at)
        return self.price * max(0.0, end - max(since, self.launched_at)) / 3600.0


class MemoryCloud:
    """Implements CloudProvider. `launched` is called with each new instance and its type."""

    def __init__(self, types: Sequence[InstanceType], region: str, clock: Clock) -> None:
        self.types, self.clock = tuple(types), clock
        self.region = region
        self.instances: dict[str, CloudInstance] = {}
        self.machines: dict[str, Machine] = {}
        """By provider id, in the order of their launches."""
        self.launched: Callable[[CloudInstance, InstanceType], None] = lambda _instance, _type: None
        self._numbers = itertools.count(1)

    def running(self) -> list[Machine]:
        """Machines whose end nobody has asked for."""
        return [machine for machine in self.machines.values() if machine.ended_at is None]

    def identity(self) -> CloudIdentity:
        return CloudIdentity(self.region, f"arn:aws:eks:{self.region}:123456789012:cluster/day")

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        return self.types

    def create(self, request: LaunchRequest) -> CloudInstance:
        for known in self.instances.values():
            if known.tags.get(LAUNCH_TOKEN) == request.token and known.state == "running":
                return known
        chosen, number = request.offerings[0], next(self._numbers)
        kind = request.instance_types[chosen.instance_type]
        own = {key: next(iter(asked.values)) for key, asked in kind.requirements.items()}
        where = {
            labels.ZONE: chosen.zone,
            labels.CAPACITY_TYPE: chosen.capacity_type,
            labels.PROVISIONER_NAME: request.provisioner.name,
        }
        instance = CloudInstance(
            id=f"i-{number:017x}",
            provider_id=f"aws:///{chosen.zone}/i-{number:017x}",
            node_name=f"ip-10-0-{number // 256}-{number % 256}.{self.region}.compute.internal",
            instance_type=chosen.instance_type,
            zone=chosen.zone,
            capacity_type=chosen.capacity_type,
            image_id="ami-1",
            state="running",
            launched_at=self.clock.now(),
            provisioner_name=request.provisioner.name,
            tags=FrozenMap({LAUNCH_TOKEN: request.token}),
            labels=FrozenMap({**own, **request.labels, **where}),
        )
        self.instances[instance.provider_id] = instance
        name = f"{chosen.instance_type}/{chosen.capacity_type}"
        self.machines[instance.provider_id] = Machine(
            instance.node_name,
            name,
            chosen.price,
            self.clock.now(),
            zone=chosen.zone,
            cpu=kind.allocatable["cpu"],
        )
        self.launched(instance, kind)
        return instance

    def get(self, provider_id: str) -> CloudInstance:
        found = self.instances.get(provider_id)
        if found is None or found.state == "terminated":
            raise InstanceNotFoundError(f"{provider_id} is gone")
        return found

    def find(self, provider_id: str) -> CloudInstance | None:
        return self.instances.get(provider_id)

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        return frozenset(provider_ids) & self.instances.keys()

    def list(self) -> tuple[CloudInstance, ...]:
        return tuple(each for each in self.instances.values() if each.state != "terminated")

    def delete(self, provider_id: str) -> None:
        instance = self.get(provider_id)
        machine = self.machines[provider_id]
        if machine.ended_at is None:
            machine.ended_at = self.clock.now()
        self.instances[provider_id] = replace(instance, state="terminated")

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        return ("ami-1",)

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        return TemplateStatus()

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        return ()

    @property
    def interruptions(self) -> InterruptionQueue:
        return EmptyQueue()

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        """Nobody interrupts."""

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        return {}

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        """Nothing is learned."""

    def zones_left(self) -> frozenset[str]:
        return frozenset()

    def use_pod_subnets(self, by_zone: Mapping[str, str]) -> None:
        """Addresses are plenty."""

    def price_book(self) -> Mapping[str, Any]:
        return {}

    def refresh(self) -> None:
        """Nothing is cached."""

    def check_permissions(self) -> None:
        """Everything is allowed."""


def counted(machines: Collection[Machine]) -> dict[str, int]:
    """How many machines there are of each type and capacity type, most first."""
    names = [machine.type for machine in machines]
    return {name: names.count(name) for name in sorted(set(names), key=lambda each: (-names.count(each), each))}
