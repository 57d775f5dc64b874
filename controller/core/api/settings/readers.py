"""Values that people write as text: in ConfigMaps, environment variables and flags.

Each reader raises ValueError with what is wrong and, after a colon, what to write (`Report.read` takes it apart).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from controller.core.api.duration import duration_seconds
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import protected_tag
from controller.core.untrusted_json import UnreadableJsonError, read_json

Reader: TypeAlias = Callable[[str], Any]

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_EXTENDED_RESOURCE: Final = re.compile(
    r"(?!([a-z0-9-]+\.)*kubernetes\.io/)[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[\w.-]+", re.ASCII
)
_CLASSES_EXAMPLE: Final = 'write a JSON object of strings, such as {"gpu.nvidia.com": "nvidia.com/gpu"}'
_TAGS_EXAMPLE: Final = 'write a JSON object of strings, such as {"team": "web"}'


def boolean(text: str) -> bool:
    """Parse what Go's strconv.ParseBool accepts."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is not a boolean: write true or false")


def integer(text: str) -> int:
    """Parse digits, optionally with a minus sign."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise ValueError(f"{text!r} is not an integer: write digits alone")
    return int(text)


def at_least(least: int, form: str) -> Reader:
    """Make a reader of integers from `least` on. form: what a smaller one is, with what to write after a colon."""

    def read(text: str) -> int:
        number = integer(text)
        if number < least:
            raise ValueError(f"{text!r} is {form}")
        return number

    return read


positive: Final = at_least(1, "not above zero: write a positive integer")
count: Final = at_least(0, "below zero: write 0 or a positive integer")


def name(text: str) -> str:
    """Return the text, which must not be blank."""
    if not text.strip():
        raise ValueError("is empty: write a name")
    return text


def duration(text: str) -> float:
    """Parse a positive duration, to seconds."""
    seconds = duration_seconds(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is not above zero: write a positive duration, such as 1s")
    return seconds


def decimal(text: str) -> float:
    """Parse a decimal number; NaN if the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def number(fits: Callable[[float], bool], form: str) -> Reader:
    """Make a reader of numbers for which `fits` holds. form: which those are, with an example after a colon."""

    def read(text: str) -> float:
        value = decimal(text)
        if not fits(value):
            raise ValueError(f"{text!r} is not {form}")
        return value

    return read


fraction: Final = number(lambda value: 0 <= value < 1, "a fraction from 0 to below 1: write 0.075 for 7.5 %")
share: Final = number(lambda value: 0 <= value < math.inf, "a share of 0 or more: write 0.25 for 25 %")
dollars: Final = number(lambda value: 0 <= value < math.inf, "an amount of 0 or more: write 0.02 for 2 cents")
any_part: Final = number(lambda value: 0 <= value <= 1, "a part from 0 to 1: write 0.5 for one half")
part: Final = number(lambda value: 0 < value <= 1, "a part above 0 and up to 1: write 0.5 for one half")


def one_of(choices: tuple[str, ...], form: str) -> Reader:
    """Make a reader of one of `choices`. form: what they are, with what to write after a colon."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not {form}")
        return text

    return read


def bucket(text: str) -> tuple[int, float] | None:
    """Parse a token bucket's size and its tokens a second, such as 50/5; None for an empty text: no limit."""
    if not text:
        return None
    size, _, rate = text.partition("/")
    try:
        parsed = positive(size), float(rate)
    except ValueError:
        parsed = (0, math.nan)
    if not (parsed[0] > 0 and 0 < parsed[1] < math.inf):
        raise ValueError(f"{text!r} is not a token bucket: write its size and its tokens a second, such as 50/5")
    return parsed


def url(text: str) -> str:
    """Return the text, which must be an absolute URL or empty."""
    try:
        parts = urlsplit(text)
        absolute = bool(parts.scheme and parts.hostname)
    except ValueError:
        absolute = False
    if text and not absolute:
        raise ValueError(f"{text!r} is not an absolute URL: write scheme and host, such as https://example.com")
    return text


def tags(text: str) -> FrozenMap[str, str]:
    """Parse AWS tags from a JSON object of strings; refuse those that only the controller or AWS may set."""
    values = _strings(text, _TAGS_EXAMPLE)
    if reserved := sorted(filter(protected_tag, values)):
        raise ValueError(f"has keys that only the controller or AWS may set ({', '.join(reserved)}): take them out")
    return values


def device_classes(text: str) -> FrozenMap[str, str]:
    """Parse extended resources by DeviceClass from a JSON object of strings."""
    values = _strings(text, _CLASSES_EXAMPLE)
    wrong = sorted(value for value in values.values() if not _EXTENDED_RESOURCE.fullmatch(value))
    if wrong:
        raise ValueError(f"has values that are no extended resources ({', '.join(wrong)}): {_CLASSES_EXAMPLE}")
    return values


def _strings(text: str, example: str) -> FrozenMap[str, str]:
    try:
        values = read_json(text) if text else {}
    except UnreadableJsonError:
        raise ValueError(f"is not JSON: {example}") from None
    if values is None:
        return EMPTY
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError(f"is not a map of strings: {example}")
    if not all(values):
        raise ValueError(f"has an empty key: {example}")
    return FrozenMap(values)
