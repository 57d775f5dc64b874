"""`resource.Quantity` in the canonical spelling that the API server stores (k8s.io/apimachinery/pkg/api/resource)."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

REGULAR_EXPRESSION = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_QUANTITY = re.compile(r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_MILLI = Fraction(1, 1000)


class MalformedQuantityError(ValueError):
    """The text is no quantity."""


def canonical(value: Any) -> str:
    """The canonical spelling of a quantity given as text or number. Raises MalformedQuantityError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise MalformedQuantityError(f"quantities must match the regular expression '{REGULAR_EXPRESSION}'")
    return _canonical(value if isinstance(value, str) else repr(value))


@lru_cache(maxsize=8192)
def _canonical(text: str) -> str:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise MalformedQuantityError(f"quantities must match the regular expression '{REGULAR_EXPRESSION}'")
    suffix = match["suffix"] or ""
    exact = Fraction(match["number"].rstrip("."))
    if suffix in _BINARY:
        value = exact * 1024 ** _BINARY[suffix]
        if abs(value) >= 1024 and value.denominator == 1:
            return _binary(value.numerator)
        return _decimal(value, scientific=False)
    scientific = suffix[:1] in ("e", "E") and len(suffix) > 1
    exponent = int(suffix[1:]) if scientific else _DECIMAL[suffix]
    return _decimal(exact * Fraction(10) ** exponent, scientific=scientific)


def _binary(value: int) -> str:
    exponent = 0
    while value % 1024 == 0 and exponent < max(_BINARY_SUFFIX):
        value //= 1024
        exponent += 1
    return f"{value}{_BINARY_SUFFIX.get(exponent, '')}"


def _decimal(value: Fraction, *, scientific: bool) -> str:
    milli = value / _MILLI
    mantissa = -(-milli.numerator // milli.denominator)  # finer than milli is rounded up, as in every ResourceList
    if mantissa == 0:
        return "0"
    exponent = -3
    while mantissa % 1000 == 0 and (scientific or exponent < max(_DECIMAL_SUFFIX)):
        mantissa //= 1000
        exponent += 3
    if scientific:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
