"""Commands over the API server: recorded first, replacements up, checked again, then deleted; or taken back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controller.cloud.drift_checks import Drift
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import (
    CAPACITY_TYPE,
    EMPTINESS_TIMESTAMP,
    INITIALIZED,
    INSTANCE_AMI_ID,
    INSTANCE_TYPE,
    PROVISIONER_NAME,
    TERMINATION_FINALIZER,
    VOLUNTARY_DISRUPTION,
    ZONE,
)
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.cloud import TemplateStatus
from controller.core.deprovisioning import consolidation, expiration
from controller.core.deprovisioning.backoff import (
    FAILURE_ANNOTATION,
    RESTING_ANNOTATION,
    read_failure,
    resting,
    workload,
)
from controller.core.deprovisioning.drift import PROVISIONER_HASH
from controller.core.deprovisioning.due_replacement import MOST_SIMULATIONS
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.deprovisioning.surge import RESTARTED_FOR
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, InsufficientCapacityError, NotFoundError, UnavailableError
from controller.kube.resources import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PROVISIONERS,
    REPLICA_SETS,
    Resource,
)
from controller.reconcilers.deprovisioning.deprovisioning_reconciler import (
    DeprovisioningReconciler,
    DeprovisioningTimes,
)
from controller.reconcilers.deprovisioning.emptiness_reconciler import EmptinessReconciler
from controller.reconcilers.deprovisioning.executor import CommandExecutor, CommandTimes, Wanted
from controller.runtime.loops import BackoffTimes
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import READY, World, apply_fault

QUICK = CommandTimes(ready_seconds=600.0, appear_seconds=1.0, patience_seconds=0.3, hold_back=BackoffTimes(60.0, 60.0))


@dataclass
class Leader:
    """One process that leads: a loop with its own memory. What it holds in memory dies with it."""

    world: World
    loop: DeprovisioningReconciler
    commands: CommandExecutor
    metrics: Metrics
    ledger: Ledger

    def decided(self) -> list[tuple[str, str, str]]:
        """Kind, what it is about, and by which method and action."""
        found = [entry.decision for entry in self.ledger.entries()]
        return [(each.kind, each.subject.partition("/")[2], f"{each.method}/{each.action}") for each in found]

    def metrics_text(self) -> str:
        return self.metrics.page({}).body.decode()

    def passes(self, done: Callable[[Snapshot], Any], what: str = "") -> Snapshot:
        return self.world.passes(self.loop, done, what)

    def some_passes(self, count: int = 6) -> Snapshot:
        for _ in range(count):
            self.loop.reconcile(self.world.caught_up())
        return self.world.caught_up()


def leader(
    world: World,
    times: CommandTimes = QUICK,
    images: Callable[[AWSNodeTemplate], tuple[str, ...]] | None = None,
    surge: bool = False,
) -> Leader:
    if images is not None:
        world.cloud.images = images
    drift = Drift(world.informers, world.cloud, world.clock) if images else None
    wanted: dict[str, Wanted] = {"expiration": expiration.is_expired, "consolidation": consolidation.wanted}
    if drift is not None:
        wanted["drift"] = drift.wanted
    metrics = Metrics(world.clock)
    ledger = Ledger(world.clock, metrics)
    ledger.look = lambda: (world.informers.snapshot(), world.catalogs.view(world.informers.snapshot()).types)
    context = replace(world.context, ledger=ledger)
    world.change_settings(surge_single_replicas=surge)
    commands = CommandExecutor(context, wanted=wanted, times=times)
    loop = DeprovisioningReconciler(context, commands=commands, times=DeprovisioningTimes(0.0, 0.0, 0.05), drift=drift)
    return Leader(world, loop, commands, metrics, ledger)


def old_node(world: World, name: str = "old", pods: int = 1, kind: str = "c5.large", **spec: Any) -> None:
    """A node of a Provisioner with a TTL of 30 s, an hour from now long expired."""
    labels = {
        PROVISIONER_NAME: "default",
        INITIALIZED: "true",
        INSTANCE_TYPE: kind,
        ZONE: "eu-west-1a",
        CAPACITY_TYPE: "on-demand",
    }
    metadata = {"name": name, "labels": labels, "finalizers": [TERMINATION_FINALIZER]}
    world.add_node({"metadata": metadata, "spec": {"providerID": f"aws:///eu-west-1a/i-{name}", **spec}})
    for number in range(pods):
        world.add_pod(f"{name}-{number}", node=name, labels={"app": "web"})


def expire_all(world: World) -> None:
    world.clock.ahead_seconds = 3600.0


def record_of(snapshot: Snapshot, name: str = "old") -> dict[str, Any] | None:
    text = snapshot.nodes[name].node.annotations.get(COMMAND_ANNOTATION)
    return None if text is None else json.loads(text)


def replacements(snapshot: Snapshot) -> list[str]:
    return [name for name, node in snapshot.nodes.items() if LAUNCH_TOKEN in node.node.annotations]


def come_up(world: World, name: str) -> None:
    world.come_up(name)
    world.kube.patch(NODES, name, {"metadata": {"labels": {INITIALIZED: "true"}}})
    world.until(lambda s: s.nodes[name].initialized, "initialized")


def untouched(snapshot: Snapshot, name: str = "old") -> bool:
    """Nothing left of a command: no record, no cordon, not going."""
    node = snapshot.nodes[name]
    return record_of(snapshot, name) is None and not node.node.unschedulable and not node.leaving


def begun(world: World, one: Leader) -> str:
    """An expired node's command on record, its replacement launched; the replacement's name."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    (name,) = replacements(one.passes(replacements, "replacement"))
    return name


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
    assert expected.nodes[new].nominated_until > world.clock.now() + 30.0, "it is not empty while they are evicted"
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
    """Invariant 8: the launch finds the record on the node, with the token that it uses."""
    seen: list[Any] = []
    create = world.cloud.create

    def spying(request: Any) -> Any:
        annotations = world.node("old")["metadata"]["annotations"]
        seen.append(request.token in json.loads(annotations[COMMAND_ANNOTATION])["replacements"])
        return create(request)

    world.cloud.create = spying  # type: ignore[method-assign]
    begun(world, leader(world))
    assert seen == [True]


