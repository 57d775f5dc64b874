"""Kubernetes quantities, exactly: text to integers and back, rounded once and upwards.

Rules: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ and the API server's own parser:
at most nine decimals are kept (finer values round away from zero, so that no positive request becomes zero), and
magnitudes are capped at 2**63 - 1 units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Resources

NANO: Final = 10**9
CAP_NANOS: Final = (2**63 - 1) * NANO

_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<bare>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]+))\Z",
    re.ASCII,
)
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES: Final = ("", "k", "M", "G", "T", "P", "E")
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_DIGITS: Final = 1000
_MAX_EXPONENT: Final = 2 * _MAX_DIGITS
_HELP: Final = (
    "write a number with one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent, such as 500m, 2, 1.5Gi or 1e3"
)


@lru_cache(maxsize=65_536, typed=True)
def nanos(value: str | int | float) -> int:
    """Return the quantity in exact nano-units, capped at 2**63 - 1 units either way.

    Accepts numbers too (`cpu: 1000` in YAML). Raises ValueError, saying what is wrong and what would be right.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"{value!r} is not a quantity: {_HELP}")
    text = value if isinstance(value, str) else repr(value)
    match = _SYNTAX.match(text)
    if match is None or len(text) > _MAX_DIGITS:
        raise ValueError(f"{_shown(text)} is not a quantity: {_HELP}")
    sign, whole, part, bare, binary, decimal, exponent = match.groups()
    fraction = part or bare or ""
    digits = int((whole or "") + fraction)
    if binary:
        amount = _scaled(digits * _BINARY[binary], 9 - len(fraction))
    else:
        # An exponent beyond the bound makes any number the cap, or the smallest step.
        power = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(exponent))) if exponent else _DECIMAL[decimal]
        amount = _scaled(digits, 9 + power - len(fraction))
    return -amount if sign == "-" else amount


def _scaled(digits: int, power: int) -> int:
    """digits * 10**power, rounded up to an integer and capped."""
    step: int = 10 ** abs(power)
    return min(digits * step if power >= 0 else -(-digits // step), CAP_NANOS)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")


def milli_ceil(amount_nanos: int) -> int:
    """Nano-units to milli-units, rounded up (`Quantity.MilliValue`)."""
    return -(-amount_nanos // 1_000_000)


def units_ceil(amount_nanos: int) -> int:
    """Nano-units to whole units, rounded up (`Quantity.Value`)."""
    return -(-amount_nanos // NANO)


def rounded(resource: str, amount_nanos: int) -> int:
    """Return an amount in the controller's unit, rounded up: millicores of cpu, whole units of everything else."""
    return milli_ceil(amount_nanos) if resource == "cpu" else units_ceil(amount_nanos)


def resources(quantities: Mapping[str, str | int | float]) -> Resources:
    """Convert named quantities to Resources: cpu in millicores, others in units, each rounded up once.

    Raises ValueError naming every resource whose quantity cannot be read.
    """
    amounts: dict[str, int] = {}
    wrong: list[str] = []
    for name, value in quantities.items():
        try:
            amounts[name] = rounded(name, nanos(value))
        except (ValueError, TypeError) as error:
            wrong.append(f"{name}: {error}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return FrozenMap(amounts) if amounts else EMPTY


def format_quantity(resource: str, amount: int) -> str:
    """Format an amount in Kubernetes' canonical form: cpu `1500m` or `2`, memory `16Gi` or `7577Mi`, pods `110`.

    Bytes take the largest binary suffix that keeps them whole; what no binary suffix fits, and every count, takes the
    largest decimal one (`1000000` bytes is `1M`, 1000 cpus are `1k`).
    """
    if resource == "cpu":
        if amount % 1000:
            return f"{amount}m"
        return _suffixed(amount // 1000, 1000, _DECIMAL_NAMES)
    if in_bytes(resource) and amount % 1024 == 0:
        return _suffixed(amount, 1024, _BINARY_NAMES)
    return _suffixed(amount, 1000, _DECIMAL_NAMES)


def in_words(resource: str, amount: int) -> str:
    """Format an amount for people: 382.97 CPU, 31.4 GiB memory, 2 nvidia.com/gpu.

    Rounded to two decimals of its unit; CPU is exact.
    """
    if resource == "cpu":
        return f"{_decimals(amount / 1000, 3)} CPU"
    if not in_bytes(resource):
        return f"{amount:,} {resource}"
    size, unit = float(amount), 0
    while abs(size) >= 1024 and unit < len(_BINARY_NAMES) - 1:
        size, unit = size / 1024, unit + 1
    return f"{_decimals(size, 2)} {_BINARY_NAMES[unit]}B {resource}"


def bare_words(resource: str, amount: int) -> str:
    """Return an amount in words without the name of its resource: 382.97, 31.4 GiB, 2."""
    return in_words(resource, amount).removesuffix(" CPU").removesuffix(f" {resource}")


def different(resource: str, one: int, other: int) -> tuple[str, str]:
    """Format two amounts for people; exactly, where rounding would make them equal."""
    texts = in_words(resource, one), in_words(resource, other)
    if texts[0] != texts[1] or one == other:
        return texts
    return f"{format_quantity(resource, one)} {resource}", f"{format_quantity(resource, other)} {resource}"


def _decimals(value: float, most: int) -> str:
    return f"{value:,.{most}f}".rstrip("0").rstrip(".")


def in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def _suffixed(amount: int, step: int, names: tuple[str, ...]) -> str:
    index = 0
    while amount and amount % step == 0 and index < len(names) - 1:
        amount //= step
        index += 1
    return f"{amount}{names[index]}"
