"""Nodes that are not well are no room for pods: not Ready for a while, or never initialized."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.api.timestamps import format_time
from controller.core.provisioning.problem import build
from controller.core.state.change import Change
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from tests.core.state.changes import added, deleted, modified, take
from tests.core.state.changes import at as versioned
from tests.factories import node_object, pod_object

NOW = 1_700_000_000.0
OURS = {PROVISIONER_NAME: "default"}
SERVING = {**OURS, INITIALIZED: "true"}


def node(ready: str, since: float | None, labels: dict[str, str], created: float = NOW) -> dict[str, Any]:
    """A Node whose Ready condition has had this status since then (Unix seconds; None: not said)."""
    condition = {"type": "Ready", "status": ready}
    stated = condition if since is None else {**condition, "lastTransitionTime": format_time(since)}
    status = {"conditions": [stated]}
    return node_object(name="n", labels=labels, status=status, creationTimestamp=format_time(created))


def at(cluster: Cluster, now: float) -> Snapshot:
    cluster.expire(now)
    return cluster.snapshot()


def room(snapshot: Snapshot) -> list[str]:
    """Names of the nodes that a plan counts on."""
    return [each.name for each in build(snapshot, {}).nodes]


@pytest.mark.parametrize("labels", [SERVING, {}])
@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_no_room_after_a_grace(status: str, labels: dict[str, str]) -> None:
    cluster = Cluster()
    take(cluster, added(node(status, NOW, labels)))
    before = at(cluster, NOW + 119)
    assert room(before) == ["n"]
    after = at(cluster, NOW + 120)
    assert room(after) == []
    assert "not been Ready" in after.nodes["n"].no_room
    assert after.version > before.version, "loops are woken: pods have to be planned for again"
    take(cluster, modified(versioned(node("True", NOW + 200, labels), 2000)))
    assert room(at(cluster, NOW + 200)) == ["n"], "it is well again"


def test_a_node_that_never_becomes_ready_is_no_room_after_its_deadline() -> None:
    cluster = Cluster(initialization_seconds=600.0)
    take(cluster, added(node("False", NOW + 30, OURS), pod_object(name="p")))
    assert room(at(cluster, NOW + 599)) == ["n"], "it has longer than a node that served already"
    late = at(cluster, NOW + 600)
    assert room(late) == []
    assert "not initialized within 600 s" in late.nodes["n"].no_room


def test_a_node_that_joined_late_has_a_while_to_become_ready() -> None:
    cluster = Cluster(initialization_seconds=600.0)
    take(cluster, added(node("False", NOW + 590, OURS)))
    assert room(at(cluster, NOW + 889)) == ["n"]
    assert room(at(cluster, NOW + 890)) == []


def test_a_node_that_this_process_has_just_seen_has_a_while() -> None:
    """If clocks disagree, each node launched for its pods would be late at once, and the next, and the next."""
    cluster = Cluster(initialization_seconds=600.0)
    cluster.expire(NOW + 5000)
    take(cluster, added(node("True", NOW, OURS)))
    assert room(at(cluster, NOW + 5299)) == ["n"]
    assert room(at(cluster, NOW + 5300)) == []
    again = node("True", NOW, OURS)
    take(cluster, deleted(versioned(again, 3000)), added(versioned(again, 3001, uid="another")))
    assert room(at(cluster, NOW + 5301)) == ["n"], "another node of the name"


def test_a_ready_node_that_is_not_initialized_in_time_is_no_room_either() -> None:
    """Its startup taints are not expected to go any more."""
    cluster = Cluster(initialization_seconds=600.0)
    take(cluster, added(node("True", NOW + 30, OURS)))
    assert room(at(cluster, NOW + 599)) == ["n"]
    assert room(at(cluster, NOW + 600)) == []


def test_absent_data_says_nothing() -> None:
    """No time of transition, no Ready condition at all, no creation time."""
    cluster = Cluster()
    take(cluster, added(node("False", None, SERVING)))
    assert room(at(cluster, NOW + 90_000)) == ["n"]
    take(cluster, modified(versioned(node_object(name="n", labels=SERVING, status={"conditions": []}), 2000)))
    assert room(at(cluster, NOW + 90_001)) == ["n"]
    take(cluster, modified(versioned(node_object(name="n", labels=OURS, creationTimestamp=""), 2001)))
    assert room(at(cluster, NOW + 90_002)) == ["n"]


@pytest.mark.parametrize(
    "then", [modified(versioned(node("True", NOW, SERVING), 2000)), deleted(node("False", NOW, SERVING))]
)
def test_a_node_that_is_well_or_gone_leaves_no_timer(then: list[Change]) -> None:
    cluster = Cluster()
    take(cluster, added(node("False", NOW, SERVING)))
    at(cluster, NOW)
    take(cluster, then)
    version = at(cluster, NOW + 1).version
    assert at(cluster, NOW + 500).version == version
