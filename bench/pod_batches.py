"""Parse the pods of a problem file together: of replicas, only the first is parsed.

In a file, replicas mostly follow one another and differ in little, so that each document is compared with the one
before it, a column of documents at a time. Where a field that matters changes, the document is looked up among the
templates seen so far. Pods that the API server has admitted differ in the names of their service account's volumes,
which makes each a template by itself: an informer parses pods one by one instead.

The result is what `parse_pod` gives for each document alone (JSON's 1, 1.0 and true are equal here; no field of a pod
may be either of two).
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import compress, count
from operator import attrgetter, itemgetter, ne
from typing import Any, Final

from controller.core.api.document import Document, timestamp
from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod, PodKey
from controller.core.api.replicas import Pods, Replicas

AT_ONCE: Final = 256
"""Documents compared at a time: few enough to be still in the processor's cache when the next column is."""

_PARTS: Final = ("metadata", "spec", "status")
_OWN: Final = ("name", "uid", "creationTimestamp", "resourceVersion")
_SHARED: Final = ("namespace", "labels", "annotations", "ownerReferences", "deletionTimestamp")
"""What `parse_pod` reads: of an object, of its metadata what is each pod's own, and the rest."""
_MARSHAL_VERSION: Final = 4
_key = attrgetter("namespace", "name")


_PLACE = {each.name: place for place, each in enumerate(fields(Pod))}
_NAME, _UID, _CREATED, _VERSION = (_PLACE[name] for name in ("name", "uid", "created", "resource_version"))


@dataclass(slots=True)
class Columns:
    """What tells replicas apart, one entry each: names, uids, creation times (Unix seconds; none: all unknown),
    resource versions. `least` is the alphabetically first name."""

    names: list[str] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)
    created: list[float] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    least: str = ""


class ColumnReplicas(Replicas):
    """Replicas as the first of them and columns; a `Pod` is made of each only when somebody asks for it."""

    __slots__ = ("_columns",)

    def __init__(self, first: Pod, columns: Columns) -> None:
        super().__init__(first, [])
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns.names)

    @property
    def pods(self) -> list[Pod]:
        """Each by itself; made when first asked for."""
        if not self._pods:
            self._pods = list(self._made(self._columns))
        return self._pods

    def _made(self, own: Columns) -> Iterator[Pod]:
        values = [getattr(self.first, each.name) for each in fields(Pod)]
        created = own.created or [self.first.created] * len(own.names)
        rows = zip(own.names, own.uids, created, own.versions, strict=True)
        for values[_NAME], values[_UID], values[_CREATED], values[_VERSION] in rows:
            yield Pod(*values)

    @property
    def name(self) -> str:
        """The alphabetically first name."""
        return self._columns.least

    @property
    def ages(self) -> tuple[float, float]:
        """When the oldest and the youngest were created, in Unix seconds."""
        ages = self._columns.created
        return (min(ages), max(ages)) if ages else (self.first.created, self.first.created)


class PodsByKey(Mapping[PodKey, Pod]):
    """Pods by (namespace, name), in the order of their keys; found when first asked for."""

    def __init__(self, pods: Pods) -> None:
        self.every = pods

    @cached_property
    def _found(self) -> dict[PodKey, Pod]:
        return {(pod.namespace, pod.name): pod for pod in sorted(self.every, key=_key)}

    def __getitem__(self, key: PodKey) -> Pod:
        return self._found[key]

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._found == dict(other)

    def __hash__(self) -> int:
        return hash(frozenset(self._found.items()))


