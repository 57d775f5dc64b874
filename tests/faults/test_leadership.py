"""Invariant 7, on the real process: a lost lease ends it at once; SIGTERM ends it in peace and gives the lease up."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from controller.core.api.timestamps import parse_time
from controller.errors import NotFoundError
from controller.kube.lease import LEASE_NAME, LeaseOptions
from controller.kube.resources import CONFIG_MAPS, LEASES
from controller.operator.configuration import ConfigurationTimes
from controller.settings import CONFIG_MAP
from tests.faults import controllerprocess
from tests.faults.controllerprocess import CLOCK_AHEAD
from tests.faults.crashworld import DEADLINE_SECONDS, NAMESPACE, CrashWorld, crash_world

LEASE = LeaseOptions(lease_duration_seconds=5.0, renew_deadline_seconds=3.5, retry_seconds=0.5)
"""A third of the real one: what follows from that is test_lease's."""


def logged(world: CrashWorld, message: str) -> list[dict[str, Any]]:
    """Lines of both replicas."""
    lines = map(json.loads, world.log.read_text().splitlines())
    return [line for line in lines if line["message"] == message]


def holder(world: CrashWorld) -> str:
    try:
        return str(world.kube.get(LEASES, LEASE_NAME, NAMESPACE)["spec"].get("holderIdentity") or "")
    except NotFoundError:
        return ""


def lease_time(world: CrashWorld, field: str) -> float:
    """Unix seconds of a time on the lease, by the API server's clock."""
    at = parse_time(world.kube.get(LEASES, LEASE_NAME, NAMESPACE)["spec"][field])
    assert at is not None
    return at


def decisions(world: CrashWorld) -> list[dict[str, Any]]:
    """What the process that started last has on record; none while it cannot be asked."""
    ports = [line["port"] for line in logged(world, "Serves") if line["what"] == "metrics"]
    try:
        with urllib.request.urlopen(f"http://localhost:{ports[-1]}/decisions", timeout=5) as answer:
            decisions: list[dict[str, Any]] = json.load(answer)["decisions"]
    except OSError:
        return []
    return decisions


@pytest.mark.xdist_group("controller-processes")
def test_the_lease_decides_who_acts(tmp_path: Path) -> None:
    """Two replicas: killed in the middle of a launch, told to end, robbed of the lease."""
    with crash_world(tmp_path, deaths={"CreateFleet": ("after",)}) as world:
        world.environment[CLOCK_AHEAD] = "3600"
        world.times = replace(world.times, lease=LEASE, configuration=ConfigurationTimes(look_seconds=0.3))
        world.until(lambda: holder(world) == "karpenter-0", "leading")
        world.until(lambda: len(logged(world, "Acts")) == 1, "acting")
        assert world.log.read_text().count("aws.interruptionQueueName is not set") == 1, "said once, and it goes on"
        with standby(world) as other:
            world.until(lambda: len(logged(world, "Cluster state is synced")) == 2, "the other stands by, all ready")
            assert len(logged(world, "Acts")) == 1, "one of them"
            world.start_kubelets()
            world.scale(1)
            _until(lambda: world.proxy.kills == ["CreateFleet"], "the leader dies before it hears of its instance")
            _until(lambda: len(logged(world, "Acts")) == 2, "the standby acts")
            assert holder(world) == "karpenter-1"
            _until(lambda: world.running() == 1, "the pod runs")
            world.scale(2)
            _until(lambda: world.running() == 2, "the standby launches what is missing")
            assert len(world.instances()) == len(world.nodes()) == 2, "what was launched is used, not launched again"
            launch = decisions(world)[-1]
            assert (launch["kind"], launch["subject"].partition("/")[0]) == ("launch", "Node")
            assert launch["subject"].partition("/")[2] in {node["metadata"]["name"] for node in world.nodes()}
            assert launch["inputs"]
            renewed = parse_time(world.kube.get(LEASES, LEASE_NAME, NAMESPACE)["spec"]["renewTime"])
            assert renewed == pytest.approx(time.time(), abs=30.0), "by the API server's clock, not its machine's"
            assert launch["pricePerHourAfter"] == pytest.approx(2 * launch["pricePerHourBefore"]) != 0
            world.kube.patch(CONFIG_MAPS, CONFIG_MAP, {"data": {"batchIdleDuration": "50ms"}}, namespace=NAMESPACE)
            _until(lambda: logged(world, "Settings changed") != [], "a setting changes while it runs")
            other.terminate()
            other.join(30)
            assert other.exitcode == 0
            assert holder(world) == "", "given up, so that another need not wait"

        world.controller = None
        world.until(lambda: holder(world) == "karpenter-0", "leading again")
        world.until(lambda: launch in decisions(world), "the next leader knows what the last one decided")
        second = world.controller
        assert second is not None
        lease = world.kube.get(LEASES, LEASE_NAME, NAMESPACE)
        lease["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 15}
        world.kube.update(LEASES, lease, NAMESPACE)
        second.join(15)
        assert second.exitcode == 1, "another leads: this process must not act any more"
        assert holder(world) == "another"
        assert len(world.instances()) == 2


@pytest.mark.xdist_group("controller-processes")
def test_a_leader_told_to_end_during_a_create_fleet_leaves_its_successor_waiting(tmp_path: Path) -> None:
    """EC2 has launched, and does not answer before the process has ended: the lease is not given up."""
    answer = threading.Event()
    with crash_world(tmp_path, unseen_seconds=2.0) as world:
        world.times = replace(world.times, lease=LEASE, stop_seconds=0.5)
        world.proxy.held = {"CreateFleet": answer}
        world.until(lambda: holder(world) == "karpenter-0", "leading")
        world.until(lambda: len(logged(world, "Acts")) == 1, "acting")
        with standby(world) as other:
            world.until(lambda: len(logged(world, "Cluster state is synced")) == 2, "the other stands by")
            world.start_kubelets()
            world.scale(1)
            _until(lambda: world.live() == 1, "the leader's call is in flight")
            leader = world.controller
            assert leader is not None
            leader.terminate()
            _until(lambda: logged(world, "Keeps the lease until it expires: launches are not settled") != [], "kept")
            assert (holder(world), len(logged(world, "Acts"))) == ("karpenter-0", 1)
            answer.set()
            leader.join(DEADLINE_SECONDS)
            assert leader.exitcode == 0
            assert holder(world) == "karpenter-0", "still, when the process is gone"
            renewed = lease_time(world, "renewTime")
            _until(lambda: len(logged(world, "Acts")) == 2, "the standby acts")
            assert lease_time(world, "acquireTime") - renewed >= LEASE.lease_duration_seconds
            _until(lambda: world.running() == 1, "the pod runs")
            assert len(world.instances()) == len(world.nodes()) == 1, "on the instance of the call in flight"
            assert other.is_alive()


@contextmanager
def standby(world: CrashWorld) -> Iterator[BaseProcess]:
    """A second replica, with the first one's log."""
    environment = {**world.environment, "POD_NAME": "karpenter-1"}
    process = controllerprocess.start(environment, world.log, world.times)
    try:
        yield process
    finally:
        process.kill()
        process.join(10)


def _until(condition: Callable[[], bool], what: str) -> None:
    """Wait; unlike the world's own it starts no controller."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.1)
