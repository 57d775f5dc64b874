"""`python -m bench values`: what `made_quickly` saves per Pod, in microseconds of one core."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod

OBJECTS = 20_000
ROUNDS = 7
DOCUMENT = {
    "metadata": {"name": "web-0", "namespace": "default", "uid": "1", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}}}]},
    "status": {"phase": "Pending"},
}


def figures() -> dict[str, float]:
    """Microseconds per Pod: the fastest of `ROUNDS` rounds of `OBJECTS`, so that a busy machine does not falsify it."""
    pod = parse_pod(DOCUMENT)
    values = [getattr(pod, each.name) for each in fields(Pod)]
    frozen: Callable[..., None] = inspect.unwrap(vars(Pod)["__init__"])

    def make_frozen() -> None:
        frozen(Pod.__new__(Pod), *values)

    return {
        "Pod(...), made quickly": _microseconds(lambda: Pod(*values)),
        "Pod(...), as a frozen dataclass": _microseconds(make_frozen),
        "parse_pod(document), made quickly": _microseconds(lambda: parse_pod(DOCUMENT)),
    }


def _microseconds(make: Callable[[], Any]) -> float:
    fastest = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(OBJECTS):
            make()
        fastest = min(fastest, time.process_time() - began)
    return fastest / OBJECTS * 1e6
