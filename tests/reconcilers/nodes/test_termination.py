"""Termination: cordon, drain by eviction, the instance, the finalizer; nothing is left behind or taken too soon."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.labels import EXCLUDE_BALANCERS, PROVISIONER_NAME, TERMINATION_FINALIZER
from controller.core.cloud import CloudInstance
from controller.core.state.snapshot import Snapshot
from controller.errors import (
    CloudError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NamespaceTerminatingError,
    NotFoundError,
    UnavailableError,
)
from controller.kube.resources import (
    NODES,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PROVISIONERS,
    VOLUME_ATTACHMENTS,
    Resource,
)
from controller.reconcilers.nodes.termination_reconciler import Attachments, TerminationReconciler, TerminationTimes
from controller.runtime.loops import BackoffTimes
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import DEADLINE_SECONDS, World

TIMES = TerminationTimes(poll_seconds=0.02, instance_check_seconds=0.05, eviction=BackoffTimes(0.02, 0.1))


def reconciler(world: World, **times: Any) -> TerminationReconciler:
    return TerminationReconciler(world.context, times=replace(TIMES, **times))


def leaving_node(world: World, *, number: int = 1, **changes: Any) -> CloudInstance:
    """A node of an instance, for which deletion was asked."""
    instance = world.cloud.add(cloud_instance(number=number))
    metadata = {
        "name": instance.node_name,
        "labels": {PROVISIONER_NAME: "default"},
        "finalizers": [TERMINATION_FINALIZER],
        **changes.pop("metadata", {}),
    }
    world.add_node({"metadata": metadata, "spec": {"providerID": instance.provider_id, **changes}})
    return instance


def delete(world: World, instance: CloudInstance) -> None:
    world.kube.delete(NODES, instance.node_name)
    world.until(lambda s: s.nodes[instance.node_name].node.deleted_at is not None, "deletion")


def gone(instance: CloudInstance) -> Any:
    return lambda snapshot: instance.node_name not in snapshot.nodes


def test_an_empty_node_is_cordoned_its_instance_terminated_and_its_finalizer_removed(world: World) -> None:
    instance = leaving_node(world, metadata={"finalizers": [TERMINATION_FINALIZER, "other/finalizer"]})
    delete(world, instance)
    loop = reconciler(world)
    world.passes(
        loop, lambda s: TERMINATION_FINALIZER not in s.nodes[instance.node_name].node.finalizers, "our finalizer"
    )
    node = world.node(instance.node_name)
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["labels"][EXCLUDE_BALANCERS] == "karpenter"
    assert node["metadata"]["finalizers"] == ["other/finalizer"], "another's finalizer is not ours to remove"
    assert world.cloud.deleted == [instance.provider_id]


def test_a_node_that_is_not_being_deleted_is_left_alone(world: World) -> None:
    instance = leaving_node(world)
    loop = reconciler(world)
    for _ in range(5):
        loop.reconcile(world.caught_up())
    assert world.cloud.deleted == []
    assert "unschedulable" not in world.node(instance.node_name)["spec"]


def test_the_instance_outlives_the_last_pod(world: World) -> None:
    """T10: the node stays until the last of two pods is gone."""
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name)
    world.add_pod("b", node=instance.node_name)
    delete(world, instance)
    loop = reconciler(world)
    world.passes(loop, lambda s: all(pod.terminating for pod in s.pods.values()), "both evicted")
    assert {event["involvedObject"]["name"] for event in _await_events(world, "Evicted", 2)} == {"a", "b"}
    world.kill_pod("a")
    world.until(lambda s: ("default", "a") not in s.pods)
    for _ in range(5):
        loop.reconcile(world.informers.snapshot())
    assert world.cloud.deleted == []
    world.kill_pod("b")
    world.passes(loop, gone(instance), "the node's end")
    assert world.cloud.deleted == [instance.provider_id]


def test_pods_that_tolerate_the_cordon_and_static_pods_do_not_hold_the_node(world: World) -> None:
    """T4, T9."""
    instance = leaving_node(world)
    world.add_pod("tolerant", node=instance.node_name, spec={"tolerations": [{"operator": "Exists"}]})
    owner = {"apiVersion": "v1", "kind": "Node", "name": instance.node_name, "uid": "x"}
    world.add_pod("static", node=instance.node_name, ownerReferences=[owner])
    delete(world, instance)
    world.passes(reconciler(world), gone(instance))
    assert world.said("Evicted") == []


def test_a_budget_that_never_allows_holds_back_its_own_node_alone_and_says_so_on_it(world: World) -> None:
    """T7, and 429 reported on the node and the pod that it is about."""
    blocked, free = leaving_node(world, number=1), leaving_node(world, number=2)
    world.add_pod("guarded", node=blocked.node_name, labels={"app": "guarded"})
    world.add_pod("plain", node=free.node_name)
    budget = {
        "metadata": {"name": "never", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    world.kube.create(POD_DISRUPTION_BUDGETS, budget, "default")
    delete(world, blocked)
    delete(world, free)
    loop = reconciler(world)
    world.passes(loop, lambda s: s.pods["default", "plain"].terminating, "the free pod's eviction")
    world.kill_pod("plain")
    snapshot = world.passes(loop, gone(free), "the free node's end")
    assert blocked.node_name in snapshot.nodes
    assert not snapshot.pods["default", "guarded"].terminating
    about = {
        (event["involvedObject"]["kind"], event["involvedObject"]["name"])
        for event in _await_events(world, "FailedDraining", 2)
    }
    assert about == {("Node", blocked.node_name), ("Pod", "guarded")}
    world.kube.delete(POD_DISRUPTION_BUDGETS, "never", "default")
    world.passes(loop, lambda s: s.pods["default", "guarded"].terminating, "eviction once allowed")


def test_a_pod_that_two_budgets_cover_is_told_of_and_goes_without_them(world: World) -> None:
    """The eviction API answers 500 for as long as there are two, although both would allow it."""
    instance = leaving_node(world)
    world.add_pod("guarded", node=instance.node_name, labels={"app": "guarded"})
    for name in ("one", "two"):
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
        world.kube.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": name}, "spec": spec}, "default")
    delete(world, instance)
    loop = reconciler(world)
    world.passes(loop, lambda _: len(world.said("FailedDraining")) == 2, "told")
    about = {event["involvedObject"]["name"]: event["message"] for event in world.said("FailedDraining")}
    assert set(about) == {instance.node_name, "guarded"}
    assert all("more than one PodDisruptionBudget" in message for message in about.values())
    for name in ("one", "two"):
        world.kube.delete(POD_DISRUPTION_BUDGETS, name, "default")
    world.passes(loop, lambda s: s.pods["default", "guarded"].terminating, "eviction")


def test_a_node_that_takes_long_over_a_step_does_not_keep_the_others_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = leaving_node(world, number=1), leaving_node(world, number=2)
    world.add_pod("slow", node=slow.node_name)
    answer, asked, evict = threading.Event(), list[str](), world.kube.evict

    def evict_slowly(namespace: str, name: str, uid: str, **more: Any) -> None:
        asked.append(name)
        assert answer.wait(20.0)
        evict(namespace, name, uid, **more)

    monkeypatch.setattr(world.kube, "evict", evict_slowly)
    delete(world, slow)
    delete(world, quick)
    loop = reconciler(world, pass_seconds=0.01)
    world.passes(loop, gone(quick), "the quick node's end")
    assert asked == ["slow"], "and it is not asked for again while nobody has answered"
    answer.set()
    world.passes(loop, lambda s: s.pods["default", "slow"].terminating, "the slow pod's eviction")


def test_a_pod_that_took_the_name_of_an_evicted_one_is_not_evicted_by_mistake(world: World) -> None:
    """Evictions carry the uid: a StatefulSet's next pod of the same name runs elsewhere."""
    instance = leaving_node(world)
    world.add_pod("web-0", node=instance.node_name)
    delete(world, instance)
    stale = world.informers.snapshot()
    world.kill_pod("web-0")
    world.add_pod("web-0", node="elsewhere")
    reconciler(world).reconcile(stale)
    assert "deletionTimestamp" not in world.kube.get(PODS, "web-0", "default")["metadata"]


