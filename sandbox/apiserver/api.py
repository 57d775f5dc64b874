"""What every handler of the API server shares: the store, the resource types, admission, the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sandbox.apiserver.admission.admission import Admission
from sandbox.apiserver.errors import not_found
from sandbox.apiserver.faults import Faults
from sandbox.apiserver.kinds.resources import Registry, Resource, StorageKey
from sandbox.apiserver.requests import Request
from sandbox.apiserver.schemas import schema
from sandbox.apiserver.schemas.schema import Schema
from sandbox.apiserver.schemas.structural import Validator
from sandbox.apiserver.storage.store import Entry, Obj, Store


@dataclass(frozen=True, slots=True)
class CustomType:
    """What a CRD says about one of its versions."""

    schema: Schema
    validator: Validator
    columns: tuple[dict[str, Any], ...] = ()
    scale: dict[str, Any] | None = None
    selectable_fields: tuple[str, ...] = ()


def utc_now() -> datetime:
    """The time of day; tests pass their own function instead."""
    return datetime.now(UTC)


@dataclass(slots=True)
class API:
    """The state of one API server. All of it belongs to the server's event loop."""

    store: Store = field(default_factory=Store)
    registry: Registry = field(default_factory=Registry)
    admission: Admission = field(default_factory=Admission)
    faults: Faults = field(default_factory=Faults)
    custom_types: dict[tuple[str, str, str], CustomType] = field(default_factory=dict)
    clock: Callable[[], datetime] = utc_now
    bookmark_seconds: float = 10.0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def now(self) -> str:
        """The present time as `metav1.Time` spells it (seconds, UTC)."""
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def custom_type(self, resource: Resource) -> CustomType | None:
        """What the CRD says, or None for a built-in type."""
        return self.custom_types.get((resource.group, resource.version, resource.plural))

    def schema_of(self, resource: Resource) -> Schema:
        """The schema of a resource's objects; an open one for a CRD that preserves unknown fields."""
        custom = self.custom_type(resource)
        if custom is not None:
            return custom.schema
        return schema.built_in(resource.group, resource.version, resource.kind) or schema.ANYTHING

    def entry(self, request: Request) -> Entry:
        """The object that a request names. Raises 404."""
        resource = request.resource
        found = self.store.get(resource.storage_key, request.namespace, request.name)
        if found is None:
            raise not_found(resource.group, resource.plural, request.name)
        return found

    def lookup(self, key: StorageKey, namespace: str, name: str) -> Obj | None:
        """An object that a rule needs to see (not to be changed), or None."""
        found = self.store.get(key, namespace, name)
        return found.obj if found else None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work of the server's own controllers (garbage collection, namespaces) beside the requests."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
