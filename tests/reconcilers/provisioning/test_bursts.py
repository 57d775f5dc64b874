"""A Deployment scaled up and down within the batch window at random, in virtual time; BURSTS=1000 for as many."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.provisioning.batch_window import BatchTimes
from controller.core.state.change import Change, ChangeType
from controller.kube.client import KubeClient
from controller.kube.events import EventRecorder, ObjectRef
from controller.kube.resources import CLUSTER_STATE, NODES, Resource
from controller.reconcilers.provisioning.expectations import BINDING_SECONDS, LEFT_SECONDS, PAUSE_SECONDS
from controller.reconcilers.provisioning.provisioning_reconciler import ProvisioningReconciler
from controller.runtime.metrics import SCHEDULING_DURATION
from controller.telemetry.registry import Metrics
from tests import factories
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import detached_context

BURSTS = int(os.environ.get("BURSTS", "50"))
CREATED_A_STEP, TRIED_A_STEP, STEP_SECONDS = 12, 5, 0.2
IDLE_SECONDS = 1.0
WEB = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
TRIED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


class NodeWrites(KubeClient):
    """Creates Nodes, which is all that launches ask of the API server."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def create(self, resource: Resource, obj: Mapping[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        assert resource is NODES
        number = str(next(self._numbers))
        return {**obj, "metadata": {**obj["metadata"], "uid": f"node-{number}", "resourceVersion": number}}


