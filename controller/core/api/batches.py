"""Many pods read at once: what is alike is compared, not parsed.

Replicas come one after the other, in a list of the API server as in a dump, and differ in little: so each document is
compared with the one before, a column of documents at a time. Where something that matters changes, what follows is
looked up among the templates that were seen; only the first of each is parsed. The answer is what `parse_pod` gives
for each document alone (but that JSON's 1, 1.0 and true are equal here: no field of a pod may be either of two).
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count, pairwise
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
    """Documents of the same fields. `shared`: columns of what replicas have in common; the rest is each one's own."""

    fields: tuple[str, ...]
    """What the columns of `shared` are, and whether pods are dated."""
    shared: list[list[Any]]
    names: list[str]
    uids: list[str]
    created: list[float]
    versions: list[str]

    @classmethod
    def of(cls, documents: Sequence[Document]) -> _Block | None:
        """None where their fields differ, or one is of an unforeseen type: they are read one by one."""
        try:
            parts = _columns(documents, _PARTS)
            meta = _columns(parts.pop("metadata"), (*_OWN, *_SHARED))
        except (KeyError, TypeError, AttributeError):
            return None
        own = [meta.pop(name, None) for name in _OWN]
        if any(column and set(map(type, column)) != {str} for column in own):
            return None
        names, uids, times, versions = own
        nothing = [""] * len(documents)
        return cls(
            (*parts, *meta, "dated" if times else ""),
            [*parts.values(), *meta.values()],
            names or nothing,
            uids or nothing,
            _ages(times) if times else [],
            versions or nothing,
        )

    def runs(self) -> Iterator[tuple[int, int]]:
        """From where to where documents are replicas of one template."""
        changes = {0, len(self.names)}
        for column in self.shared:
            if column[1:] != column[:-1]:
                changes.update(compress(count(1), map(ne, column[1:], column)))
        return pairwise(sorted(changes))

    def template(self, place: int) -> bytes | None:
        """The same for all replicas of one template; None where it can't be told."""
        try:
            return marshal.dumps([column[place] for column in self.shared], _MARSHAL_VERSION)
        except ValueError:
            return None

    def give(self, columns: Columns, first: int, end: int) -> None:
        """Add what is their own of these documents."""
        names = self.names[first:end]
        columns.names += names
        columns.least = min(columns.least or names[0], min(names))
        columns.uids += self.uids[first:end]
        columns.created += self.created[first:end]
        columns.versions += self.versions[first:end]


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
        for first, end in block.runs():
            key = block.template(first)
            columns = templates.get(key) if key is not None else None
            if columns is None:
                pod = parse(part[first])
                if pod.volumes or key is None:
                    apart.extend(map(parse, part[first:end]))
                    continue
                columns = templates[key] = Columns()
                found.append(Replicas(pod, [], columns))
            block.give(columns, first, end)
    return Pods([*found, *Pods.of(apart).groups])
