"""Rules by which a member of an object is copied: as it is, as a pseudonym, or only the members that a rule names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from controller.cli.dump.pseudonyms import Pseudonyms
from controller.core.api.document import Document, items, mapping, objects, text

Rule: TypeAlias = Callable[[Any, Pseudonyms], Any]
"""From a member's value to its copy; None: the member is left out."""


def plain(value: Any, _names: Pseudonyms) -> Any:
    """Copy what identifies nobody."""
    return value


def alias(value: Any, names: Pseudonyms) -> str | None:
    """Replace a name; empty stays empty, which means another thing than absent for a claim's storage class."""
    return names.alias(value) if isinstance(value, str) else None


def driver(value: Any, names: Pseudonyms) -> str:
    return names.driver(text(value))


def key(value: Any, names: Pseudonyms) -> str:
    return names.key(text(value))


def alias_unless(*public: str) -> Rule:
    """Return a rule that replaces names but for `public` ones; empty ones are left out."""
    return lambda value, names: value if value in public else names.alias(text(value)) or None


def members(rules: Mapping[str, Rule]) -> Rule:
    """Return a rule that copies these members of an object alone; what is no object is left out."""

    def copy(value: Any, names: Pseudonyms) -> dict[str, Any] | None:
        if not isinstance(value, Mapping):
            return None
        copies = ((name, rule(value[name], names)) for name, rule in rules.items() if value.get(name) is not None)
        return {name: each for name, each in copies if each is not None}

    return copy


def kept(*names: str) -> dict[str, Rule]:
    """Return the rules of members that identify nobody."""
    return dict.fromkeys(names, plain)


def each(rule: Rule, where: Callable[[Document], object] = bool) -> Rule:
    """Return a rule for a list of objects: `rule` for those that `where` is true of."""
    return lambda value, names: [rule(one, names) for one in objects(value) if where(one)]


def texts(rule: Rule) -> Rule:
    """Return a rule for a list of strings: `rule` for each."""
    return lambda value, names: [rule(one, names) for one in items(value) if isinstance(one, str)]


def labels(value: Any, names: Pseudonyms) -> dict[str, str]:
    """Copy labels, or a selector by equality."""
    return {names.key(k): names.value(k, v) for k, v in mapping(value).items() if isinstance(v, str)}


def keyed(*others: str) -> Rule:
    """Return a rule for an object whose `value`, or `values`, are those of a label or taint `key`; `others` stay."""

    def copy(value: Any, names: Pseudonyms) -> dict[str, Any]:
        given, own = mapping(value), text(mapping(value).get("key"))
        copied: dict[str, Any] = {name: given[name] for name in others if name in given}
        if own:
            copied["key"] = names.key(own)
        if given.get("value"):
            copied["value"] = names.value(own, text(given["value"]))
        if values := [names.value(own, one) for one in items(given.get("values")) if isinstance(one, str)]:
            copied["values"] = values
        return copied

    return copy


def amounts(value: Any, names: Pseudonyms) -> dict[str, Any]:
    given = mapping(value).items()
    return {names.resource(str(name)): amount for name, amount in given if isinstance(amount, str | int | float)}


def owner(value: Any, names: Pseudonyms) -> dict[str, Any]:
    """Copy an owner reference; the types of Kubernetes' own workloads stay."""
    given = mapping(value)
    api_version, kind = names.owner_type(text(given.get("apiVersion")), text(given.get("kind")))
    named = {name: names.alias(text(given.get(name))) for name in ("name", "uid")}
    return {"apiVersion": api_version, "kind": kind, **named}