def changed(pod: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A later version of a pod."""
    return {**pod, **fields, "metadata": {**pod["metadata"], "resourceVersion": "2"}}


class Bursts:
    """One Provisioner, and a Deployment that is scaled; the loop under test runs in the test's thread."""

    def __init__(self, owners: bool = False) -> None:
        """`owners`: plan for pods that the Deployment's ReplicaSet still has to make, which takes it longer than the
        batch window is open."""
        self.clock, self.cloud = ManualClock(), MemoryCloud()
        self.metrics = Metrics(self.clock)
        context = detached_context(self.cloud, self.clock, self.metrics, NodeWrites())
        self.created_a_step = 4 if owners else CREATED_A_STEP
        if owners:
            now = context.settings.current
            context.settings.current = replace(now, plan_ahead_owners=True)
        self.informers, self.loop = context.informers, ProvisioningReconciler(context)
        self.empty = self.launched = 0
        for resource in CLUSTER_STATE:
            self.show(resource.kind, ())
        self.show("Provisioner", [factories.provisioner_object()])
        self.show("AWSNodeTemplate", [factories.node_template_object()])

    def show(self, kind: str, documents: Iterable[Mapping[str, Any]]) -> None:
        self.informers.take(Change(kind, ChangeType.REPLACED, tuple(documents)))

    def scale(self, replicas: int) -> None:
        document = {"metadata": {"name": WEB["name"], "namespace": "default", "uid": WEB["uid"]}}
        self.show("ReplicaSet", [{**document, "spec": {"replicas": replicas}}])

    def play(self, number: int, size: int, left: int, down_at: float) -> None:
        """`size` replicas come; from `down_at` on (seconds) `left` of them remain, the oldest.

        They go while the loop makes its pass: after it was handed its snapshot.
        """
        pods = [factories.pod_object(name=f"pod-{number}-{n}", status={"conditions": []}) for n in range(size)]
        for pod in pods:
            pod["metadata"]["ownerReferences"] = [WEB]
        seconds, steps, before = 0.0, 0, len(self.cloud.requests)
        while seconds <= max(down_at, size / self.created_a_step * STEP_SECONDS + IDLE_SECONDS) + 2 * STEP_SECONDS:
            steps, seconds = steps + 1, seconds + STEP_SECONDS
            there = pods[: min(steps * self.created_a_step, left if seconds > down_at + STEP_SECONDS else size)]
            tried = [changed(pod, status={**pod["status"], **TRIED}) for pod in there[: steps * TRIED_A_STEP]]
            self.show("Pod", [*tried, *there[len(tried) :]])
            self.scale(left if seconds > down_at + STEP_SECONDS else size)
            snapshot = self.informers.snapshot()
            if seconds > down_at:
                self.scale(left)
                self.show("Pod", [*tried, *there[len(tried) :]][:left])
            self.loop.reconcile(snapshot)
            self.clock.advance(STEP_SECONDS)
        self._count(self.cloud.requests[before:], left)

    @property
    def plans(self) -> int:
        text = self.metrics.page({}).body.decode()
        (line,) = [line for line in text.splitlines() if line.startswith(f"{SCHEDULING_DURATION.name}_count")]
        return int(float(line.split()[-1]))

    def pass_for(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP_SECONDS)):
            self.loop.reconcile(self.informers.snapshot())
            self.clock.advance(STEP_SECONDS)

    def show_initialized(self, names: Container[str] | None = None) -> list[str]:
        """Of the launched nodes these, or all, are Ready and initialized now; the names of all."""
        launched = self.informers.snapshot().nodes
        kept: dict[str, dict[str, Any]] = {
            name: {"uid": node.node.uid, "annotations": dict(node.node.annotations), "resourceVersion": "100"}
            for name, node in launched.items()
        }
        nodes = []
        for name, node in launched.items():
            room = {"cpu": f"{node.allocatable['cpu']}m", "memory": str(node.allocatable["memory"]), "pods": "29"}
            ready = names is None or name in names
            status = {"capacity": room, "allocatable": room} if ready else {}
            labels = {**node.node.labels, **({"karpenter.sh/initialized": "true"} if ready else {})}
            nodes.append(factories.node_object(name=name, labels=labels, status=status, **kept[name]))
        self.show("Node", nodes)
        return list(launched)

    def cores(self, name: str) -> int:
        """How many pods a launched node takes."""
        return self.informers.snapshot().nodes[name].allocatable["cpu"] // 1000

    def _count(self, requests: Iterable[Any], left: int) -> None:
        """Fill the launched nodes with what is left, the largest first; the others are empty. Then all is gone."""
        cores = (each.instance_types[each.offerings[0].instance_type].allocatable["cpu"] // 1000 for each in requests)
        for room in sorted(cores, reverse=True):
            self.launched += 1
            self.empty += left <= 0
            left -= room
        for kind in ("Pod", "Node", "ReplicaSet"):
            self.show(kind, ())
        self.cloud.instances.clear()
        self.loop.reconcile(self.informers.snapshot())
        self.clock.advance(30.0)


@pytest.mark.parametrize("owners", [False, True], ids=["pods that are there", "pods to come"])
def test_of_twenty_nodes_at_most_one_is_empty_when_bursts_end_within_their_window(owners: bool) -> None:
    draw, bursts = random.Random(11), Bursts(owners)
    for number in range(BURSTS // 3 if owners else BURSTS):
        size = draw.randint(1, 80 if owners else 40)
        created = size / bursts.created_a_step * STEP_SECONDS
        # The window does not wait for pods to come: all are known with the first mark.
        window = IDLE_SECONDS if owners else min(10.0, created + IDLE_SECONDS)
        bursts.play(number, size, draw.randint(0, size), draw.uniform(0.0, window))
    assert bursts.launched > BURSTS / 2
    assert bursts.empty <= bursts.launched / 20, f"{bursts.empty} of {bursts.launched}"


def test_nothing_is_planned_again_while_the_scheduler_binds_what_was_planned() -> None:
    """Nodes take ten seconds to come, binding two pods a second half a minute: one plan. kube-scheduler has some time
    for the first of them. Pods that stay once it binds no more are planned for again, as their nodes take none of them:
    they have waited enough, and need not wait until they would count again anyway."""
    bursts = Bursts()
    pods = [factories.pod_object(name=f"pod-{number}") for number in range(70)]
    bursts.show("Pod", pods)
    bursts.pass_for(12.0)
    assert bursts.plans == 1
    nodes = bursts.show_initialized()
    bursts.pass_for(BINDING_SECONDS - IDLE_SECONDS)
    for number in range(60):
        pods[number] = changed(pods[number], spec={**pods[number]["spec"], "nodeName": nodes[number % len(nodes)]})
        bursts.show("Pod", pods)
        bursts.pass_for(0.4)
        assert bursts.informers.snapshot().nodes[nodes[0]].nominated_until > bursts.clock.now()
    assert bursts.plans == 1
    bursts.pass_for(BINDING_SECONDS + 2 * IDLE_SECONDS)
    assert bursts.plans > 1


def test_the_last_pods_are_planned_for_again_when_kube_scheduler_pauses_and_get_a_node_only_if_they_need_one() -> None:
    """Of 60 planned pods 54 are bound at once, and one every second. The others wait for kube-scheduler for some
    seconds at least, until it pauses. Their room is still there."""
    bursts = Bursts()
    pods = [factories.pod_object(name=f"pod-{number:02}") for number in range(60)]
    bursts.show("Pod", pods)
    with capture_logs() as logs:
        bursts.pass_for(4.0)
    planned = {
        pod: each["node"] for each in logs if each["event"] == "Pods have a node on its way" for pod in each["pods"]
    }
    launched = len(bursts.show_initialized())

    def bind(number: int) -> None:
        node = planned[f"default/pod-{number:02}"]
        pods[number] = changed(pods[number], spec={**pods[number]["spec"], "nodeName": node})
        bursts.show("Pod", pods)

    for number in range(54):
        bind(number)
    bursts.pass_for(LEFT_SECONDS / 2)
    assert bursts.plans == 1
    for number in range(54, 58):
        bind(number)
        bursts.pass_for(1.0)
    assert bursts.plans == 1
    assert bursts.loop.reconcile(bursts.informers.snapshot()) <= PAUSE_SECONDS, "nothing else wakes the loop"
    bursts.pass_for(PAUSE_SECONDS + IDLE_SECONDS + STEP_SECONDS)
    assert bursts.plans == 2
    assert len(bursts.cloud.requests) == launched


@pytest.mark.parametrize("tied", [True, False])
def test_pods_that_depend_on_others_are_planned_for_again_when_one_is_bound_elsewhere(tied: bool) -> None:
    """While their node still boots: kube-scheduler may never bind them to it. Pods that do not depend on it wait."""
    bursts = Bursts()
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "partner"}}}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}} if tied else {}
    pods = [
        factories.pod_object(name="partner", labels={"app": "partner"}),
        factories.pod_object(name="follower", spec=near),
    ]
    bursts.show("Pod", pods)
    bursts.pass_for(12.0)
    assert bursts.plans == 1
    (booting,) = bursts.informers.snapshot().nodes.values()
    kept: dict[str, Any] = {
        "uid": booting.node.uid,
        "annotations": dict(booting.node.annotations),
        "resourceVersion": "100",
    }
    nodes = [
        factories.node_object(name=booting.name, labels=dict(booting.node.labels), **kept),
        factories.node_object(name="elsewhere", labels={"topology.kubernetes.io/zone": factories.ZONES[1]}),
    ]
    bursts.show("Node", nodes)
    bursts.show("Pod", [changed(pods[0], spec={**pods[0]["spec"], "nodeName": "elsewhere"}), pods[1]])
    bursts.pass_for(20.0)
    assert bursts.plans == (2 if tied else 1)


