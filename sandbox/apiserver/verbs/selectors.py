"""Label and field selectors, parsed as the API parses them (k8s.io/apimachinery/pkg/labels and .../pkg/fields)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.errors import bad_request
from sandbox.apiserver.kinds.resources import Resource

_SET = re.compile(r"\s*(?P<key>[^\s!=<>,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*(?:,|$)")
_EQUALITY = re.compile(r"\s*(?P<key>[^\s!=<>,()]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,()]*)\s*(?:,|$)")
_EXISTS = re.compile(r"\s*(?P<no>!?)\s*(?P<key>[^\s!=<>,()]+)\s*(?:,|$)")
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One comma-separated term: `op` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set satisfies the term. A missing key satisfies NotIn."""
        value = labels.get(self.key)
        match self.op:
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        return int(value) > int(self.values[0]) if self.op == "Gt" else int(value) < int(self.values[0])


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """A `labelSelector` query value as requirements, all of which must hold. Raises 400 on bad syntax."""
    found: list[Requirement] = []
    at = 0
    while at < len(text):
        term, at = _term(text, at)
        if not _QUALIFIED_NAME.fullmatch(term.key):
            raise bad_request(
                f"unable to parse requirement: <nil>: Invalid value: {term.key!r}: name part must be a qualified name"
            )
        found.append(term)
    return tuple(found)


def _term(text: str, at: int) -> tuple[Requirement, int]:
    if match := _SET.match(text, at):
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["op"] == "in" else "NotIn", values), match.end()
    if match := _EQUALITY.match(text, at):
        op = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}[match["op"]]
        if op in ("Gt", "Lt") and not re.fullmatch(r"-?\d+", match["value"]):
            raise bad_request(
                f"unable to parse requirement: values[0][{match['key']}]: "
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return Requirement(match["key"], op, (match["value"],)), match.end()
    if match := _EXISTS.match(text, at):
        return Requirement(match["key"], "DoesNotExist" if match["no"] else "Exists"), match.end()
    raise bad_request(f"unable to parse requirement: found {text[at:]!r}, expected: identifier")


_BY_METADATA: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "metadata.name": lambda obj: obj["metadata"].get("name"),
    "metadata.namespace": lambda obj: obj["metadata"].get("namespace"),
}

# Further fields per storage key, as pkg/registry/*/strategy.go and pkg/apis/core/v1/conversion.go allow them.
_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "events"): (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    ),
}  # fmt: skip

_REGARDING = {"regarding": "involvedObject", "reportingController": "reportingComponent"}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comma-separated term of a field selector; `path` is checked against what the type supports."""

    path: str
    value: str
    negated: bool

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the object's field equals (or does not equal) the value; an absent field is the empty string."""
        return (_field_text(obj, self.path) == self.value) != self.negated


def parse_fields(text: str, resource: Resource, selectable: tuple[str, ...] = ()) -> tuple[FieldTerm, ...]:
    """A `fieldSelector` query value. Raises 400 when the type has no such selectable field."""
    terms: list[FieldTerm] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"([^!=]+?)\s*(==|=|!=)\s*(.*)", part)
        if not match:
            raise bad_request(f"invalid field selector: {part!r}")
        path = _storage_path(match[1])
        allowed = (*_BY_METADATA, *_FIELDS.get(resource.storage_key, ()), *selectable)
        if path not in allowed:
            raise bad_request(_unsupported(match[1], resource, allowed))
        terms.append(FieldTerm(path, match[3], match[2] == "!="))
    return tuple(terms)


def _unsupported(path: str, resource: Resource, allowed: tuple[str, ...]) -> str:
    if resource.storage_key in _FIELDS:
        return f"field label not supported: {path}"
    listed = ", ".join(f'"{name}"' for name in allowed)
    return f'"{path}" is not a known field selector: only {listed}'


def _storage_path(path: str) -> str:
    head, dot, tail = path.partition(".")
    return f"{_REGARDING.get(head, head)}{dot}{tail}"


def _field_text(obj: Mapping[str, Any], path: str) -> str:
    if path == "source":
        return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value)


@dataclass(frozen=True, slots=True)
class Filter:
    """Both selectors of a request; `everything` is what most watches ask for."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is filtered out."""
        return not self.labels and not self.fields

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object passes both selectors."""
        labels = obj["metadata"].get("labels") or {}
        return all(term.matches(labels) for term in self.labels) and all(term.matches(obj) for term in self.fields)


def label_selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A `metav1.LabelSelector` against labels: None selects nothing, an empty one selects all."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    terms = (
        Requirement(e["key"], e["operator"], tuple(e.get("values") or ()))
        for e in selector.get("matchExpressions") or ()
    )
    return all(term.matches(labels) for term in terms)


def selector_text(selector: Any) -> str:
    """A `metav1.LabelSelector` (or a plain map) as a query writes it."""
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for e in selector.get("matchExpressions") or ():
        values = ",".join(sorted(e.get("values") or ()))
        word = {"In": f"{e['key']} in ({values})", "NotIn": f"{e['key']} notin ({values})", "Exists": e["key"]}
        terms.append(word.get(e["operator"], f"!{e['key']}"))
    return ",".join(sorted(terms))
