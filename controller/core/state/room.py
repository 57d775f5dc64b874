"""When a node stops to count as room for pods: it is not Ready for too long, or does not initialize in time.

kube-scheduler binds nothing to such a node, so a plan that puts pods there leaves them pending for ever. Short absences
(a restarted kubelet, a reboot) launch nothing. Absent data says nothing: a node without a Ready condition, or without
the time of its transition, counts as before.
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
"""A node that joined late, or that a new leader sees for the first time, has at least this long to become Ready."""


@dataclass(frozen=True, slots=True)
class EndOfRoom:
    """From `at` (Unix seconds; infinite: never) on a node takes no more pods, for the reason in words."""

    at: float = math.inf
    because: str = ""


NEVER: Final = EndOfRoom()


def end_of_room(node: Node, initialization_seconds: float, known_since: float) -> EndOfRoom:
    """When the node ends to count as room, if it stays as it is. `known_since`: when this process saw it first."""
    if PROVISIONER_NAME in node.labels and node.labels.get(INITIALIZED) != "true":
        at = _initialization_deadline(node, initialization_seconds, known_since)
        return EndOfRoom(at, f"it was not initialized within {int(initialization_seconds)} s")
    since = node.not_ready_since
    if since is None:
        return NEVER
    return EndOfRoom(since + NOT_READY_GRACE_SECONDS, f"it has not been Ready for {int(NOT_READY_GRACE_SECONDS)} s")


def _initialization_deadline(node: Node, initialization_seconds: float, known_since: float) -> float:
    """By when a node must be initialized, Unix seconds; infinite when it is not known when it was created.

    A node that this process does not know for long has a while, whatever its age: if clocks disagree, each new node
    would be late at once, and another launched for its pods.
    """
    if node.created <= 0:
        return math.inf
    joined = node.not_ready_since
    latest = known_since if joined is None else max(known_since, joined)
    return max(node.created + initialization_seconds, latest + GRACE_SECONDS)
