"""Prices that the user really pays: discounts and commitments applied to list prices.

Private pricing, Savings Plans and reserved instances change which type is the cheapest. No API reports them, so users
write them in the setting `aws.priceRules`. The first rule that matches an offering sets its price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from controller.core.api.labels import ON_DEMAND, SPOT
from controller.core.api.strict import did_you_mean
from controller.core.cloud import Commitment
from controller.core.untrusted_json import UnreadableJsonError, read_json

CAPACITY_TYPES: Final = (ON_DEMAND, SPOT)
EXAMPLE: Final = 'write a JSON list such as [{"instanceTypes": ["m5.*"], "discountPercent": 27.5}]'
_FIELDS: Final = ("capacityTypes", "discountPercent", "instanceTypes", "instances", "pricePerHour", "zones")


@dataclass(frozen=True, slots=True)
class PriceRule:
    """One discount or commitment. Patterns are shell wildcards (`m5.*`); an offering must match one of each kind."""

    instance_types: tuple[str, ...] = ("*",)
    zones: tuple[str, ...] = ("*",)
    capacity_types: tuple[str, ...] = (ON_DEMAND,)
    discount_percent: float = 0.0
    """Off the list price; from 0 to below 100."""
    price_per_hour: float | None = None
    """$ an hour instead of the list price: what a commitment comes to. Above 0."""
    instances: int | None = None
    """The commitment covers so many running instances that match, and the rule holds while fewer run. None: any; 0:
    it is used up."""

    def matches(self, capacity_type: str, instance_type: str, zone: str) -> bool:
        """Return whether the rule applies to this offering."""
        return (
            capacity_type in self.capacity_types
            and any(fnmatchcase(instance_type, pattern) for pattern in self.instance_types)
            and any(fnmatchcase(zone, pattern) for pattern in self.zones)
        )

    def price(self, listed: float) -> float:
        """Return what the user pays where `listed` is the list price, both $ an hour."""
        if self.price_per_hour is not None:
            return self.price_per_hour
        return listed * (100.0 - self.discount_percent) / 100.0


OfferingId = tuple[str, str, str]
"""(capacity type, instance type, zone)."""


@dataclass(frozen=True, slots=True)
class PriceBook:
    """The rules that hold now, in order."""

    rules: tuple[PriceRule, ...] = ()

    @classmethod
    def now(cls, rules: tuple[PriceRule, ...], running: Mapping[OfferingId, int]) -> PriceBook:
        """Commitments less what the running instances use up, each instance counted for its first rule."""
        left = [rule.instances for rule in rules]
        for offering, count in sorted(running.items()):
            waiting = count
            for index, rule in enumerate(rules):
                room = left[index]
                if waiting and rule.matches(*offering):
                    covered = waiting if room is None else min(waiting, room)
                    waiting -= covered
                    left[index] = None if room is None else room - covered
        return cls(tuple(replace(rule, instances=room) for rule, room in zip(rules, left, strict=True)))

    def price(self, capacity_type: str, instance_type: str, zone: str, listed: float) -> float:
        """Return what the user pays for the next instance of an offering, $ an hour."""
        index = self._rule(capacity_type, instance_type, zone)
        return listed if index is None else self.rules[index].price(listed)

    def commitment(self, capacity_type: str, instance_type: str, zone: str, listed: float) -> Commitment | None:
        """Return for how many instances that price holds, and the price of further ones; None: for any number.

        For further ones no other commitment counts: it may be used up too.
        """
        index = self._rule(capacity_type, instance_type, zone)
        if index is None or (left := self.rules[index].instances) is None:
            return None
        unlimited = PriceBook(tuple(other for other in self.rules if other.instances is None))
        return Commitment(index, left, unlimited.price(capacity_type, instance_type, zone, listed))

    def _rule(self, *offering: str) -> int | None:
        """Return the place of the first rule that holds for the offering; None: the list price does."""
        holds = (rule.instances != 0 and rule.matches(*offering) for rule in self.rules)
        return next((index for index, held in enumerate(holds) if held), None)


def parse_price_rules(text: str) -> tuple[PriceRule, ...]:
    """Parse the setting. Raises ValueError with the rule that is wrong and how to write it."""
    try:
        listed = read_json(text) if text.strip() else []
    except UnreadableJsonError:
        raise ValueError(f"is not JSON: {EXAMPLE}") from None
    if not isinstance(listed, list):
        raise ValueError(f"is not a list: {EXAMPLE}")
    return tuple(_rule(index, entry) for index, entry in enumerate(listed))


def _rule(index: int, entry: Any) -> PriceRule:
    if not isinstance(entry, dict):
        raise ValueError(f"[{index}] is not an object: {EXAMPLE}")
    for name in entry:
        if name not in _FIELDS:
            raise ValueError(f"[{index}].{name} is an unknown field: {did_you_mean(name, _FIELDS)}")
    if ("discountPercent" in entry) == ("pricePerHour" in entry):
        raise ValueError(f"[{index}] must have discountPercent or pricePerHour, and not both: {EXAMPLE}")
    kinds = _patterns(index, entry, "capacityTypes", (ON_DEMAND,))
    if unknown := sorted(set(kinds) - set(CAPACITY_TYPES)):
        raise ValueError(f"[{index}].capacityTypes has {unknown[0]!r}: use {' or '.join(CAPACITY_TYPES)}")
    return PriceRule(
        instance_types=_patterns(index, entry, "instanceTypes", ("*",)),
        zones=_patterns(index, entry, "zones", ("*",)),
        capacity_types=kinds,
        discount_percent=_number(index, entry, "discountPercent", below=100.0) or 0.0,
        price_per_hour=_price(index, entry),
        instances=_count(index, entry),
    )


def _patterns(index: int, entry: Mapping[str, Any], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    patterns = entry.get(name, list(default))
    if not isinstance(patterns, list) or not patterns or not all(isinstance(one, str) and one for one in patterns):
        raise ValueError(f'[{index}].{name} is not a list of names: write ["{default[0]}"], or leave it out for that')
    return tuple(patterns)


def _number(index: int, entry: Mapping[str, Any], name: str, below: float = float("inf")) -> float | None:
    value = entry.get(name)
    if value is None and name not in entry:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < below:
        bounds = f"from 0 to below {below:g}" if below < float("inf") else "of 0 or more"
        raise ValueError(f"[{index}].{name} {value!r} is not a number {bounds}: correct it")
    return float(value)


def _price(index: int, entry: Mapping[str, Any]) -> float | None:
    price = _number(index, entry, "pricePerHour")
    if price == 0:
        raise ValueError(f"[{index}].pricePerHour is 0: write what an hour of the commitment comes to, in dollars")
    return price


def _count(index: int, entry: Mapping[str, Any]) -> int | None:
    value = entry.get("instances")
    if "instances" not in entry:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"[{index}].instances {value!r} is not a whole number above 0: correct it or leave it out")
    return value
