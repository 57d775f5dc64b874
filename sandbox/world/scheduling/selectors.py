"""Label selectors and node selectors, compiled once into values that match by dictionary look-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Kubernetes' rules: NotIn and DoesNotExist hold for an absent label; Gt and Lt compare integers."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found is not None and found in self.values
            case "NotIn":
                return found is None or found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case "Gt" | "Lt":
                return self._compares(found)
        return False

    def _compares(self, found: str | None) -> bool:
        if found is None or len(self.values) != 1:
            return False
        try:
            left, right = int(found), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A metav1.LabelSelector. `None` in its place selects nothing, an empty one everything."""

    requirements: tuple[Requirement, ...]

    @classmethod
    def parse(cls, selector: Mapping[str, Any] | None) -> LabelSelector | None:
        """From JSON; an absent selector stays None, which matches nothing."""
        if selector is None:
            return None
        equal = [Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
        return cls((*equal, *map(_requirement, selector.get("matchExpressions") or ())))

    def matches(self, labels: Labels) -> bool:
        """Whether every requirement holds."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def narrowed(self, *requirements: Requirement) -> LabelSelector:
        """The selector with more requirements (matchLabelKeys)."""
        return LabelSelector((*self.requirements, *requirements))


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One nodeSelectorTerm: all expressions on labels and all on fields (`metadata.name`) must hold."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, name: str, labels: Labels) -> bool:
        """An empty term matches nothing."""
        if not self.expressions and not self.fields:
            return False
        return all(r.matches(labels) for r in self.expressions) and all(
            r.key == "metadata.name" and r.matches({"metadata.name": name}) for r in self.fields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """A core/v1 NodeSelector: one of the terms must match."""

    terms: tuple[NodeTerm, ...]

    @classmethod
    def parse(cls, selector: Mapping[str, Any] | None) -> NodeSelector | None:
        """From JSON; None where there is none (no constraint)."""
        if selector is None:
            return None
        return cls(tuple(map(node_term, selector.get("nodeSelectorTerms") or ())))

    def matches(self, name: str, labels: Labels) -> bool:
        """Whether a node of that name with those labels is selected."""
        return any(term.matches(name, labels) for term in self.terms)

    def node_names(self) -> frozenset[str] | None:
        """The only node names possible, when every term fixes metadata.name (DaemonSet pods); else None."""
        names: set[str] = set()
        for term in self.terms:
            fixed = [set(r.values) for r in term.fields if r.key == "metadata.name" and r.operator == "In"]
            if not fixed:
                return None
            names |= set.intersection(*fixed)
        return frozenset(names)


def node_term(term: Mapping[str, Any]) -> NodeTerm:
    """A nodeSelectorTerm (also a preferred term's `preference`) from JSON."""
    return NodeTerm(
        tuple(map(_requirement, term.get("matchExpressions") or ())),
        tuple(map(_requirement, term.get("matchFields") or ())),
    )


def _requirement(expression: Mapping[str, Any]) -> Requirement:
    return Requirement(expression["key"], expression["operator"], tuple(expression.get("values") or ()))
