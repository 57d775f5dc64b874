"""The requirement algebra: which values a label may have.

A requirement is a set of strings, or the complement of one, within optional integer bounds. Sources: Kubernetes'
NodeSelectorRequirement semantics; Karpenter v0.27's rules where its users rely on them. Differences from Karpenter: the
intersection of contradictory In sets stays unsatisfiable (Karpenter turns it into DoesNotExist, which an undefined key
satisfies), and bounds are kept together with exclusions.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, overload

from controller.core.api.labels import normalize_label
from controller.core.api.pod import SelectorRequirement

T = TypeVar("T")


@dataclass(frozen=True)
class Requirement:
    """The values that one label key may have.

    `complement` False: exactly `values` (none: the label must be absent, DoesNotExist; or, if `contradiction`, nothing
    satisfies it). True: every value but `values`, and the label must be there unless `absent_ok` (NotIn accepts a node
    without the label, as Kubernetes does). Bounds are exclusive and hold for base-10 integers alone.
    """

    key: str
    complement: bool
    values: frozenset[str] = frozenset()
    greater_than: int | None = None
    less_than: int | None = None
    absent_ok: bool = False
    contradiction: bool = False
    """No value and no absence satisfies it."""

    @classmethod
    def of(cls, key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
        """Make a requirement from a NodeSelectorRequirement's operator. Raises ValueError for an invalid one."""
        key = normalize_label(key)
        chosen = frozenset(values)
        if operator == "In":
            return cls(key, False, chosen, contradiction=not chosen)
        if operator == "NotIn":
            return cls(key, True, chosen, absent_ok=True)
        if operator == "Exists":
            return cls(key, True)
        if operator == "DoesNotExist":
            return cls(key, False, absent_ok=True)
        if operator in ("Gt", "Lt"):
            if len(chosen) != 1:
                raise ValueError(f"{key} {operator} needs exactly one value, not {sorted(chosen)}")
            bound = integer(next(iter(chosen)))
            if bound is None:
                raise ValueError(f"{key} {operator} needs an integer, not {next(iter(chosen))!r}")
            if operator == "Gt":
                return cls(key, True, greater_than=bound)
            return cls(key, True, less_than=bound)
        raise ValueError(f"{key}: operator {operator!r} is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt")

    @cached_property
    def satisfiable(self) -> bool:
        """Whether some value, or absence, satisfies it."""
        if self.contradiction:
            return False
        if not self.complement:
            return bool(self.values) or self.absent_ok
        return self._room_in_bounds() or self.absent_ok

    def _room_in_bounds(self) -> bool:
        if self.greater_than is None or self.less_than is None:
            return True
        span = range(self.greater_than + 1, self.less_than)
        return len(span) > len(self.values) or any(str(number) not in self.values for number in span)

    def has(self, value: str) -> bool:
        """Return whether a label of this value satisfies it."""
        return (value in self.values) != self.complement and self._within_bounds(value)

    def _within_bounds(self, value: str) -> bool:
        if self.greater_than is None and self.less_than is None:
            return True
        number = integer(value)
        if number is None:
            return False
        return (self.greater_than is None or number > self.greater_than) and (
            self.less_than is None or number < self.less_than
        )

    def accepts(self, value: str | None) -> bool:
        """Return whether a node with this label value (None: no such label) satisfies it, as in kube-scheduler."""
        if value is None:
            return self.absent_ok and not self.contradiction
        return self.has(value)

    def intersection(self, other: Requirement) -> Requirement:
        """Return the values both accept."""
        greater = max((b for b in (self.greater_than, other.greater_than) if b is not None), default=None)
        less = min((b for b in (self.less_than, other.less_than) if b is not None), default=None)
        absent_ok = self.absent_ok and other.absent_ok
        if self.complement and other.complement:
            return Requirement(self.key, True, self.values | other.values, greater, less, absent_ok)
        if not self.complement and not other.complement:
            values = self.values & other.values
        elif self.complement:
            values = other.values - self.values
        else:
            values = self.values - other.values
        kept = frozenset(v for v in values if self.has(v) and other.has(v))
        nothing = self.contradiction or other.contradiction or (not kept and not absent_ok)
        return Requirement(self.key, False, kept, absent_ok=absent_ok and not kept, contradiction=nothing)

    @property
    def operator(self) -> str:
        """The operator that comes nearest: In, NotIn, Exists or DoesNotExist (bounds are shown apart)."""
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values or self.contradiction else "DoesNotExist"

    def __str__(self) -> str:
        shown = sorted(self.values)
        bounded = self.complement and (self.greater_than, self.less_than) != (None, None)
        text = self.key if bounded and not shown else f"{self.key} {self.operator}"
        if shown:
            more = f" and {len(shown) - 5} others" if len(shown) > 5 else ""
            text += f" [{', '.join(shown[:5])}{more}]"
        if self.contradiction:
            text += " []"
        if self.greater_than is not None:
            text += f" >{self.greater_than}"
        if self.less_than is not None:
            text += f" <{self.less_than}"
        return text


