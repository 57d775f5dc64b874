"""Where a Provisioner's limits leave pods out: what is tried, which pods go first, and how many are placed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.provisioning.packing.rounds import Rounds
from controller.core.provisioning.solver.solver import Solver
from tests.core.provisioning.plans import FIRST, solved, spread
from tests.factories import instance_type, pending_pods, problem, provisioner, selector

SIZES = [
    instance_type(name=f"c5.{cpu}x", cpu=cpu, memory=f"{2 * cpu}Gi", price=0.1 + 0.1 * cpu) for cpu in range(2, 101)
]
APPS = 120
REPLICAS = 5


def spread_pods(key: str, **changes: Any) -> list[Pod]:
    """`APPS` Deployments whose pods are counted by two spreads: that of their own team, one of seven."""
    pods = list[Pod]()
    for number in range(APPS):
        team = {"team": f"{number % 7}"}
        rule = spread(key, of=selector(**team), **changes)
        pods += pending_pods(
            REPLICAS,
            requests={"cpu": f"{500 + number % 5}m"},
            labels={**team, "app": f"{number}"},
            topology_spread=(rule,) if number % 3 else (),
        )
    return pods


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many first packings were tried, how many of them in a style for uncertain counts, and their rounds."""
    counts = Counter[str]()
    attempt, one_round = Solver.attempt, Rounds._round

    def count_attempt(*given: Any, **options: Any) -> Any:
        counts["packings"] += 1
        counts["certain counts"] += given[1].certain_counts
        return attempt(*given, **options)

    def count_round(*given: Any, **options: Any) -> Any:
        counts["rounds"] += 1
        return one_round(*given, **options)

    monkeypatch.setattr(Solver, "attempt", count_attempt)
    monkeypatch.setattr(Rounds, "_round", count_round)
    return counts


def test_pods_for_which_no_node_has_room_are_not_tried_again_one_by_one(calls: Counter[str]) -> None:
    """A limit of 40 cpus is reached by an eighth of the pods: the rounds of all packings are fewer than pods."""
    plan = solved(
        problem(pending=spread_pods(keys.ZONE), catalog=SIZES, provisioners=[provisioner(limits={"cpu": "40"})]), FIRST
    )
    assert len(plan.unplaced) > APPS * REPLICAS // 2
    assert calls["rounds"] <= APPS * REPLICAS
    assert calls["packings"] <= 6


def test_pods_that_a_limit_just_holds_are_not_tried_one_by_one_either(calls: Counter[str]) -> None:
    """300 cpus requested of 322: nodes that were opened too large are shrunk until all pods have a place."""
    limited = problem(pending=spread_pods(keys.ZONE), catalog=SIZES, provisioners=[provisioner(limits={"cpu": "322"})])
    assert solved(limited, FIRST).unplaced == ()
    assert calls["rounds"] <= APPS


def test_spreads_over_hosts_do_not_make_counts_uncertain(calls: Counter[str]) -> None:
    """Styles for uncertain counts are tried where a spread counts the pods of some nodes of a domain only."""
    pods = spread_pods(keys.HOSTNAME, skew=2)
    plan = solved(problem(pending=pods, catalog=SIZES, provisioners=[provisioner(limits={"cpu": "40"})]), FIRST)
    assert plan.unplaced
    assert calls["certain counts"] == 0


def test_pods_go_first_that_take_least_of_what_nodes_run_out_of() -> None:
    """Memory runs out under a limit on cpus: pods that ask for little cpu and much memory would fill the nodes."""
    nodes = [instance_type(name="m5.4x", cpu=4, memory="8Gi", price=0.4)]
    much = pending_pods(20, requests={"cpu": "100m", "memory": "6Gi"})
    little = pending_pods(40, requests={"cpu": "200m", "memory": "256Mi"})
    plan = solved(
        problem(pending=[*much, *little], catalog=nodes, provisioners=[provisioner(limits={"cpu": "12"})]), FIRST
    )
    assert {pod.key for pod in little}.isdisjoint(left.pod for left in plan.unplaced)
