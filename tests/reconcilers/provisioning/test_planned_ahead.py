"""A burst is one plan: pods that kube-scheduler has not tried yet are planned for beside a marked one."""

from __future__ import annotations

import pytest

from controller.core.provisioning.batch_window import BatchTimes
from controller.kube.resources import PODS
from controller.reconcilers.provisioning.provisioning_reconciler import UNTRIED_SECONDS
from controller.runtime.metrics import PLANNED_AHEAD, SCHEDULING_DURATION
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import reconciler, settled_passes

ROOM = {"cpu": "3", "memory": "8Gi", "pods": "29"}


def launched_cpu(world: World) -> int:
    return sum(request.requests["cpu"] for request in world.cloud.requests)


def counted_ahead(recorder: Metrics) -> dict[tuple[str, ...], float]:
    (counts,) = [family for family in recorder.collect() if family.name == PLANNED_AHEAD.name]
    return {tuple(sample.labels.values()): sample.value for sample in counts.samples}


@pytest.mark.parametrize(("setting", "cpu"), [("class", 6000), ("none", 1000)])
def test_one_marked_pod_speaks_for_its_class(world: World, setting: str, cpu: int) -> None:
    """Six pods, of which kube-scheduler has tried one; the ledger says how many a node was given ahead."""
    world.add_provisioner()
    world.change_settings(plan_ahead=setting)
    world.add_pod("marked")
    for index in range(5):
        world.add_pod(f"next-{index}", tried=False)
    world.add_pod("gated", tried=False, spec={"schedulingGates": [{"name": "wait"}]})
    recorder = Metrics()
    ledger = Ledger(world.clock, recorder)
    loop = reconciler(world, BatchTimes(0.05, 0.5, 600.0), ledger=ledger)
    world.passes(loop, lambda _: world.cloud.requests, "a launch")
    settled_passes(world, loop, 0.5)
    assert launched_cpu(world) == cpu
    said = [entry.decision.details.get("planned_ahead") for entry in ledger.entries(kind="launch")]
    counted = [int(text.split()[0]) for text in said if text]
    assert sum(counted) == (5 if setting == "class" else 0)
    assert counted_ahead(recorder) == ({("launched",): 5.0} if counted else {})


def test_what_fits_on_existing_nodes_is_left_to_the_scheduler(world: World) -> None:
    """It has not come to the rest yet and would place some there; others that it tries before take room first."""
    world.add_provisioner()
    labels = {"karpenter.sh/provisioner-name": "default", "karpenter.sh/initialized": "true"}
    world.add_node({"metadata": {"name": "roomy", "labels": labels}}, ready=False)
    world.come_up("roomy", ROOM)
    world.add_pod("marked")
    for index in range(3):
        world.add_pod(f"next-{index}", tried=False)
    small = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900m"}}}]}
    world.add_pod("other", tried=False, spec=small)
    loop = reconciler(world, BatchTimes(0.05, 0.5, 600.0))
    world.passes(loop, lambda _: world.cloud.requests, "a launch")
    settled_passes(world, loop, 0.5)
    assert launched_cpu(world) == 2000, "the node has room for two of the four beside the other pod"


@pytest.mark.parametrize(("room", "cpu"), [(True, 1000), (False, 1900)])
def test_pods_of_other_classes_that_no_node_has_room_for_are_planned_for_too(
    world: World, room: bool, cpu: int
) -> None:
    """kube-scheduler will mark them as well; what it can place is left to it."""
    world.add_provisioner()
    if room:
        labels = {"karpenter.sh/provisioner-name": "default", "karpenter.sh/initialized": "true"}
        world.add_node({"metadata": {"name": "roomy", "labels": labels}}, ready=False)
        world.come_up("roomy", {**ROOM, "cpu": "2"})
    world.add_pod("marked")
    small = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900m"}}}]}
    world.add_pod("other", tried=False, spec=small)
    world.add_pod("of-another-scheduler", tried=False, spec={**small, "schedulerName": "another"})
    loop = reconciler(world, BatchTimes(0.05, 0.5, 600.0))
    world.passes(loop, lambda _: world.cloud.requests, "a launch")
    settled_passes(world, loop, 0.5)
    assert launched_cpu(world) == cpu


