"""Token buckets: they limit queries to the API server, events by reason, and what is asked of EC2."""

from __future__ import annotations

import threading

from controller.runtime.clock import Clock


class TokenBucket:
    """`burst` tokens at first, `per_second` more each second up to `burst`. Safe to share between threads."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(
                f"A rate limit needs a rate above 0 and a burst of at least 1, not {per_second} and {burst}"
            )
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def try_take(self) -> bool:
        with self._lock:
            self._refill()
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True

    def reserve(self, tokens: int = 1) -> float:
        """Take tokens, on credit if need be. Returns the seconds to wait before acting on them."""
        with self._lock:
            self._refill()
            self._tokens -= tokens
            return max(0.0, -self._tokens / self._per_second)

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
