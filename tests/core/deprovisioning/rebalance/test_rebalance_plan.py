"""Plans of rebalances: what goes, what stays, in which steps; every step is checked by an auditor of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import LabelSelector, PodKey, SelectorRequirement
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.cloud import InstanceType
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.planner import plan_rebalance
from controller.core.deprovisioning.rebalance.rebalance_plan import RebalancePlan
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning import builders
from tests.core.deprovisioning.builders import FREELY, MARKET, owner, standing, types_of, with_budget
from tests.core.provisioning.plans import spread
from tests.examples import examples

SMALL = types_of(("c5.large", "2", "4Gi", 0.1))
"""A market in which nodes are of one size."""
HALF, TINY = {"cpu": "900m", "memory": "1Gi"}, {"cpu": "300m", "memory": "256Mi"}


def planned(
    *nodes: StateNode, provisioners: Any = None, types: tuple[InstanceType, ...] = SMALL, **fields: Any
) -> RebalancePlan:
    view = factories.snapshot(nodes=nodes, provisioners=provisioners or [owner()], **fields)
    asked = builders.method_input(view, types)
    plan = plan_rebalance(asked)
    check(plan, asked)
    return plan


def check(plan: RebalancePlan, asked: MethodInput) -> None:
    """Follow the steps: each pod moves once, to a node that stands and stays, within its room."""
    nodes, catalog = dict(asked.snapshot.nodes), asked.simulator.catalog
    room = {name: dict(node.allocatable) for name, node in nodes.items()}
    on: dict[PodKey, str] = {pod.key: name for name, node in nodes.items() for pod in node.pods}
    going = {candidate.name for step in plan.steps for candidate in step.removes}
    moved: Counter[PodKey] = Counter()
    cost = plan.cost_before + plan.surplus
    for step, after in zip(plan.steps, plan.costs(), strict=True):
        assert step.removes
        for launch in step.launches:
            offering = launch.planned.offering
            types = catalog[launch.planned.provisioner]
            room[launch.name] = dict(next(t for t in types if t.name == offering.instance_type).allocatable)
            cost += offering.cost
        for move in step.moves:
            moved[move.pod] += 1
            assert on[move.pod] == move.source in {candidate.name for candidate in step.removes}
            assert move.target in room
            assert move.target not in going
            on[move.pod] = move.target
        for candidate in step.removes:
            assert candidate.name not in on.values()
            del room[candidate.name]
            cost -= candidate.cost
        for name, amounts in room.items():
            pods = [asked.snapshot.pods[key] for key, node in on.items() if node == name]
            for resource in ("cpu", "memory", "pods"):
                assert sum(pod.spec.requests.get(resource, 0) for pod in pods) <= amounts.get(resource, 0)
        assert after == pytest.approx(cost)
        per_pool = Counter(candidate.provisioner.name for candidate in step.removes)
        for candidate in step.removes:
            budget = asked.gate.allowance(candidate.provisioner, step.reason)
            assert per_pool[candidate.provisioner.name] <= budget.nodes
    assert set(moved.values()) <= {1}
    assert plan.cost_after <= plan.cost_before
    assert plan.cost_after >= plan.bound - 1e-6


def test_half_empty_nodes_go_and_those_with_few_pods_first() -> None:
    """Four of 2 cpu, a pod of 0.9 or three of 0.3 each: two may go, and those whose pods are few do."""
    few = [standing(f"few-{number}", "c5.large", HALF) for number in range(2)]
    many = [standing(f"many-{number}", "c5.large", TINY, TINY, TINY) for number in range(2)]
    plan = planned(*few, *many)
    assert sorted(c.name for step in plan.steps for c in step.removes) == ["few-0", "few-1"]
    assert plan.moves == 2
    assert plan.saved == pytest.approx(0.2 + 2 * 0.02)


def test_a_fleet_that_is_near_the_bound_has_no_steps() -> None:
    full = [standing(f"n{number}", "c5.large", {"cpu": "1900m", "memory": "3500Mi"}) for number in range(3)]
    assert planned(*full).steps == ()


def test_steps_take_no_more_nodes_than_the_disruption_budget_lets_go_and_empty_ones_come_first() -> None:
    half = [standing(f"n{number}", "c5.large", HALF) for number in range(8)]
    empty = standing("empty", "c5.large")
    plan = planned(*half, empty, provisioners=[with_budget('[{"nodes": "2"}]')])
    assert [len(step.removes) for step in plan.steps] == [1, 2, 2]
    assert [step.reason for step in plan.steps] == ["empty", "underutilized", "underutilized"]


def test_a_step_moves_no_more_pods_than_their_disruption_budget_lets_go_unless_one_node_has_more() -> None:
    labels = FrozenMap({"app": "web"})
    selector = LabelSelector((SelectorRequirement("app", "In", ("web",)),))

    def half(name: str, *requests: dict[str, str]) -> StateNode:
        pods = [factories.running_pod(node=name, labels=labels, requests=each) for each in requests]
        return standing(name, "c5.large", pods=pods)

    nodes = [half(f"n{number}", HALF) for number in range(4)]
    budgets = FrozenMap({("default", "web"): PodDisruptionBudget("default", "web", selector, 1)})
    plan = planned(*nodes, budgets=budgets)
    assert [(len(step.removes), step.waits_for) for step in plan.steps] == [(1, ()), (1, ())]
    plan = planned(half("a", TINY, TINY), half("b", TINY, TINY), budgets=budgets)
    assert [(len(step.moves), step.waits_for) for step in plan.steps] == [(2, ("default/web",))]


@pytest.mark.parametrize(
    ("reason", "changed", "fields"),
    [
        ("do-not-evict", {"annotations": {V1ALPHA5.keys.do_not_evict: "true"}}, {}),
        ("allows no disruption", {"labels": FrozenMap({"app": "held"})}, {"budgets": 0}),
    ],
)
def test_nodes_that_the_gate_refuses_stay_and_the_plan_says_why(
    reason: str, changed: dict[str, Any], fields: dict[str, Any]
) -> None:
    held = standing("held", "c5.large", pods=[factories.running_pod(node="held", requests=HALF, **changed)])
    if fields:
        selector = LabelSelector((SelectorRequirement("app", "In", ("held",)),))
        fields = {"budgets": FrozenMap({("default", "held"): PodDisruptionBudget("default", "held", selector, 0)})}
    plan = planned(held, standing("free", "c5.large", HALF), **fields)
    assert [c.name for step in plan.steps for c in step.removes] == ["free"]
    ((name, why),) = plan.stays
    assert name == "held"
    assert reason in why


def test_annotated_and_required_nodes_stay_and_a_pool_without_consolidation_takes_part() -> None:
    off = owner(disruption=replace(FREELY, consolidation=False))
    forbidden = standing("forbidden", "c5.large", HALF, annotations={V1ALPHA5.keys.do_not_consolidate: "true"})
    nodes = [forbidden, standing("needed", "c5.large", HALF), standing("free", "c5.large", HALF)]
    asked = builders.method_input(factories.snapshot(nodes=nodes, provisioners=[off]), required={"needed": "a mix"})
    plan = plan_rebalance(asked)
    assert [c.name for step in plan.steps for c in step.removes] == ["free"]
    assert [name for name, _ in plan.stays] == ["forbidden", "needed"]


def test_a_pod_without_another_place_keeps_its_node() -> None:
    pinned = factories.running_pod(node="pin", requests=HALF, node_selector=FrozenMap({keys.HOSTNAME: "pin"}))
    nodes = [standing("pin", "c5.large", pods=[pinned]), *(standing(f"n{i}", "c5.large", HALF) for i in range(3))]
    plan = planned(*nodes)
    assert {c.name for step in plan.steps for c in step.removes} < {"n0", "n1", "n2"}
    assert plan.moves == 2


def test_a_step_that_would_break_a_spread_on_the_way_is_not_taken() -> None:
    """One pod in each of two zones, maxSkew 1, and nodes of one zone that may go one at a time."""
    web: Any = {"labels": FrozenMap({"app": "web"}), "topology_spread": (spread(),)}
    nodes = []
    for number, zone in enumerate(factories.ZONES[:2] * 2):
        name = f"n{number}"
        pod = factories.running_pod(node=name, requests=HALF, **web)
        nodes.append(standing(name, "c5.large", pods=[pod], zone=zone))
    plan = planned(*nodes, provisioners=[with_budget('[{"nodes": "1"}]')])
    zones = {node.name: node.node.labels[keys.ZONE] for node in nodes}
    assert plan.steps
    assert all(zones[move.source] == zones.get(move.target, zones[move.source]) for s in plan.steps for move in s.moves)


PODS = st.lists(
    st.sampled_from((HALF, TINY, {"cpu": "1", "memory": "3Gi"}, {"cpu": "100m", "memory": "2Gi"})), max_size=3
)
KINDS = st.sampled_from(("c5.xlarge", "c5.2xlarge"))


@given(st.lists(st.tuples(KINDS, PODS), min_size=2, max_size=7), st.sampled_from(("1", "2", "100%")))
@examples(12)
def test_every_step_of_any_plan_leaves_each_pod_on_a_node_that_stays(
    filled: list[tuple[str, list[dict[str, str]]]], budget: str
) -> None:
    nodes = [standing(f"n{number}", kind, *pods) for number, (kind, pods) in enumerate(filled)]
    planned(*nodes, provisioners=[with_budget(f'[{{"nodes": "{budget}"}}]')], types=MARKET)
