"""The world's time: delays are in sandbox seconds, which `scale` compresses; timestamps on objects stay wall-clock."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class WorldClock:
    """`scale` sandbox seconds pass in one real second (10 makes an 8 s join take 0.8 s)."""

    scale: float = 1.0

    def now(self) -> datetime:
        """Wall-clock time, UTC."""
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        """Sandbox seconds since an arbitrary start; never goes back."""
        return time.monotonic() * self.scale

    def real_seconds(self, sandbox_seconds: float) -> float:
        """How long `sandbox_seconds` take on the wall."""
        return sandbox_seconds / self.scale

    async def sleep(self, sandbox_seconds: float) -> None:
        """Sleep that many sandbox seconds."""
        await asyncio.sleep(self.real_seconds(sandbox_seconds))


def timestamp(at: datetime) -> str:
    """metav1.Time: RFC 3339, whole seconds, UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(at: datetime) -> str:
    """metav1.MicroTime: RFC 3339 with microseconds, UTC (Leases, events)."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> datetime:
    """The datetime of a metav1.Time or MicroTime.

    Raises:
        ValueError: the text is not RFC 3339.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