def test_an_expired_node_without_pods_is_deleted_and_nothing_launched(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    expire_all(world)
    leader(world).passes(lambda s: s.nodes["old"].node.deleted_at is not None)
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


def test_a_crash_is_no_failure_that_holds_anything_back(world: World) -> None:
    """The record names what nobody would launch now: it is taken back, and the next command may begin at once."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    old_node(world, "other", pods=0)
    for nodes, tokens in ((["old"], ["never"]), (["old", "other"], [])):
        record = {"id": "x", "method": "expiration", "reason": "old", "nodes": nodes, "replacements": tokens}
        text = json.dumps({**record, "startedAt": world.clock.now(), "cordoned": True})
        patch = {"metadata": {"annotations": {COMMAND_ANNOTATION: text}}, "spec": {"unschedulable": True}}
        world.kube.patch(NODES, "old", patch)
        world.caught_up()
        seen = leader(world).passes(untouched, "rolled back")
        assert FAILURE_ANNOTATION not in seen.nodes["old"].node.annotations


def test_the_next_leader_takes_back_what_was_recorded_and_never_launched(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    record = {"id": "x", "method": "expiration", "reason": "old", "nodes": ["old"], "replacements": ["never"]}
    text = json.dumps({**record, "startedAt": world.clock.now(), "cordoned": True})
    patch = {"metadata": {"annotations": {COMMAND_ANNOTATION: text}}, "spec": {"unschedulable": True}}
    world.kube.patch(NODES, "old", patch)
    world.caught_up()
    leader(world).passes(untouched, "rolled back")


def test_a_record_of_two_nodes_that_reached_only_one_is_taken_back(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    old_node(world, "other", pods=0)
    record = {"id": "x", "method": "expiration", "reason": "old", "nodes": ["old", "other"], "replacements": []}
    text = json.dumps({**record, "startedAt": world.clock.now(), "cordoned": True})
    patch = {"metadata": {"annotations": {COMMAND_ANNOTATION: text}}, "spec": {"unschedulable": True}}
    world.kube.patch(NODES, "old", patch)
    world.caught_up()
    leader(world).passes(untouched, "rolled back")
    assert untouched(world.caught_up(), "other")


def test_a_launch_that_fails_leaves_the_node_as_it_was_and_is_not_repeated_at_once(world: World) -> None:
    """D48."""
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
    """The hold-back is on the node, not in the memory of the process that saw the failure."""
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


def test_a_node_that_is_on_its_way_out_says_what_it_waits_for(world: World) -> None:
    one = leader(world)
    come_up(world, begun(world, one))
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")
    one.some_passes(2)
    assert "1 pods" in world.await_event("DeprovisioningWaitingDeletion")["message"]


def test_when_one_of_two_launches_fails_the_other_is_not_kept(world: World) -> None:
    """ICE in the middle of a replace: the peer leaves what was launched as capacity that nobody asked for."""
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


@pytest.mark.parametrize(("names", "first"), [("zzz-expired drifted empty", "expiration"), ("drifted empty", "drift")])
def test_methods_have_their_turn_in_order(world: World, names: str, first: str) -> None:
    """Expiration, drift, consolidation, where the budget lets one node go: whatever the nodes' names are."""
    world.add_provisioner(consolidation={"enabled": True})
    for name in names.split():
        old_node(world, name, pods=0)
    set_image(world, "drifted", "ami-old")
    if first == "expiration":
        world.kube.patch(NODES, "zzz-expired", {"metadata": {"annotations": {VOLUNTARY_DISRUPTION: "expired"}}})
    world.clock.ahead_seconds = 60.0
    one = leader(world, images=lambda _template: ("ami-new",))
    world.caught_up()
    seen = one.passes(lambda s: any(record_of(s, name) for name in s.nodes), "a command")
    records = [record for name in seen.nodes if (record := record_of(seen, name))]
    assert [record["method"] for record in records] == [first]


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
    """D27."""
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


def single_replica(world: World, node: str) -> None:
    """A Deployment of one, its ReplicaSet, and its pod on the node."""
    labels = {"app": "one"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    made = world.kube.create(DEPLOYMENTS, {"metadata": {"name": "one"}, "spec": spec}, "default")
    owner = owned_by("apps/v1", "Deployment", made)
    metadata = {"name": "one-1", "labels": labels, "ownerReferences": [owner]}
    made = world.kube.create(REPLICA_SETS, {"metadata": metadata, "spec": spec}, "default")
    world.add_pod("one-1-a", node=node, labels=labels, ownerReferences=[owned_by("apps/v1", "ReplicaSet", made)])
    serving = {"status": {"phase": "Running", "conditions": [READY]}}
    world.kube.patch(PODS, "one-1-a", serving, namespace="default", subresource="status")
    world.until(lambda s: s.pods["default", "one-1-a"].ready)


def owned_by(version: str, kind: str, owner: dict[str, Any]) -> dict[str, Any]:
    meta = owner["metadata"]
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def restarts(world: World) -> str:
    template = world.kube.get(DEPLOYMENTS, "one", "default")["spec"]["template"]
    return str((template["metadata"].get("annotations") or {}).get(RESTARTED_FOR, ""))


def test_the_only_pod_of_a_deployment_starts_elsewhere_before_its_node_goes(world: World) -> None:
    """The rollout is asked for once, whoever leads; the node goes when the old pod does."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    single_replica(world, "old")
    expire_all(world)
    one = leader(world, surge=True)
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(lambda _: restarts(world), "a rollout")
    (asked,) = {restarts(world), json.loads(world.node("old")["metadata"]["annotations"][COMMAND_ANNOTATION])["id"]}
    two = leader(world, surge=True)
    assert not two.some_passes().nodes["old"].leaving, "its pod still runs there alone"
    assert restarts(world) == asked
    world.add_pod("one-2-a", node=new, labels={"app": "one"})
    world.kill_pod("one-1-a")
    two.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "the old node goes")
    assert "Deployment one" in world.await_event("Surging")["message"]


def test_a_single_replica_that_does_not_start_elsewhere_keeps_its_node(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    single_replica(world, "old")
    expire_all(world)
    one = leader(world, replace(QUICK, surge_seconds=0.3), surge=True)
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(untouched, "rolled back")
    assert "did not start elsewhere" in world.await_event("DeprovisioningFailed")["message"]


def test_single_replicas_are_evicted_unless_the_setting_asks_for_more(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    single_replica(world, "old")
    expire_all(world)
    one = leader(world)
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "the old node goes")
    assert restarts(world) == ""


def test_a_ttl_that_is_raised_during_the_wait_is_respected(world: World) -> None:
    one = leader(world)
    new = begun(world, one)
    world.kube.patch(PROVISIONERS, "default", {"spec": {"ttlSecondsUntilExpired": 100_000}})
    world.until(lambda s: s.provisioners["default"].ttl_seconds_until_expired == 100_000)
    come_up(world, new)
    one.passes(untouched, "rolled back")


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
    """D14, D31: the peer waits 9.5 minutes for each."""
    budgets = json.dumps([{"nodes": "2"}])
    world.add_provisioner(ttlSecondsUntilExpired=30)
    world.kube.patch(
        PROVISIONERS, "default", {"metadata": {"annotations": {"karpenter.sh/disruption-budgets": budgets}}}
    )
    world.until(lambda s: s.provisioners["default"].object_annotations)
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
    world.until(lambda s: s.provisioners["default"].ttl_seconds_after_empty == 0)
    come_up(world, new)
    emptiness = EmptinessReconciler(world.context)
    for _ in range(4):
        emptiness.reconcile(world.caught_up())
    assert not world.caught_up().nodes[new].leaving
    assert EMPTINESS_TIMESTAMP not in world.node(new)["metadata"]["annotations"], "nor is its time counted from now on"


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


def test_a_command_that_is_held_up_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    world.add_provisioner(ttlSecondsUntilExpired=30)
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    for name in ("bad", "good"):
        old_node(world, name, pods=0)
    delete = world.kube.delete

    def refuse(resource: Resource, name: str, *args: Any, **more: Any) -> Any:
        if name == "bad":
            raise UnavailableError("the API server does not like it")
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
    one.commands.step(stale, world.catalogs.view(stale))
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


def consolidating(world: World, **spec: Any) -> None:
    world.add_provisioner(consolidation={"enabled": True}, **spec)


def test_an_empty_node_goes_when_it_has_been_empty_for_a_while(world: World) -> None:
    """D23, D28."""
    consolidating(world)
    old_node(world, pods=0)
    one = leader(world)
    assert untouched(one.some_passes(), "old")
    world.clock.ahead_seconds += 16.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_an_empty_node_that_gets_a_pod_during_the_wait_stays(world: World) -> None:
    """D30."""
    consolidating(world)
    old_node(world, pods=0)
    one = leader(world)
    one.some_passes()
    world.add_pod("late", node="old")
    world.clock.ahead_seconds += 16.0
    assert untouched(one.some_passes())
    assert one.metrics_text().count("karpenter_deprovisioning_actions_performed{") == 0, "not begun and taken back"


def test_a_node_whose_pods_fit_on_another_goes_and_its_workload_rests(world: World) -> None:
    """D29; then no pod of the workload is moved again for ten minutes."""
    consolidating(world)
    old_node(world, "one")
    old_node(world, "two")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    gone = one.passes(lambda s: any(node.node.deleted_at is not None for node in s.nodes.values()), "one deleted")
    assert sum(node.leaving for node in gone.nodes.values()) == 1
    assert world.cloud.requests == []
    (stays,) = (node for node in gone.nodes.values() if not node.leaving)
    moved = {workload(pod) for node in gone.nodes.values() if node.leaving for pod in node.pods}
    assert moved
    later = replace(gone, nodes=FrozenMap({stays.name: stays}))
    assert moved <= resting(later, world.clock.now() + 590.0), "whoever leads next knows it, when the node is gone too"
    world.clock.ahead_seconds += 601.0
    assert not resting(world.caught_up(), world.clock.now()) - {
        workload(p) for n in gone.nodes.values() for p in n.pods
    }
    one.passes(lambda s: RESTING_ANNOTATION not in s.nodes[stays.name].node.annotations, "taken off when it is over")


def test_a_dear_node_is_replaced_by_a_cheaper_one(world: World) -> None:
    """D8: replacement first; the price before and after is logged."""
    consolidating(world)
    old_node(world, kind="m5.4xlarge")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    (new,) = replacements(one.passes(replacements, "replacement"))
    assert world.cloud.requests[0].offerings[0].price < 0.768
    assert all(offering.price < 0.768 for offering in world.cloud.requests[0].offerings), "nothing dearer on any path"
    come_up(world, new)
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_a_node_that_the_base_on_demand_needs_is_not_consolidated_and_says_why(world: World) -> None:
    """Both could be one; each is one of the two that are to be on demand."""
    consolidating(world)
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": {"karpenter.sh/on-demand-base": "2"}}})
    world.until(lambda s: s.provisioners["default"].object_annotations, "annotated")
    old_node(world, "one")
    old_node(world, "two")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    seen = one.some_passes()
    assert untouched(seen, "one")
    assert untouched(seen, "two")
    why = "2 of 2 nodes of Provisioner default are to be on demand"
    assert world.await_event("Unconsolidatable")["message"] == why


def test_two_dear_nodes_become_one_when_that_has_held_for_a_while(world: World) -> None:
    """D35."""
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    consolidating(world)
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    world.until(lambda s: s.provisioners["default"].object_annotations)
    for name in ("one", "two"):
        old_node(world, name, kind="m5.4xlarge")
    one = leader(world)
    assert all(untouched(one.some_passes(), name) for name in ("one", "two"))
    world.clock.ahead_seconds += 16.0
    (new,) = replacements(one.passes(replacements, "replacement"))
    assert len(world.cloud.requests) == 1
    come_up(world, new)
    one.passes(lambda s: all(s.nodes[name].leaving for name in ("one", "two")), "both deleted")


def test_each_look_of_a_search_goes_on_where_the_last_one_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    consolidating(world)
    old_node(world)
    ways = [consolidation.Cursor(nodes=frozenset({"old"})), consolidation.BEGIN]
    begun: list[consolidation.Cursor] = []

    def look(*args: Any) -> consolidation.Found:
        begun.append(args[4])
        return consolidation.Found(cursor=ways[len(begun) - 1])

    monkeypatch.setattr(consolidation, "find", look)
    one = leader(world)
    one.passes(lambda _: len(begun) == 2, "two looks")
    assert begun == [consolidation.BEGIN, ways[0]]


def test_nodes_whose_pods_fit_nowhere_do_not_hide_those_that_may_go(world: World) -> None:
    """A look simulates a few nodes; the next one goes on behind them."""
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    world.add_provisioner(ttlSecondsUntilExpired=30)
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    for number in range(MOST_SIMULATIONS + 1):
        old_node(world, f"a{number}", pods=0)
        world.add_pod(f"a{number}-0", node=f"a{number}", spec={"nodeSelector": {"nowhere": "at-all"}})
    old_node(world, "z", pods=0)
    expire_all(world)
    leader(world).passes(lambda s: s.nodes["z"].leaving, "the node behind them")


def test_where_nothing_changed_the_search_rests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1: after five minutes it looks again, for prices may have changed; any change ends the rest at once."""
    consolidating(world)
    old_node(world)
    one = leader(world)
    searches: list[int] = []
    find = consolidation.find

    def counting(*args: Any, **more: Any) -> Any:
        searches.append(1)
        return find(*args, **more)

    monkeypatch.setattr(consolidation, "find", counting)
    world.caught_up()
    still = world.until(lambda s: set(s.pods) == {("default", "old-0")}, "nothing on the way any more")
    for _ in range(3):
        one.loop.reconcile(still)
    assert len(searches) == 1, "once for what it sees"
    world.clock.ahead_seconds += 301.0
    one.loop.reconcile(still)
    assert len(searches) == 2
    world.add_pod("more", node="old")
    one.loop.reconcile(world.caught_up())
    assert len(searches) == 3


def test_nodes_of_provisioners_without_consolidation_hear_nothing_of_it(world: World) -> None:
    """The peer says Unconsolidatable of each of them every 15 minutes."""
    world.add_provisioner()
    old_node(world, pods=0)
    one = leader(world)
    world.clock.ahead_seconds += 60.0
    assert untouched(one.some_passes())
    assert world.said("Unconsolidatable") == []


def test_why_a_node_stays_is_said_and_said_anew_when_it_changes(world: World) -> None:
    consolidating(world)
    old_node(world)
    one = leader(world)
    one.some_passes()
    first = world.await_event("Unconsolidatable")["message"]
    world.kube.patch(NODES, "old", {"metadata": {"annotations": {"karpenter.sh/do-not-consolidate": "true"}}})
    one.some_passes()
    deadline = threading.Event()
    for _ in range(100):
        messages = {event["message"] for event in world.said("Unconsolidatable")}
        if len(messages) > 1:
            break
        deadline.wait(0.05)
    assert any("do-not-consolidate" in message for message in messages)
    assert first in messages


def set_image(world: World, name: str, image: str) -> None:
    world.kube.patch(NODES, name, {"metadata": {"labels": {INSTANCE_AMI_ID: image}}})


def test_nodes_of_an_old_ami_are_replaced_one_canary_first(world: World) -> None:
    """aws#3979: while no node of the new AMI has come up, no second one is touched."""
    world.add_provisioner()
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    for name in ("old", "older"):
        old_node(world, name, pods=2)
        set_image(world, name, "ami-old")
    one = leader(world, images=lambda _template: ("ami-new",))
    (new,) = replacements(one.passes(replacements, "the canary's replacement"))
    seen = one.some_passes()
    assert len([name for name in ("old", "older") if record_of(seen, name)]) == 1
    set_image(world, new, "ami-new")
    come_up(world, new)
    one.passes(lambda s: all(s.nodes[n].leaving or record_of(s, n) for n in ("old", "older")), "the other follows")


def test_a_canary_that_does_not_join_stops_the_rollout(world: World) -> None:
    world.add_provisioner()
    for name in ("old", "older"):
        old_node(world, name, pods=2)
        set_image(world, name, "ami-old")
    one = leader(world, images=lambda _template: ("ami-bad",))
    one.passes(replacements, "the canary's replacement")
    world.clock.ahead_seconds += 700.0
    one.passes(lambda s: untouched(s, "old") and untouched(s, "older"), "rolled back")
    seen = one.some_passes()
    assert untouched(seen, "old")
    assert untouched(seen, "older")
    assert len(world.cloud.requests) == 1


def test_a_node_gets_its_hashes_and_drifts_when_the_provisioner_changes(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    one = leader(world, images=lambda _template: ())
    one.passes(lambda s: PROVISIONER_HASH in s.nodes["old"].node.annotations, "stamped")
    assert untouched(one.some_passes())
    world.kube.patch(PROVISIONERS, "default", {"spec": {"labels": {"team": "web"}}})
    world.until(lambda s: s.provisioners["default"].labels)
    one.passes(lambda s: record_of(s), "replaced")
    one.passes(lambda _: world.cloud.requests, "launched")
    assert world.cloud.requests[0].labels["team"] == "web"


def test_a_node_whose_subnet_is_not_selected_any_more_is_replaced(world: World) -> None:
    """Somebody moved a tag in AWS. While nobody can say what is selected, nobody goes."""
    world.add_provisioner()
    old_node(world)
    provider_id = world.node("old")["spec"]["providerID"]
    world.cloud.add(cloud_instance(provider_id=provider_id, id="i-old", node_name="old", subnet_id="subnet-1"))
    world.cloud.status = TemplateStatus(None)
    one = leader(world, images=lambda _template: ())
    assert untouched(one.some_passes())
    world.cloud.status = TemplateStatus((("subnet-2", "eu-west-1a"),))
    world.clock.ahead_seconds += 61.0
    one.passes(record_of, "replaced")
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_without_the_feature_gate_nothing_drifts(world: World) -> None:
    """D36."""
    world.add_provisioner()
    old_node(world)
    set_image(world, "old", "ami-old")
    world.kube.patch(NODES, "old", {"metadata": {"annotations": {"karpenter.sh/voluntary-disruption": "drifted"}}})
    assert untouched(leader(world).some_passes())


def test_images_that_cannot_be_read_remove_no_node(world: World) -> None:
    """Invariant 5."""

    def fails(_template: Any) -> tuple[str, ...]:
        raise CloudError("ssm is down")

    world.add_provisioner()
    old_node(world)
    set_image(world, "old", "ami-old")
    assert untouched(leader(world, images=fails).some_passes())
