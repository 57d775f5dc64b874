"""Puts the world together: which parts run, on one event loop, in this process or on a thread of a test."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.world.client import ApiClient, Connection
from sandbox.world.clock import WorldClock
from sandbox.world.controllers import CONTROLLERS
from sandbox.world.controllers.base import Context
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informers
from sandbox.world.machines.attacher import Attacher
from sandbox.world.machines.cloudcontroller import GONE_GRACE_SECONDS, CloudController
from sandbox.world.machines.ebs import EbsProvisioner
from sandbox.world.machines.faults import FaultPlan, MachineFault
from sandbox.world.machines.instances import Cloud, InstanceFeed, SandboxCloud
from sandbox.world.machines.kubelet import BootTimes, Kubelets
from sandbox.world.machines.podworker import PodTimes, PodWorkers
from sandbox.world.resources import PODS
from sandbox.world.scheduler import Scheduler

KUBELETS, SCHEDULER, CONTROLLER_MANAGER = "kubelets", "scheduler", "controllers"
PARTS = (KUBELETS, SCHEDULER, CONTROLLER_MANAGER)
"""`kubelets` is all that AWS and its machines do (kubelets, cloud controller, volume provisioner); the other two stand
in for kube-scheduler and kube-controller-manager."""

BOUND_PODS = {PODS: "spec.nodeName!="}
"""The field selector where kubelets run alone: each watches its own pods. A scheduler and controllers need all."""

Run = Callable[[], Coroutine[Any, Any, None]]
"""A part's endless work."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """How the world behaves. Times in sandbox seconds; `time_scale` sandbox seconds pass in a real one."""

    cluster_name: str = ""
    """Only instances tagged `kubernetes.io/cluster/<name>`; empty: of any cluster."""
    parts: tuple[str, ...] = PARTS
    time_scale: float = 1.0
    poll_seconds: float = 1.0
    """Between two looks at EC2."""
    boot: BootTimes = field(default_factory=BootTimes)
    pods: PodTimes = field(default_factory=PodTimes)
    faults: tuple[MachineFault, ...] = ()
    gone_grace_seconds: float | None = GONE_GRACE_SECONDS
    """How long a Node outlives its instance; None: the cloud controller never deletes one."""


async def run(
    connection: Connection, cloud: Cloud | None, settings: WorldSettings, on_ready: Callable[[], None]
) -> None:
    """Run the chosen parts until cancelled; `on_ready` is called once every cache is filled. No cloud, no machines."""
    clock = WorldClock(settings.time_scale)
    async with ApiClient(connection) as client:
        informers = Informers(client, BOUND_PODS if set(settings.parts) == {KUBELETS} else {})
        recorder = EventRecorder(client, clock)
        context = Context(client, informers, recorder, clock)
        runs: list[Run] = [recorder.run]
        if KUBELETS in settings.parts and cloud is not None:
            runs += _machines(context, cloud, settings)
        if SCHEDULER in settings.parts:
            runs.append(Scheduler(client, informers, recorder, clock).run)
        if CONTROLLER_MANAGER in settings.parts:
            runs += [controller(context).run for controller in CONTROLLERS]
        async with asyncio.TaskGroup() as group:
            informers.start(group)
            await informers.wait_synced()
            for start in runs:
                group.create_task(start())
            on_ready()


def _machines(context: Context, cloud: Cloud, settings: WorldSettings) -> list[Run]:
    client, informers, recorder, clock = context.client, context.informers, context.recorder, context.clock
    feed = InstanceFeed(cloud, clock, settings.poll_seconds)
    kubelets = Kubelets(client, informers, recorder, clock, feed, settings.boot, FaultPlan(settings.faults))
    workers = PodWorkers(client, informers, recorder, clock, kubelets, settings.pods)
    controller = CloudController(client, informers, recorder, clock, feed, settings.gone_grace_seconds)
    ebs = EbsProvisioner(client, informers, recorder, clock, cloud)
    return [kubelets.run, workers.run, controller.run, ebs.run, Attacher(client, informers, clock).run]


async def _finish_tasks() -> None:
    """Cancel what the parts left running (kubelets, bindings under way) and wait for it."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


@contextmanager
def serve(
    kubeconfig: Path,
    *,
    ec2_endpoint: str = "",
    region: str = "ap-northeast-2",
    cloud: Cloud | None = None,
    settings: WorldSettings | None = None,
) -> Iterator[None]:
    """The world on a thread of this process for as long as the context lasts; ready on entry.

    Raises:
        TimeoutError: the API server did not let every cache fill within 30 s.
    """
    chosen = settings or WorldSettings()
    if cloud is None and ec2_endpoint:
        cloud = SandboxCloud(ec2_endpoint, region, chosen.cluster_name)
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    world = loop.create_task(run(Connection.from_kubeconfig(kubeconfig), cloud, chosen, ready.set))

    def live() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(world)
        except asyncio.CancelledError:
            log.debug("the world ends")
        finally:
            loop.run_until_complete(_finish_tasks())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    thread = threading.Thread(target=live, name="sandbox-world")
    thread.start()
    try:
        if not ready.wait(30):
            raise TimeoutError(f"the sandbox's world could not list from the API server of {kubeconfig}")
        yield
    finally:
        loop.call_soon_threadsafe(world.cancel)
        thread.join()
