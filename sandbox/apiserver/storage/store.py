"""Objects in memory with one global resourceVersion, a bounded history and watchers: what etcd is to a real API server.

Everything runs on the server's one event loop, so a read and a write without an `await` in between are one transaction.
Stored objects are never changed in place: a write replaces the whole object, so events, lists and caches share them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from sandbox.apiserver.kinds.resources import StorageKey

Obj = dict[str, Any]
ObjectKey = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

HISTORY_EVENTS = 10_000
"""How many events of one resource type can be replayed before a watch gets 410; etcd keeps five minutes of them."""


class CompactedError(Exception):
    """The history no longer reaches back to the asked resourceVersion."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class ConflictError(Exception):
    """The object has changed since the caller read it."""


@dataclass(slots=True, eq=False)
class Entry:
    """One version of one object, with its JSON made once for all that send it."""

    obj: Obj
    resource_version: int
    _raw: bytes = b""

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        if not self._raw:
            self._raw = orjson.dumps(self.obj)
        return self._raw

    def copy(self) -> Obj:
        """A deep copy that the caller may change."""
        loaded: Obj = orjson.loads(self.raw)
        return loaded


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A change: `before` is None on creation; on deletion `after` is the last state with the deletion's version."""

    resource_version: int
    type: str
    key: ObjectKey
    after: Entry
    before: Entry | None


@dataclass(slots=True)
class _Collection:
    entries: dict[ObjectKey, Entry] = field(default_factory=dict)
    history: deque[Event] = field(default_factory=deque)
    compacted_through: int = 0
    listeners: set[Callable[[Event], None]] = field(default_factory=set)


class Store:
    """All objects by storage key, then by (namespace, name)."""

    def __init__(self, *, first_resource_version: int = 2, history_events: int = HISTORY_EVENTS) -> None:
        self.resource_version = first_resource_version
        self._history_events = history_events
        self._collections: dict[StorageKey, _Collection] = {}
        self._born = first_resource_version

    def _collection(self, key: StorageKey) -> _Collection:
        collection = self._collections.get(key)
        if collection is None:
            collection = self._collections[key] = _Collection()
        return collection

    def storage_keys(self) -> list[StorageKey]:
        """The storage keys in use."""
        return [key for key, collection in self._collections.items() if collection.entries]

    def get(self, key: StorageKey, namespace: str, name: str) -> Entry | None:
        """The present version of one object."""
        return self._collection(key).entries.get((namespace, name))

    def list(self, key: StorageKey, namespace: str = "") -> list[Entry]:
        """All objects of a type (of one namespace, if given), ordered by namespace and name as etcd orders them."""
        entries = self._collection(key).entries
        if namespace:
            return [entries[k] for k in sorted(k for k in entries if k[0] == namespace)]
        return [entries[k] for k in sorted(entries)]

    def count(self, key: StorageKey) -> int:
        """How many objects of a type there are."""
        return len(self._collection(key).entries)

    def create(self, key: StorageKey, obj: Obj) -> Entry:
        """Adds an object; the caller has checked that its name is free. Raises ConflictError when it is not."""
        object_key = object_key_of(obj)
        if object_key in self._collection(key).entries:
            raise ConflictError(object_key)
        return self._write(key, "ADDED", object_key, obj, None)

    def update(self, key: StorageKey, obj: Obj, before: Entry) -> Entry:
        """Replaces `before` by `obj`; ConflictError when that is not stored any more. No change, no write."""
        object_key = object_key_of(obj)
        current = self._collection(key).entries.get(object_key)
        if current is not before:
            raise ConflictError(object_key)
        obj["metadata"]["resourceVersion"] = str(before.resource_version)
        if obj == before.obj:
            return before
        return self._write(key, "MODIFIED", object_key, obj, before)

    def delete(self, key: StorageKey, before: Entry) -> Entry:
        """Takes an object away; the returned entry is its last state with the deletion's resourceVersion."""
        object_key = object_key_of(before.obj)
        if self._collection(key).entries.get(object_key) is not before:
            raise ConflictError(object_key)
        return self._write(key, "DELETED", object_key, before.copy(), before)

    def _write(self, key: StorageKey, kind: str, object_key: ObjectKey, obj: Obj, before: Entry | None) -> Entry:
        collection = self._collection(key)
        self.resource_version += 1
        obj["metadata"]["resourceVersion"] = str(self.resource_version)
        entry = Entry(obj, self.resource_version)
        if kind == "DELETED":
            del collection.entries[object_key]
        else:
            collection.entries[object_key] = entry
        event = Event(self.resource_version, kind, object_key, entry, before)
        collection.history.append(event)
        while len(collection.history) > self._history_events:
            collection.compacted_through = collection.history.popleft().resource_version
        for listener in list(collection.listeners):
            listener(event)
        return entry

    def compact(self) -> int:
        """Forgets all history, as `etcdctl compact` does: a watch or list from an older resourceVersion gets 410."""
        for collection in self._collections.values():
            collection.history.clear()
            collection.compacted_through = self.resource_version
        self._born = self.resource_version
        return self.resource_version

    def since(self, key: StorageKey, resource_version: int) -> Iterator[Event]:
        """The events after `resource_version`, oldest first. Raises CompactedError when some of them are forgotten."""
        collection = self._collection(key)
        oldest = max(collection.compacted_through, self._born)
        if resource_version < oldest:
            raise CompactedError(resource_version, oldest)
        return iter([event for event in collection.history if event.resource_version > resource_version])

    def listen(self, key: StorageKey, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Calls `listener` at each change of a type until the returned function is called."""
        listeners = self._collection(key).listeners
        listeners.add(listener)
        return lambda: listeners.discard(listener)

    def dump(self) -> dict[str, Any]:
        """Everything that is stored, as JSON values (history is not kept)."""
        objects = {
            f"{group}/{plural}": [e.obj for e in self.list((group, plural))] for group, plural in self.storage_keys()
        }
        return {"resourceVersion": self.resource_version, "objects": objects}

    def load(self, dumped: dict[str, Any]) -> None:
        """Takes over what `dump` gave. Watches from before get 410, as after an etcd restore."""
        self.resource_version = self._born = int(dumped["resourceVersion"])
        for path, objects in dumped["objects"].items():
            group, _, plural = path.partition("/")
            entries = self._collection((group, plural)).entries
            for obj in objects:
                entries[object_key_of(obj)] = Entry(obj, int(obj["metadata"]["resourceVersion"]))


def object_key_of(obj: Obj) -> ObjectKey:
    """(namespace, name) of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
