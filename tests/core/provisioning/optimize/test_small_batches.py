"""Small batches, with rules between pods too, are packed optimally and say so: against a search through all plans."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, Toleration
from controller.core.cloud import CpuCredits, InstanceType, Offering
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.optimize import small_batches
from controller.core.provisioning.optimize.exact_packing import few_states
from controller.core.provisioning.optimize.patterns.bin_counts import Work
from controller.core.provisioning.optimize.patterns.column_generation import USUAL
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver
from controller.core.state.snapshot import StateNode
from tests.core.provisioning.exhaustive import cheaper_plan
from tests.core.provisioning.plans import daemon_sets, judged, near, solved, spread
from tests.factories import (
    ZONES,
    instance_type,
    node,
    pending_pods,
    problem,
    provisioner,
    running_pod,
    selector,
    state_node,
)

OPTIONS = SolveOptions(spot_pool_share=1.0)
"""Replicas are not parted over spot pools for a little more money."""
SIZES = ((1, 2), (2, 8), (2, 4), (4, 16), (8, 16), (8, 32))
"""Of the types: CPUs and GiB."""
RULES = ("none", "zones", "zones", "hosts", "apart", "hosts apart", "together", "two")


def drawn(seed: int) -> SchedulingProblem:
    """Two Deployments of up to three pods, with selectors, taints, DaemonSets or existing nodes, and rules."""
    chance = random.Random(seed)
    pools = [provisioner(name="default")]
    if chance.random() < 0.3:
        pools.append(provisioner(name="tainted", taints=[Taint("team", "red")]))
    nodes = [_node(number, chance) for number in range(chance.choice((0, 0, 1, 2)))]
    pending = [pod for app in ("a", "b") for pod in _deployment(app, chance)]
    daemons = daemon_sets(requests={"cpu": "200m", "memory": "300Mi"}, tolerations=(Toleration(operator="Exists"),))
    extra: dict[str, Any] = {} if nodes or chance.random() < 0.5 else {"daemon_sets": daemons}
    return problem(pending=pending, nodes=nodes, provisioners=pools, catalog=_catalog(chance), **extra)


def _catalog(chance: random.Random) -> list[InstanceType]:
    types = []
    for number, (cpu, memory) in enumerate(chance.sample(SIZES, 4)):
        price = (0.03 * cpu + 0.004 * memory) * chance.uniform(0.8, 1.2)
        markets = ((keys.ON_DEMAND, 1.0), (keys.SPOT, chance.uniform(0.3, 0.7)))
        offered = tuple(
            Offering(zone, market, price * share * chance.uniform(0.9, 1.1), True)
            for zone in ZONES
            for market, share in markets
        )
        kind = instance_type(name=f"m{number}.large", cpu=cpu, memory=f"{memory}Gi", offered=offered)
        burstable = CpuCredits(0.2 * cpu, 0.05) if chance.random() < 0.3 else None
        types.append(replace(kind, credits=burstable))
    return types


def _deployment(app: str, chance: random.Random) -> Any:
    requests = {"cpu": chance.choice(("300m", "700m", "1", "1500m")), "memory": chance.choice(("512Mi", "1Gi", "3Gi"))}
    of = selector(app=app)
    rule, fields = chance.choice(RULES), dict[str, Any]()
    if rule in ("zones", "two"):
        fields["topology_spread"] = (spread(skew=chance.choice((1, 1, 2)), of=of),)
    if rule in ("hosts", "two"):
        hosts = spread(keys.HOSTNAME, skew=chance.choice((1, 2)), of=of)
        fields["topology_spread"] = (*fields.get("topology_spread", ()), hosts)
    if rule in ("apart", "hosts apart"):
        key = keys.ZONE if rule == "apart" else keys.HOSTNAME
        fields["required_pod_anti_affinity"] = (near(key, of),)
    if rule == "together":
        fields["required_pod_affinity"] = (near(keys.ZONE, of),)
    if rule == "none":
        fields["node_selector"] = chance.choice(({}, {keys.ZONE: ZONES[0]}, {keys.CAPACITY_TYPE: keys.ON_DEMAND}))
    if chance.random() < 0.4:
        fields["tolerations"] = (Toleration(operator="Exists"),)
    return pending_pods(
        chance.randint(1, 2 if rule == "apart" else 3), labels={"app": app}, requests=requests, **fields
    )


def _node(number: int, chance: random.Random) -> StateNode:
    room = {"cpu": chance.choice(("800m", "2")), "memory": chance.choice(("1Gi", "4Gi")), "pods": 9}
    name = f"standing-{number}"
    bound = [running_pod(node=name, labels={"app": "a"}, requests={"cpu": "50m"})] * (chance.random() < 0.3)
    return state_node(node=node(name=name, zone=chance.choice(ZONES), allocatable=room), pods=bound)


@pytest.mark.parametrize("seed", range(24))
def test_no_plan_for_a_few_pods_costs_less(seed: int) -> None:
    posed = drawn(seed)
    plan = solved(posed, OPTIONS)
    assert plan.unplaced == ()
    assert plan.proof is not None
    assert plan.proof.optimal
    assert plan.proof.cost == pytest.approx(plan.cost_per_hour)
    assert cheaper_plan(posed, OPTIONS, plan.cost_per_hour * (1 - 1e-6) - 1e-9) is None


def test_a_spread_holds_where_two_full_nodes_would_cost_less_than_three() -> None:
    """Four pods, two on a node: all of them in two zones would leave the third empty, which maxSkew 1 forbids."""
    pods = pending_pods(4, labels={"app": "a"}, requests={"cpu": "1"}, topology_spread=(spread(of=selector(app="a")),))
    posed = problem(pending=pods, catalog=[instance_type(name="m5.large", cpu=2, memory="8Gi")])
    plan = solved(posed, OPTIONS)
    assert len(plan.new_nodes) == 3
    assert plan.proof is not None
    assert plan.proof.optimal
    assert cheaper_plan(posed, OPTIONS, plan.cost_per_hour * (1 - 1e-6)) is None


@pytest.mark.parametrize("seed", [1, 3, 5, 8, 13, 17, 20, 22])
def test_what_column_generation_proves_no_plan_undercuts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same problems as if they had too many states for the dynamic program."""
    monkeypatch.setattr(small_batches, "few_states", lambda _: False)
    posed = drawn(seed)
    plan = solved(posed, OPTIONS)
    assert plan.proof is not None
    assert plan.proof.least > 0 or plan.existing
    assert plan.proof.cost <= 1.02 * plan.proof.least
    assert cheaper_plan(posed, OPTIONS, plan.proof.least * (1 - 1e-6) - 1e-9) is None


