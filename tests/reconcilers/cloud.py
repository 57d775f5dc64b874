"""A cloud in memory for the tests of loops: it launches, lists and terminates, and fails when it is told to."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.aws.catalog.learned_memory import LearnedMemory, MeasuredMemory
from controller.core.api import labels as keys
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
    PricedOffering,
    TemplateStatus,
)
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.errors import CloudError, InstanceNotFoundError
from tests import factories
from tests.core.instances import cloud_instance

NOMINAL_MEMORY = {"m5.large": 8 * 2**30, "c5.large": 4 * 2**30}
"""Bytes that EC2 states, of the types that tests learn."""

REGION = "eu-west-1"
CLUSTER_ARN = f"arn:aws:eks:{REGION}:123456789012:cluster/test"


class MemoryCloud:
    """Implements CloudProvider. An instance runs until it is deleted, then is `shutting-down` until `settle`."""

    def __init__(self, types: Iterable[InstanceType] | None = None) -> None:
        self.types = tuple(types or factories.small_catalog())
        self.where = CloudIdentity(REGION, CLUSTER_ARN)
        self.instances: dict[str, CloudInstance] = {}
        self.requests: list[LaunchRequest] = []
        self.deleted: list[str] = []
        self.create_errors: list[CloudError] = []
        """Raised by the next launches, one each."""
        self.held_up: threading.Event | None = None
        """Launches are answered once it is set."""
        self.gives: PricedOffering | None = None
        """What it launches, whatever the plan counts on."""
        self.types_errors: dict[str, CloudError] = {}
        """By Provisioner."""
        self.images: Callable[[AWSNodeTemplate], tuple[str, ...]] = lambda _template: ()
        self.status = TemplateStatus()
        """Of every template; `status_requests` are the names of those that were asked for."""
        self.status_requests: list[str] = []
        self.interruptions: InterruptionQueue = EmptyQueue()
        self.spot_interruptions: list[tuple[str, str]] = []
        self.memory = LearnedMemory()
        self.pod_subnets: dict[str, str] = {}
        self.left: frozenset[str] = frozenset()
        """Zones that a zonal shift leaves."""
        self.prices: Mapping[str, Any] = {}
        """Its price book."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        if provisioner.name in self.types_errors:
            raise self.types_errors[provisioner.name]
        return self.types

    def create(self, request: LaunchRequest) -> CloudInstance:
        with self._lock:
            self.requests.append(request)
        if self.held_up is not None:
            assert self.held_up.wait(30.0)
        with self._lock:
            if self.create_errors:
                raise self.create_errors.pop(0)
            for instance in self.instances.values():
                if instance.tags.get(LAUNCH_TOKEN) == request.token and instance.state == "running":
                    return instance
            chosen = self.gives or request.offerings[0]
            instance = cloud_instance(
                number=next(self._numbers),
                provisioner=request.provisioner.name,
                zone=chosen.zone,
                capacity_type=chosen.capacity_type,
                instance_type=chosen.instance_type,
                tags={LAUNCH_TOKEN: request.token},
                labels={keys.ARCH: "amd64", keys.OS: "linux", **request.labels},
                launched_at=time.time(),
            )
            self.instances[instance.provider_id] = instance
            return instance

    def add(self, instance: CloudInstance) -> CloudInstance:
        """As another process launched it."""
        self.instances[instance.provider_id] = instance
        return instance

    def get(self, provider_id: str) -> CloudInstance:
        if not provider_id.startswith("aws:///"):
            raise ValueError(f"{provider_id!r} is not a provider id")
        instance = self.instances.get(provider_id)
        if instance is None or instance.state == "terminated" or not instance.owned:
            raise InstanceNotFoundError(f"{provider_id} is gone")
        return instance

    def find(self, provider_id: str) -> CloudInstance | None:
        if not provider_id.startswith("aws:///"):
            raise ValueError(f"{provider_id!r} is not a provider id")
        return self.instances.get(provider_id)

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        return frozenset(provider_ids) & self.instances.keys()

    def identity(self) -> CloudIdentity:
        return self.where

    def list(self) -> tuple[CloudInstance, ...]:
        return tuple(each for each in self.instances.values() if each.state != "terminated" and each.owned)

    def delete(self, provider_id: str) -> None:
        instance = self.find(provider_id)
        if instance is None or instance.state == "terminated":
            raise InstanceNotFoundError(f"{provider_id} is gone")
        with self._lock:
            self.deleted.append(provider_id)
            self.instances[provider_id] = replace(instance, state="shutting-down")

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        return self.images(template)

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        self.status_requests.append(template.name)
        return self.status

    def advice(self, _provisioner: Provisioner, _template: AWSNodeTemplate) -> tuple[str, ...]:
        return ()

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        self.spot_interruptions.append((instance_type, zone))

    def zones_left(self) -> frozenset[str]:
        return self.left

    def use_pod_subnets(self, by_zone: Mapping[str, str]) -> None:
        self.pod_subnets = dict(by_zone)

    def price_book(self) -> Mapping[str, Any]:
        return self.prices

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        told = [
            MeasuredMemory(
                node.name,
                node.labels[keys.INSTANCE_TYPE],
                node.labels[keys.INSTANCE_AMI_ID],
                node.capacity.get("memory", 0),
            )
            for node in nodes
            if self.memory.may_teach(node)
        ]
        self.memory.learn(told, NOMINAL_MEMORY)
        return self.memory.document()

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        self.memory.restore(learned)

    def refresh(self) -> None:
        """Nothing is cached."""

    def check_permissions(self) -> None:
        """Everything is allowed."""

    def settle(self) -> None:
        """What was shutting down is terminated."""
        for provider_id, instance in self.instances.items():
            if instance.state == "shutting-down":
                self.instances[provider_id] = replace(instance, state="terminated")

    @property
    def running(self) -> Sequence[CloudInstance]:
        """Instances that cost money."""
        return tuple(instance for instance in self.instances.values() if instance.state == "running")
