"""Faults on request, for recovery tests: outages, latency, refused requests, watches that fall silent.

`POST /sandbox/faults` with one of (all durations in seconds):

    {"kind": "outage", "seconds": 20}            the port is closed, open connections are cut
    {"kind": "latency", "seconds": 60, "delay_seconds": 0.5}
    {"kind": "errors", "seconds": 60, "code": 429, "rate": 0.3, "retry_after_seconds": 1}
    {"kind": "silent-watches"}                   watches that are open now send nothing more and stay open
    {"kind": "compact"}                          history is forgotten: watches from older versions get 410
    {"kind": "drop-watches"}                     watches that are open now end
    {"kind": "hold-writes", "after": 3}          the fourth write gets no answer (see calls.py)

`DELETE /sandbox/faults` takes latency, errors and holds away again.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from sandbox.apiserver.errors import APIError, bad_request, too_many_requests


@dataclass(slots=True)
class Faults:
    """The faults that hold at present. `random` is seeded, so that a run can be repeated."""

    latency_seconds: float = 0.0
    latency_until: float = 0.0
    error_code: int = 0
    error_rate: float = 0.0
    retry_after_seconds: int | None = None
    errors_until: float = 0.0
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def set(self, fault: dict[str, Any]) -> None:
        """Takes up a latency or error fault. Raises 400 when a value is missing or wrong."""
        try:
            until = time.monotonic() + float(fault["seconds"])
            if fault["kind"] == "latency":
                self.latency_seconds, self.latency_until = float(fault["delay_seconds"]), until
            else:
                self.error_code, self.error_rate = int(fault["code"]), float(fault.get("rate", 1.0))
                self.retry_after_seconds = fault.get("retry_after_seconds")
                self.errors_until = until
        except (KeyError, TypeError, ValueError) as error:
            raise bad_request(f"fault {fault}: {error!r}") from error

    def clear(self) -> None:
        """Ends latency and errors."""
        self.latency_until = self.errors_until = 0.0

    def delay_seconds(self) -> float:
        """How long the next request waits."""
        return self.latency_seconds if time.monotonic() < self.latency_until else 0.0

    def refusal(self) -> APIError | None:
        """The refusal that hits the next request, or None."""
        if time.monotonic() >= self.errors_until or self.random.random() >= self.error_rate:
            return None
        if self.error_code == 429:
            return too_many_requests(
                "Too many requests, please try again later.", retry_after=self.retry_after_seconds or 1
            )
        return APIError(
            self.error_code, "InternalError", "injected by POST /sandbox/faults", retry_after=self.retry_after_seconds
        )