def test_a_new_plan_leaves_pods_whose_node_is_on_its_way_where_they_are() -> None:
    """It is made for the pod that came later alone, beside what is planned: packing all anew could need more nodes."""
    bursts = Bursts()
    pods = [factories.pod_object(name=f"pod-{number}") for number in range(3)]
    bursts.show("Pod", pods)
    with capture_logs() as logs:
        bursts.pass_for(4.0)
        bursts.show("Pod", [*pods, factories.pod_object(name="later")])
        bursts.pass_for(4.0)
    plans = [each["pods"] for each in logs if each["event"] == "Computed plan"]
    assert plans == [["default/pod-0", "default/pod-1", "default/pod-2"], ["default/later"]]


def test_the_window_does_not_wait_for_pods_to_come_and_those_that_come_open_none() -> None:
    """A ReplicaSet makes forty pods in eight seconds, and the first is marked at once: a second later all are planned
    for, and each that comes is expected on its node."""
    bursts = Bursts(owners=True)
    pods = [factories.pod_object(name=f"pod-{number}", status={"conditions": []}) for number in range(40)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [WEB]
    pods[0]["status"] = TRIED
    bursts.scale(40)
    for there in range(1, 41):
        bursts.show("Pod", pods[:there])
        bursts.pass_for(STEP_SECONDS)
        assert bool(bursts.cloud.requests) == (there * STEP_SECONDS > IDLE_SECONDS)
    assert sum(request.requests["cpu"] for request in bursts.cloud.requests) == 40_000
    bursts.pass_for(2 * IDLE_SECONDS)
    assert bursts.plans == 1


@pytest.mark.parametrize("workloads", [1, 100])
def test_a_large_burst_of_few_workloads_is_planned_in_parts_while_it_goes_on(workloads: int) -> None:
    """Three hundred pods come each second. Each has one node: the last few join one that is on its way."""
    bursts, enough = Bursts(), BatchTimes().enough
    pods = [factories.pod_object(name=f"pod-{n}", status={"conditions": []}) for n in range(enough * 3 // 2)]
    for number, pod in enumerate(pods):
        pod["metadata"]["ownerReferences"] = [{**WEB, "uid": f"web-{number % workloads}"}]
        pod["status"] = TRIED
    with capture_logs() as logs:
        for there in range(60, len(pods) + 1, 60):
            bursts.show("Pod", pods[:there])
            bursts.pass_for(STEP_SECONDS)
            assert bursts.plans == (1 if workloads == 1 and there >= enough else 0)
        bursts.pass_for(2 * IDLE_SECONDS)
    assert bursts.plans == (2 if workloads == 1 else 1)
    placed = ("Pods have a node on its way", "Pods have room on a node")
    counts = [each["pod_count"] for each in logs if each["event"] in placed]
    assert sum(counts) == len(pods)


@pytest.mark.parametrize("owners", [True, False])
def test_one_plan_covers_the_pods_that_are_still_to_come(owners: bool) -> None:
    """Five of forty are there, and one is marked. Those that come later find their nodes on the way."""
    bursts = Bursts(owners)
    pods = [factories.pod_object(name=f"pod-{number}", status={"conditions": []}) for number in range(40)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [WEB]
    pods[0]["status"] = TRIED
    bursts.scale(40)
    bursts.show("Pod", pods[:5])
    bursts.pass_for(2.0)
    launched = len(bursts.cloud.requests)
    cpu = sum(request.requests["cpu"] for request in bursts.cloud.requests)
    assert cpu == (40_000 if owners else 5_000)
    tokens = {request.token for request in bursts.cloud.requests}
    assert len(tokens) == launched, "each its own, also where none of its pods has a uid yet"
    bursts.show("Pod", pods)
    bursts.pass_for(3.0)
    assert (len(bursts.cloud.requests) == launched) == owners


@pytest.mark.parametrize(("left", "plans"), [(20, 2), (38, 1)])
def test_a_plan_of_which_more_than_a_tenth_is_gone_once_it_is_made_is_made_again(left: int, plans: int) -> None:
    """Every second pod goes while the plan is made: without a second plan all nodes were launched, half empty."""
    bursts = Bursts()
    bursts.play(0, 1, 1, 2.0)  # a loop that does not know the instance types yet plans on the newest state
    before = bursts.plans, len(bursts.cloud.requests)
    pods = [factories.pod_object(name=f"pod-{number:02}", status=TRIED) for number in range(40)]
    bursts.show("Pod", pods)
    stale = bursts.informers.snapshot()
    bursts.loop.reconcile(stale)
    bursts.clock.advance(2.0)
    bursts.show("Pod", pods[::2] if left == 20 else pods[:left])
    bursts.loop.reconcile(stale)
    assert bursts.plans - before[0] == plans
    cpu = sum(request.requests["cpu"] for request in bursts.cloud.requests[before[1] :])
    assert cpu == (20_000 if left == 20 else 40_000)


def test_a_pod_that_is_bound_once_the_plan_is_made_is_not_told_that_it_gets_no_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, str]] = []

    def publish(_: EventRecorder, about: ObjectRef, _type: str, reason: str, *_rest: object, **_more: object) -> None:
        told.append((about.name, reason))

    monkeypatch.setattr(EventRecorder, "publish", publish)
    bursts = Bursts()
    bursts.play(0, 1, 1, 2.0)  # a loop that does not know the instance types yet plans on the newest state
    told.clear()
    nowhere = {"nodeSelector": {"team": "nobody"}}
    pods = [factories.pod_object(name=name, status=TRIED, spec=nowhere) for name in ("bound", "gone", "waiting")]
    bursts.show("Pod", pods)
    stale = bursts.informers.snapshot()
    bursts.loop.reconcile(stale)
    bursts.clock.advance(2.0)
    bound = {**pods[0]["spec"], "nodeName": "another"}
    bursts.show("Pod", [changed(pods[0], spec=bound), pods[2]])
    bursts.loop.reconcile(stale)
    assert told == [("waiting", "FailedScheduling")]


def test_room_that_pods_left_is_kept_for_those_whose_places_they_took() -> None:
    """The nodes of the second plan are Ready first, and kube-scheduler binds the pods of the first plan to them. Those
    of the second need the first plan's nodes: the third plan is made for more pods, and gives none of these away."""
    bursts, size = Bursts(), 20
    pods = [factories.pod_object(name=f"pod-{number:02}") for number in range(3 * size)]
    bursts.show("Pod", pods[:size])
    bursts.pass_for(3.0)
    first = set(bursts.informers.snapshot().nodes)
    bursts.show("Pod", pods[: 2 * size])
    bursts.pass_for(3.0)
    second = bursts.informers.snapshot().nodes.keys() - first
    assert first
    assert second
    bursts.show_initialized(second)
    places = [name for name in sorted(second) for _ in range(bursts.cores(name))]
    for number, name in zip(range(size), places, strict=False):
        pods[number] = changed(pods[number], spec={**pods[number]["spec"], "nodeName": name})
    bursts.show("Pod", pods)
    bursts.pass_for(3.0)
    assert bursts.plans == 3
    assert sum(map(bursts.cores, bursts.informers.snapshot().nodes)) >= len(pods)
