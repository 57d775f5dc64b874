"""Pod deletion costs over the API server: written in bounded passes, left to others, taken off by the next leader."""

from __future__ import annotations

import pytest

from controller.core.api.labels import CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, PROVISIONER_NAME, ZONE
from controller.core.deprovisioning.scale_in.deletion_costs import COST_ANNOTATION, WRITTEN_ANNOTATION
from controller.kube.resources import PODS, Resource
from controller.reconcilers.deprovisioning import deletion_cost_reconciler
from controller.reconcilers.deprovisioning.deletion_cost_reconciler import PASS_SECONDS, DeletionCostReconciler
from tests import factories
from tests.reconcilers.conftest import World, apply_fault

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)


def fleet(world: World) -> None:
    """Three nodes of a Provisioner that consolidates, with a replica of web each."""
    world.add_provisioner(consolidation={"enabled": True}, ttlSecondsAfterEmpty=None)
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod}
    made = world.kube.create(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec}, "default")["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["uid"], "controller": True}
    kind = factories.small_catalog()[0]
    for number in range(3):
        labels = {PROVISIONER_NAME: "default", INITIALIZED: "true", INSTANCE_TYPE: kind.name}
        labels |= {ZONE: kind.offerings[0].zone, CAPACITY_TYPE: kind.offerings[0].capacity_type}
        world.add_node({"metadata": {"name": f"node-{number}", "labels": labels}})
        world.add_pod(f"web-{number}", node=f"node-{number}", ownerReferences=[owner])
    world.clock.ahead_seconds = 600.0


def notes(world: World) -> dict[str, dict[str, str]]:
    pods = world.kube.list(PODS, "default")
    return {pod["metadata"]["name"]: pod["metadata"].get("annotations") or {} for pod in pods}


def one_pass(world: World, loop: DeletionCostReconciler) -> None:
    loop.reconcile(world.caught_up())
    assert loop.reconcile(world.caught_up()) > 0, "no second pass in the same minute"
    world.clock.ahead_seconds += PASS_SECONDS
    world.caught_up()


def test_costs_are_written_and_taken_off_by_another_process_when_the_setting_is_off(world: World) -> None:
    fleet(world)
    one_pass(world, DeletionCostReconciler(world.context))
    written = notes(world)
    assert len(written) == 3
    for each in written.values():
        assert each[COST_ANNOTATION] == each[WRITTEN_ANNOTATION]
        assert int(each[COST_ANNOTATION]) < 0
    world.change_settings(pod_deletion_cost=False)
    one_pass(world, DeletionCostReconciler(world.context))
    assert not any(key in each for each in notes(world).values() for key in (COST_ANNOTATION, WRITTEN_ANNOTATION))


def test_a_pass_has_so_many_writes_and_the_next_one_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_cost_reconciler, "MOST_WRITES", 2)
    fleet(world)
    loop = DeletionCostReconciler(world.context)
    counts = []
    for _ in range(3):
        one_pass(world, loop)
        counts.append(sum(WRITTEN_ANNOTATION in each for each in notes(world).values()))
    assert counts == [2, 3, 3]


def test_a_cost_that_somebody_else_sets_meanwhile_stays(world: World) -> None:
    fleet(world)
    seen = world.caught_up()
    world.kube.patch(PODS, "web-0", {"metadata": {"annotations": {COST_ANNOTATION: "50"}}}, namespace="default")
    loop = DeletionCostReconciler(world.context)
    loop.reconcile(seen)
    assert notes(world)["web-0"] == {COST_ANNOTATION: "50"}, "the pod had changed since"
    world.clock.ahead_seconds += PASS_SECONDS
    one_pass(world, loop)
    assert not any(WRITTEN_ANNOTATION in each for each in notes(world).values()), "nor its siblings any more"
    assert notes(world)["web-0"] == {COST_ANNOTATION: "50"}


def test_an_api_server_that_refuses_is_asked_a_few_times_and_the_next_pass_begins_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion_cost_reconciler, "MOST_FAILURES", 1)
    fleet(world)
    loop = DeletionCostReconciler(world.context)
    seen = world.caught_up()
    apply_fault(world, {"kind": "errors", "seconds": 60, "code": 500})
    loop.reconcile(seen)
    apply_fault(world, None)
    world.clock.ahead_seconds += 10 * PASS_SECONDS
    one_pass(world, loop)
    assert all(WRITTEN_ANNOTATION in each for each in notes(world).values())
