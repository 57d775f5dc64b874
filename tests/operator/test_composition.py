"""The whole controller in this process, over a real API server and a cloud in memory: start, work, trouble, stop."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from structlog.testing import capture_logs

from controller.cli.cluster.decision_log import on_record
from controller.core.api.disruption import parse_budgets
from controller.core.cloud import CloudInstance
from controller.core.decisions.decision import Decision
from controller.core.machines.collection import CollectionTimes
from controller.errors import CloudError, CloudUnauthorizedError, UnavailableError, ValidationError
from controller.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, Resource
from controller.operator.composition import Edges, Operator, OperatorTimes
from controller.operator.process import check
from controller.operator.startup import refuse_old_kubernetes, wait_for_answer, wait_for_settings
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageTimes
from controller.reconcilers.nodes.termination_reconciler import TerminationTimes
from controller.runtime.clock import SystemClock
from controller.runtime.loops import STUCK_SECONDS, BackoffTimes
from controller.runtime.metrics import ALL, SILENT, Recorder
from controller.settings import CONFIG_MAP, LIVE, Settings
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.health import Health
from controller.telemetry.open_ports import Serving
from tests.core.instances import cloud_instance
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import CLUSTER_ARN
from tests.reconcilers.conftest import DEADLINE_SECONDS, World, apply_fault, world
from tests.telemetry.test_open_ports import serving
from tests.telemetry.test_registry import PEERS

__all__ = ["serving", "world"]

LIMITED = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
SETTINGS = Settings(
    cluster_name="test", cluster_arn=CLUSTER_ARN, batch_idle_duration_seconds=0.05, batch_max_duration_seconds=0.5
)
QUICK = OperatorTimes(
    termination=TerminationTimes(0.05, 0.1, BackoffTimes(0.02, 0.1)),
    garbage=GarbageTimes(0.2, 1000, 0.2, 0.05, CollectionTimes()),
    backoff=BackoffTimes(0.05, 0.2),
)


@contextmanager
def acting(
    world: World,
    *,
    stop_after: bool = True,
    close_seconds: float = 10.0,
    settings: Settings = SETTINGS,
    recorder: Recorder = SILENT,
    ledger: Ledger | None = None,
    namespace: str = "",
    devices: tuple[Resource, ...] = (),
) -> Iterator[Operator]:
    stop = threading.Event()
    edges = Edges(world.kube, world.cloud, world.clock, ledger or Ledger(world.clock, recorder), stop)
    operator = Operator(settings, edges, namespace=namespace, times=QUICK, more_kinds=devices)
    operator.watch()
    operator.start_leading()
    try:
        yield operator
    finally:
        stop.set()
        ended = operator.close(close_seconds)
        if stop_after:
            assert ended, "every loop ends when it is told to"


def page(serving: Serving) -> str:
    """/metrics, as Prometheus gets it."""
    with urlopen(f"http://localhost:{serving.pages.port}/metrics", timeout=5) as answer:
        text: bytes = answer.read()
    return text.decode()


def page_with(serving: Serving, *starts: str) -> str:
    """The page as soon as it has all these: the controller has watches of its own, and hears of a change after us."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while missing := [start for start in starts if start not in (text := page(serving))]:
        assert time.monotonic() < deadline, f"never on the page: {missing}"
        time.sleep(0.02)
    return text


