"""The garbage collector and the namespace controller: what kube-controller-manager does for deletions."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.kinds.resources import StorageKey
from sandbox.apiserver.storage.deletion import FOREGROUND, ORPHAN, begin, finish_deletion
from sandbox.apiserver.storage.store import ConflictError, Event, Obj, ObjectKey

_Where = tuple[StorageKey, ObjectKey]


class GarbageCollector:
    """Deletes dependents whose last owner is gone, releases owners that wait, empties namespaces that are deleted."""

    def __init__(self, api: API) -> None:
        self._api = api
        self._dependents: defaultdict[str, set[_Where]] = defaultdict(set)
        self._alive: dict[str, _Where] = {}
        self._watched: set[StorageKey] = set()

    def watch(self, key: StorageKey) -> None:
        """Follows a resource type from now on; what is stored already is taken in."""
        if key in self._watched:
            return
        self._watched.add(key)
        for entry in self._api.store.list(key):
            self._learn(key, entry.obj)
            if key == ("", "namespaces"):
                self._api.spawn(self._service_account(entry.obj["metadata"]["name"]))
        self._api.store.listen(key, lambda event: self._on_event(key, event))

    def _learn(self, key: StorageKey, obj: Obj) -> None:
        metadata = obj["metadata"]
        where = (key, (metadata.get("namespace", ""), metadata["name"]))
        self._alive[metadata["uid"]] = where
        for reference in metadata.get("ownerReferences") or ():
            self._dependents[reference["uid"]].add(where)

    def _on_event(self, key: StorageKey, event: Event) -> None:
        metadata = event.after.obj["metadata"]
        if event.type == "DELETED":
            self._alive.pop(metadata["uid"], None)
            if metadata["uid"] in self._dependents:
                self._api.spawn(self._owner_gone(metadata["uid"]))
            owners = [r["uid"] for r in metadata.get("ownerReferences") or ()]
            for uid in owners:
                self._dependents[uid].discard((key, event.key))
                self._api.spawn(self._release_owner(uid))
            self._maybe_namespace(metadata.get("namespace", ""))
            return
        self._learn(key, event.after.obj)
        if key == ("", "namespaces") and event.type == "ADDED":
            self._api.spawn(self._service_account(metadata["name"]))
        owners = [r["uid"] for r in metadata.get("ownerReferences") or ()]
        if owners and not any(uid in self._alive for uid in owners):
            self._api.spawn(self._owner_gone(owners[0]))
        if "deletionTimestamp" in metadata:
            if key == ("", "namespaces"):
                self._api.spawn(self._empty_namespace(metadata["name"]))
            if {FOREGROUND, ORPHAN} & set(metadata.get("finalizers") or ()):
                self._api.spawn(self._propagate(key, event.key))

    def _maybe_namespace(self, namespace: str) -> None:
        found = self._api.lookup(("", "namespaces"), "", namespace) if namespace else None
        if found is not None and "deletionTimestamp" in found["metadata"]:
            self._api.spawn(self._empty_namespace(namespace))

    async def _owner_gone(self, uid: str) -> None:
        await asyncio.sleep(0)
        for key, (namespace, name) in list(self._dependents.get(uid, ())):
            entry = self._api.store.get(key, namespace, name)
            if entry is None:
                self._dependents[uid].discard((key, (namespace, name)))
                continue
            owners = [r["uid"] for r in entry.obj["metadata"].get("ownerReferences") or ()]
            if uid in owners and not any(owner in self._alive for owner in owners):
                self._delete(key, namespace, name, {"propagationPolicy": "Background"})

    async def _propagate(self, key: StorageKey, object_key: ObjectKey) -> None:
        """Foreground: dependents first. Orphan: dependents lose their owner reference."""
        await asyncio.sleep(0)
        entry = self._api.store.get(key, *object_key)
        if entry is None:
            return
        uid = entry.obj["metadata"]["uid"]
        finalizers = entry.obj["metadata"].get("finalizers") or ()
        for dependent_key, (namespace, name) in list(self._dependents.get(uid, ())):
            if ORPHAN in finalizers:
                self._orphan(dependent_key, namespace, name, uid)
            else:
                self._delete(dependent_key, namespace, name, {"propagationPolicy": "Foreground"})
        await self._release_owner(uid)

    async def _release_owner(self, uid: str) -> None:
        """Takes the collector's finalizer off an owner that waited for its dependents."""
        await asyncio.sleep(0)
        if uid not in self._alive:
            return
        key, object_key = self._alive[uid]
        entry = self._api.store.get(key, *object_key)
        if entry is None or "deletionTimestamp" not in entry.obj["metadata"]:
            return
        marks = {FOREGROUND, ORPHAN} & set(entry.obj["metadata"].get("finalizers") or ())
        if marks and not self._blocking(uid):
            self._without_finalizers(key, entry.copy(), marks)

    def _blocking(self, uid: str) -> bool:
        for key, (namespace, name) in self._dependents.get(uid, ()):
            dependent = self._api.lookup(key, namespace, name)
            if dependent is not None and any(
                r["uid"] == uid and r.get("blockOwnerDeletion")
                for r in dependent["metadata"].get("ownerReferences") or ()
            ):
                return True
        return False

    def _without_finalizers(self, key: StorageKey, obj: Obj, marks: set[str]) -> None:
        metadata = obj["metadata"]
        metadata["finalizers"] = [f for f in metadata["finalizers"] if f not in marks]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        self._replace(key, obj)

    def _orphan(self, key: StorageKey, namespace: str, name: str, uid: str) -> None:
        entry = self._api.store.get(key, namespace, name)
        if entry is None:
            return
        obj = entry.copy()
        obj["metadata"]["ownerReferences"] = [
            r for r in obj["metadata"].get("ownerReferences") or () if r["uid"] != uid
        ]
        if not obj["metadata"]["ownerReferences"]:
            del obj["metadata"]["ownerReferences"]
        self._dependents[uid].discard((key, (namespace, name)))
        self._replace(key, obj)

    def _replace(self, key: StorageKey, obj: Obj) -> None:
        resource = self._api.registry.by_storage_key(key)
        entry = self._api.store.get(key, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if resource is None or entry is None:
            return
        if not finish_deletion(self._api, resource, entry, obj):
            self._api.store.update(key, obj, entry)

    def _delete(self, key: StorageKey, namespace: str, name: str, options: dict[str, Any]) -> None:
        resource = self._api.registry.by_storage_key(key)
        entry = self._api.store.get(key, namespace, name)
        if resource is not None and entry is not None and "deletionTimestamp" not in entry.obj["metadata"]:
            begin(self._api, resource, entry, options)

    async def _service_account(self, namespace: str) -> None:
        """The service account controller: every namespace has an account `default`."""
        await asyncio.sleep(0)
        key = ("", "serviceaccounts")
        if self._api.store.get(key, namespace, "default") is None:
            metadata = {"name": "default", "namespace": namespace, "uid": str(uuid.uuid4())}
            metadata["creationTimestamp"] = self._api.now()
            self._api.store.create(key, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata})

    async def _empty_namespace(self, name: str) -> None:
        """The namespace controller: deletes all content, then lets the namespace go when it is empty."""
        await asyncio.sleep(0)
        left = 0
        for key in self._api.store.storage_keys():
            resource = self._api.registry.by_storage_key(key)
            if resource is None or not resource.namespaced:
                continue
            for entry in self._api.store.list(key, name):
                self._delete(key, name, entry.obj["metadata"]["name"], {"propagationPolicy": "Background"})
            left += len(self._api.store.list(key, name))
        entry_ = self._api.store.get(("", "namespaces"), "", name)
        if entry_ is None or left:
            return
        obj = entry_.copy()
        if not obj["spec"].get("finalizers"):
            return
        obj["spec"]["finalizers"] = [f for f in obj["spec"]["finalizers"] if f != "kubernetes"]
        try:
            self._replace(("", "namespaces"), obj)
        except ConflictError:
            self._api.spawn(self._empty_namespace(name))
