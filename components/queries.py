"""What every look-up in AWS shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ABSENT = ("NoSuchEntity", "NotFound", "not found", "no matching", "couldn't find resource")
"""How the AWS provider says that there is none."""


def or_none(ask: Callable[[], T]) -> T | None:
    """The answer, or None when AWS says that there is none; other failures are raised."""
    try:
        return ask()
    except Exception as error:
        if any(phrase in str(error) for phrase in ABSENT):
            return None
        raise