def test_a_whole_life(world: World, serving: Serving) -> None:
    """Pending pod, node, initialized, empty, gone: each loop does its part, and no other's; the page tells of it."""
    world.add_provisioner(ttlSecondsAfterEmpty=1, limits={"resources": {"cpu": "100"}})
    metrics = serving.metrics
    ledger = Ledger(world.clock, metrics)
    with acting(world, recorder=metrics, ledger=ledger) as operator:
        metrics.add_part(operator.cluster_series)
        world.add_pod("a", spec={"containers": [LIMITED]})
        snapshot = world.until(lambda s: s.nodes, "a node")
        (name,) = snapshot.nodes
        world.come_up(name)
        world.until(lambda s: s.nodes[name].initialized, "initialized")
        target = {"apiVersion": "v1", "kind": "Node", "name": name}
        binding = {"metadata": {"name": "a"}, "target": target}
        world.kube.create(PODS, binding, "default", subresource="binding", name="a")
        world.until(lambda s: s.provisioners["default"].status_resources, "counted")
        ran = page_with(
            serving,
            f'karpenter_nodes_total_pod_limits{{resource_type="cpu",node_name="{name}"',
            f'karpenter_nodes_allocatable{{resource_type="memory",node_name="{name}",provisioner="default"',
            f'karpenter_nodes_total_pod_requests{{resource_type="cpu",node_name="{name}",provisioner="default"',
            'karpenter_pods_state{name="a",namespace="default"',
            'karpenter_provisioner_limit{resource_type="cpu",provisioner="default"} 100',
            'karpenter_provisioner_usage{resource_type="cpu",provisioner="default"} 2',
            'karpenter_provisioner_usage_pct{resource_type="cpu",provisioner="default"} 2',
            'controller_runtime_active_workers{controller="provisioning"} 1.0',
            'karpenter_consistency_errors{check="LeakedInstance"} 0.0',
            'controller_runtime_max_concurrent_reconciles{controller="provisioning"} 1.0',
        )
        world.kill_pod("a")
        world.clock.ahead_seconds = 40.0
        world.until(lambda s: not s.nodes, "node gone")
    assert len(world.cloud.requests) == 1
    assert not world.cloud.running
    text = page(serving)
    types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", ran + text, re.MULTILINE))
    assert {name: types.get(name) for name in PEERS} == {each.name: each.kind for each in ALL if each.name in PEERS}
    for series in (
        'karpenter_nodes_created{provisioner="default",reason="provisioning"} 1.0',
        'karpenter_cloudprovider_duration_seconds_count{controller="launch",method="Create",provider="aws"} 1.0',
        'controller_runtime_reconcile_time_seconds_count{controller="termination"}',
        'controller_runtime_reconcile_total{controller="provisioning",result="success"}',
        'leader_election_master_status{name="karpenter-leader-election"} 1.0',
        "karpenter_provisioner_scheduling_duration_seconds_count ",
        'karpenter_deprovisioning_evaluation_duration_seconds_count{method="consolidation"}',
        'karpenter_nodes_terminated{provisioner="default",reason="emptiness/delete"} 1.0',
        'karpenter_nodes_termination_time_seconds_count{provisioner="default"} 1.0',
    ):
        assert series in text, series
    launch, removal = (entry.decision for entry in ledger.entries())
    assert (launch.kind, launch.subject) == ("launch", removal.subject)
    assert removal.kind == "remove"
    assert (removal.price_before, removal.price_after) == (launch.price_after, 0.0)
    assert len({launch.inputs, removal.inputs}) == 2, "each with the digest of what it was decided on"
    assert "" not in (launch.inputs, removal.inputs)


def test_the_probes_ask_every_loop_and_the_caches(world: World) -> None:
    """Not ready before the first lists; live while all loops move, and each of them is named."""
    stop, health = threading.Event(), Health()
    edges = Edges(world.kube, world.cloud, world.clock, Ledger(world.clock), stop)
    operator = Operator(SETTINGS, edges, times=QUICK)
    operator.checks(health)
    assert operator.cluster_series() == b"", "a replica that stands by has none"
    assert health.readyz({}).status == 500
    assert health.healthz({}).status == 200, "to wait for the lease is no fault"
    operator.watch()
    operator.start_leading()
    try:
        assert operator.informers.wait_synced(stop, 10)
        ready = health.readyz({})
        assert ready.status == 200
        assert all(name in ready.body for name in (b"[+]leader ok", b"[+]removals ok")), (
            "what it waits for, and holds back"
        )
        assert b"[+]provisioning ok" in health.healthz({}).body
        world.clock.ahead_seconds = STUCK_SECONDS + 5  # loops that wait do not see that so much time has passed
        assert health.healthz({}).status == 500
    finally:
        stop.set()
        assert operator.close(10.0)


def test_a_loop_that_hangs_turns_healthz_red_by_its_name_and_the_others_stay_green(
    world: World, serving: Serving
) -> None:
    """What a kubelet would restart the pod for."""
    hangs, leave, list_instances = threading.Event(), threading.Event(), world.cloud.list

    def hang() -> tuple[CloudInstance, ...]:
        hangs.set()
        leave.wait(30)
        return list_instances()

    world.cloud.list = hang  # type: ignore[method-assign]
    with acting(world) as operator:
        operator.checks(serving.health)
        assert hangs.wait(10)
        assert probe(serving)[0] == 200
        world.clock.ahead_seconds = STUCK_SECONDS + 5
        world.add_provisioner()  # a change wakes every loop that waits
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (red := {line.split()[0] for line in probe(serving)[1] if "failed" in line}) != RED:
            assert time.monotonic() < deadline, red
            time.sleep(0.05)
        assert probe(serving)[0] == 500
        leave.set()
        while probe(serving)[0] != 200:
            assert time.monotonic() < deadline, probe(serving)
            time.sleep(0.05)


