"""Go's durations (`time.ParseDuration`), which Kubernetes and Karpenter write: `10s`, `1m30s`, `500ms`, `1.5h`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_LONGEST_SECONDS: Final = Fraction(2**63 - 1, 10**9)


def duration_seconds(text: str) -> float:
    """Parse a duration to seconds. Raises ValueError as Go does: no unit, an unknown unit, more than 292 years."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    parts = _PART.findall(body) if len(body) <= 100 else []
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise ValueError(f"{text!r} is not a duration: write numbers with units, such as 10s, 1m30s, 500ms or 2h")
    total = sum((Fraction("0" + number.rstrip(".")) * _SECONDS[unit] for number, unit in parts), Fraction(0))
    if total > _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is too long: a duration ends at about 2562047h")
    return float(-total if text.startswith("-") else total)
