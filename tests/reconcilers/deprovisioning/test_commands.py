"""Commands over the API server: recorded first, replacements launched, checked again, then deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND, ZONE
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.expiration import Expiration
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.scheduling.taints import ON_DEMAND_TAINT
from controller.errors import CloudError, NotFoundError, UnavailableError
from controller.kube.resources import (
    NODES,
    POD_DISRUPTION_BUDGETS,
    PROVISIONERS,
    Resource,
)
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import (
    annotate_provisioner,
    begun,
    come_up,
    emptiness_loop,
    expire_all,
    leader,
    old_node,
    record_of,
    replacements,
    set_image,
    untouched,
)


def test_an_expired_node_goes_after_its_replacement_is_initialized(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    seen = one.some_passes()
    assert record_of(seen) is not None
    assert seen.nodes["old"].node.unschedulable
    assert not seen.nodes["old"].leaving, "not before the replacement is up"
    world.clock.ahead_seconds += 60.0
    one.some_passes(2)
    world.clock.ahead_seconds += 60.0
    assert record_of(one.some_passes(2)) is not None, "which may take some minutes"
    come_up(world, new)
    after = one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "old node deleted")
    assert not after.nodes[new].leaving
    expected = world.until(lambda s: s.nodes[new].nominated_until, "pods are expected on the replacement")
    assert expected.nodes[new].nominated_until > world.clock.now() + 10.0, "it is not empty while they are evicted"
    assert len(world.cloud.requests) == 1
    assert "ttlSecondsUntilExpired" in world.await_event("DeprovisioningTerminating")["message"]
    assert one.decided() == [("launch", new, "expiration/replace"), ("remove", "old", "expiration/replace")]
    launch, removal = (entry.decision for entry in one.ledger.entries())
    old, fresh = removal.details["instance_type"], launch.details["instance_type"]
    price = {entry.name: entry.offerings[0].price for entry in world.cloud.types}
    assert launch.price_before == pytest.approx(price[old])
    assert launch.price_after == removal.price_before == pytest.approx(price[old] + price[fresh])
    assert removal.price_after == pytest.approx(price[fresh])
    assert len({launch.inputs, removal.inputs}) == 2, "the cluster that they were decided in was another one"
    assert "" not in (launch.inputs, removal.inputs)
    text = one.metrics.page({}).body.decode()
    for series in (
        'karpenter_deprovisioning_actions_performed{action="expiration/replace",deprovisioner="expiration"} 1.0',
        'karpenter_deprovisioning_eligible_machines{deprovisioner="expiration"} ',
        "karpenter_deprovisioning_replacement_node_initialized_seconds_count 1.0",
        'karpenter_deprovisioning_evaluation_duration_seconds_count{method="consolidation"}',
        'karpenter_nodes_terminated{provisioner="default",reason="expiration/replace"} 1.0',
    ):
        assert series in text, series


def test_the_record_is_written_before_anything_is_launched(world: World) -> None:
    """The launch finds the record on the node, with the token that it uses; as a pod must be on demand, the
    replacement is left to such pods."""
    seen: list[Any] = []
    create = world.cloud.create

    def spying(request: Any) -> Any:
        annotations = world.node("old")["metadata"]["annotations"]
        seen.append((request.token in json.loads(annotations[COMMAND_ANNOTATION])["replacements"], request.node_taints))
        return create(request)

    world.cloud.create = spying  # type: ignore[method-assign]
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    world.add_pod("must", node="old", spec={"nodeSelector": {CAPACITY_TYPE: ON_DEMAND}})
    expire_all(world)
    leader(world).passes(replacements, "replacement")
    assert seen == [(True, (ON_DEMAND_TAINT,))]


def test_an_expired_node_without_pods_is_deleted_and_nothing_launched_once_no_zonal_shift_leaves_its_zone(
    world: World,
) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    expire_all(world)
    one = leader(world)
    world.cloud.left = frozenset({world.node("old")["metadata"]["labels"][ZONE]})
    assert one.some_passes().nodes["old"].node.deleted_at is None
    world.cloud.left = frozenset()
    world.clock.ahead_seconds += 60.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None)
    assert world.cloud.requests == []


def test_the_next_leader_carries_on_where_the_last_one_died(world: World) -> None:
    new = begun(world, leader(world))
    come_up(world, new)
    leader(world).passes(lambda s: s.nodes["old"].node.deleted_at is not None)
    assert len(world.cloud.requests) == 1, "nothing is launched twice"


def test_the_next_leader_launches_what_was_recorded_and_not_launched_yet(world: World) -> None:
    """Rolled forward: the same command, under the token that is on record."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    world.cloud.create_errors = [CloudError("the process died instead")]
    leader(world).passes(lambda s: record_of(s) and world.cloud.requests, "on record")
    begun = record_of(world.caught_up())
    second = leader(world)
    (new,) = replacements(second.passes(replacements, "replacement"))
    come_up(world, new)
    assert record_of(world.caught_up()) == begun
    second.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "the old node goes")
    assert begun is not None
    assert [request.token for request in world.cloud.requests] == begun["replacements"] * 2


