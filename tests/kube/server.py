"""What tests know of the server that they talk to, and how they make it fail."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DEADLINE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server of the sandbox."""

    url: str
    token: str
    kubeconfig: str

    def fault(self, **fault: Any) -> None:
        """`fault(kind="outage", seconds=1)`; see sandbox.apiserver.faults."""
        request = urllib.request.Request(
            f"{self.url}/sandbox/faults",
            data=json.dumps(fault).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=5) as response:
            response.read()


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; fail when it does not come true in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_SECONDS} s: {what}")
        time.sleep(0.01)
