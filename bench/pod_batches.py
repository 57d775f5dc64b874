"""Many pods read at once: what is alike is compared, not parsed.

In a file, replicas mostly come one after the other and differ in little: so each document is compared with the one
before, a column of documents at a time. Where something that matters changes, what follows is looked up among the
templates that were seen; only the first of each is parsed. Pods that the API server has admitted differ in the names of
their service account's volumes: of those each is a template by itself, and an informer does better to read them alone.

The answer is what `parse_pod` gives for each document alone (but that JSON's 1, 1.0 and true are equal here: no field
of a pod may be either of two).
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import itemgetter, ne
from typing import Any, Final

from controller.core.api.document import Document, timestamp
from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod
from controller.core.api.replicas import Columns, Pods, Replicas

AT_ONCE: Final = 256
"""Documents compared at a time: few enough to be still in the processor's cache when the next column is."""

_PARTS: Final = ("metadata", "spec", "status")
_OWN: Final = ("name", "uid", "creationTimestamp", "resourceVersion")
_SHARED: Final = ("namespace", "labels", "annotations", "ownerReferences", "deletionTimestamp")
"""What `parse_pod` reads: of an object, of its metadata what is each pod's own, and the rest."""
_MARSHAL_VERSION: Final = 4


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
    found = {key: list(map(itemgetter(key), objects)) for key in keys}
    return {key: column for key, column in found.items() if key in wanted}


def _ages(times: list[str]) -> list[float]:
    known = {text: timestamp(text) or 0.0 for text in set(times)}
    return [known[text] for text in times]


def parse_pods(documents: Sequence[Document], parse: Callable[[Document], Pod] = parse_pod) -> Pods:
    """v1 Pods, as `parse` reads each. Replicas are together, in the order of the first of them."""
    known: dict[tuple[str, ...], dict[bytes, Columns]] = defaultdict(dict)
    found: list[Replicas] = []
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
                found.append(Replicas(pod, [], columns))
            block.give(columns, first, end)
    return Pods([*found, *Pods.of(apart).groups])