@pytest.mark.parametrize("seed", [1, 3, 8, 13, 17, 20, 22])
@pytest.mark.parametrize("work", [USUAL.counting, Work(rows=0)], ids=["bins", "patterns"])
def test_what_the_numbers_of_bins_and_all_patterns_prove_no_plan_undercuts(
    seed: int, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same problems, with neither the dynamic program nor the search through patterns; then with an integer program
    over all patterns after next to no work on numbers of bins."""
    monkeypatch.setattr(small_batches, "few_states", lambda _: False)
    effort = replace(USUAL, searches=(), counting=work, thorough=not work.rows)
    posed = drawn(seed)
    plan = judged(Solver(compile_problem(posed, OPTIONS), effort).solve(), posed, OPTIONS)
    assert plan.proof is not None
    assert plan.proof.cost <= 1.005 * plan.proof.least
    assert cheaper_plan(posed, OPTIONS, plan.proof.least * (1 - 1e-6) - 1e-9) is None


@pytest.mark.parametrize(("cpu", "nodes"), [("7", ["m5.xlarge"]), ("3", ["m5.large"])])
def test_a_limit_that_forbids_the_cheapest_nodes_is_part_of_the_proof(cpu: str, nodes: list[str]) -> None:
    """One node of 4 CPUs costs less than one of 2, which is all that a limit of 3 CPUs admits."""
    cheap = instance_type(name="m5.xlarge", cpu=4, memory="16Gi", price=0.05)
    small = instance_type(name="m5.large", cpu=2, memory="8Gi", price=0.08)
    posed = problem(
        pending=pending_pods(2, requests={"cpu": "500m"}),
        provisioners=[provisioner(name="default", limits={"cpu": cpu})],
        catalog=[cheap, small],
    )
    plan = solved(posed, OPTIONS)
    assert [each.offering.instance_type for each in plan.new_nodes] == nodes
    assert plan.proof is not None
    assert plan.proof.optimal


def shared_between_pools(seed: int) -> SchedulingProblem:
    """Pods for a Provisioner with a limit, and for one without whose types cost 1.4 times as much."""
    chance = random.Random(seed)
    pods: list[Pod] = []
    for _ in range(chance.randint(2, 4)):
        requests: dict[str, Any] = {}
        count = chance.randint(1, 3)
        requests["cpu"] = chance.choice(["500m", "1", "1500m", "2"])
        requests["memory"] = chance.choice(["1Gi", "3Gi", "6Gi"])
        pods += pending_pods(count, requests=requests)
    cheap = [
        instance_type(
            name=f"{family}{size}.x",
            cpu=size + chance.choice([0, 1]),
            memory=f"{size * chance.choice([2, 4])}Gi",
            price=round(size * chance.uniform(0.05, 0.1), 3),
            zones=ZONES[:1],
            capacity_types=(keys.ON_DEMAND,),
        )
        for family in "ab"
        for size in (1, 2, 4, 8)
    ]
    limited = provisioner(name="a", limits={"cpu": str(chance.choice([3, 4, 5, 6]))})
    dear = [
        replace(kind, offerings=tuple(replace(each, price=round(1.4 * each.price, 4)) for each in kind.offerings))
        for kind in cheap
    ]
    pools = [limited, provisioner(name="b", limits={})]
    return problem(pending=pods, provisioners=pools, catalog={"a": cheap, "b": dear})


@pytest.mark.parametrize("seed", [5, 17, 92, 101])
def test_what_a_limit_leaves_goes_where_it_saves_most(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest packing is beyond the limit; the one that is proven uses what the limit leaves, whether states or
    patterns prove it."""
    proofs = []
    for few in (few_states, lambda _: False):
        monkeypatch.setattr(small_batches, "few_states", few)
        plan = solved(shared_between_pools(seed), OPTIONS)
        assert plan.proof is not None
        assert plan.proof.optimal
        assert {each.provisioner for each in plan.new_nodes} == {"a", "b"}
        proofs.append(plan.proof)
    assert proofs[1].cost == pytest.approx(proofs[0].cost, rel=1e-6)
    assert proofs[1].least <= proofs[0].cost * (1 + 1e-6)


def test_a_batch_of_which_limits_leave_pods_out_is_proven_for_those_that_are_placed() -> None:
    pods = pending_pods(5, requests={"cpu": "1500m"})
    small = instance_type(name="m5.large", cpu=2, memory="8Gi", price=0.08)
    limited = provisioner(name="default", limits={"cpu": "6"})
    plan = solved(problem(pending=pods, provisioners=[limited], catalog=[small]), OPTIONS)
    assert (len(plan.unplaced), len(plan.new_nodes)) == (2, 3)
    assert plan.proof is not None
    assert plan.proof.optimal


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_about_the_pods_that_are_placed_where_refinement_places_others(seed: int) -> None:
    """Of several Deployments a limit leaves pods out, and refinement fewer or others than the first plan."""
    chance = random.Random(seed)
    pods: list[Pod] = []
    for _ in range(5):
        requests = {"cpu": chance.choice(("500m", "1", "2")), "memory": chance.choice(("1Gi", "3Gi", "6Gi"))}
        pods += pending_pods(chance.randint(1, 4), requests=requests)
    catalog = [instance_type(name=f"m{n}.large", cpu=n, memory=f"{4 * n}Gi", price=0.05 * n) for n in (2, 4, 8)]
    limited = provisioner(name="default", limits={"cpu": chance.choice(("6", "8", "10"))})
    plan = solved(problem(pending=pods, provisioners=[limited], catalog=catalog), OPTIONS)
    assert plan.unplaced
    assert plan.proof is not None
    assert plan.proof.least <= plan.proof.cost * (1 + 1e-6)
