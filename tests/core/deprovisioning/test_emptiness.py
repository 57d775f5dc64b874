"""Emptiness verdicts by Karpenter v0.27's rules, with the stale and the unreadable stamp fixed."""

from __future__ import annotations

import pytest

from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import OwnerReference, Pod
from controller.core.api.provisioner import Provisioner
from controller.core.api.timestamps import format_time
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.emptiness import EmptinessAction, verdict
from controller.core.state.snapshot import StateNode
from tests import factories

NOW = 1_700_000_000.0
TTL = factories.provisioner(disruption=DisruptionPolicy(empty_after_seconds=30))
KEEP, SET, CLEAR, DELETE = (
    EmptinessAction.KEEP,
    EmptinessAction.SET,
    EmptinessAction.CLEAR,
    EmptinessAction.DELETE,
)


def empty_node(
    stamp: str | None = None, *, pods: tuple[Pod, ...] = (), nominated_until: float = 0.0, **fields: object
) -> StateNode:
    annotations = FrozenMap({V1ALPHA5.keys.emptiness_timestamp: stamp} if stamp is not None else {})
    node = factories.node(name="node", annotations=annotations, **fields)  # type: ignore[arg-type]
    return factories.state_node(node=node, pods=pods, nominated_until=nominated_until)


def test_an_empty_node_is_stamped_and_looked_at_again_when_its_time_is_over() -> None:
    judged = verdict(empty_node(), TTL, NOW)
    assert (judged.action, judged.requeue_seconds) == (SET, 30.0)


def test_a_stamped_node_waits_for_the_rest_of_its_time() -> None:
    judged = verdict(empty_node(format_time(NOW - 10)), TTL, NOW)
    assert (judged.action, judged.requeue_seconds) == (KEEP, 20.0)


def test_a_node_goes_when_its_time_is_over() -> None:
    assert verdict(empty_node(format_time(NOW - 30)), TTL, NOW).action is DELETE


def test_a_ttl_of_zero_stamps_first_and_deletes_at_the_next_look() -> None:
    now_or_never = factories.provisioner(disruption=DisruptionPolicy(empty_after_seconds=0))
    assert verdict(empty_node(), now_or_never, NOW).action is SET
    assert verdict(empty_node(format_time(NOW)), now_or_never, NOW).action is DELETE


@pytest.mark.parametrize("stamp", [None, format_time(NOW - 100)])
def test_a_node_with_a_pod_is_not_empty(stamp: str | None) -> None:
    node = empty_node(stamp, pods=(factories.running_pod(node="node"),))
    assert verdict(node, TTL, NOW).action is (KEEP if stamp is None else CLEAR)


def test_a_terminating_pod_still_occupies_its_node() -> None:
    pod = factories.running_pod(node="node", pod_fields={"deleted_at": NOW + 30})
    assert verdict(empty_node(format_time(NOW - 100), pods=(pod,)), TTL, NOW).action is CLEAR


def test_daemons_static_and_finished_pods_do_not_count() -> None:
    pods = (
        factories.running_pod(node="node", owner=factories.daemon_owner()),
        factories.running_pod(node="node", owner=OwnerReference("v1", "Node", "node", "uid-node")),
        factories.running_pod(node="node", pod_fields={"phase": "Succeeded"}),
    )
    assert verdict(empty_node(format_time(NOW - 100), pods=pods), TTL, NOW).action is DELETE


def test_a_nominated_node_is_left_alone_and_looked_at_again_when_the_nomination_ends_at_the_latest() -> None:
    judged = verdict(empty_node(format_time(NOW - 100), nominated_until=NOW + 12), TTL, NOW)
    assert (judged.action, judged.requeue_seconds) == (KEEP, 12.0)


def test_an_old_nomination_does_not_count() -> None:
    assert verdict(empty_node(format_time(NOW - 100), nominated_until=NOW - 1), TTL, NOW).action is DELETE


@pytest.mark.parametrize("stamp", [None, format_time(NOW)])
def test_a_node_that_is_not_initialized_is_never_empty(stamp: str | None) -> None:
    assert verdict(empty_node(stamp, initialized=False), TTL, NOW).action is (KEEP if stamp is None else CLEAR)


def test_a_stamp_left_behind_when_the_ttl_was_taken_away_is_cleared() -> None:
    without: Provisioner = factories.provisioner()
    assert verdict(empty_node(format_time(NOW - 100)), without, NOW).action is CLEAR
    assert verdict(empty_node(), without, NOW).action is KEEP


@pytest.mark.parametrize("stamp", ["yesterday", "", "2023-04-01T12:00:00"])
def test_a_stamp_that_is_no_time_is_written_anew(stamp: str) -> None:
    assert verdict(empty_node(stamp), TTL, NOW).action is SET


def test_a_leaving_node_is_left_alone() -> None:
    node = empty_node(format_time(NOW - 100), deleted_at=NOW)
    assert verdict(node, TTL, NOW).action is KEEP


def test_without_a_usable_provisioner_nothing_is_decided() -> None:
    assert verdict(empty_node(format_time(NOW - 100)), None, NOW).action is KEEP