def test_a_window_that_is_open_waits_for_pods_of_other_classes(world: World) -> None:
    """So that a burst of many Deployments is one plan, though kube-scheduler marks one after the other."""
    world.add_provisioner()
    world.add_pod("marked")
    recorder = Metrics()
    loop = reconciler(world, BatchTimes(0.5, 5.0, 600.0), ledger=Ledger(world.clock, recorder))
    loop.reconcile(world.caught_up())
    for index in range(4):
        world.clock.wait(world.stop, 0.4)
        cpu = {"resources": {"requests": {"cpu": f"{500 + index}m"}}}
        world.add_pod(f"next-{index}", tried=False, spec={"containers": [{"name": "c", "image": "i", **cpu}]})
        loop.reconcile(world.caught_up())
    assert world.cloud.requests == [], "each came within the idle time of the one before"
    settled_passes(world, loop, 1.0)
    assert launched_cpu(world) == 1000 + 500 + 501 + 502 + 503


def test_pods_of_other_classes_that_kube_scheduler_does_not_come_to_open_a_window(world: World) -> None:
    """It is busy with pods before them. Those that it may come to in a moment open none."""
    world.add_provisioner()
    world.add_pod("marked")
    loop = reconciler(world, BatchTimes(0.05, 0.5, 600.0))
    world.passes(loop, lambda _: world.cloud.requests, "a launch")
    settled_passes(world, loop, 0.5)
    large = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "15"}}}]}
    world.add_pod("other", tried=False, spec=large)
    settled_passes(world, loop, 0.5)
    assert launched_cpu(world) == 1000
    world.clock.ahead_seconds += UNTRIED_SECONDS + 1.0
    settled_passes(world, loop, 0.5)
    assert launched_cpu(world) == 16_000


def test_pods_that_were_planned_for_open_no_window_when_they_are_marked(world: World) -> None:
    """Else the whole burst would be planned again a second later, around the nodes on their way."""
    world.add_provisioner()
    world.add_pod("marked")
    recorder = Metrics()
    loop = reconciler(world, BatchTimes(0.05, 0.5, 600.0), ledger=Ledger(world.clock, recorder))
    small = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900m"}}}]}
    made = world.add_pod("other", tried=False, spec=small)
    world.passes(loop, lambda _: world.cloud.requests, "a launch")
    settled_passes(world, loop, 0.5)
    marked = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    world.kube.patch(PODS, "other", {"status": marked}, namespace="default", subresource="status")
    world.until(lambda s: s.pods["default", made["metadata"]["name"]].unschedulable)
    settled_passes(world, loop, 0.5)
    assert f"{SCHEDULING_DURATION.name}_count 1.0" in recorder.page({}).body.decode()


@pytest.mark.parametrize("gone", ["all", "marked"])
def test_what_is_not_needed_any_more_is_taken_back_before_the_launch(world: World, gone: str) -> None:
    """Scaled down again, or the marked pod deleted, between snapshot and launch: recorded, counted, not launched."""
    world.add_provisioner()
    recorder = Metrics()
    ledger = Ledger(world.clock, recorder)
    loop = reconciler(world, BatchTimes(0.01, 0.02, 600.0), ledger=ledger)
    huge = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500"}}}]}
    world.add_pod("huge", spec={**huge, "schedulerName": "another"})  # so it speaks for no pod of another class
    world.passes(loop, lambda _: ledger.entries(subject="default/huge"), "a first plan, which knows the instance types")
    world.add_pod("marked")
    world.add_pod("next", tried=False)
    stale = world.caught_up()
    for name in ("marked", "next") if gone == "all" else ("marked",):
        world.kill_pod(name)
    world.until(lambda s: ("default", "marked") not in s.pods and (gone == "marked" or len(s.pods) == 1))
    for _ in range(10):
        loop.reconcile(stale)
        world.clock.wait(world.stop, 0.02)
    assert world.cloud.requests == []
    (entry,) = [each for each in ledger.entries(kind="skip") if each.decision.subject != "Pod/default/huge"]
    assert "2 pods, 1 of them planned ahead, do not wait any more" in entry.decision.reason
    assert counted_ahead(recorder) == {("taken-back",): 1.0}