def integer(value: str) -> int | None:
    """Return the base-10 integer that a label value is, as Go's strconv.ParseInt reads it; None: it is none."""
    digits = value[1:] if value[:1] in ("+", "-") else value
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


class Requirements(Mapping[str, Requirement]):
    """An immutable set of requirements, one a key; keys are normalised. Iterates in sorted order."""

    __slots__ = ("_by_key", "_hash", "_unsettled")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        merged: dict[str, Requirement] = {}
        for requirement in requirements:
            held = merged.get(requirement.key)
            merged[requirement.key] = requirement if held is None else held.intersection(requirement)
        self._by_key = dict(sorted(merged.items()))
        self._hash: int | None = None
        self._unsettled: tuple[str, ...] | None = None

    @classmethod
    def of(cls, expressions: Iterable[SelectorRequirement]) -> Requirements:
        """Make requirements from selector expressions, ANDed."""
        return cls(Requirement.of(e.key, e.operator, e.values) for e in expressions)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """Make requirements from labels: In with the one value."""
        return cls(Requirement.of(key, "In", (value,)) for key, value in labels.items())

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    # Mapping has these too, each by __getitem__: a solve of a thousand types looks up millions of keys.

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    @overload
    def get(self, key: str, default: None = None, /) -> Requirement | None: ...
    @overload
    def get(self, key: str, default: Requirement | T, /) -> Requirement | T: ...
    def get(self, key: str, default: Any = None, /) -> Any:
        """Return the requirement of the key, or the default."""
        return self._by_key.get(key, default)

    def items(self) -> ItemsView[str, Requirement]:
        """Return the keys with their requirements."""
        return self._by_key.items()

    def values(self) -> ValuesView[Requirement]:
        """Return the requirements."""
        return self._by_key.values()

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The keys whose requirement neither names one value nor asks for the label's absence."""
        if self._unsettled is None:
            self._unsettled = tuple(
                key
                for key, each in self._by_key.items()
                if each.complement or each.contradiction or len(each.values) > 1
            )
        return self._unsettled

    def __len__(self) -> int:
        return len(self._by_key)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_key.values()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def intersection(self, other: Requirements) -> Requirements:
        """Return both sets' requirements."""
        return Requirements((*self.values(), *other.values()))

    def conflicts(self, other: Requirements) -> tuple[str, ...]:
        """Return keys in both sets on which no value (nor absence) satisfies both."""
        small, large = (self, other) if len(self) <= len(other) else (other, self)
        return tuple(
            key for key in small if key in large._by_key and not small[key].intersection(large[key]).satisfiable
        )

    def accept(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with exactly these labels satisfies all, by kube-scheduler's rule."""
        return all(requirement.accepts(labels.get(key)) for key, requirement in self._by_key.items())

    def __str__(self) -> str:
        return ", ".join(str(requirement) for requirement in self.values())

    __repr__ = __str__
