"""Lives of the controller in this process: each dies around a write that none died around before, and another follows.

What SIGKILL does to a process is done here to an `Operator`: from the moment of its death none of its threads gets a
write through, and nothing that it held in memory outlives it. That is cheap enough to die around *every* write to the
Kubernetes API and to the cloud, whichever they are: nobody lists them by hand.
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
from controller.core.cloud import CloudInstance, InstanceType, InterruptionQueue, LaunchRequest, TemplateStatus
from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import EVENTS, Resource
from controller.operator.composition import Edges, Operator, OperatorTimes
from controller.runtime.loops import BackoffTimes
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger
from tests.faults.inhabitants import Inhabitants
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import SettableClock, World

T = TypeVar("T")
DEADLINE_SECONDS = 60.0


class Killed(BaseException):
    """The process of this thread is dead; nothing catches it, as nothing catches SIGKILL."""


@dataclass
class Fate:
    """Who dies where. Around each kind of write one life ends before it is done, and the next one after it."""

    deaths: list[tuple[str, str]] = field(default_factory=list)
    """(write, before or after), in order."""
    spared: frozenset[str] = frozenset()
    """How writes begin around which nobody dies."""
    immortal: bool = False
    """Nobody dies around any."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, life: Life, write: str, deed: Callable[[], T]) -> T:
        """Do it, unless this life ends around it."""
        if self._dies(life, (write, "before")):
            raise Killed(write)
        done = deed()
        if self._dies(life, (write, "after")):
            raise Killed(write)
        return done

    def _dies(self, life: Life, death: tuple[str, str]) -> bool:
        with self._lock:
            spared = self.immortal or death in self.deaths or death[0].startswith(tuple(self.spared))
            if not life.dead.is_set() and not spared:
                self.deaths.append(death)
                life.dead.set()
            return life.dead.is_set()


@dataclass
class Life:
    """One process: until `dead` is set, its writes get through."""

    fate: Fate
    dead: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)


class MortalKube(KubeClient):
    """A client whose writes may be its process' last, but for events and statuses: no node's life hangs on them."""

    def __init__(self, kube: KubeClient, clock: SettableClock, life: Life) -> None:
        super().__init__(kube.connection, clock=clock, stop=life.stop)
        self._life = life

    def _call(
        self,
        method: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        def deed() -> dict[str, Any]:
            return super(MortalKube, self)._call(method, resource, namespace, name, subresource, **more)

        if method == "GET" or resource is EVENTS or subresource == "status":
            if self._life.dead.is_set():
                raise Killed(method)
            return deed()
        what = f"{method} {resource.plural}{'/' if subresource else ''}{subresource} {_shape(more.get('body'))}"
        return self._life.fate.around(self._life, what.strip(), deed)


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


class MortalCloud:
    """A CloudProvider whose writes may be its process' last."""

    def __init__(self, cloud: MemoryCloud, life: Life) -> None:
        self._cloud = cloud
        self._life = life

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        return self._cloud.instance_types(provisioner, template)

    def create(self, request: LaunchRequest) -> CloudInstance:
        return self._life.fate.around(self._life, "launch", lambda: self._cloud.create(request))

    def get(self, provider_id: str) -> CloudInstance:
        return self._cloud.get(provider_id)

    def list(self) -> tuple[CloudInstance, ...]:
        return self._cloud.list()

    def delete(self, provider_id: str) -> None:
        self._life.fate.around(self._life, "terminate", lambda: self._cloud.delete(provider_id))

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

    def refresh(self) -> None:
        self._cloud.refresh()

    def check_permissions(self) -> None:
        self._cloud.check_permissions()


@dataclass
class Lives:
    """A cluster with inhabitants, and the controller that lives in it again and again."""

    world: World
    inhabitants: Inhabitants
    times: OperatorTimes
    fate: Fate = field(default_factory=Fate)
    settings: Settings = field(default_factory=lambda: Settings(cluster_name="test"))
    """Those of every life, with shorter batches."""
    count: int = 0
    _present: tuple[Life, Operator] | None = None

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Let them live until the condition holds."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            self.inhabitants.turn()
            if condition():
                return
            assert time.monotonic() < deadline, f"{what} did not come true; died around {self.fate.deaths}"
            if not self.alive:
                self._bury()
                self._be_born()
            self.world.clock.wait(self.world.stop, 0.02)

    @property
    def alive(self) -> bool:
        """Whether the present one is."""
        return self._present is not None and not self._present[0].dead.is_set()

    def _be_born(self) -> None:
        life = Life(self.fate)
        settings = replace(self.settings, batch_idle_duration_seconds=0.02, batch_max_duration_seconds=0.2)
        clock = self.world.clock
        kube, cloud = MortalKube(self.world.kube, clock, life), MortalCloud(self.world.cloud, life)
        operator = Operator(settings, Edges(kube, cloud, clock, Ledger(clock), life.stop), times=self.times)
        self.count += 1
        self._present = (life, operator)
        operator.watch()
        operator.start_leading()

    def _bury(self) -> None:
        if self._present is not None:
            life, operator = self._present
            life.dead.set()
            life.stop.set()
            operator.close(5.0)
            self._present = None

    def end(self) -> None:
        """The last one ends in peace."""
        self._bury()


def exists(world: World, resource: Resource, name: str) -> bool:
    """Whether the API server has it."""
    try:
        world.kube.get(resource, name)
    except NotFoundError:
        return False
    return True


QUICK_BACKOFF = BackoffTimes(0.02, 0.1)
