"""Commands that are rolled back: nothing is left of them but a back-off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.deprovisioning.backoff import (
    FAILURE_ANNOTATION,
    read_failure,
)
from controller.errors import CloudError, InsufficientCapacityError
from controller.kube.resources import (
    PODS,
    PROVISIONERS,
)
from tests.reconcilers.conftest import World, apply_fault
from tests.reconcilers.deprovisioning.builders import (
    QUICK,
    begun,
    come_up,
    expire_all,
    leader,
    old_node,
    on_record,
    record_of,
    replacements,
    untouched,
)


def test_a_crash_is_no_failure_that_holds_anything_back(world: World) -> None:
    """The record names what nobody would launch now: it is taken back, and the next command may begin at once."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    old_node(world, "other", pods=0)
    for nodes, tokens in ((["old"], ["never"]), (["old", "other"], [])):
        on_record(world, nodes, tokens)
        seen = leader(world).passes(untouched, "rolled back")
        assert FAILURE_ANNOTATION not in seen.nodes["old"].node.annotations


@pytest.mark.parametrize(("method", "failed"), [("consolidation", False), ("expiration", True)])
def test_a_consolidation_that_the_pods_of_a_node_outgrew_is_no_failure(world: World, method: str, failed: bool) -> None:
    """It has cost nothing, and the back-off would hold all nodes of the Provisioner."""
    world.add_provisioner(ttlSecondsUntilExpired=30, consolidation={"enabled": True})
    old_node(world)
    on_record(world, ["old"], [], method)
    seen = leader(world).passes(untouched, "rolled back")
    assert (FAILURE_ANNOTATION in seen.nodes["old"].node.annotations) == failed


