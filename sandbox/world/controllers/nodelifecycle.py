"""Node lifecycle: silent kubelets make a node Unknown, conditions become taints, NoExecute taints evict pods, lost
pods go.

Three controllers of kube-controller-manager in one: node-lifecycle, taint-eviction and pod garbage collection.
"""

from __future__ import annotations

import asyncio

from sandbox.world.clock import parse_timestamp
from sandbox.world.controllers.base import Context, Controller, condition, is_deleting, is_ready, with_condition
from sandbox.world.resources import LEASES, NODES, PODS, Key, Obj, key_of
from sandbox.world.scheduling.taints import Taint, Toleration

GRACE_SECONDS = 50.0
"""node-monitor-grace-period (real seconds: kubelets' heartbeats are real)."""
MONITOR_SECONDS = 5.0
ORPHAN_SECONDS = 40.0
"""Pods of a Node that is gone are deleted after this quarantine (pod garbage collector)."""
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
MANAGED = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURE.values()}


class NodeLifecycleController(Controller):
    """Keys are nodes; pods of a node are looked at with it."""

    name = "node-lifecycle"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.watch(NODES)
        self.leases = self.informers.of(LEASES)
        self.pods = self.informers.of(PODS)
        self.pods.add_index("node", lambda pod: [name] if (name := pod["spec"].get("nodeName")) else [])
        self.pods.add_handler(self._on_pod)
        self._tainted_since: dict[tuple[str, Taint], float] = {}
        self._missing_since: dict[str, float] = {}

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and (name := new["spec"].get("nodeName")):
            node = self.nodes.get(("", name))
            arrived = old is None or not old["spec"].get("nodeName")
            if node is None or (arrived and any(t.effect == "NoExecute" for t in Taint.parse_all(node))):
                self.queue.add(("", name))

    async def run(self) -> None:
        """Work the queue, and look at every node's heartbeat."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._monitor())

    async def _monitor(self) -> None:
        while True:
            await asyncio.sleep(MONITOR_SECONDS)
            for node in self.nodes:
                if self._silent_seconds(node) > GRACE_SECONDS and condition(node, "Ready").get("status") != "Unknown":
                    self.queue.add(key_of(node))

    def _silent_seconds(self, node: Obj) -> float:
        """Real seconds since the last sign of life of a kubelet: its Lease, its status, or the Node's creation."""
        lease = self.leases.get(("kube-node-lease", node["metadata"]["name"]))
        signs = [node["metadata"]["creationTimestamp"], condition(node, "Ready").get("lastHeartbeatTime")]
        signs.append(((lease or {}).get("spec") or {}).get("renewTime"))
        newest = max(parse_timestamp(sign) for sign in signs if sign)
        return (self.clock.now() - newest).total_seconds()

    async def sync(self, key: Key) -> float | None:
        """One node: heartbeat, taints, evictions; or the pods that a vanished node left."""
        node = self.nodes.get(key)
        if node is None:
            return await self._collect_orphans(key[1])
        self._missing_since.pop(key[1], None)
        if self._silent_seconds(node) > GRACE_SECONDS and condition(node, "Ready").get("status") != "Unknown":
            node = await self._mark_unknown(node)
        wanted = wanted_taints(node)
        if wanted != (node["spec"].get("taints") or []):
            body = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": wanted or None},
            }
            node = await self.patch(NODES, key, body)
        if condition(node, "Ready").get("status") in ("False", "Unknown"):
            await self._mark_pods_unready(node)
        return await self._evict(node)

    async def _mark_unknown(self, node: Obj) -> Obj:
        conditions = list((node.get("status") or {}).get("conditions") or ())
        message = "Kubelet stopped posting node status."
        seen = node
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            never = not condition(node, kind)
            reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
            text = "Kubelet never posted node status." if never else message
            conditions = with_condition(seen, kind, "Unknown", reason, text, self.now())
            seen = {**seen, "status": {**(seen.get("status") or {}), "conditions": conditions}}
        return await self.patch(NODES, key_of(node), {"status": {"conditions": conditions}}, subresource="status")

    async def _mark_pods_unready(self, node: Obj) -> None:
        """Pods of a node that is not Ready are not ready either (so that Services and PDBs count right)."""
        for pod in self.pods.by("node", node["metadata"]["name"]):
            if is_ready(pod):
                conditions = with_condition(pod, "Ready", "False", "NodeNotReady", "", self.now())
                await self.patch(PODS, key_of(pod), {"status": {"conditions": conditions}}, subresource="status")

    async def _evict(self, node: Obj) -> float | None:
        """Delete pods that don't tolerate a NoExecute taint, or no longer; when to look again."""
        name = node["metadata"]["name"]
        taints = [taint for taint in Taint.parse_all(node) if taint.effect == "NoExecute"]
        now = self.clock.monotonic_seconds()
        for known in [known for known in self._tainted_since if known[0] == name and known[1] not in taints]:
            del self._tainted_since[known]
        ages = {taint: now - self._tainted_since.setdefault((name, taint), now) for taint in taints}
        waits: list[float] = []
        for pod in self.pods.by("node", name) if taints else ():
            left = tolerated_seconds(Toleration.parse_all(pod["spec"]), ages)
            if left is None or is_deleting(pod):
                continue
            if left > 0:
                waits.append(left)
                continue
            message = f"Marking for deletion Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
            self.recorder.publish(PODS, pod, "TaintManagerEviction", message, component="taint-eviction-controller")
            await self.delete(PODS, pod)
        return min(waits, default=None)

    async def _collect_orphans(self, node_name: str) -> float | None:
        pods = self.pods.by("node", node_name)
        if not pods:
            self._missing_since.pop(node_name, None)
            return None
        since = self._missing_since.setdefault(node_name, self.clock.monotonic_seconds())
        left = since + ORPHAN_SECONDS - self.clock.monotonic_seconds()
        if left > 0:
            return left
        for pod in pods:
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                await self.patch(PODS, key_of(pod), {"status": {"phase": "Failed"}}, subresource="status")
            await self.delete(PODS, pod, grace_seconds=0)
        return None


def wanted_taints(node: Obj) -> list[Obj]:
    """spec.taints as conditions and spec.unschedulable want them; foreign taints stay as they are, in their order.

    Ready False gives not-ready, Ready Unknown unreachable, each as NoSchedule and NoExecute. A Node without a Ready
    condition keeps the not-ready taint that admission gave it.
    """
    spec = node.get("spec") or {}
    wanted: list[tuple[str, str]] = []
    ready = condition(node, "Ready").get("status")
    if ready == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    wanted += [(key, "NoSchedule") for kind, key in PRESSURE.items() if condition(node, kind).get("status") == "True"]
    if spec.get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    present = list(spec.get("taints") or ())
    managed = MANAGED if ready else MANAGED - {NOT_READY, UNREACHABLE}
    kept = [t for t in present if t["key"] not in managed or (t["key"], t["effect"]) in wanted]
    have = {(taint["key"], taint["effect"]) for taint in kept}
    return kept + [{"key": key, "effect": effect} for key, effect in wanted if (key, effect) not in have]


def tolerated_seconds(tolerations: tuple[Toleration, ...], ages: dict[Taint, float]) -> float | None:
    """Seconds until a pod must go from NoExecute taints of these ages; None for never, 0 or less for now."""
    waits: list[float] = []
    for taint, age in ages.items():
        matching = [toleration for toleration in tolerations if toleration.tolerates(taint)]
        if not matching:
            return 0.0
        limits = [toleration.seconds for toleration in matching if toleration.seconds is not None]
        if limits:
            waits.append(min(limits) - age)
    return min(waits, default=None)
