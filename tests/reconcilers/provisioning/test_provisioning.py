"""Provisioning: batches, launches, nominations, failures; never a second node for the same pods."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND
from controller.core.api.timestamps import format_time
from controller.core.cloud import PricedOffering
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.provisioning.batch_window import BatchTimes
from controller.core.scheduling.taints import ON_DEMAND_TAINT
from controller.errors import CloudError, CloudThrottledError, InsufficientCapacityError, InvalidObjectError
from controller.kube.resources import NODES, PROVISIONERS
from controller.runtime.loops import BackoffTimes
from controller.telemetry.decision_ledger import Ledger
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import (
    HOST_APART,
    launched,
    nodes_are,
    reconciler,
    settled_passes,
)


def test_waiting_pods_get_a_node_with_everything_on_it(world: World) -> None:
    world.add_provisioner(
        labels={"team": "web"},
        taints=[{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
        startupTaints=[{"key": "cilium", "effect": "NoExecute"}],
    )
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    world.add_pod("a", spec={"tolerations": tolerations, "nodeSelector": {CAPACITY_TYPE: ON_DEMAND}})
    loop = reconciler(world)
    snapshot = world.passes(loop, nodes_are(1), "a node")
    (node,) = snapshot.nodes.values()
    assert node.node.finalizers == ("karpenter.sh/termination",)
    assert node.node.labels["team"] == "web"
    assert node.node.labels["karpenter.sh/provisioner-name"] == "default"
    assert {taint.key for taint in node.node.taints} >= {"dedicated", "cilium", ON_DEMAND_TAINT.key}
    assert node.node.provider_id in world.cloud.instances
    assert node.node.annotations[LAUNCH_TOKEN] == world.cloud.requests[0].token
    nominated = world.until(lambda s: s.nodes[node.name].nominated_until > world.clock.now(), "nomination")
    assert nominated
    assert node.name in world.await_event("Nominated")["message"]
    told = world.await_event("Launched")
    about = {key: told["involvedObject"][key] for key in ("kind", "name", "uid")}
    assert about == {"kind": "Node", "name": node.name, "uid": node.name}, "as the kubelet's: kubectl describe shows it"
    assert re.fullmatch(r"Launched \S+ (spot|on-demand) in \S+ at \$0\.\d{4}/h for 1 pod", told["message"])


def test_a_limit_that_keeps_pods_pending_is_told_to_its_provisioner(world: World) -> None:
    world.add_provisioner(limits={"resources": {"cpu": "1"}})
    world.add_pod("a")
    settled_passes(world, reconciler(world))
    told = world.await_event("LimitReached")
    assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Provisioner", "default")
    assert told["message"] == (
        "1 pod stays pending: its limit of 1 CPU is reached: 0 CPU in use, and the smallest node that would do has "
        "2 CPU; raise spec.limits.resources"
    )


def test_pods_that_come_together_are_planned_together(world: World) -> None:
    """A window, not a node a pod: all pods of the window are in one plan."""
    world.add_provisioner()
    for index in range(6):
        world.add_pod(f"p{index}")
    world.caught_up()
    loop = reconciler(world)
    world.passes(loop, lambda s: s.nodes, "nodes")
    planned = {key for request in world.cloud.requests for key in [request.token]}
    assert len(planned) == len(world.cloud.requests)
    requested = sum(request.requests["cpu"] for request in world.cloud.requests)
    assert requested == 6000


def test_pods_that_wait_get_no_second_node_while_the_first_is_on_its_way(world: World) -> None:
    """Duplicate launches would follow if the plan were made without the node in flight."""
    world.add_provisioner()
    world.add_pod("a")
    loop = reconciler(world, BatchTimes(0.02, 0.1, 0.1))
    world.passes(loop, nodes_are(1))
    settled_passes(world, loop)
    assert len(world.cloud.requests) == 1


def test_pods_of_a_node_that_never_becomes_ready_get_another(world: World) -> None:
    """Not the same one again, under the token of the first launch, and no third while the second may come."""
    world.add_provisioner()
    world.add_pod("a")
    loop = reconciler(world, BatchTimes(0.02, 0.1, 0.1))
    (first,) = world.passes(loop, nodes_are(1)).nodes
    room = {"cpu": "2", "memory": "8Gi", "pods": "29"}
    since = {"lastTransitionTime": format_time(world.clock.now())}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "False", **since}]}
    world.kube.patch(NODES, first, {"status": status}, subresource="status")
    settled_passes(world, loop)
    assert len(world.cloud.requests) == 1, "it has time to become Ready"
    world.clock.ahead_seconds = 1000.0
    snapshot = world.passes(loop, nodes_are(2), "another node")
    settled_passes(world, loop)
    assert len(world.cloud.requests) == 2
    assert len(world.cloud.instances) == 2
    (second,) = snapshot.nodes.keys() - {first}
    assert snapshot.nodes[first].no_room
    assert snapshot.nodes[first].node.annotations[LAUNCH_TOKEN] != snapshot.nodes[second].node.annotations[LAUNCH_TOKEN]


def test_no_plan_is_made_while_a_launch_is_not_in_the_state(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    before = world.caught_up()
    loop = reconciler(world, BatchTimes(0.01, 0.05, 0.01))
    while not world.cloud.requests:
        loop.reconcile(before)
        world.clock.wait(world.stop, 0.02)
    for _ in range(10):
        loop.reconcile(before)  # a snapshot that does not know the node
        world.clock.wait(world.stop, 0.02)
    assert len(world.cloud.requests) == 1


def test_nothing_is_planned_before_what_others_launched_is_adopted(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    adopted = threading.Event()
    loop = reconciler(world, adopted=adopted)
    settled_passes(world, loop, 0.4)
    assert world.cloud.requests == []
    adopted.set()
    world.passes(loop, nodes_are(1))


def test_a_pod_that_nothing_can_hold_says_why(world: World) -> None:
    world.add_provisioner()
    big = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500"}}}]}
    world.add_node({"metadata": {"name": "going", "finalizers": ["example.com/hold"]}})
    world.add_pod("runs", node="going", spec=big)
    world.kube.delete(NODES, "going")
    world.add_pod("huge", spec=big)
    world.add_pod("small")
    loop = reconciler(world)
    world.passes(loop, nodes_are(2))
    event = world.await_event("FailedScheduling")
    assert {each["involvedObject"]["name"] for each in world.said("FailedScheduling")} == {"huge"}, "the other one runs"
    assert event["type"] == "Warning"
    assert "500 CPU" in event["message"]


def test_preferred_anti_affinity_is_warned_of_once_for_a_workload(world: World) -> None:
    """It can keep consolidation from removing nodes: two replicas, one warning, although they are planned again."""
    made = world.add_provisioner(consolidation={"enabled": True})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    owner = {key: made[key] for key in ("apiVersion", "kind")} | {key: made["metadata"][key] for key in ("name", "uid")}
    spec = {"affinity": {"podAntiAffinity": apart}, "nodeSelector": {"no": "where"}}
    for name in ("web-1", "web-2"):
        world.add_pod(name, spec=spec, labels={"app": "web"}, ownerReferences=[owner])
    settled_passes(world, reconciler(world))
    world.await_event("FailedScheduling")
    assert len(world.said("PreferredAntiAffinity")) == 1


def test_a_preference_that_is_not_paid_for_is_told_once_for_a_workload(world: World) -> None:
    """Two replicas prefer a type that costs many times as much: one of them says so, and gives the setting's name."""
    made = world.add_provisioner()
    dear = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["r5.4xlarge"]}
    wish = {"weight": 1, "preference": {"matchExpressions": [dear]}}
    owner = {key: made[key] for key in ("apiVersion", "kind")} | {key: made["metadata"][key] for key in ("name", "uid")}
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}
    for name in ("web-1", "web-2"):
        world.add_pod(name, spec=spec, labels={"app": "web"}, ownerReferences=[owner])
    world.change_settings(preference_premium=0.0)
    world.passes(reconciler(world, BatchTimes(0.02, 0.1, 600.0)), nodes_are(1))
    event = world.await_event("PreferenceTooDear")
    assert "node affinity to" in event["message"]
    assert "(preferencePremium)" in event["message"]
    assert len(world.said("PreferenceTooDear")) == 1


