"""Shared by all look-ups in AWS."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ABSENT = (
    "NoSuchEntity",
    "NotFound",
    "not found",
    "no matching",
    "couldn't find resource",
    "NonExistentQueue",
    "does not exist",
)
"""Parts of the AWS provider's messages for an object that does not exist."""


def or_none(ask: Callable[[], T]) -> T | None:
    """The answer, or None when AWS says that the object does not exist; other errors are raised."""
    try:
        return ask()
    except Exception as error:
        if any(phrase in str(error) for phrase in ABSENT):
            return None
        raise
