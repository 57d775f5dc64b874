"""A kubelet's regular writes: its Lease, and its status again wherever the Node does not say what the kubelet knows."""

from __future__ import annotations

import asyncio
import logging
import random
import time

from sandbox.world.client import STRATEGIC, ApiClient, ApiError
from sandbox.world.clock import WorldClock, micro_timestamp, timestamp
from sandbox.world.informer import Informer
from sandbox.world.machines.nodedocument import Kubelet, node_status
from sandbox.world.resources import LEASES, NODES, Obj

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 15.0
"""Real seconds between renewals. A kubelet renews every 10 s; fewer calls leave more room for 1,000 nodes, and the node
monitor grace period of 50 s still sees three of them."""
STATUS_SECONDS = 10.0
"""The kubelet's nodeStatusUpdateFrequency, in sandbox seconds."""
SHORTEST_SECONDS = 0.5

log = logging.getLogger(__name__)


class Heartbeat:
    """Beats for any number of kubelets, each in a task of its own."""

    def __init__(self, client: ApiClient, nodes: Informer, clock: WorldClock) -> None:
        self._client = client
        self._nodes = nodes
        self._clock = clock

    async def run(self, kubelet: Kubelet) -> None:
        """For ever: renew the Lease when it is time, mend the Node's status when it is wrong."""
        renewed = -RENEW_SECONDS
        pause = max(SHORTEST_SECONDS, self._clock.real_seconds(STATUS_SECONDS))
        while True:
            try:
                await self._mend(kubelet)
                if time.monotonic() - renewed >= RENEW_SECONDS:
                    await self._renew(kubelet.machine.node_name)
                    renewed = time.monotonic()
            except ApiError as error:
                log.debug("%s: heartbeat failed: %s", kubelet.machine.node_name, error)
            await asyncio.sleep(pause * random.uniform(0.9, 1.1))

    async def _mend(self, kubelet: Kubelet) -> None:
        """Post everything again on a Node that was made anew, or that others have called not Ready."""
        name = kubelet.machine.node_name
        node = self._nodes.get(("", name))
        if node is None or not kubelet.ready or says_ready(node):
            return
        now = timestamp(self._clock.now())
        status = node_status(kubelet.machine, ready=True, now=now, devices=kubelet.devices)
        await self._client.patch(NODES, ("", name), {"status": status}, subresource="status", kind=STRATEGIC)

    async def _renew(self, node_name: str) -> None:
        now = micro_timestamp(self._clock.now())
        try:
            await self._client.patch(LEASES, (LEASE_NAMESPACE, node_name), {"spec": {"renewTime": now}})
        except ApiError as error:
            node = self._nodes.get(("", node_name))
            if not error.not_found or node is None:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node["metadata"]["uid"]}
            spec = {"holderIdentity": node_name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
            meta = {"name": node_name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            await self._client.create(LEASES, {"metadata": meta, "spec": spec})


def says_ready(node: Obj) -> bool:
    """Condition Ready of a Node is True."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