RED = {"[-]garbagecollection", "healthz"}


def probe(serving: Serving) -> tuple[int, list[str]]:
    """/healthz as a kubelet asks it."""
    try:
        with urlopen(f"http://localhost:{serving.probes.port}/healthz", timeout=5) as answer:
            return int(answer.status), answer.read().decode().splitlines()
    except HTTPError as error:
        return error.code, error.read().decode().splitlines()


def test_what_another_process_launched_is_used_and_not_launched_again(world: World) -> None:
    """A pod that its node was launched for gets that node, although nobody here remembers it."""
    world.add_provisioner()
    world.cloud.add(cloud_instance(instance_type="c5.xlarge", launched_at=world.clock.now()))
    world.add_pod("a")
    with acting(world):
        world.until(lambda s: any(node.nominated_until == 0 for node in s.nodes.values()), "adoption")
        world.await_event("Nominated")
    assert world.cloud.requests == []


def test_an_outage_of_the_api_server_is_outlived(world: World) -> None:
    world.add_provisioner()
    with acting(world):
        world.add_pod("a")
        world.until(lambda s: s.nodes, "the first node")
        apply_fault(world, {"kind": "outage", "seconds": 1.0})
        world.clock.wait(world.stop, 1.2)
        world.until(lambda _: _answers(world), "the API server is back")
        big = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "14"}}}]}
        world.add_pod("big", spec=big)
        world.until(lambda s: len(s.nodes) == 2, "a node for the pod that came after")
    assert len(world.cloud.running) == 2


READ: set[str] = set()


class NotedSettings(Settings):
    """Notes in READ which fields and methods are read."""

    def __getattribute__(self, name: str) -> Any:
        READ.add(name)
        return super().__getattribute__(name)


def test_no_loop_keeps_a_copy_of_a_setting_that_can_change_while_it_runs(world: World) -> None:
    """All are read from the settings of the moment, and so none when the loops are made."""
    stop = threading.Event()
    READ.clear()
    clock = ManualClock()
    operator = Operator(NotedSettings(cluster_name="test"), Edges(world.kube, world.cloud, clock, Ledger(clock), stop))
    stop.set()
    operator.close(0.0)
    assert "surge_single_replicas" in READ, "what holds until a restart is read at the start"
    assert not {*LIVE, "solve_options"} & READ


def test_what_was_decided_last_is_on_record_when_the_process_ends(world: World) -> None:
    """The next write would be seconds away."""
    ledger = Ledger(world.clock)
    with acting(world, ledger=ledger, namespace="default"):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while ledger.version == 0:  # until the record was read
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ledger.record(Decision("skip", "provisioning", "Pod/default/last", "for a test"))
    config_map = world.kube.get(CONFIG_MAPS, "karpenter-decisions", "default")
    (entry,) = on_record([config_map])
    assert entry.decision.subject == "Pod/default/last"


