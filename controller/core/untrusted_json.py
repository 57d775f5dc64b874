"""Read JSON from outside the process: annotations, settings, ConfigMaps, queue messages, responses of AWS.

A kubelet may write any annotation on its Node, and a message or a ConfigMap may be damaged. For any text the reader
returns plain values within bounds or raises UnreadableJsonError, a ValueError, and nothing else (no RecursionError by
deep nesting, no OverflowError by a number of 400 digits).
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 2**20
"""Default limit on the size of a text: what a ConfigMap can hold."""
MOST_DEPTH: Final = 64
"""Objects and lists within each other."""
MOST_WHOLE: Final = 2**63 - 1
"""Whole numbers are within plus and minus this, as in the API server."""


class UnreadableJsonError(ValueError):
    """The text is no JSON within the bounds, or a value is not what its reader needs."""


def read_json(text: str | bytes, most_bytes: int = MOST_BYTES) -> Any:
    """Decode JSON of at most `most_bytes`, MOST_DEPTH and finite numbers. Raises UnreadableJsonError."""
    if len(text) > most_bytes:
        raise UnreadableJsonError(f"is longer than {most_bytes} bytes")
    try:
        decoded = msgspec.json.decode(text)
    except RecursionError:
        raise UnreadableJsonError(f"is nested more than {MOST_DEPTH} deep") from None
    except ValueError as error:  # includes msgspec.DecodeError and UnicodeEncodeError
        raise UnreadableJsonError(f"is not JSON: {error}") from None
    _check(decoded)
    return decoded


def read_object(text: str | bytes, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Decode a JSON object. Raises UnreadableJsonError."""
    decoded = read_json(text, most_bytes)
    if not isinstance(decoded, dict):
        raise UnreadableJsonError("is not a JSON object")
    return decoded


def unpacked(packed: bytes, most_bytes: int) -> bytes:
    """Unpack gzip to at most `most_bytes`: a small text may unpack to gigabytes. Raises UnreadableJsonError."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)  # + 16: gzip's header
    try:
        text = unpacker.decompress(packed, most_bytes)
    except zlib.error as error:
        raise UnreadableJsonError(f"cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise UnreadableJsonError(f"is cut off, or has more than {most_bytes} bytes")
    return text


def _check(decoded: object) -> None:
    """Refuse values beyond MOST_DEPTH and MOST_WHOLE, level by level: the check itself does not recurse."""
    level = [decoded]
    for depth in range(MOST_DEPTH + 1):
        below: list[Any] = []
        if depth == MOST_DEPTH and any(isinstance(value, (dict, list)) for value in level):
            raise UnreadableJsonError(f"is nested more than {MOST_DEPTH} deep")
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, int) and abs(value) > MOST_WHOLE:
                raise UnreadableJsonError("has a whole number of more than 64 bits")
        if not below:
            return
        level = below


def number(value: object, least: float = 0.0, most: float = 1e12) -> float:
    """Check a decoded number; the default bounds fit prices and Unix seconds. Raises UnreadableJsonError.

    Text is no number here: float("inf") and float("nan") accept it.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise UnreadableJsonError(f"{str(value)[:40]!r} is not a number from {least:g} to {most:g}")
    return float(value)


def whole(value: object, least: int = 0, most: int = MOST_WHOLE) -> int:
    """Check a decoded whole number. Raises UnreadableJsonError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UnreadableJsonError(f"{str(value)[:40]!r} is not a whole number from {least} to {most}")
    return value
