"""Decide when a node stops counting as room for pods: it is not Ready for too long, or not initialized in time.

kube-scheduler binds no pod to such a node, so pods that a plan puts there would stay pending. Short absences (a
restarted kubelet, a reboot) launch nothing. Missing data changes nothing: a node without a Ready condition, or without
the time of its transition, still counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.api.node import Node

NOT_READY_GRACE_SECONDS: Final = 120.0
"""Shorter than the 300 s after which Kubernetes evicts the pods of a node that is not Ready: where they go is planned
without the node."""
GRACE_SECONDS: Final = 300.0
"""Least time to become Ready for a node that joined late, or that a new leader sees for the first time."""


@dataclass(frozen=True, slots=True)
class EndOfRoom:
    """When and why a node takes no more pods. `at`: Unix seconds; infinite: never."""

    at: float = math.inf
    because: str = ""


NEVER: Final = EndOfRoom()


def end_of_room(node: Node, initialization_seconds: float, known_since: float) -> EndOfRoom:
    """Return when the node stops counting as room, if it stays as it is. known_since: when it was first seen."""
    if PROVISIONER_NAME in node.labels and node.labels.get(INITIALIZED) != "true":
        at = _initialization_deadline(node, initialization_seconds, known_since)
        return EndOfRoom(at, f"it was not initialized within {int(initialization_seconds)} s")
    since = node.not_ready_since
    if since is None:
        return NEVER
    return EndOfRoom(since + NOT_READY_GRACE_SECONDS, f"it has not been Ready for {int(NOT_READY_GRACE_SECONDS)} s")


def _initialization_deadline(node: Node, initialization_seconds: float, known_since: float) -> float:
    """Return by when a node must be initialized, Unix seconds; infinite if its creation time is not known.

    A node that this process has known only for a short time gets GRACE_SECONDS, independent of its age: if clocks
    differ, each new node would be late at once, and another one launched for its pods.
    """
    if node.created <= 0:
        return math.inf
    joined = node.not_ready_since
    latest = known_since if joined is None else max(known_since, joined)
    return max(node.created + initialization_seconds, latest + GRACE_SECONDS)
