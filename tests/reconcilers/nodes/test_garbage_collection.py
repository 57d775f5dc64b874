"""Adoption and garbage collection: what a controller that died left behind is found and put right."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import structlog

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import PROVISIONER_NAME, TERMINATION_FINALIZER
from controller.core.api.timestamps import format_time
from controller.core.cloud import CloudInstance, LaunchRequest, PricedOffering
from controller.core.machines.collection import CollectionTimes
from controller.core.machines.node_documents import LAUNCH_TOKEN, node_document
from controller.errors import CloudError
from controller.kube.resources import NODES
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageCollectionReconciler, GarbageTimes
from controller.telemetry.decision_ledger import Ledger
from tests.core.instances import cloud_instance
from tests.manual_clock import ManualClock
from tests.reconcilers.conftest import World

TIMES = GarbageTimes(0.02, 1000, 0.02, 0.02, CollectionTimes(registration_seconds=900, consistency_seconds=30), 0.1)


def reconciler(
    world: World, adopted: threading.Event | None = None, ledger: Ledger | None = None
) -> GarbageCollectionReconciler:
    context = replace(world.context, adopted=adopted or threading.Event(), ledger=ledger or world.context.ledger)
    return GarbageCollectionReconciler(context, TIMES)


def _silent_since(world: World) -> dict[str, object]:
    since = format_time(world.clock.now())
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": since}
    return {"status": {"conditions": [condition]}}


def some_passes(world: World, loop: GarbageCollectionReconciler) -> None:
    for _ in range(5):
        loop.reconcile(world.caught_up())
        world.clock.wait(world.stop, 0.02)


def fall_silent(world: World, name: str) -> None:
    """What the control plane writes when a kubelet stops to report."""
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    world.kube.patch(NODES, name, {"status": {"conditions": [silent]}}, subresource="status")
    world.until(lambda s: not s.nodes[name].node.ready, "silence")


def test_an_instance_that_died_with_its_controller_is_adopted_before_anything_is_planned(world: World) -> None:
    world.add_provisioner(labels={"team": "web"}, taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    instance = world.cloud.add(cloud_instance(launched_at=world.clock.now(), tags={LAUNCH_TOKEN: "token"}))
    adopted = threading.Event()
    loop = reconciler(world, adopted)
    loop.reconcile(world.informers.snapshot())
    assert not adopted.is_set(), "not until the state has the Node"
    world.passes(loop, lambda s: instance.node_name in s.nodes and adopted.is_set(), "adoption")
    node = world.node(instance.node_name)
    assert node["metadata"]["finalizers"] == [TERMINATION_FINALIZER]
    assert node["metadata"]["labels"]["team"] == "web"
    assert node["metadata"]["annotations"][LAUNCH_TOKEN] == "token"
    assert node["spec"]["providerID"] == instance.provider_id
    assert "dedicated" in {taint["key"] for taint in node["spec"]["taints"]}


def test_with_nothing_to_adopt_planning_may_begin(world: World) -> None:
    adopted = threading.Event()
    reconciler(world, adopted).reconcile(world.informers.snapshot())
    assert adopted.is_set()


@pytest.mark.parametrize(("listing_seconds", "pause_seconds"), [(0.1, 10.0), (0.5, 50.0), (4.0, 120.0)])
def test_the_longer_ec2_takes_to_list_the_rarer_are_the_first_passes(
    world: World, monkeypatch: pytest.MonkeyPatch, listing_seconds: float, pause_seconds: float
) -> None:
    clock = ManualClock()

    def slow_list() -> tuple[CloudInstance, ...]:
        clock.advance(listing_seconds)
        return ()

    monkeypatch.setattr(world.cloud, "list", slow_list)
    loop = GarbageCollectionReconciler(replace(world.context, clock=clock))
    assert loop.reconcile(world.informers.snapshot()) == pytest.approx(pause_seconds)


@pytest.mark.parametrize("tag", ["token", "of the call that it was merged into"])
def test_what_a_launch_of_this_process_has_in_hand_is_not_adopted(world: World, tag: str) -> None:
    """EC2 shows the instance before CreateFleet has answered, and before the watch shows its Node."""
    world.add_provisioner()
    adopted = threading.Event()
    loop = reconciler(world, adopted)
    loop.reconcile(world.caught_up())
    assert adopted.is_set()
    create, stale, seen = world.cloud.create, world.caught_up(), []

    def slow(request: LaunchRequest) -> CloudInstance:
        instance = create(request)
        world.cloud.instances[instance.provider_id] = replace(instance, tags=FrozenMap({LAUNCH_TOKEN: tag}))
        loop.reconcile(stale)  # a pass while CreateFleet has not answered
        seen.append(world.kube.list(NODES))
        return instance

    world.cloud.create = slow  # type: ignore[method-assign]
    world.clock.ahead_seconds += 1.0
    provisioner = stale.provisioners["default"]
    planned = PricedOffering(0.1, "c5.large", "eu-west-1a", "on-demand")
    template = stale.node_templates["default"]
    request = LaunchRequest("token", provisioner, template, (planned,), {}, labels=FrozenMap({"team": "web"}))
    instance = world.launcher.launch(request)
    assert seen == [[]], "nobody made its Node meanwhile"
    with structlog.testing.capture_logs() as said:
        world.clock.ahead_seconds += 1.0
        loop.reconcile(stale)
        settled = world.until(lambda s: instance.node_name in s.nodes, "the watch shows its Node")
        world.launcher.settle(settled)
        world.clock.ahead_seconds += 1.0
        loop.reconcile(stale)  # its snapshot is older than the instances that it lists
    assert [entry for entry in said if entry["event"] == "Adopted instance"] == []
    assert world.node(instance.node_name)["metadata"]["labels"]["team"] == "web"


def test_after_a_crash_nothing_is_planned_until_ec2_shows_what_was_launched_last(world: World) -> None:
    world.add_provisioner()
    adopted = threading.Event()
    loop = reconciler(world, adopted)
    loop.wait_until_visible()
    loop.reconcile(world.informers.snapshot())
    assert not adopted.is_set(), "an empty answer proves nothing yet"
    unseen = world.cloud.add(cloud_instance(launched_at=world.clock.now()))
    world.passes(loop, lambda s: unseen.node_name in s.nodes and adopted.is_set(), "adoption")
    assert [entry.id for entry in world.cloud.running] == [unseen.id]


def test_an_instance_that_never_joined_is_terminated_and_its_provisioner_told(world: World) -> None:
    world.add_provisioner()
    instance = world.cloud.add(cloud_instance(launched_at=world.clock.now() - 901))
    ledger = Ledger(world.clock)
    some_passes(world, reconciler(world, ledger=ledger))
    assert not world.cloud.running
    (entry,) = ledger.entries(kind="remove", method="garbagecollection")
    assert entry.decision.subject == f"Instance/{instance.id}"
    assert entry.decision.reason
    assert world.await_event("TerminatedLeakedInstance")["involvedObject"]["kind"] == "Provisioner"


def test_an_old_instance_whose_node_the_cache_has_not_shown_is_not_terminated(world: World) -> None:
    """Invariant 5: the API server itself is asked before an instance goes."""
    world.add_provisioner()
    instance = world.cloud.add(cloud_instance(launched_at=world.clock.now() - 5000))
    stale = world.caught_up()
    provisioner = stale.provisioners["default"]
    world.kube.create(NODES, node_document(instance, provisioner))
    reconciler(world).reconcile(stale)
    assert [entry.id for entry in world.cloud.running] == [instance.id]


def test_a_node_whose_instance_is_gone_is_deleted(world: World) -> None:
    world.add_provisioner()
    labels = {PROVISIONER_NAME: "default"}
    world.add_node({"metadata": {"name": "lost", "labels": labels}, "spec": {"providerID": "aws:///eu-west-1a/i-1"}})
    ledger = Ledger(world.clock)
    loop = reconciler(world, ledger=ledger)
    some_passes(world, loop)
    assert "lost" in world.caught_up().nodes, "a young absence proves nothing"
    assert ledger.entries() == ()
    world.clock.ahead_seconds = 40.0
    some_passes(world, loop)
    assert "lost" in world.caught_up().nodes, "its kubelet reports: the absence is a fault of the looking"
    fall_silent(world, "lost")
    world.passes(loop, lambda s: "lost" not in s.nodes)
    (entry,) = ledger.entries(kind="remove", method="garbagecollection", subject="Node/lost")
    assert "instance does not exist" in entry.decision.reason
    assert world.await_event("InstanceGone")


def test_a_node_of_an_instance_that_exists_without_our_tags_is_not_ours_to_delete(world: World) -> None:
    """Somebody put our label on a node of a managed group."""
    world.add_provisioner()
    foreign = cloud_instance(number=77)
    world.cloud.add(foreign)
    world.cloud.list = lambda: ()  # type: ignore[method-assign]
    labels = {PROVISIONER_NAME: "default"}
    world.add_node({"metadata": {"name": "foreign", "labels": labels}, "spec": {"providerID": foreign.provider_id}})
    world.clock.ahead_seconds = 4000.0
    some_passes(world, reconciler(world))
    assert "foreign" in world.caught_up().nodes


def test_a_node_whose_instance_lost_the_clusters_tag_stays_and_says_which_tag(world: World) -> None:
    world.add_provisioner()
    instance = world.cloud.add(cloud_instance(number=5, owned=False))
    world.add_node(node_document(instance, world.informers.snapshot().provisioners["default"]))
    fall_silent(world, instance.node_name)
    world.clock.ahead_seconds = 40.0
    some_passes(world, reconciler(world))
    assert world.caught_up().nodes[instance.node_name].node.deleted_at is None
    assert "kubernetes.io/cluster/test=owned" in world.await_event("InstanceTagLost")["message"]


def test_a_new_leader_of_another_region_or_account_adopts_and_removes_nothing(world: World) -> None:
    """Its list is of a cluster of the same name; the Nodes here seem to have no instance."""
    world.add_provisioner()
    mine = cloud_instance(number=1)
    world.add_node(node_document(mine, world.informers.snapshot().provisioners["default"]))
    theirs = world.cloud.add(cloud_instance(number=2, launched_at=world.clock.now()))
    leaked = world.cloud.add(cloud_instance(number=3, launched_at=world.clock.now() - 5000))
    removals = world.context.removals
    world.cloud.where = replace(world.cloud.where, cluster_arn="arn:aws:eks:eu-west-1:999999999999:cluster/test")
    world.clock.ahead_seconds = 60.0
    removals.check(world.caught_up())
    adopted = threading.Event()
    some_passes(world, reconciler(world, adopted))
    assert not adopted.is_set()
    assert list(world.caught_up().nodes) == [mine.node_name]
    assert {entry.id for entry in world.cloud.running} == {theirs.id, leaked.id}


def test_a_list_that_comes_back_empty_all_of_a_sudden_deletes_no_node(world: World) -> None:
    """The pass itself asks once more: between two checks of the loop, kubelets and EC2 may fall silent together."""
    world.add_provisioner()
    provisioner = world.informers.snapshot().provisioners["default"]
    names = []
    for number in range(1, 7):
        instance = cloud_instance(number=number)
        world.add_node(node_document(instance, provisioner))
        world.kube.patch(NODES, instance.node_name, _silent_since(world), subresource="status")
        names.append(instance.node_name)
    assert world.context.removals.proof.proven
    world.clock.ahead_seconds = 40.0
    some_passes(world, reconciler(world))
    nodes = world.caught_up().nodes
    assert [name for name in names if nodes[name].node.deleted_at is None] == names


def test_an_adoption_that_fails_holds_up_planning_for_a_limited_time_and_is_told(world: World) -> None:
    world.add_provisioner()
    bad = world.cloud.add(cloud_instance(launched_at=world.clock.now()))

    def get(provider_id: str) -> CloudInstance:
        raise CloudError("throttled")

    world.cloud.get = get  # type: ignore[method-assign]
    adopted = threading.Event()
    loop = reconciler(world, adopted)
    some_passes(world, loop)
    assert not adopted.is_set()
    assert bad.provider_id in world.context.waits.text()
    world.clock.ahead_seconds = TIMES.adoption_seconds
    some_passes(world, loop)
    assert adopted.is_set()
    assert world.context.waits.text() == ""


def test_a_node_that_never_registered_is_deleted_and_says_why(world: World) -> None:
    world.add_provisioner()
    instance = world.cloud.add(cloud_instance(launched_at=world.clock.now()))
    world.add_node(node_document(instance, world.informers.snapshot().provisioners["default"]), ready=False)
    loop = reconciler(world)
    some_passes(world, loop)
    world.clock.ahead_seconds = 901.0
    world.passes(loop, lambda s: s.nodes[instance.node_name].node.deleted_at is not None)
    assert "did not register" in world.await_event("FailedRegistration")["message"]


def test_one_adoption_that_fails_does_not_stop_the_others(world: World) -> None:
    world.add_provisioner()
    bad = world.cloud.add(cloud_instance(number=1, launched_at=world.clock.now()))
    good = world.cloud.add(cloud_instance(number=2, launched_at=world.clock.now()))
    healthy = world.cloud.get

    def get(provider_id: str) -> object:
        if provider_id == bad.provider_id:
            raise CloudError("throttled")
        return healthy(provider_id)

    world.cloud.get = get  # type: ignore[assignment,method-assign]
    world.passes(reconciler(world), lambda s: good.node_name in s.nodes)
