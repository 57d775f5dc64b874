"""Kubelets: each running instance of the cluster boots, registers its Node, becomes Ready, shows its devices, and
beats.

An instance that ends takes its kubelet with it: nothing is written any more, as with a machine that lost power. What
happens to the Node then is the affair of the node lifecycle and the cloud controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.world.client import STRATEGIC, ApiClient, ApiError
from sandbox.world.clock import WorldClock, timestamp
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informer, Informers
from sandbox.world.machines.csinode import csi_node
from sandbox.world.machines.faults import NEVER_JOIN, NEVER_READY, NO_DEVICES, FaultPlan
from sandbox.world.machines.heartbeat import Heartbeat, says_ready
from sandbox.world.machines.instances import CloudError, Instance, InstanceFeed
from sandbox.world.machines.nodedocument import Kubelet, Machine, adoption_patch, new_node, node_status, ready_condition
from sandbox.world.machines.userdata import UserDataError, parse_user_data
from sandbox.world.resources import CSI_NODES, NODES, Obj

RETRY_SECONDS = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BootTimes:
    """Sandbox seconds: running → registered, registered → Ready, Ready → devices offered."""

    join_delay_seconds: float = 8.0
    ready_delay_seconds: float = 2.0
    device_delay_seconds: float = 5.0


class Kubelets:
    """All kubelets of the cluster, by node name. `on_ready` is called with the name of each node that became Ready."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: WorldClock,
        feed: InstanceFeed,
        times: BootTimes | None = None,
        faults: FaultPlan | None = None,
    ) -> None:
        self.by_node: dict[str, Kubelet] = {}
        self.on_ready: list[Callable[[str], None]] = []
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._feed = feed
        self._times = times or BootTimes()
        self._faults = faults or FaultPlan()
        self._nodes: Informer = informers.of(NODES)
        self._heartbeat = Heartbeat(client, self._nodes, clock)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._version = ""
        feed.add_handler(self._on_instance)

    async def run(self) -> None:
        """Until cancelled; then no kubelet is left running."""
        version = await self._server_version()
        self._version = f"{version.partition('+')[0]}-eks-sandbox"
        try:
            await self._feed.run()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _server_version(self) -> str:
        while True:
            try:
                return str((await self._client.request("GET", "/version"))["gitVersion"])
            except ApiError as error:
                log.debug("no version yet: %s", error)
                await asyncio.sleep(0.5)

    def _on_instance(self, instance_id: str, instance: Instance | None) -> None:
        if instance is not None and instance.state == "running":
            if instance_id not in self._tasks:
                self._tasks[instance_id] = asyncio.create_task(self._live(instance), name=f"kubelet {instance_id}")
        elif instance is None or instance.state not in ("pending", "running"):
            task = self._tasks.pop(instance_id, None)
            if task is not None:
                task.cancel()

    async def _live(self, instance: Instance) -> None:
        """One machine's life from power-on; cancelled when the instance ends."""
        name = instance.private_dns_name
        kubelet: Kubelet | None = None
        try:
            machine = await self._boot(instance)
            if machine is None:
                return
            node = await self._register(machine)
            kubelet = Kubelet(machine, ready=says_ready(node))
            self.by_node[name] = kubelet
            await self._become_ready(kubelet, node)
            await self._heartbeat.run(kubelet)
        except Exception:
            log.exception("the kubelet of %s crashed", instance.instance_id)
        finally:
            if kubelet is not None and self.by_node.get(name) is kubelet:  # an address may have a new owner by now
                del self.by_node[name]

    async def _boot(self, instance: Instance) -> Machine | None:
        """Wait for the boot, read the user data; None if this machine never joins."""
        if self._faults.has(instance, NEVER_JOIN):
            log.info("%s never joins (scripted)", instance.instance_id)
            return None
        if not self._joined_before(instance):
            await self._clock.sleep(self._times.join_delay_seconds + self._faults.extra_seconds(instance))
        while True:
            try:
                shape = await asyncio.to_thread(self._feed.cloud.shape, instance.instance_type)
                options = parse_user_data(instance.user_data)
                return Machine(instance, shape, options, self._version)
            except UserDataError as error:
                log.warning("%s never joins: %s", instance.instance_id, error)
                return None
            except CloudError as error:
                log.debug("%s waits for AWS: %s", instance.instance_id, error)
                await asyncio.sleep(RETRY_SECONDS)

    def _joined_before(self, instance: Instance) -> bool:
        """The sandbox was started again over a cluster that lives: no second boot."""
        node = self._nodes.get(("", instance.private_dns_name))
        if node is None or (node.get("spec") or {}).get("providerID") != instance.provider_id:
            return False
        return bool(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion"))

    async def _register(self, machine: Machine) -> Obj:
        """Create the Node, or take over the one that a controller made."""
        while True:
            try:
                return await self._client.create(NODES, new_node(machine, self._now()))
            except ApiError as error:
                if error.conflict:
                    try:
                        return await self._adopt(machine)
                    except ApiError as second:
                        error = second
                log.debug("%s can't register yet: %s", machine.node_name, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _adopt(self, machine: Machine) -> Obj:
        node = await self._client.get(NODES, "", machine.node_name)
        patch = adoption_patch(machine, node)
        if patch is not None:
            node = await self._client.patch(NODES, ("", machine.node_name), patch)
        if not says_ready(node):
            await self._post(machine.node_name, node_status(machine, ready=False, now=self._now()))
        return node

    async def _become_ready(self, kubelet: Kubelet, node: Obj) -> None:
        machine = kubelet.machine
        self._event(node, "Starting", "Starting kubelet.")
        if self._faults.has(machine.instance, NEVER_READY):
            log.info("%s never becomes Ready (scripted)", machine.node_name)
            return
        if not kubelet.ready:
            await self._clock.sleep(self._times.ready_delay_seconds)
            await self._insist(machine.node_name, {"conditions": [ready_condition(ready=True, now=self._now())]})
            kubelet.ready = True
            self._event(node, "NodeReady", f"Node {machine.node_name} status is now: NodeReady")
        for call in self.on_ready:
            call(machine.node_name)
        await self._offer_volumes(machine, node)
        if machine.shape.devices and not self._faults.has(machine.instance, NO_DEVICES):
            await self._clock.sleep(self._times.device_delay_seconds)
            kubelet.devices = dict(machine.shape.devices)
            offered = {name: str(count) for name, count in kubelet.devices.items()}
            await self._insist(machine.node_name, {"capacity": offered, "allocatable": offered})

    async def _offer_volumes(self, machine: Machine, node: Obj) -> None:
        """The EBS CSI driver registers: without it no limit on volumes is known."""
        try:
            await self._client.create(CSI_NODES, csi_node(machine, node["metadata"]["uid"]))
        except ApiError as error:
            log.debug("%s: CSINode not created: %s", machine.node_name, error)

    async def _insist(self, node_name: str, status: Obj) -> None:
        """Post until the API server takes it; a Node that is gone stays gone (a kubelet does not register twice)."""
        while True:
            try:
                await self._post(node_name, status)
            except ApiError as error:
                if error.not_found:
                    return
                log.debug("%s: status not posted: %s", node_name, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _post(self, node_name: str, status: Obj) -> None:
        key = ("", node_name)
        written = await self._client.patch(NODES, key, {"status": status}, subresource="status", kind=STRATEGIC)
        self._nodes.absorb(written)  # a pod may come before the watch tells: a kubelet knows its own capacity

    def _event(self, node: Obj, reason: str, message: str) -> None:
        name = node["metadata"]["name"]
        # A kubelet's events on its Node name it in place of the uid.
        subject = {**node, "metadata": {**node["metadata"], "uid": name}}
        self._recorder.publish(NODES, subject, reason, message, component="kubelet", host=name)

    def _now(self) -> str:
        return timestamp(self._clock.now())