@pytest.mark.parametrize("refusal", [NotFoundError, ConflictError, NamespaceTerminatingError])
def test_a_pod_that_needs_no_eviction_is_not_asked_for_in_each_pass(
    world: World, monkeypatch: pytest.MonkeyPatch, refusal: type[KubeError]
) -> None:
    """The watch may lag behind the API server: asking again waits as after any eviction."""
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name)
    delete(world, instance)
    asked: list[str] = []

    def evict(_namespace: str, name: str, *_args: Any, **_fields: Any) -> None:
        asked.append(name)
        raise refusal("scripted")

    monkeypatch.setattr(world.kube, "evict", evict)
    loop = reconciler(world, eviction=BackoffTimes(60.0, 60.0))
    for _ in range(5):
        loop.reconcile(world.informers.snapshot())
    assert asked == ["a"]
    world.clock.ahead_seconds = 61.0
    loop.reconcile(world.informers.snapshot())
    assert asked == ["a", "a"], "the pod is still there by the watch: it is asked for again"
    assert world.cloud.deleted == []


def test_an_instance_that_is_gone_ends_the_drain(world: World) -> None:
    """T11: its pods are gone with it."""
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name)
    delete(world, instance)
    world.cloud.delete(instance.provider_id)
    world.cloud.settle()
    world.passes(reconciler(world), gone(instance))