def test_a_node_that_is_on_its_way_out_says_what_it_waits_for(world: World) -> None:
    one = leader(world)
    come_up(world, begun(world, one))
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")
    one.some_passes(2)
    assert "1 pods" in world.await_event("DeprovisioningWaitingDeletion")["message"]


@pytest.mark.parametrize(("names", "first"), [("zzz-expired drifted empty", "expiration"), ("drifted empty", "drift")])
def test_methods_have_their_turn_in_order(world: World, names: str, first: str) -> None:
    """Expiration, drift, consolidation, where the budget lets one node go: whatever the nodes' names are."""
    world.add_provisioner(consolidation={"enabled": True})
    for name in names.split():
        old_node(world, name, pods=0)
    set_image(world, "drifted", "ami-old")
    if first == "expiration":
        asked = {V1ALPHA5.keys.voluntary_disruption: "expired"}
        world.kube.patch(NODES, "zzz-expired", {"metadata": {"annotations": asked}})
    world.clock.ahead_seconds = 60.0
    one = leader(world, images=lambda _template: ("ami-new",))
    world.caught_up()
    seen = one.passes(lambda s: any(record_of(s, name) for name in s.nodes), "a command")
    records = [record for name in seen.nodes if (record := record_of(seen, name))]
    assert [record["method"] for record in records] == [first]


def test_a_method_that_fails_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Expiration, _given: MethodInput) -> Proposal:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Expiration, "decide", broken)
    world.add_provisioner(consolidation={"enabled": True})
    old_node(world, pods=0)
    world.clock.ahead_seconds = 60.0
    one = leader(world)
    snapshot = world.caught_up()
    assert one.loop.reconcile(snapshot) < 60.0
    one.passes(lambda s: record_of(s) is not None, "consolidation's command")


def test_a_pdb_that_allows_nothing_is_said_and_nothing_begins(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    world.kube.create(POD_DISRUPTION_BUDGETS, budget, "default")
    world.until(lambda s: s.budgets)
    expire_all(world)
    assert untouched(leader(world).some_passes())
    assert world.cloud.requests == []
    assert "default/web" in world.await_event("DeprovisioningBlocked")["message"]


def test_a_drain_that_is_stuck_holds_back_itself_alone(world: World) -> None:
    """Karpenter v0.27 waits 9.5 minutes for each."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    annotate_provisioner(world, disruption_budgets='[{"nodes": "2"}]')
    old_node(world, "stuck", pods=0)
    expire_all(world)
    one = leader(world)
    one.passes(lambda s: s.nodes["stuck"].node.deleted_at is not None)
    old_node(world, "old", pods=0)
    world.clock.ahead_seconds += 3600.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "the other one goes")


def test_a_replacement_is_not_taken_for_empty_while_it_waits_for_its_pods(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    world.kube.patch(PROVISIONERS, "default", {"spec": {"ttlSecondsAfterEmpty": 0}})
    world.until(lambda s: s.provisioners["default"].disruption.empty_after_seconds == 0)
    come_up(world, new)
    emptiness = emptiness_loop(world)
    for _ in range(4):
        emptiness.reconcile(world.caught_up())
    assert not world.caught_up().nodes[new].leaving
    annotations = world.node(new)["metadata"]["annotations"]
    assert V1ALPHA5.keys.emptiness_timestamp not in annotations, "nor is its time counted from now on"


@pytest.mark.parametrize("error", [UnavailableError("the API server does not like it"), ZeroDivisionError("a bug")])
def test_a_command_that_is_held_up_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    annotate_provisioner(world, disruption_budgets='[{"nodes": "100%"}]')
    for name in ("bad", "good"):
        old_node(world, name, pods=0)
    delete = world.kube.delete

    def refuse(resource: Resource, name: str, *args: Any, **more: Any) -> Any:
        if name == "bad":
            raise error
        return delete(resource, name, *args, **more)

    monkeypatch.setattr(world.kube, "delete", refuse)
    expire_all(world)
    seen = leader(world).passes(lambda s: s.nodes["good"].node.deleted_at is not None, "the other one's end")
    assert record_of(seen, "bad") is not None


def test_a_pod_that_came_since_the_last_look_is_seen_before_its_node_is_deleted(world: World) -> None:
    one = leader(world)
    come_up(world, begun(world, one))
    stale = world.caught_up()
    world.add_pod("late", node="old")
    one.executor.step(stale, world.catalogs.view(stale))
    assert not world.caught_up().nodes["old"].leaving


def test_a_node_that_is_gone_in_the_middle_is_no_error(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    world.kube.patch(NODES, "old", {"metadata": {"finalizers": None}})
    world.kube.delete(NODES, "old")
    come_up(world, new)
    one.some_passes()
    with pytest.raises(NotFoundError):
        world.node("old")


def test_searches_know_whether_pods_are_placed_as_planned(world: World) -> None:
    one = leader(world)
    for setting in (False, True):
        world.change_settings(place_as_planned=setting)
        snapshot = world.caught_up()
        assert one.executor.simulator(snapshot, world.catalogs.view(snapshot)).place_as_planned is setting
