"""Offerings without capacity, masked from plans for a while, longer with each failure in a row.

Karpenter v0.27 masks an offering for 3 minutes. Here the time doubles with each failure in a row (3, 6, 12 ... 48
minutes): an offering that failed three times in ten minutes is likely to fail again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from controller.runtime.clock import Clock

BASE_SECONDS = 180.0
MAX_SECONDS = 48 * 60.0
FORGET_SECONDS = 60 * 60.0
"""After this long without a failure since its last mask, an offering starts at BASE_SECONDS again."""

Key = tuple[str, str, str]
"""(capacity type, instance type, zone)."""


@dataclass(frozen=True, slots=True)
class _Mask:
    until: float
    seconds: float
    reason: str


class UnavailableOfferings:
    """Which offerings are masked now. Safe for many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._masks: dict[Key, _Mask] = {}
        self._active: frozenset[Key] = frozenset()
        self._version = 0

    def mark(self, capacity_type: str, instance_type: str, zone: str, reason: str) -> float:
        """Mask an offering from now on; returns for how many seconds.

        A mask that still holds is renewed at its own length: one burst of launches that all fail is one failure.
        """
        key = (capacity_type, instance_type, zone)
        with self._lock:
            now = self._clock.monotonic()
            held = self._masks.get(key)
            if held is None or now - held.until > FORGET_SECONDS:
                seconds = BASE_SECONDS
            elif now < held.until:
                seconds = held.seconds
            else:
                seconds = min(held.seconds * 2, MAX_SECONDS)
            self._masks[key] = _Mask(now + seconds, seconds, reason)
            self._settle(now)
            return seconds

    def active(self) -> tuple[int, frozenset[Key]]:
        """Return the offerings masked now, and before them a version that changes whenever they do."""
        with self._lock:
            self._settle(self._clock.monotonic())
            return self._version, self._active

    def reason(self, key: Key) -> str:
        """Return why an offering was masked last, or empty."""
        with self._lock:
            mask = self._masks.get(key)
            return mask.reason if mask else ""

    def clear(self, capacity_type: str, instance_type: str, zone: str) -> None:
        """Forget the failures of an offering that was launched. A mask that holds stays: later launches failed."""
        key = (capacity_type, instance_type, zone)
        with self._lock:
            held = self._masks.get(key)
            if held is not None and self._clock.monotonic() >= held.until:
                del self._masks[key]

    def _settle(self, now: float) -> None:
        self._masks = {key: mask for key, mask in self._masks.items() if now - mask.until <= FORGET_SECONDS}
        active = frozenset(key for key, mask in self._masks.items() if now < mask.until)
        if active != self._active:
            self._active = active
            self._version += 1
