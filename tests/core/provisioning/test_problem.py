"""Which pods a problem is about."""

from __future__ import annotations

from controller.core.api.frozen import FrozenMap
from controller.core.api.parse import parse_namespace
from controller.core.provisioning.problem import build, waiting
from tests.factories import node, pending_pod, running_pod, snapshot, state_node

ENDING = parse_namespace({"metadata": {"name": "ending", "deletionTimestamp": "2023-05-01T00:00:00Z"}})
DEFAULT = parse_namespace({"metadata": {"name": "default"}})


def test_pods_of_a_namespace_that_is_being_deleted_need_no_node() -> None:
    """Neither those that wait nor those of a node that goes: nobody makes them again."""
    pods = [pending_pod(name="a"), pending_pod(name="b", namespace="ending")]
    moved = [running_pod(name="c", node="n"), running_pod(name="d", node="n", namespace="ending")]
    leaving = state_node(node=node(name="n", deleted_at=1.0), pods=tuple(moved))
    seen = snapshot(pending=pods, nodes=[leaving], namespaces=FrozenMap({"default": DEFAULT, "ending": ENDING}))
    assert {pod.name for pod in waiting(seen)} == {"a", "c"}
    assert {pod.name for pod in build(seen, {}).pending} == {"a", "c"}
    assert {pod.name for pod in waiting(seen, frozenset({"n"}))} == {"a", "c"}
