"""What every controller is: a queue of keys fed by informers, and a `sync` that makes the world match one object."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass

import orjson

from sandbox.world.client import ApiClient
from sandbox.world.clock import WorldClock, timestamp
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informer, Informers
from sandbox.world.resources import Key, Obj, Resource, controller_of, key_of
from sandbox.world.workqueue import Workqueue

SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' SafeEncodeString alphabet: hashes never spell words."""


@dataclass(frozen=True, slots=True)
class Context:
    """What controllers share."""

    client: ApiClient
    informers: Informers
    recorder: EventRecorder
    clock: WorldClock


class Controller(ABC):
    """One kind's controller. Subclasses set `name` and wire their informers in `__init__`."""

    name = ""
    concurrency = 4

    def __init__(self, context: Context) -> None:
        self.client = context.client
        self.informers = context.informers
        self.recorder = context.recorder
        self.clock = context.clock
        self.queue: Workqueue[Key] = Workqueue(self.name, context.clock)

    @abstractmethod
    async def sync(self, key: Key) -> float | None:
        """Bring one object to its desired state; sandbox seconds until it should be looked at again, or None."""

    async def run(self) -> None:
        """Work the queue for ever."""
        await self.queue.run(self.sync, self.concurrency)

    # Wiring

    def watch(self, resource: Resource) -> Informer:
        """Queue each changed object of `resource`."""
        informer = self.informers.of(resource)
        informer.add_handler(lambda old, new: self.queue.add(key_of(new or old or {})))
        return informer

    def watch_owned(self, resource: Resource, owner: Resource) -> Informer:
        """Queue the controlling `owner` of each changed object of `resource`; index these by owner uid."""
        informer = self.informers.of(resource)
        informer.add_index("controller", _controller_uid)

        def handle(old: Obj | None, new: Obj | None) -> None:
            for obj in (old, new):
                reference = controller_of(obj) if obj is not None else None
                if obj is not None and reference is not None and reference["kind"] == owner.kind:
                    self.queue.add((obj["metadata"].get("namespace", ""), reference["name"]))

        informer.add_handler(handle)
        return informer

    # Writing

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        """Create, and let the own cache know at once."""
        made = await self.client.create(resource, obj)
        self.informers.of(resource).absorb(made)
        return made

    async def patch(self, resource: Resource, key: Key, body: Obj, subresource: str = "") -> Obj:
        """Merge-patch, and let the own cache know at once."""
        made = await self.client.patch(resource, key, body, subresource=subresource)
        self.informers.of(resource).absorb(made)
        return made

    async def delete(self, resource: Resource, obj: Obj, grace_seconds: int | None = None) -> None:
        """Delete, and let the own cache know at once."""
        await self.client.delete(resource, obj, grace_seconds=grace_seconds)
        self.informers.of(resource).mark_deleting(obj, timestamp(self.clock.now()))

    async def update_status(self, resource: Resource, obj: Obj, status: Obj) -> None:
        """Write the keys of `status` that differ; nothing if none does. A None deletes the key."""
        current = obj.get("status") or {}
        changed = {key: value for key, value in status.items() if current.get(key) != value}
        if changed:
            await self.patch(resource, key_of(obj), {"status": changed}, subresource="status")

    def now(self) -> str:
        """metav1.Time of now."""
        return timestamp(self.clock.now())


def _controller_uid(obj: Obj) -> list[str]:
    reference = controller_of(obj)
    return [reference["uid"]] if reference is not None else []


def template_hash(template: Obj) -> str:
    """A short, stable hash of a pod template in Kubernetes' safe alphabet."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    number = int.from_bytes(digest[:6], "big")
    letters = []
    for _ in range(10):
        number, index = divmod(number, len(SAFE_ALPHABET))
        letters.append(SAFE_ALPHABET[index])
    return "".join(letters)


def pod_from_template(template: Obj, owner: Obj, reference: Obj) -> Obj:
    """A pod of `owner` from its template; the server makes the name unless one is set afterwards."""
    meta = template.get("metadata") or {}
    made: Obj = {
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "ownerReferences": [reference],
        },
        "spec": orjson.loads(orjson.dumps(template["spec"])),
    }
    if meta.get("annotations"):
        made["metadata"]["annotations"] = dict(meta["annotations"])
    if meta.get("finalizers"):
        made["metadata"]["finalizers"] = list(meta["finalizers"])
    return made


def is_active(pod: Obj) -> bool:
    """Neither ended nor being deleted."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and not is_deleting(pod)


def is_deleting(obj: Obj) -> bool:
    """metadata.deletionTimestamp is set."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def condition(obj: Obj, kind: str) -> Obj:
    """The status condition of that type, or an empty mapping."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == kind:
            result: Obj = found
            return result
    return {}


def is_ready(pod: Obj) -> bool:
    """Condition Ready is True."""
    return condition(pod, "Ready").get("status") == "True"


def with_condition(obj: Obj, kind: str, status: str, reason: str, message: str, now: str) -> list[Obj]:
    """The object's conditions with one set; its transition time moves only when its status does."""
    old = condition(obj, kind)
    same = old.get("status") == status
    fresh = {
        **old,
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": old.get("lastTransitionTime", now) if same else now,
    }
    others = [found for found in (obj.get("status") or {}).get("conditions") or () if found["type"] != kind]
    return [*others, fresh]


def scaled(value: int | str | None, total: int, *, round_up: bool, default: int | str) -> int:
    """An int-or-percent field (maxSurge, minAvailable) of `total`."""
    chosen = default if value is None else value
    if isinstance(chosen, str) and chosen.endswith("%"):
        numerator = int(chosen[:-1]) * total
        return -(-numerator // 100) if round_up else numerator // 100
    return int(chosen)
