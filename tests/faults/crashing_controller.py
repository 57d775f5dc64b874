"""A controller in this process that crashes around every kind of write it makes, once before and once after it.

An `Operator` stands for a process that gets SIGKILL: after the crash none of its threads gets a write through, nothing
that it held in memory is left, and another one starts. That is cheap enough to crash around every write to the
Kubernetes API and to the cloud, without a list of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import (
    CloudIdentity,
    CloudInstance,
    InstanceType,
    InterruptionQueue,
    LaunchRequest,
    TemplateStatus,
)
from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import EVENTS, PODS, Resource
from controller.operator.composition import Edges, Operator, OperatorTimes
from controller.runtime.loops import BackoffTimes
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger
from tests.faults.cluster_actors import ClusterActors
from tests.reconcilers.cloud import CLUSTER_ARN, MemoryCloud
from tests.reconcilers.conftest import SettableClock, World

T = TypeVar("T")
DEADLINE_SECONDS = 60.0
WAIT_SECONDS, MOST_WAITS = 0.02, 10


class Killed(BaseException):
    """The process of this thread was killed. A BaseException, so that nothing catches it."""


@dataclass
class CrashPlan:
    """Around each kind of write one process crashes before it is done, and a later one after it."""

    crashes: list[tuple[str, str]] = field(default_factory=list)
    """(write, before or after), in order."""
    spared: frozenset[str] = frozenset()
    """Beginnings of the kinds of write around which no process crashes."""
    never: bool = False
    """No process crashes."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, process: Process, kind: str, write: Callable[[], T]) -> T:
        """Make a write of that kind; raises Killed if the process crashes around it."""
        if self._crashes(process, (kind, "before")):
            raise Killed(kind)
        done = write()
        if self._crashes(process, (kind, "after")):
            raise Killed(kind)
        return done

    def _crashes(self, process: Process, crash: tuple[str, str]) -> bool:
        with self._lock:
            spared = self.never or crash in self.crashes or crash[0].startswith(tuple(self.spared))
            if not process.killed.is_set() and not spared:
                self.crashes.append(crash)
                process.killed.set()
            return process.killed.is_set()


@dataclass
class Process:
    """One process: its writes get through until `killed` is set."""

    plan: CrashPlan
    killed: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)


class CrashingKube(KubeClient):
    """A client whose writes may crash its process, except for events, and statuses other than those of pods: no node
    depends on them."""

    def __init__(self, kube: KubeClient, clock: SettableClock, process: Process) -> None:
        super().__init__(kube.connection, clock=clock, stop=process.stop)
        self._process = process

    def _call(
        self,
        method: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        def write() -> dict[str, Any]:
            return super(CrashingKube, self)._call(method, resource, namespace, name, subresource, **more)

        if method == "GET" or resource is EVENTS or (subresource == "status" and resource is not PODS):
            if self._process.killed.is_set():
                raise Killed(method)
            return write()
        what = f"{method} {resource.plural}{'/' if subresource else ''}{subresource} {_shape(more.get('body'))}"
        return self._process.plan.around(self._process, what.strip(), write)


def _shape(body: Any) -> str:
    """What a patch touches, without the values."""
    if not isinstance(body, Mapping) or "kind" in body:
        return ""
    return " ".join(sorted(_paths(body)))


def _paths(body: Mapping[str, Any]) -> Iterable[str]:
    for key, value in body.items():
        if isinstance(value, Mapping) and value:
            yield from (f"{key}.{path}" if key != "metadata" else path for path in _paths(value))
        else:
            yield key if value is not None else f"-{key}"


class CrashingCloud:
    """A CloudProvider whose writes may crash its process."""

    def __init__(self, cloud: MemoryCloud, process: Process) -> None:
        self._cloud = cloud
        self._process = process

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        return self._cloud.instance_types(provisioner, template)

    def create(self, request: LaunchRequest) -> CloudInstance:
        return self._process.plan.around(self._process, "launch", lambda: self._cloud.create(request))

    def get(self, provider_id: str) -> CloudInstance:
        return self._cloud.get(provider_id)

    def find(self, provider_id: str) -> CloudInstance | None:
        return self._cloud.find(provider_id)

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        return self._cloud.known(provider_ids)

    def identity(self) -> CloudIdentity:
        return self._cloud.identity()

    def list(self) -> tuple[CloudInstance, ...]:
        return self._cloud.list()

    def delete(self, provider_id: str) -> None:
        self._process.plan.around(self._process, "terminate", lambda: self._cloud.delete(provider_id))

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        return self._cloud.image_ids(template)

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        return self._cloud.template_status(template)

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        return self._cloud.advice(provisioner, template)

    @property
    def interruptions(self) -> InterruptionQueue:
        return self._cloud.interruptions

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        self._cloud.spot_interrupted(instance_type, zone)

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        return self._cloud.learn_memory(nodes)

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        self._cloud.restore_memory(learned)

    def zones_left(self) -> frozenset[str]:
        return self._cloud.zones_left()

    def use_pod_subnets(self, by_zone: Mapping[str, str]) -> None:
        self._cloud.use_pod_subnets(by_zone)

    def price_book(self) -> Mapping[str, Any]:
        return self._cloud.price_book()

    def refresh(self) -> None:
        self._cloud.refresh()

    def check_permissions(self) -> None:
        self._cloud.check_permissions()


@dataclass
class CrashingController:
    """A cluster with its actors, and a controller that is started again after each crash."""

    world: World
    actors: ClusterActors
    times: OperatorTimes
    plan: CrashPlan = field(default_factory=CrashPlan)
    settings: Settings = field(default_factory=lambda: Settings(cluster_name="test", cluster_arn=CLUSTER_ARN))
    """Of every process, with shorter batches."""
    count: int = 0
    _present: tuple[Process, Operator] | None = None

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Run the cluster and the controller until the condition holds."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            version = self.world.informers.snapshot().version
            self.actors.turn()
            if condition():
                return
            assert time.monotonic() < deadline, f"{what} did not come true; crashed around {self.plan.crashes}"
            if not self.alive:
                self._stop()
                self._start()
            self._wait(version)

    def _wait(self, version: int) -> None:
        """Until objects changed since that version, or the process crashed; the cloud tells nobody when it changes."""
        for _ in range(MOST_WAITS):
            self.world.clock.wait(self.world.stop, WAIT_SECONDS)
            if not self.alive or self.world.informers.snapshot().version != version:
                return

    @property
    def alive(self) -> bool:
        """Whether a process runs."""
        return self._present is not None and not self._present[0].killed.is_set()

    def _start(self) -> None:
        process = Process(self.plan)
        settings = replace(self.settings, batch_idle_duration_seconds=0.02, batch_max_duration_seconds=0.2)
        clock = self.world.clock
        kube, cloud = CrashingKube(self.world.kube, clock, process), CrashingCloud(self.world.cloud, process)
        operator = Operator(settings, Edges(kube, cloud, clock, Ledger(clock), process.stop), times=self.times)
        self.count += 1
        self._present = (process, operator)
        operator.watch()
        operator.start_leading()

    def _stop(self) -> None:
        if self._present is not None:
            process, operator = self._present
            process.killed.set()
            process.stop.set()
            operator.close(5.0)
            self._present = None

    def end(self) -> None:
        """End the last process."""
        self._stop()


def exists(world: World, resource: Resource, name: str) -> bool:
    """Whether the API server has it."""
    try:
        world.kube.get(resource, name)
    except NotFoundError:
        return False
    return True


QUICK_BACKOFF = BackoffTimes(0.02, 0.1)
