"""List and watch into a local cache, with handlers and indexes: what every controller reads instead of the API server.

A controller's own writes are put into the cache at once (`absorb`), so that it never acts on its own stale view; the
watch
confirms them. That serves in place of client-go's expectations.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping

from sandbox.world.client import ApiClient, ApiError
from sandbox.world.resources import Key, Obj, Resource, key_of

Handler = Callable[[Obj | None, Obj | None], None]
"""Called with (old, new); old is None for a new object, new is None for a deleted one."""
IndexFunction = Callable[[Obj], Iterable[str]]

TOMBSTONES = 20_000
MAX_BACKOFF_SECONDS = 5.0

log = logging.getLogger(__name__)


class Informer:
    """The cache of one resource. All of it runs on one event loop; readers must not change what they read.

    `fields` is a field selector: only what it selects is listed and watched. Empty: everything.
    """

    def __init__(self, client: ApiClient, resource: Resource, optional: bool = False, fields: str = "") -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._client = client
        self._optional = optional
        self._selection = {"fieldSelector": fields} if fields else {}
        self._objects: dict[Key, Obj] = {}
        self._handlers: list[Handler] = []
        self._index_functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[Key, Obj]]] = {}
        self._deleted_uids: OrderedDict[str, None] = OrderedDict()

    # Reading

    def __iter__(self) -> Iterator[Obj]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> Obj | None:
        """The cached object, or None."""
        return self._objects.get(key)

    def by(self, index: str, value: str) -> list[Obj]:
        """Objects whose index function gave `value`."""
        return list(self._indexes[index].get(value, {}).values())

    # Wiring

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` on every change, in the order of registration."""
        self._handlers.append(handler)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Keep an index; registering the same name again is harmless."""
        if name not in self._index_functions:
            self._index_functions[name] = function
            self._indexes[name] = {}
            for key, obj in self._objects.items():
                self._index(name, key, None, obj)

    # Own writes

    def absorb(self, obj: Obj) -> None:
        """Take the answer to an own write as the newest state, unless the watch has brought a newer one."""
        known = self._objects.get(key_of(obj))
        if obj["metadata"]["uid"] in self._deleted_uids or (known is not None and not _newer(obj, known)):
            return
        self._set(key_of(obj), obj)

    def mark_deleting(self, obj: Obj, at: str) -> None:
        """Show the object as being deleted from now on, after an own DELETE was accepted."""
        known = self._objects.get(key_of(obj))
        if known is None or known["metadata"]["uid"] != obj["metadata"]["uid"]:
            return
        if not known["metadata"].get("deletionTimestamp"):
            self._set(key_of(obj), {**known, "metadata": {**known["metadata"], "deletionTimestamp": at}})

    # Keeping up

    async def run(self) -> None:
        """List, then watch from there, for ever; back off on trouble, list again on 410."""
        backoff = 0.1
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                    self.synced.set()
                async for kind, obj in self._client.watch(self.resource, version, self._selection):
                    backoff = 0.1
                    version = obj["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        self._apply(kind, obj)
            except ApiError as error:
                if error.not_found and self._optional:
                    self.synced.set()
                if error.status:  # a lost connection goes on from the last version; a refusal starts anew
                    version = ""
                if not error.gone:
                    log.debug("%s: %s", self.resource.plural, error)
                    await asyncio.sleep(backoff)
                    backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)

    async def _relist(self) -> str:
        items, version = await self._client.list_all(self.resource, self._selection)
        fresh = {key_of(item): item for item in items}
        for key in [key for key in self._objects if key not in fresh]:
            self._set(key, None)
        for key, item in fresh.items():
            known = self._objects.get(key)
            if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._set(key, item)
        return version

    def _apply(self, kind: str, obj: Obj) -> None:
        key = key_of(obj)
        known = self._objects.get(key)
        if kind == "DELETED":
            self._bury(obj["metadata"]["uid"])
            if known is not None and known["metadata"]["uid"] == obj["metadata"]["uid"]:
                self._set(key, None)
        elif known is None or known["metadata"]["uid"] != obj["metadata"]["uid"] or _newer(obj, known):
            self._set(key, obj)

    def _bury(self, uid: str) -> None:
        self._deleted_uids[uid] = None
        if len(self._deleted_uids) > TOMBSTONES:
            self._deleted_uids.popitem(last=False)

    def _set(self, key: Key, obj: Obj | None) -> None:
        old = self._objects.get(key)
        if obj is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj
        for name in self._index_functions:
            self._index(name, key, old, obj)
        if old is not None and obj is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._notify(old, None)
            old = None
        self._notify(old, obj)

    def _notify(self, old: Obj | None, new: Obj | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:
                key = key_of(new or old or {})
                log.exception("a handler failed on %s %s/%s; others carry on", self.resource.kind, *key)

    def _index(self, name: str, key: Key, old: Obj | None, new: Obj | None) -> None:
        index, function = self._indexes[name], self._index_functions[name]
        for value in function(old) if old is not None else ():
            bucket = index.get(value, {})
            bucket.pop(key, None)
            if not bucket:
                index.pop(value, None)
        for value in function(new) if new is not None else ():
            index.setdefault(value, {})[key] = new if new is not None else {}


def _newer(candidate: Obj, known: Obj) -> bool:
    """Whether `candidate` is a later state; resourceVersions are compared as integers (etcd revisions are)."""
    return int(candidate["metadata"]["resourceVersion"]) >= int(known["metadata"]["resourceVersion"])


class Informers:
    """One informer per resource, shared by all parts of the world. `fields`: field selectors, by resource."""

    def __init__(self, client: ApiClient, fields: Mapping[Resource, str] | None = None) -> None:
        self.client = client
        self._fields = fields or {}
        self._informers: dict[Resource, Informer] = {}

    def of(self, resource: Resource) -> Informer:
        """The shared informer of a resource; ask for it before `start`."""
        if resource not in self._informers:
            self._informers[resource] = Informer(self.client, resource, fields=self._fields.get(resource, ""))
        return self._informers[resource]

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run every informer asked for so far as a task of `group`."""
        for informer in self._informers.values():
            group.create_task(informer.run(), name=f"informer {informer.resource.plural}")

    async def wait_synced(self) -> None:
        """Until every informer has listed once."""
        for informer in self._informers.values():
            await informer.synced.wait()
