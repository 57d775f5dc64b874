"""Where the gap between a plan's price and the bound comes from."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.provisioning.bound.gap import AFFINITY, INTEGRALITY, LIMITS, SPREAD, Gap, explain_gap
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.plan import SchedulingProblem, SolveOptions
from tests.core.provisioning.plans import WEB, near, solved
from tests.factories import instance_type, pending_pods, problem, provisioner

LARGE = instance_type(name="c5.xlarge", cpu=4, memory="8Gi", price=0.4, pods=10, capacity_types=(keys.ON_DEMAND,))
HUGE = instance_type(name="c5.2xlarge", cpu=8, memory="16Gi", price=0.9, pods=10, capacity_types=(keys.ON_DEMAND,))


PRICES = SolveOptions().of_prices_alone()


def explained(posed: SchedulingProblem) -> Gap:
    """The gap of the solver's plan; its parts must add up to it."""
    plan = solved(posed, PRICES)
    gap = explain_gap(posed, plan, PRICES)
    assert gap.price_per_hour == plan.price_per_hour == gap.cost_per_hour
    left_out = frozenset(unplaced.pod for unplaced in plan.unplaced)
    assert gap.bound_per_hour == bound(posed, PRICES, left_out).cost_per_hour
    parts = sum(part.price_per_hour for part in gap.parts)
    assert parts == pytest.approx(gap.price_per_hour - gap.bound_per_hour)
    return gap


def by_cause(gap: Gap) -> dict[str, float]:
    return {part.cause: part.price_per_hour for part in gap.parts}


def test_without_rules_all_of_it_is_that_nodes_come_whole() -> None:
    """Five cpus need a node and a quarter; two are paid."""
    gap = explained(problem(pending=pending_pods(5, requests={"cpu": "1"}), catalog=[LARGE]))
    assert by_cause(gap) == {INTEGRALITY: pytest.approx(0.4 * 3 / 4)}
    assert gap.ratio == pytest.approx(2 / 1.25)


def test_a_full_node_leaves_no_gap() -> None:
    gap = explained(problem(pending=pending_pods(4, requests={"cpu": "1"}), catalog=[LARGE]))
    assert by_cause(gap) == {INTEGRALITY: pytest.approx(0.0)}


def test_pods_that_must_share_a_host_pay_for_a_larger_one() -> None:
    """Eight cpus on one host: $0.9 where two nodes of $0.4 would do."""
    pods = pending_pods(8, requests={"cpu": "1"}, required_pod_affinity=(near(keys.HOSTNAME),), labels=WEB)
    parts = by_cause(explained(problem(pending=pods, catalog=[LARGE, HUGE])))
    assert parts == {AFFINITY: pytest.approx(0.1), INTEGRALITY: pytest.approx(0.0)}


def test_spread_that_the_bound_counts_in_full_is_no_part_of_the_gap() -> None:
    """Two pods apart on two hosts: bound and plan both pay for two nodes, although one would hold them."""
    pods = pending_pods(2, requests={"cpu": "2"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), labels=WEB)
    parts = by_cause(explained(problem(pending=pods, catalog=[LARGE])))
    assert parts[SPREAD] == pytest.approx(0.0)


def test_limits_that_push_pods_to_a_dearer_provisioner_are_a_part() -> None:
    """The cheap Provisioner may have 4 cpus: the divisible pods fill them exactly, whole ones of 3 cpus do not."""
    cheap = instance_type(name="c5.xlarge", cpu=4, memory="8Gi", price=0.1, capacity_types=(keys.ON_DEMAND,))
    posed = problem(
        pending=pending_pods(2, requests={"cpu": "3"}),
        provisioners=[provisioner(name="cheap", limits={"cpu": "4"}), provisioner(name="dear")],
        catalog={"cheap": [cheap], "dear": [LARGE]},
    )
    parts = by_cause(explained(posed))
    assert parts[LIMITS] > 0.1
    assert set(parts) == {LIMITS, INTEGRALITY}
