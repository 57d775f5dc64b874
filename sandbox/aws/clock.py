"""The sandbox's time: real, compressed, or turned by hand in tests. All of AWS's delays are counted on it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

Now = Callable[[], float]
"""Unix time in seconds."""


def compressed(factor: float) -> Now:
    """A clock that starts at the present and runs `factor` times as fast. Raises ValueError unless factor > 0."""
    if factor <= 0:
        raise ValueError(f"a clock must go forward: factor {factor}")
    start = time.time()
    return lambda: start + (time.time() - start) * factor


def utc(seconds: float) -> dt.datetime:
    """Unix seconds as an aware datetime."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
