"""The AWS cloud controller's two duties on nodes: initialize those that registered themselves, delete those without
instance."""

from __future__ import annotations

import asyncio
import logging

from sandbox.world.client import ApiClient, ApiError
from sandbox.world.clock import WorldClock
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informers
from sandbox.world.machines.instances import ALIVE, InstanceFeed
from sandbox.world.machines.nodedocument import UNINITIALIZED, cloud_labels
from sandbox.world.resources import NODES, Key, Obj, key_of
from sandbox.world.workqueue import Workqueue

COMPONENT = "cloud-node-lifecycle-controller"
GONE_GRACE_SECONDS = 50.0
"""A Node goes this long after its instance: the kubelet's silence has to make it NotReady first (the node monitor grace
period of 50 s since Kubernetes 1.32), and only NotReady nodes are looked up in EC2."""
CHECK_SECONDS = 5.0

log = logging.getLogger(__name__)


class CloudController:
    """`gone_grace_seconds` None leaves Nodes without instance alone."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, clock: WorldClock, feed: InstanceFeed,
        gone_grace_seconds: float | None = GONE_GRACE_SECONDS,
    ) -> None:  # fmt: skip
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._feed = feed
        self._gone_grace_seconds = gone_grace_seconds
        self._gone_since: dict[str, float] = {}
        self._queue: Workqueue[Key] = Workqueue("cloud-node", clock)
        self._nodes = informers.of(NODES)
        self._nodes.add_handler(self._on_node)
        feed.add_handler(lambda _id, _instance: self._look_for_uninitialized())

    def _on_node(self, _: Obj | None, new: Obj | None) -> None:
        if new is not None and _uninitialized(new):
            self._queue.add(key_of(new))

    def _look_for_uninitialized(self) -> None:
        for node in self._nodes:
            self._on_node(None, node)

    async def run(self) -> None:
        """Both duties, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._initialize, concurrency=2))
            if self._gone_grace_seconds is not None:
                group.create_task(self._sweep(self._gone_grace_seconds))

    async def _initialize(self, key: Key) -> float | None:
        """Labels, providerID, and the taint off; a node of an unknown instance waits."""
        node = self._nodes.get(key)
        if node is None or not _uninitialized(node):
            return None
        alive = (i for i in self._feed.known.values() if i.state in ALIVE)
        instance = next((i for i in alive if i.private_dns_name == key[1]), None)
        if instance is None:
            return None
        present = node["metadata"].get("labels") or {}
        labels = {label: value for label, value in cloud_labels(instance).items() if label not in present}
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != UNINITIALIZED]
        body = {
            "metadata": {"labels": labels, "resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": taints, "providerID": node["spec"].get("providerID") or instance.provider_id},
        }
        self._nodes.absorb(await self._client.patch(NODES, key, body))
        return None

    async def _sweep(self, grace_seconds: float) -> None:
        await self._feed.polled.wait()
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            now = self._clock.monotonic_seconds()
            for node in self._nodes:
                await self._check(node, now, grace_seconds)

    async def _check(self, node: Obj, now: float, grace_seconds: float) -> None:
        uid, name = node["metadata"]["uid"], node["metadata"]["name"]
        instance_id = instance_id_of(node)
        if not instance_id or self._feed.alive(instance_id) or self._stopped(instance_id):
            self._gone_since.pop(uid, None)
            return
        since = self._gone_since.setdefault(uid, now)
        if now - since < grace_seconds or node["metadata"].get("deletionTimestamp"):
            return
        message = f"Deleting node {name} because it does not exist in the cloud provider"
        self._recorder.publish(NODES, node, "DeletingNode", message, component=COMPONENT)
        try:
            await self._client.delete(NODES, node)
        except ApiError as error:
            log.debug("node %s not deleted: %s", name, error)

    def _stopped(self, instance_id: str) -> bool:
        """A stopped instance still exists: the cloud controller keeps its Node."""
        instance = self._feed.known.get(instance_id)
        return instance is not None and instance.state in ("stopping", "stopped")


def _uninitialized(node: Obj) -> bool:
    return any(taint["key"] == UNINITIALIZED for taint in node["spec"].get("taints") or ())


def instance_id_of(node: Obj) -> str:
    """The instance of spec.providerID `aws:///zone/i-...`; empty for other nodes (Fargate's have no i-)."""
    provider_id = str((node.get("spec") or {}).get("providerID") or "")
    last = provider_id.rpartition("/")[2]
    return last if provider_id.startswith("aws://") and last.startswith("i-") else ""
