"""DaemonSet → one Pod on each node that the template's constraints admit."""

from __future__ import annotations

import asyncio

from sandbox.world.controllers.base import (
    Context,
    Controller,
    is_active,
    is_ready,
    pod_from_template,
    scaled,
    template_hash,
)
from sandbox.world.controllers.replicaset import available_in
from sandbox.world.resources import DAEMON_SETS, NODES, PODS, Key, Obj, key_of, owner_reference
from sandbox.world.scheduling.filters import matches_node
from sandbox.world.scheduling.node import NodeInfo, scheduling_fields
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.taints import first_untolerated

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
TOLERATED_ALWAYS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""What the DaemonSet controller adds to every pod (DaemonSet page, "Taints and tolerations")."""
NETWORK_UNAVAILABLE = ("node.kubernetes.io/network-unavailable", "NoSchedule")
"""Added for pods on the host's network."""


class DaemonSetController(Controller):
    """Pods bound by the scheduler through node affinity on metadata.name, as the real controller's are."""

    name = "daemonset"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.daemons = self.watch(DAEMON_SETS)
        self.pods = self.watch_owned(PODS, DAEMON_SETS)
        self.nodes = self.informers.of(NODES)
        self.nodes.add_handler(self._on_node)

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is None or scheduling_fields(old) != scheduling_fields(new):
            for daemon in self.daemons:
                self.queue.add(key_of(daemon))

    async def sync(self, key: Key) -> float | None:
        """Make pods where they lack, remove them where they don't belong, replace outdated ones, write the status."""
        found = self.daemons.get(key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        digest = template_hash(found["spec"]["template"])
        by_node = self._pods_by_node(found)
        template = daemon_pod(found, digest, "")
        should, may_stay = self._verdicts(template)
        missing = [name for name in should if not any(map(is_active, by_node.get(name, ())))]
        doomed = [pod for name, pods in by_node.items() for pod in surplus(pods, name in may_stay) if is_active(pod)]
        failed = [p for pods in by_node.values() for p in pods if (p.get("status") or {}).get("phase") == "Failed"]
        await asyncio.gather(*(self._remove(found, pod) for pod in (*doomed, *failed)))
        await asyncio.gather(*(self._make(found, digest, name) for name in missing if not _pending(by_node, name)))
        if (found["spec"].get("updateStrategy") or {}).get("type") != "OnDelete":
            await self._replace_outdated(found, digest, len(should))
        await self._report(found, digest, should)
        return None

    def _pods_by_node(self, found: Obj) -> dict[str, list[Obj]]:
        by_node: dict[str, list[Obj]] = {}
        for pod in self.pods.by("controller", found["metadata"]["uid"]):
            by_node.setdefault(target_node(pod), []).append(pod)
        return by_node

    def _verdicts(self, template: Obj) -> tuple[set[str], set[str]]:
        """Nodes that should have a pod, and nodes where one that is there may stay."""
        should: set[str] = set()
        may_stay: set[str] = set()
        for obj in self.nodes:
            run, stay = daemon_verdict(template, obj)
            if run:
                should.add(obj["metadata"]["name"])
            if stay:
                may_stay.add(obj["metadata"]["name"])
        return should, may_stay

    async def _make(self, found: Obj, digest: str, node_name: str) -> None:
        made = await self.create(PODS, daemon_pod(found, digest, node_name))
        self._event(found, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _remove(self, found: Obj, pod: Obj) -> None:
        await self.delete(PODS, pod)
        self._event(found, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _event(self, found: Obj, reason: str, message: str) -> None:
        self.recorder.publish(DAEMON_SETS, found, reason, message, component="daemonset-controller")

    async def _replace_outdated(self, found: Obj, digest: str, desired: int) -> None:
        """RollingUpdate: delete outdated pods, not more than maxUnavailable pods missing at a time."""
        rolling = (found["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        allowed = max(1, scaled(rolling.get("maxUnavailable"), desired, round_up=True, default=1))
        active = [pod for pod in self.pods.by("controller", found["metadata"]["uid"]) if is_active(pod)]
        outdated = [pod for pod in active if pod["metadata"]["labels"].get(HASH_LABEL) != digest]
        unavailable = max(0, desired - sum(map(is_ready, active)))
        outdated.sort(key=lambda pod: (is_ready(pod), pod["metadata"]["name"]))
        for pod in outdated:
            if is_ready(pod):
                if unavailable >= allowed:
                    break
                unavailable += 1
            await self._remove(found, pod)

    async def _report(self, found: Obj, digest: str, should: set[str]) -> None:
        pods = self.pods.by("controller", found["metadata"]["uid"])
        current = {target_node(pod): pod for pod in pods if is_active(pod)}
        here = {name: pod for name, pod in current.items() if name in should}
        minimum = found["spec"].get("minReadySeconds") or 0
        now = self.clock.now().timestamp()
        available = sum(available_in(pod, minimum, now) == 0.0 for pod in here.values())
        status = {
            "desiredNumberScheduled": len(should),
            "currentNumberScheduled": len(here),
            "numberMisscheduled": len(current) - len(here),
            "numberReady": sum(map(is_ready, here.values())),
            "numberAvailable": available or None,
            "numberUnavailable": (len(should) - available) or None,
            "updatedNumberScheduled": sum(p["metadata"]["labels"].get(HASH_LABEL) == digest for p in here.values())
            or None,
            "observedGeneration": found["metadata"].get("generation"),
        }
        await self.update_status(DAEMON_SETS, found, status)


def daemon_pod(found: Obj, digest: str, node_name: str) -> Obj:
    """The pod for one node: the template with the controller's tolerations and its node by name."""
    reference = owner_reference(found, DAEMON_SETS)
    pod = pod_from_template(found["spec"]["template"], found, reference)
    pod["metadata"]["labels"][HASH_LABEL] = digest
    pod["metadata"]["labels"][GENERATION_LABEL] = str(found["metadata"].get("generation", 1))
    spec = pod["spec"]
    added = list(TOLERATED_ALWAYS)
    if spec.get("hostNetwork"):
        added.append(NETWORK_UNAVAILABLE)
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in added:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    spec["tolerations"] = tolerations
    if node_name:
        _pin(spec, node_name)
    return pod


def _pin(spec: Obj, node_name: str) -> None:
    """Replace required node affinity by this node's name, as the real controller does."""
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    affinity = spec.setdefault("affinity", {})
    node_affinity = affinity.setdefault("nodeAffinity", {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}


def target_node(pod: Obj) -> str:
    """The node of a daemon pod: where it is bound, or the name that its affinity fixes."""
    if bound := pod["spec"].get("nodeName"):
        return str(bound)
    required = PodInfo(pod).required_nodes
    names = required.node_names() if required is not None else None
    return next(iter(names), "") if names else ""


def daemon_verdict(template: Obj, node: Obj) -> tuple[bool, bool]:
    """(should run, may continue to run) of a daemon pod on a node: NoSchedule taints only keep new pods away."""
    pod, info = PodInfo(template), NodeInfo(node)
    if (pod.node_name and pod.node_name != info.name) or not matches_node(pod, info):
        return False, False
    stays = first_untolerated(info.taints, pod.tolerations, ("NoExecute",)) is None
    return stays and first_untolerated(info.taints, pod.tolerations, ("NoSchedule",)) is None, stays


def surplus(pods: list[Obj], wanted: bool) -> list[Obj]:
    """Pods to delete on one node: all where none belongs, else all but the oldest active one."""
    if not wanted:
        return pods
    active = sorted(filter(is_active, pods), key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["name"]))
    return active[1:]


def _pending(by_node: dict[str, list[Obj]], name: str) -> bool:
    """A pod that still terminates keeps its place until it is gone."""
    return any(pod["metadata"].get("deletionTimestamp") for pod in by_node.get(name, ()))
