"""CustomResourceDefinitions: registering one makes its resource appear, deleting it takes it away."""

from __future__ import annotations

from typing import Any

from sandbox.apiserver.api import API, CustomType
from sandbox.apiserver.kinds.resources import Resource, StorageKey
from sandbox.apiserver.schemas.schema import Schema
from sandbox.apiserver.schemas.structural import Validator
from sandbox.apiserver.storage.deletion import CRD_CLEANUP, CRDS, begin, finish_deletion
from sandbox.apiserver.storage.gc import GarbageCollector
from sandbox.apiserver.storage.store import Event, Obj


class CustomResources:
    """Follows the CRDs in the store and keeps the registry in step with them."""

    def __init__(self, api: API, collector: GarbageCollector) -> None:
        self._api = api
        self._collector = collector
        self._followed: set[StorageKey] = set()
        for entry in api.store.list(CRDS):
            self._register(entry.obj)
        api.store.listen(CRDS, self._on_event)

    def _on_event(self, event: Event) -> None:
        crd = event.after.obj
        spec = crd["spec"]
        if event.type == "DELETED":
            self._unregister(spec["group"], spec["names"]["plural"])
            return
        if "deletionTimestamp" in crd["metadata"]:
            self._api.spawn(self._drop_objects(crd["metadata"]["name"]))
        if event.before is None or event.before.obj["spec"] != spec:
            self._register(crd)
        if not _established(crd):
            self._api.spawn(self._establish(crd["metadata"]["name"]))

    def _register(self, crd: Obj) -> None:
        spec, names = crd["spec"], crd["spec"]["names"]
        self._unregister(spec["group"], names["plural"])
        for version in spec["versions"]:
            if not version.get("served"):
                continue
            declared = version.get("subresources") or {}
            resource = Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=names.get("singular") or names["kind"].lower(),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=frozenset(key for key in ("status", "scale") if declared.get(key) is not None),
                list_kind=names.get("listKind") or f"{names['kind']}List",
                custom=True,
            )
            raw = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
            self._api.custom_types[spec["group"], version["name"], names["plural"]] = CustomType(
                schema=Schema(raw),
                validator=Validator(raw),
                columns=tuple(version.get("additionalPrinterColumns") or ()),
                scale=declared.get("scale"),
                selectable_fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
            )
            self._api.registry.add(resource)
            self._follow(crd["metadata"]["name"], resource.storage_key)

    def _follow(self, name: str, key: StorageKey) -> None:
        self._collector.watch(key)
        if key not in self._followed:
            self._followed.add(key)
            self._api.store.listen(key, lambda event: self._on_object(name, event))

    def _unregister(self, group: str, plural: str) -> None:
        self._api.registry.remove(group, plural)
        for key in [key for key in self._api.custom_types if (key[0], key[2]) == (group, plural)]:
            del self._api.custom_types[key]

    async def _establish(self, name: str) -> None:
        entry = self._api.store.get(CRDS, "", name)
        if entry is None or _established(entry.obj):
            return
        crd = entry.copy()
        spec = crd["spec"]
        now = self._api.now()
        crd["status"] = {
            "conditions": [
                _true("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _true("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
            ],
            "acceptedNames": dict(spec["names"]),
            "storedVersions": [version["name"] for version in spec["versions"] if version.get("storage")],
        }
        self._api.store.update(CRDS, crd, entry)

    async def _drop_objects(self, name: str) -> None:
        """What the CRD's finalizer stands for: all objects of the type are deleted, then the definition goes."""
        entry = self._api.store.get(CRDS, "", name)
        if entry is None or CRD_CLEANUP not in (entry.obj["metadata"].get("finalizers") or ()):
            return
        spec = entry.obj["spec"]
        key = (spec["group"], spec["names"]["plural"])
        resource = self._api.registry.by_storage_key(key)
        if resource is not None:
            for found in self._api.store.list(key):
                if "deletionTimestamp" not in found.obj["metadata"]:
                    begin(self._api, resource, found, {})
        if self._api.store.count(key):
            return
        crd = entry.copy()
        crd["metadata"]["finalizers"] = [f for f in crd["metadata"]["finalizers"] if f != CRD_CLEANUP]
        definition = self._api.registry.by_storage_key(CRDS)
        assert definition is not None
        if not finish_deletion(self._api, definition, entry, crd):
            self._api.store.update(CRDS, crd, entry)

    def _on_object(self, name: str, event: Event) -> None:
        """The last object of a type that goes lets its CRD go."""
        if event.type == "DELETED":
            self._api.spawn(self._drop_objects(name))


def _true(kind: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}


def _established(crd: Obj) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