def test_a_pod_whose_kubelet_is_gone_holds_the_node_a_minute_past_its_deletion(world: World) -> None:
    """T12."""
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name, spec={"terminationGracePeriodSeconds": 1})
    delete(world, instance)
    loop = reconciler(world)
    world.passes(loop, lambda s: s.pods["default", "a"].terminating)
    for _ in range(5):
        loop.reconcile(world.informers.snapshot())
    assert world.cloud.deleted == []
    world.clock.ahead_seconds = 90.0
    world.passes(loop, gone(instance))


def test_a_pod_that_the_watch_has_not_told_of_does_not_lose_its_node(world: World) -> None:
    instance = leaving_node(world)
    delete(world, instance)
    empty = world.caught_up()
    world.add_pod("late", node=instance.node_name)
    loop = reconciler(world)
    for _ in range(3):
        loop.reconcile(empty)
    assert world.cloud.deleted == []


def test_the_finalizer_stays_while_the_cloud_refuses(world: World) -> None:
    instance = leaving_node(world)
    delete(world, instance)
    loop = reconciler(world)

    def refuse(_: str) -> None:
        raise CloudError("UnauthorizedOperation: ec2:TerminateInstances")

    allowed, world.cloud.delete = world.cloud.delete, refuse  # type: ignore[assignment,method-assign]
    for _ in range(5):
        loop.reconcile(world.caught_up())
    assert TERMINATION_FINALIZER in world.node(instance.node_name)["metadata"]["finalizers"]
    world.cloud.delete = allowed  # type: ignore[method-assign]
    world.clock.ahead_seconds = 60.0
    world.passes(loop, gone(instance))


def test_the_finalizer_stays_until_the_instance_is_on_its_way_out(world: World) -> None:
    """TerminateInstances that was accepted is not yet an instance that ends."""
    instance = leaving_node(world)
    delete(world, instance)
    loop = reconciler(world)
    asked: list[str] = []
    really, world.cloud.delete = world.cloud.delete, asked.append  # type: ignore[assignment,method-assign]
    for _ in range(5):
        loop.reconcile(world.caught_up())
    assert asked
    assert TERMINATION_FINALIZER in world.node(instance.node_name)["metadata"]["finalizers"]
    really(instance.provider_id)
    world.passes(loop, gone(instance))


@pytest.mark.parametrize("provider_id", ["", "kind://not/ours", "aws-but-not-quite"])
def test_a_node_without_a_readable_provider_id_is_not_stuck_for_ever(world: World, provider_id: str) -> None:
    """Its instance is found by the node's name."""
    instance = leaving_node(world, providerID=provider_id)
    delete(world, instance)
    world.passes(reconciler(world), gone(instance))
    assert world.cloud.deleted == [instance.provider_id]
    assert world.await_event("UnreadableProviderID")


