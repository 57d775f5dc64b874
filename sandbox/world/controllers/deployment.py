"""Deployment → ReplicaSets: one per pod template, scaled so that a rollout keeps within maxSurge and maxUnavailable."""

from __future__ import annotations

from typing import Any

from sandbox.world.controllers.base import Context, Controller, scaled, template_hash, with_condition
from sandbox.world.resources import DEPLOYMENTS, REPLICA_SETS, Key, Obj, key_of, owner_reference

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


class DeploymentController(Controller):
    """Rolling updates, Recreate, pause, revision history; status and the conditions Available and Progressing."""

    name = "deployment"
    concurrency = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.deployments = self.watch(DEPLOYMENTS)
        self.sets = self.watch_owned(REPLICA_SETS, DEPLOYMENTS)

    async def sync(self, key: Key) -> float | None:
        """Find or make the ReplicaSet of the present template, move replicas towards it, write the status."""
        found = self.deployments.get(key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        owned = self.sets.by("controller", found["metadata"]["uid"])
        new = next((s for s in owned if _template(s) == _bare(found["spec"]["template"])), None)
        paused = bool(found["spec"].get("paused"))
        if new is None and not paused:
            new = await self._make(found, owned)
        old = [s for s in owned if new is None or s["metadata"]["uid"] != new["metadata"]["uid"]]
        if paused or new is None:
            await self._scale_in_proportion(found, new, old)
        elif (found["spec"].get("strategy") or {}).get("type") == "Recreate":
            await self._recreate(found, new, old)
        else:
            await self._roll(found, new, old)
        await self._mark_revision(found, new, old)
        await self._prune(found, old)
        await self._report(self.deployments.get(key) or found, new)
        return None

    async def _make(self, found: Obj, owned: list[Obj]) -> Obj:
        spec = found["spec"]
        digest = template_hash(spec["template"])
        labels = {**(spec["template"].get("metadata", {}).get("labels") or {}), HASH_LABEL: digest}
        selector = spec["selector"]
        template = {**spec["template"], "metadata": {**(spec["template"].get("metadata") or {}), "labels": labels}}
        surge = _surge(found)
        others = sum(_replicas(s) for s in owned)
        rolling = (spec.get("strategy") or {}).get("type") != "Recreate"
        first = min(_replicas(found), max(0, _replicas(found) + surge - others)) if rolling else 0
        made: Obj = {
            "metadata": {
                "name": f"{found['metadata']['name']}-{digest}",
                "namespace": found["metadata"]["namespace"],
                "labels": labels,
                "annotations": self._annotations(found, owned),
                "ownerReferences": [owner_reference(found, DEPLOYMENTS)],
            },
            "spec": {
                "replicas": first if others or not rolling else _replicas(found),
                "minReadySeconds": spec.get("minReadySeconds") or 0,
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
                "template": template,
            },
        }
        answer = await self.create(REPLICA_SETS, made)
        self._scaled_event(found, answer, 0, made["spec"]["replicas"])
        return answer

    def _annotations(self, found: Obj, owned: list[Obj]) -> dict[str, str]:
        revision = 1 + max((_revision(s) for s in owned), default=0)
        return {
            REVISION: str(revision),
            DESIRED: str(_replicas(found)),
            MAXIMUM: str(_replicas(found) + _surge(found)),
        }

    async def _roll(self, found: Obj, new: Obj, old: list[Obj]) -> None:
        """Grow the new set up to maxSurge; shrink the old ones, unhealthy pods first, down to maxUnavailable."""
        wanted = _replicas(found)
        others = sum(_replicas(s) for s in old)
        current = _replicas(new)
        if current > wanted:
            await self._scale(found, new, wanted)
        elif current < wanted:
            room = max(0, wanted + _surge(found) - current - others)
            await self._scale(found, new, min(wanted, current + room))
        if not others:
            return
        new = self.sets.get(key_of(new)) or new
        least = wanted - _max_unavailable(found)
        new_missing = _replicas(new) - _available(new)
        spare = others + _replicas(new) - least - new_missing
        for victim in sorted(old, key=_revision):
            unhealthy = _replicas(victim) - _available(victim)
            cut = min(_replicas(victim), max(0, spare), unhealthy)
            if cut > 0:
                await self._scale(found, victim, _replicas(victim) - cut)
                spare -= cut
        available = sum(_available(s) for s in old) + _available(new)
        spare = available - least
        for victim in sorted(old, key=_revision):
            now = self.sets.get(key_of(victim)) or victim
            cut = min(_replicas(now), max(0, spare))
            if cut > 0:
                await self._scale(found, now, _replicas(now) - cut)
                spare -= cut

    async def _recreate(self, found: Obj, new: Obj, old: list[Obj]) -> None:
        """All old pods away before the first new one."""
        for victim in old:
            await self._scale(found, victim, 0)
        if not any((victim.get("status") or {}).get("replicas") for victim in old):
            await self._scale(found, new, _replicas(found))

    async def _scale_in_proportion(self, found: Obj, new: Obj | None, old: list[Obj]) -> None:
        """A paused Deployment still follows its replicas: its largest set takes the difference."""
        sets = [s for s in ([new] if new else []) + old if _replicas(s)] or ([new] if new else [])
        if sets:
            largest = max(sets, key=_replicas)
            rest = sum(_replicas(s) for s in sets) - _replicas(largest)
            await self._scale(found, largest, max(0, _replicas(found) - rest))

    async def _scale(self, found: Obj, target: Obj, replicas: int) -> None:
        before = _replicas(target)
        annotations = target["metadata"].get("annotations") or {}
        bounds = {DESIRED: str(_replicas(found)), MAXIMUM: str(_replicas(found) + _surge(found))}
        if before == replicas and bounds.items() <= annotations.items():
            return
        await self.patch(
            REPLICA_SETS, key_of(target), {"metadata": {"annotations": bounds}, "spec": {"replicas": replicas}}
        )
        if before != replicas:
            self._scaled_event(found, target, before, replicas)

    def _scaled_event(self, found: Obj, target: Obj, before: int, after: int) -> None:
        if before != after:
            name = target["metadata"]["name"]
            message = f"Scaled {'up' if after > before else 'down'} replica set {name} from {before} to {after}"
            self.recorder.publish(DEPLOYMENTS, found, "ScalingReplicaSet", message, component="deployment-controller")

    async def _mark_revision(self, found: Obj, new: Obj | None, old: list[Obj]) -> None:
        """A set that is new again (rollback) gets the highest revision; the Deployment bears it too."""
        if new is None:
            return
        revision = _revision(new)
        newest = max((_revision(s) for s in old), default=0)
        if revision <= newest:
            revision = newest + 1
            await self.patch(REPLICA_SETS, key_of(new), {"metadata": {"annotations": {REVISION: str(revision)}}})
        if (found["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
            await self.patch(DEPLOYMENTS, key_of(found), {"metadata": {"annotations": {REVISION: str(revision)}}})

    async def _prune(self, found: Obj, old: list[Obj]) -> None:
        limit = found["spec"].get("revisionHistoryLimit")
        limit = 10 if limit is None else int(limit)
        empty = [s for s in old if not _replicas(s) and not (s.get("status") or {}).get("replicas")]
        for victim in sorted(empty, key=_revision)[: max(0, len(empty) - limit)]:
            await self.delete(REPLICA_SETS, victim)

    async def _report(self, found: Obj, new: Obj | None) -> None:
        sets = self.sets.by("controller", found["metadata"]["uid"])
        new = self.sets.get(key_of(new)) if new is not None else None
        wanted, total = _replicas(found), sum(_status(s, "replicas") for s in sets)
        available = sum(_available(s) for s in sets)
        updated = _status(new, "replicas") if new is not None else 0
        done = updated == wanted == total == available
        enough = available >= wanted - _max_unavailable(found)
        status: Obj = {
            "observedGeneration": found["metadata"].get("generation"),
            "replicas": total or None,
            "updatedReplicas": updated or None,
            "readyReplicas": sum(_status(s, "readyReplicas") for s in sets) or None,
            "availableReplicas": available or None,
            "unavailableReplicas": max(0, total - available) or None,
        }
        minimum = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        lacking = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        now = self.now()
        available_as = "True" if enough else "False"
        conditions = with_condition(found, "Available", available_as, *(minimum if enough else lacking), now)
        name = new["metadata"]["name"] if new is not None else ""
        if done:
            progress = ("NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        else:
            progress = ("ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        seen = {**found, "status": {**(found.get("status") or {}), "conditions": conditions}}
        status["conditions"] = with_condition(seen, "Progressing", "True", *progress, now)
        await self.update_status(DEPLOYMENTS, found, status)


def _bare(template: Obj) -> Any:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
    return labels, meta.get("annotations") or {}, template["spec"]


def _template(replica_set: Obj) -> Any:
    return _bare(replica_set["spec"]["template"])


def _replicas(obj: Obj) -> int:
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _status(obj: Obj | None, field: str) -> int:
    return int(((obj or {}).get("status") or {}).get(field) or 0)


def _available(obj: Obj) -> int:
    return min(_status(obj, "availableReplicas"), _replicas(obj))


def _revision(replica_set: Obj) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(REVISION) or 0)


def _rolling(found: Obj) -> Obj:
    strategy: Obj = found["spec"].get("strategy") or {}
    return strategy.get("rollingUpdate") or {}


def _surge(found: Obj) -> int:
    if (found["spec"].get("strategy") or {}).get("type") == "Recreate":
        return 0
    return scaled(_rolling(found).get("maxSurge"), _replicas(found), round_up=True, default="25%")


def _max_unavailable(found: Obj) -> int:
    """maxUnavailable, at least 1 where maxSurge is 0 too, at most the replicas."""
    if (found["spec"].get("strategy") or {}).get("type") == "Recreate":
        return 0
    chosen = scaled(_rolling(found).get("maxUnavailable"), _replicas(found), round_up=False, default="25%")
    if chosen == 0 and _surge(found) == 0:
        chosen = 1
    return min(chosen, _replicas(found))
