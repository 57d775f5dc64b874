"""Invariant 7, on the real process: a lost lease ends it at once; SIGTERM ends it in peace and gives the lease up."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from controller.core.lifecycle.timestamps import parse_time
from controller.errors import NotFoundError
from controller.kube.lease import LEASE_NAME
from controller.kube.resources import LEASES
from tests.faults.controllerprocess import CLOCK_AHEAD
from tests.faults.crashworld import NAMESPACE, CrashWorld, crash_world


def holder(world: CrashWorld) -> str:
    try:
        return str(world.kube.get(LEASES, LEASE_NAME, NAMESPACE)["spec"].get("holderIdentity") or "")
    except NotFoundError:
        return ""


def decisions(world: CrashWorld) -> list[dict[str, Any]]:
    """What the process that started last has on record; none while it cannot be asked."""
    lines = map(json.loads, world.log.read_text().splitlines())
    ports = [line["port"] for line in lines if line["message"] == "Serves" and line["what"] == "metrics"]
    try:
        with urllib.request.urlopen(f"http://localhost:{ports[-1]}/decisions", timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)["decisions"]
    except OSError:
        return []
    return found


@pytest.mark.xdist_group("controller-processes")
def test_the_lease_decides_who_acts(tmp_path: Path) -> None:
    with crash_world(tmp_path) as world:
        world.environment[CLOCK_AHEAD] = "3600"
        world.until(lambda: holder(world) == "karpenter-0", "leading")
        world.until(lambda: '"Acts"' in world.log.read_text(), "acting")
        assert world.log.read_text().count("aws.interruptionQueueName is not set") == 1, "said once, and it goes on"
        world.scale(1)
        world.until(lambda: len(world.nodes()) == 1, "a node")
        world.until(lambda: decisions(world) != [], "a decision")
        launch, *_ = decisions(world)
        assert (launch["kind"], launch["subject"]) == ("launch", f"Node/{world.nodes()[0]['metadata']['name']}")
        assert launch["inputs"]
        renewed = parse_time(world.kube.get(LEASES, LEASE_NAME, NAMESPACE)["spec"]["renewTime"])
        assert renewed == pytest.approx(time.time(), abs=30.0), "by the API server's clock, not its machine's"
        assert launch["pricePerHourAfter"] > launch["pricePerHourBefore"] == 0
        first = world.controller
        assert first is not None
        assert first.pid is not None
        os.kill(first.pid, signal.SIGTERM)
        first.join(30)
        assert first.exitcode == 0
        assert holder(world) == "", "given up, so that another need not wait"

        world.controller = None
        world.until(lambda: holder(world) == "karpenter-0", "leading again")
        world.until(lambda: decisions(world)[:1] == [launch], "the next leader knows what the last one decided")
        second = world.controller
        assert second is not None
        lease = world.kube.get(LEASES, LEASE_NAME, NAMESPACE)
        lease["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 15}
        world.kube.update(LEASES, lease, NAMESPACE)
        second.join(15)
        assert second.exitcode == 1, "another leads: this process must not act any more"
        assert holder(world) == "another"
