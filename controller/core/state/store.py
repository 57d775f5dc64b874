"""The parsed objects of one kind, kept current in whatever order events arrive.

The rules follow from Kubernetes' guarantees. A uid is never reused, so an object whose uid was deleted is not
resurrected by a late event. Resource versions of one kind grow, and since v1.35 may be compared as integers
(https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions); where one is not a decimal number,
the order of arrival holds. A list replaces the content of the store (a control plane restored from a backup
counts from a lower version), except for responses to our own writes that are newer than the list; these survive one
list.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from controller.core.api.document import Document
from controller.core.api.frozen import FrozenMap
from controller.core.state.change import Change, ChangeType
from controller.core.state.snapshot import InvalidObject
from controller.errors import NodelessError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_TOMBSTONES = 20_000
"""Deleted uids remembered; no event arrives later than this many deletions of its kind."""

MALFORMED = (NodelessError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What a parser raises on a document that is not of its kind."""


@dataclass(slots=True)
class _Meta:
    """Identity and version of an object. `learned`: from our own write, not yet reported by the watch."""

    uid: str
    resource_version: str
    learned: bool = False


@dataclass(frozen=True, slots=True)
class Delta(Generic[K, V]):
    """One key's value before and after; None: absent, or refused. `reborn`: another object (uid) of the same name.

    `quiet`: nothing that the controller reads differs except the resource version (such as a heartbeat).
    """

    key: K
    old: V | None
    new: V | None
    reborn: bool = False
    quiet: bool = False


class Store(Generic[K, V]):
    """Objects of one kind by key. `parse` gives the value; what it refuses is kept in `invalid` instead."""

    def __init__(self, kind: str, parse: Callable[[Document], V], key: Callable[[str, str], K]) -> None:
        self.kind = kind
        self.synced = False
        self.invalid: dict[K, InvalidObject] = {}
        self._parse = parse
        self._key = key
        self._values: dict[K, V] = {}
        self._meta: dict[K, _Meta] = {}
        self._tombstones: dict[str, None] = {}
        self._floor = ""
        self._frozen: FrozenMap[K, V] = FrozenMap()
        self._dirty = False
        self._unsorted = False
        self._deltas: list[Delta[K, V]] = []
        """Of the change being applied, as `_refused`."""
        self._refused: list[InvalidObject] = []

    def values(self) -> Mapping[K, V]:
        """Return the live values, in no particular order; not to be kept."""
        return self._values

    def frozen(self) -> FrozenMap[K, V]:
        """Return an immutable map sorted by key; the same one as before when nothing changed."""
        if self._dirty:
            if self._unsorted:
                values = self._values
                self._values = {key: values[key] for key in sorted(values)}  # type: ignore[type-var]
                self._unsorted = False
            self._frozen = FrozenMap(self._values)
            self._dirty = False
        return self._frozen

    def apply(self, change: Change) -> tuple[list[Delta[K, V]], list[InvalidObject]]:
        """Apply a change. Returns the changed values, and the objects refused with a new error."""
        self._deltas, self._refused = [], []
        if change.type is ChangeType.REPLACED:
            self._replace(change)
            self.synced = True
        else:
            for document in change.objects:
                self._apply_one(change.type, document)
        return self._deltas, self._refused

    def _replace(self, change: Change) -> None:
        listed: set[K] = set()
        for document in change.objects:
            if (identity := self._identify(document)) is None:
                continue
            key, meta = identity
            self._tombstones.pop(meta.uid, None)
            listed.add(key)
            have = self._meta.get(key)
            if have is not None and have.uid == meta.uid:
                ahead = have.learned and _older(meta.resource_version, have.resource_version)
                have.learned = False
                if ahead or have.resource_version == meta.resource_version != "":
                    continue
            self._put(key, meta, document)
        for key in [key for key in self._meta if key not in listed]:
            meta = self._meta[key]
            if meta.learned and _older(change.resource_version, meta.resource_version):
                meta.learned = False
            else:
                self._remove(key)
        self._floor = change.resource_version

    def _apply_one(self, type_: ChangeType, document: Document) -> None:
        if (identity := self._identify(document)) is None:
            return
        key, meta = identity
        have = self._meta.get(key)
        if type_ is ChangeType.DELETED:
            self._bury(meta.uid)
            if have is not None and have.uid == meta.uid:
                self._remove(key)
            return
        if meta.uid and meta.uid in self._tombstones:
            return
        if _older(meta.resource_version, self._floor) or meta.resource_version == self._floor != "":
            return
        if have is not None and _older(meta.resource_version, have.resource_version):
            return
        if have is not None and have.uid == meta.uid and have.resource_version == meta.resource_version != "":
            have.learned = have.learned and type_ is ChangeType.LEARNED
            return
        meta.learned = type_ is ChangeType.LEARNED
        self._put(key, meta, document)

    def _identify(self, document: Document) -> tuple[K, _Meta] | None:
        try:
            metadata = document["metadata"]
            namespace, name = metadata.get("namespace") or "", metadata["name"]
            uid, version = metadata.get("uid") or "", metadata.get("resourceVersion") or ""
        except MALFORMED as error:
            self._refused.append(InvalidObject(self.kind, "", "", 0, f"no metadata: {type(error).__name__}: {error}"))
            return None
        if not all(isinstance(text, str) for text in (namespace, name, uid, version)):
            self._refused.append(
                InvalidObject(self.kind, str(name), str(uid), 0, "metadata holds what is not a string")
            )
            return None
        return self._key(namespace, name), _Meta(uid, version)

    def _put(self, key: K, meta: _Meta, document: Document) -> None:
        old_meta = self._meta.get(key)
        reborn = old_meta is not None and old_meta.uid != meta.uid
        if reborn and old_meta is not None:
            self._bury(old_meta.uid)
        self._meta[key] = meta
        old = self._values.get(key)
        try:
            new = self._parse(document)
        except MALFORMED as error:
            invalid = _invalid(self.kind, document, error)
            if self.invalid.get(key) != invalid:
                self._refused.append(invalid)
            self.invalid[key] = invalid
            if old is not None:
                del self._values[key]
                self._dirty = True
            self._deltas.append(Delta(key, old, None, reborn))
            return
        self.invalid.pop(key, None)
        self._values[key] = new
        self._dirty = True
        self._unsorted = self._unsorted or old is None
        self._deltas.append(Delta(key, old, new, reborn, quiet=not reborn and old == new))

    def _remove(self, key: K) -> None:
        self._bury(self._meta.pop(key).uid)
        self.invalid.pop(key, None)
        old = self._values.pop(key, None)
        self._dirty = self._dirty or old is not None
        self._deltas.append(Delta(key, old, None))

    def _bury(self, uid: str) -> None:
        if uid:
            self._tombstones[uid] = None
            if len(self._tombstones) > _MAX_TOMBSTONES:
                del self._tombstones[next(iter(self._tombstones))]


def _older(version: str, than: str) -> bool:
    """Return whether a resource version is older than another; False if they cannot be compared."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _invalid(kind: str, document: Document, error: Exception) -> InvalidObject:
    metadata: Mapping[str, Any] = document["metadata"]
    namespace, name = metadata.get("namespace") or "", str(metadata["name"])
    generation = metadata.get("generation")
    problems = getattr(error, "problems", None)
    text = " | ".join(str(problem) for problem in problems) if problems else f"{type(error).__name__}: {error}"
    return InvalidObject(
        kind=kind,
        name=f"{namespace}/{name}" if namespace else name,
        uid=str(metadata.get("uid") or ""),
        generation=generation if isinstance(generation, int) else 0,
        error=text,
    )
