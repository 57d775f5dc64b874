"""Kubernetes quantities as integers, rounded up as kube-scheduler does."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Fraction(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), start=1)},
}
_PATTERN = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([A-Za-z]{0,2}))")


@lru_cache(maxsize=65_536)
def parse(text: str | int | float) -> Fraction:
    """The exact value of a quantity such as `100m`, `2.95Gi`, `1e3`.

    Raises:
        ValueError: not a quantity.
    """
    match = _PATTERN.fullmatch(str(text))
    if match is None or (match[3] or "") not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a Kubernetes quantity (examples: 500m, 2, 1.5Gi)")
    return Fraction(match[1] + (match[2] or "")) * _SUFFIXES[match[3] or ""]


def millis(text: str | int | float) -> int:
    """Thousandths, rounded up: how kube-scheduler counts cpu."""
    return -(-parse(text) * 1000 // 1)


def value(text: str | int | float) -> int:
    """Whole units, rounded up: how kube-scheduler counts everything but cpu."""
    return -(-parse(text) // 1)


def amount(resource: str, text: str | int | float) -> int:
    """Millicores for cpu, bytes or a count for all else."""
    return millis(text) if resource == "cpu" else value(text)


def amounts(quantities: dict[str, str | int | float] | None) -> dict[str, int]:
    """A resource list in the scheduler's integers."""
    return {name: amount(name, text) for name, text in (quantities or {}).items()}
