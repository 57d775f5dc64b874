"""The log of AWS calls: what tests look at to prove that nothing was launched twice or forgotten."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `at` is sandbox time (Unix seconds), `code` the AWS error code or "" when it went well."""

    at: float
    service: str
    action: str
    region: str
    access_key: str
    status: int
    code: str
    seconds: float
    params: dict[str, Any]


class CallLog:
    """The last `size` calls, the arguments of the last `with_params` of them, and counts of all."""

    def __init__(self, size: int = 20_000, with_params: int = 1_000) -> None:
        self._lock = threading.Lock()
        self._with_params = with_params
        self._calls: deque[Call] = deque(maxlen=size)
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def add(self, call: Call) -> None:
        """Thread-safe."""
        name = f"{call.service}.{call.action}"
        with self._lock:
            self._calls.append(call)
            if len(self._calls) > self._with_params:
                oldest = len(self._calls) - self._with_params - 1
                self._calls[oldest] = replace(self._calls[oldest], params={})
            self._counts[name] += 1
            if call.code:
                self._errors[f"{name}:{call.code}"] += 1

    def clear(self) -> None:
        """Forget calls and counts."""
        with self._lock:
            self._calls.clear()
            self._counts.clear()
            self._errors.clear()

    def calls(self, action: str | None = None) -> tuple[Call, ...]:
        """Oldest first; of one action (CreateFleet, say) if given."""
        with self._lock:
            return tuple(call for call in self._calls if action in (None, call.action))

    def counts(self) -> dict[str, int]:
        """`service.Action` -> number of calls."""
        with self._lock:
            return dict(self._counts)

    def errors(self) -> dict[str, int]:
        """`service.Action:Code` -> number of error replies."""
        with self._lock:
            return dict(self._errors)