def test_many_nodes_go_side_by_side(world: World) -> None:
    """T2."""
    instances = [leaving_node(world, number=number) for number in range(1, 11)]
    for instance in instances:
        delete(world, instance)
    world.passes(reconciler(world), lambda s: not s.nodes)
    assert sorted(world.cloud.deleted) == sorted(instance.provider_id for instance in instances)


def test_a_second_controller_goes_on_where_the_first_one_died(world: World) -> None:
    """After each step of the first one, another process takes over; the end is the same."""
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name)
    delete(world, instance)

    def one_step_each(snapshot: Snapshot) -> bool:
        if instance.node_name not in snapshot.nodes:
            return True
        reconciler(world).reconcile(snapshot)
        pod = snapshot.pods.get(("default", "a"))
        if pod is not None and pod.terminating:
            with suppress(NotFoundError):  # killed before, and the snapshot has not heard of it
                world.kill_pod("a")
        return False

    world.until(one_step_each)
    assert world.cloud.deleted == [instance.provider_id]


def _await_events(world: World, reason: str, count: int) -> list[dict[str, Any]]:
    world.until(lambda _: len(world.said(reason)) >= count, f"{count} events {reason}")
    return world.said(reason)


def volume_of(world: World, name: str, instance: CloudInstance) -> None:
    """A volume that is attached to the instance's node."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "v"},
    }
    world.kube.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    spec = {"attacher": "d", "nodeName": instance.node_name, "source": {"persistentVolumeName": name}}
    world.kube.create(VOLUME_ATTACHMENTS, {"metadata": {"name": f"csi-{name}"}, "spec": spec})
    world.until(lambda s: name in s.volumes, "the volume")


def test_volumes_are_detached_before_the_instance_goes(world: World) -> None:
    """Else their pods wait six minutes for them on their new nodes."""
    instance = leaving_node(world)
    volume_of(world, "pv-1", instance)
    delete(world, instance)
    loop = reconciler(world)
    for _ in range(3):
        loop.reconcile(world.caught_up())
    assert "pv-1" in world.await_event("AwaitingVolumeDetachment")["message"]
    assert world.cloud.deleted == []
    world.kube.delete(VOLUME_ATTACHMENTS, "csi-pv-1")
    world.passes(loop, gone(instance), "the node's end")
    assert world.cloud.deleted == [instance.provider_id]


def test_volume_attachments_are_listed_once_for_all_nodes_of_a_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API has no selector by node: 600 nodes that leave at once would read all attachments 600 times."""
    instances = [leaving_node(world, number=number) for number in range(1, 7)]
    for number, instance in enumerate(instances):
        volume_of(world, f"pv-{number}", instance)
        delete(world, instance)
    listed, list_objects = Counter[str](), world.kube.list

    def counting(resource: Resource, **selectors: str) -> list[dict[str, Any]]:
        listed[resource.kind] += 1
        return list_objects(resource, **selectors)

    monkeypatch.setattr(world.kube, "list", counting)
    loop = reconciler(world, pass_seconds=DEADLINE_SECONDS)
    loop.reconcile(world.informers.snapshot())
    assert listed == {"VolumeAttachment": 1}, "nor are pods listed for nodes that wait all the same"
    loop.reconcile(world.informers.snapshot())
    assert listed == {"VolumeAttachment": 2}, "and in every pass anew"
    assert world.cloud.deleted == []


def test_attachments_that_cannot_be_listed_are_not_asked_for_again_by_every_node(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def failing(resource: Resource, **_: str) -> list[dict[str, Any]]:
        asked.append(resource.kind)
        raise UnavailableError("no answer", 503)

    monkeypatch.setattr(world.kube, "list", failing)
    attachments = Attachments(world.kube)
    for name in ("a", "b"):
        with pytest.raises(UnavailableError, match="no answer"):
            attachments.of(name)
    assert asked == ["VolumeAttachment"]


def test_a_volume_that_nobody_detaches_does_not_hold_the_instance_for_ever(world: World) -> None:
    instance = leaving_node(world)
    volume_of(world, "pv-1", instance)
    delete(world, instance)
    loop = reconciler(world)
    loop.reconcile(world.caught_up())
    assert world.cloud.deleted == []
    world.clock.ahead_seconds += 121.0
    world.passes(loop, gone(instance), "the node's end")


def held_node(world: World) -> CloudInstance:
    """A leaving node of a Provisioner that gives it ten minutes, with a pod that a budget never lets go."""
    world.add_provisioner()
    annotation = {"metadata": {"annotations": {"karpenter.sh/termination-grace-period": "10m"}}}
    world.kube.patch(PROVISIONERS, "default", annotation)
    world.until(lambda s: s.provisioners["default"].object_annotations)
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name, labels={"app": "a"})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    world.kube.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "all"}, "spec": spec}, "default")
    delete(world, instance)
    return instance


