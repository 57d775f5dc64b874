"""One view on two kinds of schema: built-in types (from the PyPI package kubernetes-validate) and CRDs.

Patches ask it for merge keys, decoding for known fields and types, `kubectl explain` for the documents.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson

KUBERNETES_VERSION = "1.34"
"""The API that the server shows; the control plane behind the `real` door has the same minor version."""

_REF = "#/$defs/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Schema:
    """A node of a schema. Children are resolved when asked for, since some definitions contain themselves."""

    __slots__ = ("_children", "definition", "name", "raw")

    def __init__(self, raw: Mapping[str, Any], name: str = "") -> None:
        self.raw = raw
        self.name = name
        self.definition = name.rpartition(".")[2]
        self._children: dict[str, Schema] = {}

    def field(self, name: str) -> Schema | None:
        """The schema of a field: a declared property, else that of a map's values. None when the field is unknown."""
        found = self._children.get(name)
        if found is None:
            raw = (self.raw.get("properties") or {}).get(name)
            if raw is None:
                extra = self.raw.get("additionalProperties")
                raw = {} if extra is True else extra
            if not isinstance(raw, Mapping):
                return None
            found = self._children[name] = _resolve(raw)
        return found

    @property
    def item(self) -> Schema | None:
        """The schema of an array's items."""
        found = self._children.get("[]")
        if found is None and isinstance(self.raw.get("items"), Mapping):
            found = self._children["[]"] = _resolve(self.raw["items"])
        return found

    @property
    def type(self) -> str:
        """`object`, `array`, `string`, `integer`, `number`, `boolean`, or "" for anything."""
        if self.int_or_string or self.name == _QUANTITY:
            return ""
        kind = self.raw.get("type")
        if isinstance(kind, list):
            kind = next((k for k in kind if k != "null"), "")
        return str(kind or "")

    @property
    def int_or_string(self) -> bool:
        """Whether an integer and a string both are right."""
        return bool(self.raw.get("x-kubernetes-int-or-string")) or self.name == _INT_OR_STRING

    @property
    def quantity(self) -> bool:
        """Whether it is a `resource.Quantity`."""
        return self.name == _QUANTITY

    @property
    def is_time(self) -> bool:
        """Whether it is a `metav1.Time` or a `metav1.MicroTime`."""
        return self.name in (_TIME, _MICRO_TIME)

    @property
    def is_micro_time(self) -> bool:
        """Whether it is a `metav1.MicroTime`."""
        return self.name == _MICRO_TIME

    @property
    def open(self) -> bool:
        """Whether fields that are not declared are kept."""
        if self.raw.get("x-kubernetes-preserve-unknown-fields") or not self.type:
            return True
        return self.type == "object" and "properties" not in self.raw and "additionalProperties" not in self.raw

    @property
    def embedded(self) -> bool:
        """Whether it is a whole object with apiVersion, kind and metadata."""
        return bool(self.raw.get("x-kubernetes-embedded-resource"))

    @property
    def merge_key(self) -> str:
        """The key by which strategic merge patch matches list items; "" when the list is replaced."""
        merges = "merge" in str(self.raw.get("x-kubernetes-patch-strategy", "")).split(",")
        return str(self.raw.get("x-kubernetes-patch-merge-key", "")) if merges else ""

    @property
    def merges_primitives(self) -> bool:
        """Whether strategic merge patch adds to a list of plain values (finalizers) instead of replacing it."""
        return not self.merge_key and "merge" in str(self.raw.get("x-kubernetes-patch-strategy", "")).split(",")

    @property
    def retains_keys(self) -> bool:
        """Whether a strategic merge patch may carry `$retainKeys` for it (unions such as a deployment's strategy)."""
        return "retainKeys" in str(self.raw.get("x-kubernetes-patch-strategy", ""))

    @property
    def list_type(self) -> str:
        """Server-side apply: `map`, `set` or `atomic`."""
        return str(self.raw.get("x-kubernetes-list-type", "atomic"))

    @property
    def map_keys(self) -> tuple[str, ...]:
        """Server-side apply: the keys that identify an item of a `map` list."""
        return tuple(self.raw.get("x-kubernetes-list-map-keys") or ())

    @property
    def atomic_map(self) -> bool:
        """Server-side apply: whether an object is owned as a whole."""
        return self.raw.get("x-kubernetes-map-type") == "atomic"


ANYTHING = Schema({})


@cache
def definitions() -> dict[str, Any]:
    """All definitions of the API version that we show, by their OpenAPI names."""
    root = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    document = orjson.loads((root / f"v{KUBERNETES_VERSION}.0-local" / "_definitions.json").read_bytes())
    found: dict[str, Any] = document["$defs"]
    return found


@cache
def definition(name: str) -> Schema:
    """One named definition."""
    return Schema(definitions()[name], name)


@cache
def _names_by_kind() -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for name, raw in definitions().items():
        kinds = raw.get("x-kubernetes-group-version-kind") or []
        if len(kinds) == 1:
            gvk: dict[str, str] = kinds[0]
            found[gvk["group"], gvk["version"], gvk["kind"]] = name
    return found


def built_in(group: str, version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind."""
    name = _names_by_kind().get((group, version, kind))
    return definition(name) if name else None


def _resolve(raw: Mapping[str, Any]) -> Schema:
    reference = raw.get("$ref")
    if not isinstance(reference, str):
        return Schema(raw)
    name = reference.removeprefix(_REF)
    target = definition(name)
    hints = {key: value for key, value in raw.items() if key.startswith("x-kubernetes-")}
    return Schema({**target.raw, **hints}, name) if hints else target