def test_the_next_leader_takes_back_what_was_recorded_and_never_launched(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    on_record(world, ["old"], ["never"])
    leader(world).passes(untouched, "rolled back")


def test_a_record_of_two_nodes_that_reached_only_one_is_taken_back(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    old_node(world, "other", pods=0)
    on_record(world, ["old", "other"], [])
    leader(world).passes(untouched, "rolled back")
    assert untouched(world.caught_up(), "other")


def test_a_launch_that_fails_leaves_the_node_as_it_was_and_is_not_repeated_at_once(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    world.cloud.create_errors = [CloudError("no")]
    one = leader(world)
    one.passes(lambda s: world.cloud.requests and untouched(s), "rolled back")
    assert untouched(one.some_passes())
    assert len(world.cloud.requests) == 1
    assert "no" in world.await_event("DeprovisioningFailed")["message"]
    assert one.decided() == [("skip", "old", "expiration/replace")]
    assert "a replacement was not launched: no" in one.ledger.entries()[0].decision.reason
    world.clock.ahead_seconds += 120.0
    one.passes(lambda s: len(replacements(s)) == 1, "tried again")


def test_the_next_leader_knows_that_a_launch_failed_a_moment_ago(world: World) -> None:
    """The back-off is on the node, not in the memory of the process that saw the failure."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    world.cloud.create_errors = [CloudError("no capacity")]
    leader(world).passes(lambda s: FAILURE_ANNOTATION in s.nodes["old"].node.annotations, "rolled back")
    second = leader(world)
    assert untouched(second.some_passes())
    assert len(world.cloud.requests) == 1
    world.clock.ahead_seconds += 61.0
    world.cloud.create_errors = [CloudError("no capacity")]
    failed = second.passes(lambda s: (f := read_failure(s.nodes["old"])) and f.count == 2, "tried again")
    assert read_failure(failed.nodes["old"]).method == "expiration"  # type: ignore[union-attr]


def test_an_edit_of_the_provisioner_ends_the_hold_back(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    world.cloud.create_errors = [CloudError("no capacity")]
    one = leader(world)
    one.passes(lambda s: FAILURE_ANNOTATION in s.nodes["old"].node.annotations, "rolled back")
    world.kube.patch(PROVISIONERS, "default", {"spec": {"labels": {"team": "web"}}})
    world.until(lambda s: s.provisioners["default"].labels)
    one.passes(replacements, "tried again at once")


def test_when_one_of_two_launches_fails_the_other_is_not_kept(world: World) -> None:
    """Insufficient capacity in the middle of a replacement: Karpenter v0.27 keeps what was launched."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    world.cloud.types = tuple(each for each in world.cloud.types if each.name == "c5.large")
    old_node(world, pods=3)
    expire_all(world)
    world.cloud.create_errors = [InsufficientCapacityError("no capacity for c5.large")]
    one = leader(world)
    one.passes(lambda s: len(world.cloud.requests) == 2 and untouched(s), "rolled back")
    assert "no capacity" in world.await_event("DeprovisioningFailed")["message"]
    left = one.some_passes(2)
    assert all(left.nodes[name].leaving for name in replacements(left)), "the one that was launched goes again"


def test_a_replacement_that_never_joins_is_given_up_and_removed(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    world.clock.ahead_seconds += 700.0
    after = one.passes(untouched, "rolled back")
    assert after.nodes[new].leaving or new not in one.some_passes(2).nodes


def test_a_cordon_of_the_users_own_survives_a_rollback(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, unschedulable=True)
    expire_all(world)
    world.cloud.create_errors = [CloudError("no")]
    leader(world).passes(lambda s: world.cloud.requests and record_of(s) is None, "rolled back")
    assert world.node("old")["spec"]["unschedulable"] is True


def test_do_not_evict_that_arrives_during_the_wait_is_respected(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    kept = {"metadata": {"annotations": {"karpenter.sh/do-not-evict": "true"}}}
    world.kube.patch(PODS, "old-0", kept, namespace="default")
    come_up(world, new)
    one.passes(untouched, "rolled back")
    assert "do-not-evict" in world.await_event("DeprovisioningFailed")["message"]


@pytest.mark.parametrize(
    ("came_to", "spec", "why"),
    [
        ("new", {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3500m"}}}]}, "more new"),
        ("old", {"nodeSelector": {"nowhere": "at-all"}}, "not all pods fit"),
    ],
)
def test_pods_that_come_during_the_wait_count(world: World, came_to: str, spec: dict[str, Any], why: str) -> None:
    """One takes the replacement's room, one has no place but on the old node: the command is taken back."""
    one = leader(world)
    new = begun(world, one)
    come_up(world, new)
    world.add_pod("late", node=new if came_to == "new" else "old", spec=spec)
    after = one.passes(untouched, "rolled back")
    assert why in world.await_event("DeprovisioningFailed")["message"]
    assert after.nodes[new].leaving == (came_to == "old"), "a replacement that is of use to somebody stays"


def test_a_ttl_that_is_raised_during_the_wait_is_respected(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    world.kube.patch(PROVISIONERS, "default", {"spec": {"ttlSecondsUntilExpired": 100_000}})
    world.until(lambda s: s.provisioners["default"].disruption.expire_after_seconds == 100_000)
    come_up(world, new)
    one.passes(untouched, "rolled back")


KEPT = {"annotations": {"karpenter.sh/do-not-evict": "true"}}
LARGE: dict[str, Any] = {
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1900m"}}}]}
}


@pytest.mark.parametrize("held", [{"metadata": KEPT}, LARGE], ids=["refused by a pod", "without room"])
def test_of_a_set_that_does_not_go_as_a_whole_a_part_goes_and_the_rest_is_given_back(
    world: World, held: dict[str, Any]
) -> None:
    """A crash in between changes nothing: the record is on the node that stays. It does not take as long as a command
    may be refused: other removals are searched for without these nodes' room."""
    world.add_provisioner(consolidation={"enabled": True})
    for name in ("goes", "held", "room"):
        old_node(world, name, pods=name == "goes")
    world.add_pod("large", node="held", **{"spec": held.get("spec"), **held.get("metadata", {})})
    for nodes in (["goes", "held"], ["held", "goes"]):
        on_record(world, nodes, [], "consolidation")
    seen = leader(world).passes(lambda s: s.nodes["goes"].leaving, "a part goes")
    assert record_of(seen, "held") is not None
    patient = replace(QUICK, patience_seconds=1e6)
    after = leader(world, patient).passes(lambda s: untouched(s, "held"), "the rest is given back")
    assert after.nodes["goes"].leaving
    assert not after.nodes["room"].leaving


@pytest.mark.parametrize("code", [500, 403])
def test_an_api_server_that_refuses_leaves_nothing_half_done(world: World, code: int) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    one = leader(world)
    snapshot = world.caught_up()
    apply_fault(world, {"kind": "errors", "seconds": 60, "code": code})
    one.loop.reconcile(snapshot)
    apply_fault(world, None)
    assert untouched(world.caught_up())
    assert world.cloud.requests == []