def test_no_capacity_is_tried_again_at_once(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    world.cloud.create_errors = [InsufficientCapacityError("no m5.large in eu-west-1a")]
    loop = reconciler(world, BatchTimes(0.02, 0.1, 600.0))
    world.passes(loop, nodes_are(1), "the second launch")
    assert len(world.cloud.requests) == 2
    assert world.cloud.requests[0].token == world.cloud.requests[1].token
    assert "no m5.large in eu-west-1a" in world.await_event("FailedScheduling")["message"]


def test_another_failure_is_tried_again_after_a_while_and_the_pod_says_so(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    world.cloud.create_errors = [CloudError("the profile does not exist")]
    loop = reconciler(world, BatchTimes(0.02, 0.1, 60.0))
    world.passes(loop, lambda _: len(world.cloud.requests) == 1, "the first launch")
    settled_passes(world, loop, 0.4)
    assert len(world.cloud.requests) == 1, "no hot loop"
    assert "the profile does not exist" in world.await_event("FailedScheduling")["message"]
    world.clock.ahead_seconds = 61.0
    world.passes(loop, nodes_are(1), "the second launch")


def test_a_provisioner_that_fails_does_not_stop_the_others(world: World) -> None:
    world.add_provisioner("broken", weight=50)
    world.add_provisioner("works")
    world.cloud.types_errors["broken"] = CloudError("no subnet")
    world.add_pod("a")
    snapshot = world.passes(reconciler(world), nodes_are(1))
    assert {node.provisioner_name for node in snapshot.nodes.values()} == {"works"}


def test_one_launch_that_fails_does_not_take_the_others_with_it(world: World) -> None:
    world.add_provisioner("one", labels={"pool": "one"})
    world.add_provisioner("two", labels={"pool": "two"})
    world.add_pod("a", spec={"nodeSelector": {"pool": "one"}})
    world.add_pod("b", spec={"nodeSelector": {"pool": "two"}})
    world.cloud.create_errors = [CloudError("refused")]
    loop = reconciler(world, BatchTimes(0.02, 0.1, 600.0))
    snapshot = world.passes(loop, nodes_are(1))
    assert len(world.cloud.requests) == 2
    assert len(snapshot.nodes) == 1


def test_launches_that_fail_alike_are_one_line_and_so_is_that_they_work_again(world: World) -> None:
    world.add_provisioner()
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for name in ("a", "b", "c"):
        world.add_pod(name, labels={"app": "w"}, spec=apart)
    world.cloud.create_errors = [CloudThrottledError(f"RequestLimitExceeded, request {index}") for index in range(6)]
    loop = reconciler(world, hold_back=BackoffTimes(0.05, 0.05))
    with capture_logs() as logs:
        world.passes(loop, launched(world, 3), "three nodes in the end")
    (failed,) = [entry for entry in logs if entry["event"] == "Launch failed" and entry["log_level"] == "error"]
    (works,) = [entry for entry in logs if entry["event"] == "Launches work again"]
    assert failed["provisioner"] == works["provisioner"] == "default"
    assert works["failures"] == 6


def test_a_provisioner_whose_launch_failed_is_passed_over_for_a_while(world: World) -> None:
    """Its pods go to another that can have them; when it is changed it counts as new."""
    world.add_provisioner("first", weight=50)
    world.add_provisioner("second")
    world.add_pod("a")
    world.cloud.create_errors = [CloudError("UnauthorizedOperation")]
    loop = reconciler(world, BatchTimes(0.02, 0.1, 0.2))
    snapshot = world.passes(loop, nodes_are(1), "a node of the second")
    assert [request.provisioner.name for request in world.cloud.requests] == ["first", "second"]
    assert {node.provisioner_name for node in snapshot.nodes.values()} == {"second"}
    world.kube.patch(PROVISIONERS, "first", {"spec": {"labels": {"mended": "true"}}})
    world.add_pod("b", spec={"nodeSelector": {"mended": "true"}})
    world.passes(loop, nodes_are(2), "a node of the first")


def test_an_instance_whose_node_is_refused_is_not_launched_again_and_again(world: World) -> None:
    """A label that the API server refuses must not turn into instances that start and stop for ever."""
    world.add_provisioner(labels={"team": "web"})
    world.add_pod("a")
    healthy = world.kube.create

    def refuse(resource: Any, obj: Any, *rest: Any, **more: Any) -> Any:
        if resource is NODES:
            raise InvalidObjectError("metadata.labels: Invalid value", 422)
        return healthy(resource, obj, *rest, **more)

    world.kube.create = refuse  # type: ignore[method-assign]
    loop = reconciler(world, BatchTimes(0.02, 0.1, 0.05))
    world.passes(loop, lambda _: world.cloud.requests, "a launch")
    settled_passes(world, loop, 0.6)
    assert len(world.cloud.requests) == 1
    assert not world.cloud.running
    assert "metadata.labels" in world.await_event("FailedScheduling")["message"]


def test_the_limit_holds_at_launch_also_when_the_plan_did_not_know(world: World) -> None:
    world.add_provisioner(limits={"resources": {"cpu": "4"}})
    for index in range(12):
        world.add_pod(f"p{index}")
    loop = reconciler(world, BatchTimes(0.02, 0.1, 0.2))
    world.passes(loop, lambda s: s.nodes, "a node")
    settled_passes(world, loop, 0.8)
    types = {entry.name: entry for entry in world.cloud.types}
    assert sum(types[entry.instance_type].capacity["cpu"] for entry in world.cloud.running) <= 4000
    assert world.await_event("FailedScheduling")


def test_pods_fit_on_a_node_that_has_room(world: World) -> None:
    world.add_provisioner()
    world.add_node({"metadata": {"name": "roomy", "labels": {"karpenter.sh/provisioner-name": "default"}}})
    world.add_pod("a")
    loop = reconciler(world)
    world.passes(loop, lambda s: s.nodes["roomy"].nominated_until > 0, "nomination")
    assert world.cloud.requests == []
    assert "roomy" in world.await_event("Nominated")["message"]


@pytest.mark.parametrize("gone", ["node", "instance"])
def test_a_node_that_vanished_before_the_state_saw_it_does_not_block_for_ever(world: World, gone: str) -> None:
    world.add_provisioner()
    world.add_pod("a")
    before = world.caught_up()
    loop = reconciler(world, BatchTimes(0.01, 0.05, 600.0))
    while not world.cloud.requests:
        loop.reconcile(before)
        world.clock.wait(world.stop, 0.02)
    (node,) = world.kube.list(NODES)
    world.kube.patch(NODES, node["metadata"]["name"], {"metadata": {"finalizers": None}})
    world.kube.delete(NODES, node["metadata"]["name"])
    if gone == "instance":
        world.cloud.delete(node["spec"]["providerID"])
    assert world.launcher.settle(before)
    world.clock.ahead_seconds = 6.0
    assert world.launcher.settle(before) == ()


def test_a_provisioner_that_is_deleted_between_plan_and_launch_launches_nothing(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    stale = world.caught_up()
    world.kube.delete(PROVISIONERS, "default")
    world.until(lambda s: "default" not in s.provisioners)
    loop = reconciler(world, BatchTimes(0.01, 0.02, 600.0))
    for _ in range(10):
        loop.reconcile(stale)
        world.clock.wait(world.stop, 0.02)
    assert world.cloud.requests == []
    assert "Provisioner" in world.await_event("FailedScheduling")["message"]


def test_pods_that_stay_or_fit_are_named_in_the_log_with_news_alone(world: World) -> None:
    """They are planned for again and again; the reason, or the node, is said once."""
    world.add_provisioner()
    loop = reconciler(world, BatchTimes(0.01, 0.02, 0.05))
    world.add_pod("huge", spec={"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900"}}}]})
    with capture_logs() as logs:
        for _ in range(3):
            world.passes(loop, lambda _: len(logs) > 1, "it is said")
            for _ in range(5):
                loop.reconcile(world.caught_up())
                world.clock.wait(world.stop, 0.05)
        world.add_pod("small")
        (name,) = world.passes(loop, nodes_are(1), "a node").nodes
        world.add_pod("late", spec={"containers": [{"name": "c", "image": "i"}]})
        world.passes(loop, lambda _: any("default/late" in entry.get("pods", ()) for entry in logs[3:]), "placed")
        for _ in range(5):
            loop.reconcile(world.caught_up())
    alone, beside_nodes = [entry for entry in logs if entry["event"] == "Pods stay pending"]
    assert alone["pods"] == beside_nodes["pods"] == ["default/huge"]
    assert "900 CPU" in alone["because"]
    assert "has no room" in beside_nodes["because"], "that there are nodes now is news"
    (fits,) = [entry for entry in logs if entry["event"] == "Pods have room on a node"]
    assert (fits["node"], fits["pods"], fits["pod_count"]) == (name, ["default/late"], 1)


