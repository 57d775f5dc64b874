"""Accessors for decoded JSON: each returns the type that it names, or an empty value.

The API server validates built-in kinds by their schema. A field of the wrong type counts as absent all the same, so
that one malformed object never stops the others. Values that many objects share are interned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from controller.core.api.frozen import EMPTY, FrozenMap, cached_by_bytes
from controller.core.api.pod import LabelSelector, NodeSelectorTerm, OwnerReference, SelectorRequirement

Document = Mapping[str, Any]
"""A Kubernetes object, or a part of one, as decoded JSON."""

_NOTHING: Final[Document] = {}


def mapping(value: object) -> Document:
    return value if isinstance(value, dict) else _NOTHING


def items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def objects(value: object) -> list[Document]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def optional_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def texts(value: object) -> tuple[str, ...]:
    return tuple([each for each in value if isinstance(each, str)]) if isinstance(value, list) else ()


def whole(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def optional_whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def string_map(value: object) -> FrozenMap[str, str]:
    """Return a map of strings, interned: equal maps of labels are one object, but for very large ones.

    Entries of other types are left out.
    """
    if not isinstance(value, dict) or not value:
        return EMPTY
    try:
        return _interned_map(tuple(value.items()))
    except TypeError:
        return FrozenMap({k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, str)})


def _map_bytes(pairs: tuple[tuple[object, object], ...]) -> int:
    return sum(len(text) for pair in pairs for text in pair if isinstance(text, str))


@cached_by_bytes(_map_bytes)
def _interned_map(pairs: tuple[tuple[object, object], ...]) -> FrozenMap[str, str]:
    return FrozenMap({k: v for k, v in pairs if isinstance(k, str) and isinstance(v, str)})


def timestamp(value: object) -> float | None:
    """RFC 3339 text as Unix seconds; None when it is absent or no time."""
    return _seconds(value) if isinstance(value, str) else None


@lru_cache(maxsize=16_384)
def _seconds(value: str) -> float | None:
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def owner_references(value: object) -> tuple[OwnerReference, ...]:
    """metadata.ownerReferences, interned."""
    if not isinstance(value, list) or not value:
        return ()
    owners = [
        (text(each.get("apiVersion")), text(each.get("kind")), text(each.get("name")), text(each.get("uid")))
        for each in objects(value)
    ]
    return _owners(tuple(owners))


@lru_cache(maxsize=16_384)
def _owners(values: tuple[tuple[str, str, str, str], ...]) -> tuple[OwnerReference, ...]:
    return tuple(OwnerReference(*each) for each in values)


def selector_requirements(value: object) -> tuple[SelectorRequirement, ...]:
    """matchExpressions (or matchFields, or spec.requirements): a list of key, operator, values."""
    return tuple(
        SelectorRequirement(text(each.get("key")), text(each.get("operator")), texts(each.get("values")))
        for each in objects(value)
    )


def node_selector_term(value: Document) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        selector_requirements(value.get("matchExpressions")), selector_requirements(value.get("matchFields"))
    )


def node_selector_terms(value: object) -> tuple[NodeSelectorTerm, ...]:
    return tuple(node_selector_term(each) for each in objects(mapping(value).get("nodeSelectorTerms")))


def label_selector(value: object) -> LabelSelector | None:
    """Return a LabelSelector, or None. matchLabels become In expressions, sorted by key, ahead of matchExpressions."""
    if not isinstance(value, dict):
        return None
    labels = string_map(value.get("matchLabels"))
    folded = tuple(SelectorRequirement(key, "In", (labels[key],)) for key in sorted(labels))
    return LabelSelector(folded + selector_requirements(value.get("matchExpressions")))