@dataclass(frozen=True, slots=True)
class _Block:
    """Documents of the same fields: columns of what is each one's own, and how the rest parts them."""

    fields: tuple[str, ...]
    """What replicas have in common, and whether pods are dated."""
    names: list[str]
    uids: list[str]
    created: list[float]
    versions: list[str]
    runs: list[tuple[int, int, bytes]]
    """From where to where documents are replicas of one template, and what is the same for all of that template."""

    @classmethod
    def of(cls, documents: Sequence[Document]) -> _Block | None:
        """None where their fields differ, or one is of an unforeseen type: they are read one by one."""
        try:
            parts = _columns(documents, _PARTS)
            meta = _columns(parts.pop("metadata"), (*_OWN, *_SHARED))
            own = [meta.pop(name, None) for name in _OWN]
            shared = [*parts.values(), *meta.values()]
            runs = _runs(shared, len(documents))
        except (KeyError, TypeError, AttributeError, ValueError):
            return None
        if any(column and set(map(type, column)) != {str} for column in own):
            return None
        names, uids, times, versions = own
        nothing = [""] * len(documents)
        return cls(
            (*parts, *meta, "dated" if times else ""),
            names or nothing,
            uids or nothing,
            _ages(times) if times else [],
            versions or nothing,
            runs,
        )

    def give(self, columns: Columns, first: int, end: int) -> None:
        """Add what is their own of these documents."""
        if end - first == 1:
            self._give_one(columns, first)
            return
        names = self.names[first:end]
        columns.names += names
        columns.least = min(columns.least or names[0], *names)
        columns.uids += self.uids[first:end]
        columns.created += self.created[first:end]
        columns.versions += self.versions[first:end]

    def _give_one(self, columns: Columns, place: int) -> None:
        """The same for one document, in half the time."""
        name = self.names[place]
        columns.names.append(name)
        if not columns.least or name < columns.least:
            columns.least = name
        columns.uids.append(self.uids[place])
        if self.created:
            columns.created.append(self.created[place])
        columns.versions.append(self.versions[place])


def _runs(shared: list[list[Any]], length: int) -> list[tuple[int, int, bytes]]:
    """Raises ValueError where something is nested too deep to be told apart."""
    changes = {0, length}
    for column in shared:
        if column[1:] != column[:-1]:
            changes.update(compress(count(1), map(ne, column[1:], column)))
    places = sorted(changes)
    starts = [place in changes for place in range(length)] if len(places) > 2 else [True]
    heads = compress(zip(*shared, strict=True), starts)
    return list(zip(places, places[1:], [marshal.dumps(head, _MARSHAL_VERSION) for head in heads], strict=False))


def _columns(objects: Sequence[Document], wanted: Sequence[str]) -> dict[str, list[Any]]:
    """The values of the keys wanted. Raises KeyError where the objects don't all have the same keys."""
    keys = tuple(objects[0].keys())
    if set(map(len, objects)) != {len(keys)} or set(map(type, objects)) != {dict}:
        raise KeyError(keys)
    columns = {key: list(map(itemgetter(key), objects)) for key in keys}
    return {key: column for key, column in columns.items() if key in wanted}


def _ages(times: list[str]) -> list[float]:
    known = {text: timestamp(text) or 0.0 for text in set(times)}
    return [known[text] for text in times]


def parse_pods(documents: Sequence[Document], parse: Callable[[Document], Pod] = parse_pod) -> Pods:
    """v1 Pods, as `parse` reads each. Replicas are together, in the order of the first of them."""
    known: dict[tuple[str, ...], dict[bytes, Columns]] = defaultdict(dict)
    batches: list[Replicas] = []
    apart: list[Pod] = []
    for start in range(0, len(documents), AT_ONCE):
        part = documents[start : start + AT_ONCE]
        block = _Block.of(part)
        if block is None:
            apart.extend(map(parse, part))
            continue
        templates = known[block.fields]
        for first, end, template in block.runs:
            columns = templates.get(template)
            if columns is None:
                pod = parse(part[first])
                if pod.volumes:
                    apart.extend(map(parse, part[first:end]))
                    continue
                columns = templates[template] = Columns()
                batches.append(ColumnReplicas(pod, columns))
            block.give(columns, first, end)
    return Pods([*batches, *Pods.of(apart).groups])