def test_each_launch_and_each_pod_left_pending_is_on_record_with_its_price(world: World) -> None:
    """Launches add up: the second node's price before is the first one's price after."""
    world.add_provisioner()
    ledger = Ledger(world.clock)
    loop = reconciler(world, ledger=ledger)
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOST_APART]}}
    for name in ("a", "b"):
        world.add_pod(name, spec={"affinity": apart}, labels={"app": "x"})
    world.add_pod("huge", spec={"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "900"}}}]})
    with capture_logs() as logs:
        world.passes(loop, launched(world, 2), "two nodes")
    told = {entry["node"]: entry["pods"] for entry in logs if entry["event"] == "Pods have a node on its way"}
    assert sorted(told.values()) == [["default/a"], ["default/b"]], "the log leads from the pod to its node"
    assert told.keys() == {entry["node"] for entry in logs if entry["event"] == "Launched instance"}
    first, second = ledger.entries(kind="launch")
    assert first.decision.price_before == 0.0
    assert second.decision.price_before == first.decision.price_after
    assert second.decision.price_after == pytest.approx(sum(r.offerings[0].price for r in world.cloud.requests))
    assert {*first.decision.pods, *second.decision.pods} == {"default/a", "default/b"}
    assert first.decision.inputs == second.decision.inputs != ""
    assert first.decision.details["instance"] in {instance.id for instance in world.cloud.running}
    assert first.decision.details["plan"] == "optimal"
    assert "m5.large" in first.decision.reason or "c5.large" in first.decision.reason
    (skip,) = ledger.entries(kind="skip", subject="default/huge")
    assert "900 CPU" in skip.decision.reason


def test_what_the_fleet_gives_instead_is_costed_and_its_fit_checked_and_the_ledger_has_the_difference(
    world: World,
) -> None:
    world.add_provisioner()
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    world.add_pod("a", spec={"containers": [container]})
    world.cloud.gives = PricedOffering(0.085, "c5.large", "eu-west-1a", "on-demand")
    ledger = Ledger(world.clock)
    world.passes(reconciler(world, ledger=ledger), lambda _: ledger.entries(kind="launch"), "a launch")
    (entry, *_) = ledger.entries(kind="launch")
    details = entry.decision.details
    assert (details["instance_type"], details["price_per_hour"]) == ("c5.large", "0.08500")
    assert details["planned"].startswith("c5.xlarge/")
    assert details["planned_price_per_hour"] == "0.17000"
    assert details["pods_short_of"] == "cpu"
    assert entry.decision.price_after == pytest.approx((entry.decision.price_before or 0) + 0.085)


def test_a_launch_that_failed_is_on_record_as_skipped(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    world.cloud.create_errors.append(CloudError("quota: vCPU limit exceeded"))
    ledger = Ledger(world.clock)
    loop = reconciler(world, ledger=ledger)
    world.passes(loop, lambda _: ledger.entries(), "a decision")
    (entry,) = ledger.entries()
    assert (entry.decision.kind, entry.decision.subject) == ("skip", "Pod/default/a")
    assert "quota: vCPU limit exceeded" in entry.decision.reason
