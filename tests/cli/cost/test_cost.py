"""`nodeless cost`: every node's price is divided among its pods, and nothing is lost or counted twice."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.quantity import resources
from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, Run, Write, answer, deployment, provisioner

PRICE = 0.192
"""$ an hour of an m5.xlarge on demand: 4 CPU and 16 GiB."""


@pytest.fixture
def dump(write: Write) -> str:
    """One node half full, one overcommitted, one without a known price, and a pod that waits."""
    unknown = node("x")
    unknown["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "no.such"
    other: dict[str, Any] = pod("db-1", "2", on="a")
    other["metadata"]["namespace"] = "data"
    web = pod("web-1", "1", on="a")
    web["metadata"] |= {
        "labels": {"pod-template-hash": "7d9f"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9f", "uid": "u"}],
    }
    objects = [
        TEMPLATE, provisioner("default", M5_XLARGE), node("a"), node("b"), unknown, other,
        web, pod("big-1", "8", on="b"), pod("waits"),
    ]  # fmt: skip
    return write({"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": objects})


def test_prices_are_divided_by_requests_and_add_up(run: Run, dump: str) -> None:
    said = answer(run("cost", "--from", dump, "-o", "json"))
    costs = {(each["namespace"], each["workload"]): each["pricePerHour"] for each in said["workloads"]}
    db, web = (2 / 4 + 1 / 16) / 2 * PRICE, (1 / 4 + 1 / 16) / 2 * PRICE
    assert costs == pytest.approx({("data", "db-1"): db, ("shop", "web"): web, ("shop", "big-1"): PRICE}, abs=1e-6)
    assert said["idlePerHour"] == pytest.approx(PRICE - db - web, abs=1e-6)
    assert said["pricePerHour"] == pytest.approx(2 * PRICE)
    assert said["pricePerHour"] == pytest.approx(sum(costs.values()) + said["idlePerHour"], abs=1e-5)
    assert said["unpricedNodes"] == ["x"]


def test_people_see_namespaces_first_and_one_namespaces_workloads(run: Run, dump: str) -> None:
    lines = run("cost", "--from", dump).stdout.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["Namespace", "shop", "data", "(idle)", "in"]
    assert lines[1].split() == ["shop", "2", "$0.2220", "$162.06", "58", "%"]
    assert lines[-1] == "1 node of unknown price left out: x"
    lines = run("cost", "-n", "shop", "--from", dump).stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["Workload", "shop/big-1", "shop/web"]
    assert not any("idle" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_namespace_without_pods_on_nodes_is_said_to_have_none(run: Run, dump: str) -> None:
    assert run("cost", "-n", "shpo", "--from", dump).stdout.startswith("No pod of the namespace shpo is on a node")


def test_a_plans_new_nodes_are_divided_too_and_daemonsets_have_their_own_row(run: Run, write: Write) -> None:
    daemon = {**deployment("agent", cpu="200m"), "kind": "DaemonSet"}
    fleet = write(TEMPLATE, provisioner("default", M5_XLARGE), daemon, deployment("web"), deployment("db", replicas=1))
    plan = answer(run("simulate", fleet, "-o", "json"))
    costs, nodes = plan["costs"], len(plan["nodes"])
    assert nodes > 0
    assert {each["workload"]: each["pods"] for each in costs["workloads"]} == {"web": 3, "db": 1}
    assert costs["daemonSetsPerHour"] == pytest.approx(sum(map(agents_share, plan["nodes"])), abs=1e-5)
    parts = sum(each["pricePerHour"] for each in costs["workloads"])
    whole = parts + costs["daemonSetsPerHour"] + costs["idlePerHour"]
    assert whole == pytest.approx(plan["summary"]["pricePerHour"], abs=1e-5)
    lines = run("simulate", fleet).stdout.partition("Cost of the new nodes")[2].splitlines()[1:]
    assert [line.split()[0] for line in lines[:5]] == ["Namespace", "shop", "(DaemonSets)", "(idle)", "in"]
    assert "shop/web " in run("simulate", fleet, "-o", "wide").stdout


def agents_share(planned: dict[str, Any]) -> float:
    """The agent's 200m and 1 GiB of a planned node, of its price."""
    room = resources(planned["allocatable"])
    share: float = (200 / room["cpu"] + 2**30 / room["memory"]) / 2 * planned["pricePerHour"]
    return share
