"""The Kubernetes API in memory: what the controller's loops ask of it, and its watches.

Objects are JSON documents that are never changed in place: a write makes a new one and tells the listeners.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import urllib3

from controller.errors import AlreadyExistsError, ConflictError, NotFoundError
from controller.kube.client import KubeClient, ObjectList
from controller.kube.connection import Connection
from controller.kube.list_decoding import Decode
from controller.kube.resources import EVENTS, NODES, PODS, Resource
from controller.runtime.clock import Clock

Document = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name); the namespace of cluster-scoped objects is empty."""
Listener = Callable[[str, str, Document], None]
"""Called with the kind, ADDED, MODIFIED or DELETED, and the object."""


class MemoryKube(KubeClient):
    """The API server, as a client sees it. Pods end as `end_pod` says; evictions are judged by `may_evict`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Connection("http://127.0.0.1:9", urllib3.PoolManager(), None), clock=clock)
        self.clock = clock
        self.objects: defaultdict[str, dict[Key, Document]] = defaultdict(dict)
        self.requests: Counter[str] = Counter()
        """The controller's requests, by verb and kind."""
        self.listeners: list[Listener] = []
        self.end_pod: Callable[[Document], None] = lambda pod: self.remove(PODS, pod)
        self.evict_pod: Callable[[Document], None] = lambda pod: self.end_pod(pod)
        """Evict, or raise TooManyRequestsError."""
        self.bind_pod: Callable[[Document, str], object] = lambda pod, node: self.put(
            PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}}
        )
        """Bind the pod, which has no node, to a node by its name."""
        self._numbers = itertools.count(1)

    # What the cluster does

    def put(self, resource: Resource, document: Mapping[str, Any]) -> Document:
        """Store an object as it is, with a new resource version, and tell the listeners."""
        metadata = dict(document["metadata"])
        key = (metadata.get("namespace", ""), metadata["name"])
        known = self.objects[resource.kind].get(key)
        number = next(self._numbers)
        metadata.setdefault("uid", f"{resource.kind.lower()}-{number}")
        metadata.setdefault("creationTimestamp", timestamp(self.clock.now()))
        metadata["resourceVersion"] = str(number)
        stored = {"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": metadata}
        self.objects[resource.kind][key] = stored
        self._tell(resource, "MODIFIED" if known else "ADDED", stored)
        return stored

    def remove(self, resource: Resource, document: Mapping[str, Any]) -> None:
        """Drop an object, and tell the listeners."""
        metadata = document["metadata"]
        gone = self.objects[resource.kind].pop((metadata.get("namespace", ""), metadata["name"]), None)
        if gone is not None:
            version = {"metadata": {**gone["metadata"], "resourceVersion": str(next(self._numbers))}}
            self._tell(resource, "DELETED", {**gone, **version})

    def find(self, resource: Resource, name: str, namespace: str = "") -> Document | None:
        """One object, or None."""
        return self.objects[resource.kind].get((namespace, name))

    def all(self, resource: Resource) -> list[Document]:
        """All objects of a kind."""
        return list(self.objects[resource.kind].values())

    def _tell(self, resource: Resource, change: str, document: Document) -> None:
        if resource.kind != EVENTS.kind:
            for listener in self.listeners:
                listener(resource.kind, change, document)

    # What the controller asks

    def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        self._count("get", resource)
        return self._existing(resource, name, namespace)

    def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[Document]:
        return [dict(each) for each in self.list_all(resource, namespace, label_selector, field_selector).items]

    def list_all(
        self,
        resource: Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        decode: Decode | None = None,
    ) -> ObjectList:
        by, _, value = field_selector.partition("=")
        if label_selector or decode or by not in ("", "spec.nodeName", "metadata.name"):
            raise NotImplementedError(f"selectors {label_selector!r}, {field_selector!r}")
        self._count("list", resource)
        found = [
            each
            for each in self.all(resource)
            if (not namespace or each["metadata"].get("namespace") == namespace)
            and (by != "spec.nodeName" or each["spec"].get("nodeName") == value)
            and (by != "metadata.name" or each["metadata"]["name"] == value)
        ]
        return ObjectList(tuple(found), str(next(self._numbers)))

    def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = "", name: str = ""
    ) -> Document:
        if subresource == "binding":
            return self._create_binding(obj, namespace, name)
        self._count("create", resource)
        metadata = {**obj["metadata"], **({"namespace": namespace} if namespace else {})}
        if self.find(resource, metadata["name"], metadata.get("namespace", "")) is not None:
            raise AlreadyExistsError(f"{resource.kind} {metadata['name']} exists", 409)
        document = {**obj, "metadata": metadata}
        if resource.kind == NODES.kind:  # as admission does (TaintNodesByCondition)
            not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
            spec = document.get("spec") or {}
            document["spec"] = {**spec, "taints": [*(spec.get("taints") or ()), not_ready]}
        return self.put(resource, document)

    def _create_binding(self, binding: Mapping[str, Any], namespace: str, name: str) -> Document:
        self._count("bind", PODS)
        pod = self._existing(PODS, name, namespace)
        taken = pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]
        if taken or pod["metadata"]["uid"] != binding["metadata"]["uid"]:
            raise ConflictError(f"Pod {name} has a node, ends, or is another", 409)
        self.bind_pod(pod, binding["target"]["name"])
        return {"kind": "Status", "status": "Success"}

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        kind: str = "merge",
        subresource: str = "",
    ) -> Document:
        self._count("patch", resource)
        if kind != "merge":
            raise NotImplementedError(f"{kind} patch")
        present = self._existing(resource, name, namespace)
        version = patch.get("metadata", {}).get("resourceVersion")
        if version is not None and version != present["metadata"]["resourceVersion"]:
            raise ConflictError(f"{resource.kind} {name} has changed", 409)
        merged = merge(present, patch)
        if merged["metadata"].get("deletionTimestamp") and not merged["metadata"].get("finalizers"):
            self.remove(resource, merged)
            return merged
        return self.put(resource, merged)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> Document:
        self._count("delete", resource)
        present = self._existing(resource, name, namespace)
        if uid is not None and uid != present["metadata"]["uid"]:
            raise ConflictError(f"{resource.kind} {name} has another uid", 409)
        if resource.kind == PODS.kind:
            self.end_pod(present)
        elif present["metadata"].get("finalizers"):
            if not present["metadata"].get("deletionTimestamp"):
                now = {"deletionTimestamp": timestamp(self.clock.now())}
                return self.put(resource, {**present, "metadata": {**present["metadata"], **now}})
        else:
            self.remove(resource, present)
        return present

    def evict(self, namespace: str, name: str, uid: str, *, grace_period_seconds: int | None = None) -> None:
        self._count("evict", PODS)
        present = self._existing(PODS, name, namespace)
        if uid != present["metadata"]["uid"]:
            raise ConflictError(f"Pod {name} has another uid", 409)
        self.evict_pod(present)

    def _existing(self, resource: Resource, name: str, namespace: str) -> Document:
        found = self.find(resource, name, namespace)
        if found is None:
            raise NotFoundError(f"{resource.kind} {name} is not there", 404)
        return found

    def _count(self, verb: str, resource: Resource) -> None:
        self.requests[f"{verb} {resource.plural}"] += 1


def merge(document: Document, patch: Mapping[str, Any]) -> Document:
    """The document after a JSON merge patch (RFC 7386); shares what did not change."""
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = merge(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def timestamp(now: float) -> str:
    """Unix seconds as the API writes times: whole seconds."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