def test_settings_that_change_hold_from_the_next_pass_on(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    patient = replace(SETTINGS, batch_idle_duration_seconds=600.0, batch_max_duration_seconds=600.0)
    frozen = replace(patient, disruption_budgets=parse_budgets('[{"nodes": "0"}]'))
    with acting(world, settings=frozen) as operator:
        operator.tune(SETTINGS)
        world.add_pod("a")
        (name,) = world.until(lambda s: s.nodes, "a node, although the settings at the start would still wait").nodes
        world.come_up(name)
        world.kube.delete(PODS, "a", "default", grace_period_seconds=0)
        world.until(lambda s: not s.nodes, "and it goes, although the budget at the start would not let it")


def test_a_cloud_that_is_down_at_the_start_is_waited_for(world: World) -> None:
    """No plan before the list of instances is known; the work is done when it is."""
    world.add_provisioner()
    world.add_pod("a")
    healthy, down = world.cloud.list, threading.Event()

    def refuse() -> tuple[()]:
        down.set()
        raise CloudError("AWS is down")

    world.cloud.list = refuse  # type: ignore[method-assign]
    with acting(world):
        assert down.wait(5)
        assert world.kube.list(NODES) == []
        world.cloud.list = healthy  # type: ignore[method-assign]
        world.until(lambda s: s.nodes, "a node")


def test_settings_are_waited_for_and_that_is_said_once(world: World) -> None:
    clock, stop = SystemClock(), threading.Event()
    world.kube.create(NAMESPACES, {"metadata": {"name": "karpenter"}})
    config_map = {"metadata": {"name": CONFIG_MAP}, "data": {"aws.clusterName": "test", "batchIdleDuration": "2s"}}
    maker = threading.Timer(0.7, lambda: world.kube.create(CONFIG_MAPS, config_map, "karpenter"))
    maker.start()
    with capture_logs() as logs:
        settings = wait_for_settings(world.kube, "karpenter", clock, stop)
    assert settings is not None
    assert settings.batch_idle_duration_seconds == 2.0
    assert [entry["event"] for entry in logs] == ["Waits for the settings"]


def test_settings_that_break_rules_end_the_start_with_all_of_them(world: World) -> None:
    world.kube.create(NAMESPACES, {"metadata": {"name": "karpenter"}})
    data = {"batchIdleDuration": "soon", "aws.clustername": "x"}
    world.kube.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "data": data}, "karpenter")
    with pytest.raises(ValidationError) as caught:
        wait_for_settings(world.kube, "karpenter", SystemClock(), threading.Event())
    assert {problem.path for problem in caught.value.problems} >= {"batchIdleDuration", "aws.clustername"}


def test_a_key_of_a_later_version_does_not_keep_a_controller_that_is_rolled_back_from_starting(world: World) -> None:
    world.kube.create(NAMESPACES, {"metadata": {"name": "karpenter"}})
    data = {"aws.clusterName": "test", "batchIdleDuration": "2s", "aws.fromTheFuture": "1"}
    world.kube.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "data": data}, "karpenter")
    with capture_logs() as logs:
        settings = wait_for_settings(world.kube, "karpenter", SystemClock(), threading.Event())
    assert settings is not None
    assert settings.batch_idle_duration_seconds == 2.0
    assert [entry["keys"] for entry in logs] == [["aws.fromTheFuture"]]


def test_an_api_server_that_is_too_old_is_refused_with_a_remedy(world: World) -> None:
    clock, stop = SystemClock(), threading.Event()
    refuse_old_kubernetes(world.kube, "1.21", clock, stop)
    with pytest.raises(ValidationError, match=r"the API server is v1\.\d+\.\S+, and 1\.99 is the least") as caught:
        refuse_old_kubernetes(world.kube, "1.99", clock, stop)
    (problem,) = caught.value.problems
    assert (problem.path, problem.remedy) == ("KUBERNETES_MIN_VERSION", "upgrade the cluster, or set a lower version")


def test_an_outage_at_the_start_is_said_once_and_its_end_too() -> None:
    answers: list[Callable[[], str]] = [_down, _down, lambda: "up"]
    with capture_logs() as logs:
        answer = wait_for_answer(
            lambda: answers.pop(0)(), "Kubernetes", SystemClock(), threading.Event(), BackoffTimes(0.001, 0.002)
        )
    assert answer == "up"
    assert [(entry["event"], entry["of"]) for entry in logs] == [
        ("No usable answer; trying again", "Kubernetes"),
        ("Answers again", "Kubernetes"),
    ]


def test_a_stop_ends_the_waiting_at_once() -> None:
    stop = threading.Event()
    stop.set()
    assert wait_for_answer(_down, "Kubernetes", SystemClock(), stop) is None


def test_missing_permissions_are_said_and_do_not_keep_the_rest_from_working() -> None:
    class Provider:
        def check_permissions(self) -> None:
            raise CloudUnauthorizedError("may not do ec2:CreateFleet")

    with capture_logs() as logs:
        check(Provider())  # type: ignore[arg-type]
    assert logs[0]["error"] == "may not do ec2:CreateFleet"


def test_a_process_that_never_led_stops_as_well(world: World, tmp_path: Path) -> None:
    stop = threading.Event()
    operator = Operator(SETTINGS, Edges(world.kube, world.cloud, world.clock, Ledger(world.clock), stop))
    operator.watch()
    stop.set()
    assert operator.close(5.0)


def _down() -> str:
    raise UnavailableError("connection refused")


def _answers(world: World) -> bool:
    try:
        world.kube.version()
    except UnavailableError:
        return False
    return True
