"""Taints from conditions, and how long NoExecute taints are tolerated, by value."""

from __future__ import annotations

import pytest

from sandbox.world.controllers.nodelifecycle import tolerated_seconds, wanted_taints
from sandbox.world.resources import Obj
from sandbox.world.scheduling.taints import Taint, Toleration

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OWN = {"key": "own", "value": "x", "effect": "NoSchedule"}


def _node(ready: str, taints: list[Obj], **spec: object) -> Obj:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return {"spec": {"taints": taints, **spec}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (_node("True", [{"key": NOT_READY, "effect": "NoSchedule"}, OWN]), ["own:NoSchedule"]),
        (_node("False", [OWN]), ["own:NoSchedule", f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"]),
        (_node("Unknown", []), [f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"]),
        (_node("", [{"key": NOT_READY, "effect": "NoSchedule"}]), [f"{NOT_READY}:NoSchedule"]),
        (_node("True", [], unschedulable=True), ["node.kubernetes.io/unschedulable:NoSchedule"]),
        (_node("True", [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]), []),
    ],
    ids=["ready", "not ready", "unknown", "never reported", "cordoned", "uncordoned"],
)
def test_taints_follow_conditions_and_foreign_ones_stay(node: Obj, expected: list[str]) -> None:
    """A node that never reported keeps the taint of admission."""
    assert [f"{taint['key']}:{taint['effect']}" for taint in wanted_taints(node)] == expected


TAINT = Taint(NOT_READY, "", "NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "age", "expected"),
    [
        ((), 0.0, 0.0),
        ((Toleration(NOT_READY, "Exists", "", "NoExecute", 300),), 100.0, 200.0),
        ((Toleration(NOT_READY, "Exists", "", "NoExecute", None),), 1e6, None),
        ((Toleration("", "Exists", "", "", 10), Toleration(NOT_READY, "Exists", "", "", 5)), 0.0, 5.0),
        ((Toleration(NOT_READY, "Exists", "", "NoSchedule", None),), 0.0, 0.0),
    ],
    ids=["none", "for a while", "for ever", "the shortest of several", "another effect"],
)
def test_tolerated_seconds(tolerations: tuple[Toleration, ...], age: float, expected: float | None) -> None:
    assert tolerated_seconds(tolerations, {TAINT: age}) == expected
