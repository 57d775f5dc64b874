"""StatefulSet → Pods with stable names and their own claims, made and replaced one after the other."""

from __future__ import annotations

import orjson

from sandbox.world.controllers.base import (
    Context,
    Controller,
    is_deleting,
    is_ready,
    pod_from_template,
    template_hash,
)
from sandbox.world.controllers.replicaset import available_in
from sandbox.world.resources import PODS, PVCS, STATEFUL_SETS, Key, Obj, owner_reference

HASH_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController(Controller):
    """OrderedReady and Parallel; RollingUpdate with a partition, OnDelete; volumeClaimTemplates."""

    name = "statefulset"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.watch(STATEFUL_SETS)
        self.pods = self.watch_owned(PODS, STATEFUL_SETS)
        self.claims = self.informers.of(PVCS)

    async def sync(self, key: Key) -> float | None:
        """One step: the first thing that is not as it should be, in the order of the ordinals."""
        found = self.sets.get(key)
        if found is None:
            return None
        if not is_deleting(found):
            await self._step(found)
        await self._report(self.sets.get(key) or found)
        waits = [wait for pod in self._pods(found).values() if (wait := self._available_in(found, pod))]
        return min(waits) * self.clock.scale if waits else None

    def _pods(self, found: Obj) -> dict[int, Obj]:
        pods = self.pods.by("controller", found["metadata"]["uid"])
        return {ordinal(pod): pod for pod in pods if ordinal(pod) >= 0}

    async def _step(self, found: Obj) -> None:
        pods = self._pods(found)
        spec = found["spec"]
        parallel = spec.get("podManagementPolicy") == "Parallel"
        wanted = range(_start(found), _start(found) + _replicas(found))
        digest = revision(found)
        for index in wanted:
            pod = pods.get(index)
            if pod is None:
                await self._make(found, index, self._digest_for(found, index, digest))
            elif (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded") and not is_deleting(pod):
                await self._remove(found, pod)
            if parallel:
                continue
            if pod is None or is_deleting(pod) or not self._is_available(found, pod):
                return
        for index in sorted((i for i in pods if i not in wanted), reverse=True):
            if not is_deleting(pods[index]):
                await self._remove(found, pods[index])
            if not parallel:
                return
        await self._roll(found, pods, digest)

    async def _roll(self, found: Obj, pods: dict[int, Obj], digest: str) -> None:
        """Replace outdated pods from the highest ordinal down to the partition, waiting for each."""
        strategy = found["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for index in sorted(pods, reverse=True):
            pod = pods[index]
            if index < partition:
                return
            outdated = pod["metadata"]["labels"].get(HASH_LABEL) != digest
            if outdated and not is_deleting(pod):
                await self._remove(found, pod)
                return
            if is_deleting(pod) or not is_ready(pod):
                return

    def _digest_for(self, found: Obj, index: int, digest: str) -> str:
        """Below the partition a lost pod comes back at the current revision; templates of the past are not kept, so
        only its label says so."""
        strategy = found["spec"].get("updateStrategy") or {}
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        current = (found.get("status") or {}).get("currentRevision", "")
        return current.removeprefix(f"{found['metadata']['name']}-") or digest if index < partition else digest

    async def _make(self, found: Obj, index: int, digest: str) -> None:
        name = f"{found['metadata']['name']}-{index}"
        for template in found["spec"].get("volumeClaimTemplates") or ():
            await self._make_claim(found, template, name)
        await self.create(PODS, stateful_pod(found, index, digest))
        self._event(found, "SuccessfulCreate", f"create Pod {name} in StatefulSet {_name(found)} successful")

    async def _make_claim(self, found: Obj, template: Obj, pod_name: str) -> None:
        """Claims outlive their pods: one that exists is used again."""
        name = f"{template['metadata']['name']}-{pod_name}"
        namespace = found["metadata"]["namespace"]
        if self.claims.get((namespace, name)) is not None:
            return
        labels = {**(template["metadata"].get("labels") or {}), **(found["spec"]["selector"].get("matchLabels") or {})}
        await self.create(
            PVCS,
            {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": template["spec"]},
        )

    async def _remove(self, found: Obj, pod: Obj) -> None:
        await self.delete(PODS, pod)
        name = pod["metadata"]["name"]
        self._event(found, "SuccessfulDelete", f"delete Pod {name} in StatefulSet {_name(found)} successful")

    def _event(self, found: Obj, reason: str, message: str) -> None:
        self.recorder.publish(STATEFUL_SETS, found, reason, message, component="statefulset-controller")

    def _available_in(self, found: Obj, pod: Obj) -> float | None:
        return available_in(pod, found["spec"].get("minReadySeconds") or 0, self.clock.now().timestamp())

    def _is_available(self, found: Obj, pod: Obj) -> bool:
        return self._available_in(found, pod) == 0.0

    async def _report(self, found: Obj) -> None:
        digest = revision(found)
        pods = [pod for pod in self._pods(found).values() if not is_deleting(pod)]
        updated = [pod for pod in pods if pod["metadata"]["labels"].get(HASH_LABEL) == digest]
        update_revision = f"{found['metadata']['name']}-{digest}"
        done = len(updated) == len(pods) == _replicas(found) and all(map(is_ready, pods))
        current = (found.get("status") or {}).get("currentRevision")
        current = update_revision if done or not current else current
        name = f"{found['metadata']['name']}-"
        status = {
            "observedGeneration": found["metadata"].get("generation"),
            "replicas": len(pods),
            "readyReplicas": sum(map(is_ready, pods)) or None,
            "availableReplicas": sum(self._is_available(found, pod) for pod in pods),
            "currentReplicas": sum(f"{name}{p['metadata']['labels'].get(HASH_LABEL)}" == current for p in pods) or None,
            "updatedReplicas": len(updated) or None,
            "currentRevision": current,
            "updateRevision": update_revision,
            "collisionCount": 0,
        }
        await self.update_status(STATEFUL_SETS, found, status)


def revision(found: Obj) -> str:
    """The hash of the present pod template."""
    return template_hash(found["spec"]["template"])


def ordinal(pod: Obj) -> int:
    """The number at the end of the pod's name; -1 if there is none."""
    tail = pod["metadata"]["name"].rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


def stateful_pod(found: Obj, index: int, digest: str) -> Obj:
    """The pod of one ordinal: stable name and hostname, its index as a label, its claims as volumes."""
    pod = pod_from_template(found["spec"]["template"], found, owner_reference(found, STATEFUL_SETS))
    name = f"{found['metadata']['name']}-{index}"
    del pod["metadata"]["generateName"]
    pod["metadata"]["name"] = name
    pod["metadata"]["labels"] |= {NAME_LABEL: name, INDEX_LABEL: str(index), HASH_LABEL: digest}
    spec = pod["spec"]
    spec["hostname"] = name
    if found["spec"].get("serviceName"):
        spec["subdomain"] = found["spec"]["serviceName"]
    templates = orjson.loads(orjson.dumps(found["spec"].get("volumeClaimTemplates") or []))
    own = {
        t["metadata"]["name"]: {"name": t["metadata"]["name"], "persistentVolumeClaim": {
            "claimName": f"{t['metadata']['name']}-{name}"}}
        for t in templates
    }  # fmt: skip
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in own]
    if own or others:
        spec["volumes"] = [*own.values(), *others]
    return pod


def _name(found: Obj) -> str:
    return str(found["metadata"]["name"])


def _replicas(found: Obj) -> int:
    replicas = found["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _start(found: Obj) -> int:
    return int((found["spec"].get("ordinals") or {}).get("start") or 0)