def test_a_pod_that_its_budget_never_lets_go_ends_in_time_for_its_nodes_deadline(world: World) -> None:
    held_node(world)
    loop = reconciler(world)
    for _ in range(3):
        loop.reconcile(world.caught_up())
    assert not world.informers.snapshot().pods["default", "a"].terminating, "its budget holds it"
    world.clock.ahead_seconds += 600.0 - 34.0
    world.passes(loop, lambda s: s.pods["default", "a"].terminating, "deleted with its own grace period")
    assert world.kube.get(PODS, "a", "default")["metadata"]["deletionGracePeriodSeconds"] in range(20, 31)
    assert world.cloud.deleted == []


def test_a_node_goes_at_its_deadline_whatever_still_runs_on_it(world: World) -> None:
    instance = held_node(world)
    world.clock.ahead_seconds += 601.0
    world.passes(reconciler(world), gone(instance), "the node's end")
    assert "its instance goes with 1 pods on it: default/a" in world.await_event("FailedDraining")["message"]
    assert world.cloud.deleted == [instance.provider_id]


def test_a_deletion_that_is_refused_at_the_deadline_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = held_node(world)
    world.add_pod("b", node=instance.node_name, labels={"app": "a"})
    delete_object = world.kube.delete

    def refuse_first(resource: Resource, name: str, *rest: Any, **options: Any) -> Any:
        if (resource, name) == (PODS, "a"):
            raise ForbiddenError("delete Pod default/a: a policy refuses it", 403)
        return delete_object(resource, name, *rest, **options)

    monkeypatch.setattr(world.kube, "delete", refuse_first)
    world.clock.ahead_seconds += 600.0 - 34.0
    world.passes(reconciler(world), lambda s: s.pods["default", "b"].terminating, "the pod after it")
    assert "Failed to delete pod default/a: delete Pod default/a: a policy refuses it" in [
        event["message"] for event in (world.await_event("FailedDraining"), *world.said("FailedDraining"))
    ]
    assert not world.informers.snapshot().pods["default", "a"].terminating
    world.clock.ahead_seconds += 40.0
    world.passes(reconciler(world), gone(instance), "the node's end at its deadline")


def test_a_node_whose_instance_lost_its_tag_is_drained_before_its_instance_goes(world: World) -> None:
    """By the tag it seems gone; by its bare id it runs, and so do the pods on it."""
    instance = leaving_node(world)
    world.cloud.instances[instance.provider_id] = replace(instance, owned=False)
    world.add_pod("a", node=instance.node_name)
    delete(world, instance)
    loop = reconciler(world)
    world.passes(loop, lambda s: s.pods["default", "a"].terminating, "eviction")
    for _ in range(5):
        loop.reconcile(world.informers.snapshot())
    assert TERMINATION_FINALIZER in world.node(instance.node_name)["metadata"]["finalizers"]
    assert world.cloud.deleted == []
    world.kill_pod("a")
    world.passes(loop, gone(instance), "the node's end")
    assert world.cloud.deleted == [instance.provider_id]


def test_a_drain_is_not_cut_short_by_a_cloud_that_knows_nothing(world: World) -> None:
    """Another account's credentials: the kubelet reports, so the instance is not gone."""
    instance = leaving_node(world)
    world.add_pod("a", node=instance.node_name)
    delete(world, instance)
    world.cloud.instances.clear()
    loop = reconciler(world, instance_check_seconds=0.0)
    world.passes(loop, lambda s: s.pods["default", "a"].terminating, "eviction")
    for _ in range(5):
        loop.reconcile(world.informers.snapshot())
    assert TERMINATION_FINALIZER in world.node(instance.node_name)["metadata"]["finalizers"]
