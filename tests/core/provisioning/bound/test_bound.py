"""The lower bound against values computed by hand; `plans.judged` asserts for every plan that it is not undercut."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.workloads import DaemonSet
from controller.core.provisioning.bound.lower_bound import Bound, bound
from controller.core.provisioning.plan import SchedulingProblem, SolveOptions
from tests.core.provisioning import plans
from tests.core.provisioning.plans import WEB, judged, near, solved, spread
from tests.factories import (
    ZONES,
    instance_type,
    node,
    pending_pods,
    pod,
    problem,
    provisioner,
    running_pod,
    state_node,
)

SMALL = instance_type(name="c5.large", cpu=2, memory="4Gi", price=0.1, pods=10, capacity_types=(keys.ON_DEMAND,))
LARGE = instance_type(name="c5.xlarge", cpu=4, memory="8Gi", price=0.15, pods=10, capacity_types=(keys.ON_DEMAND,))


PRICES = SolveOptions().of_prices_alone()


def price(posed: SchedulingProblem) -> float:
    return bound(posed, PRICES).cost_per_hour


def test_pods_pay_for_their_share_of_the_cheapest_node() -> None:
    """Five cpus of $0.15 for four: a node and a quarter, as nodes are divisible."""
    posed = problem(pending=pending_pods(5, requests={"cpu": "1"}), catalog=[SMALL, LARGE])
    assert price(posed) == pytest.approx(0.15 * 5 / 4)


def test_the_duals_are_what_one_more_pod_costs() -> None:
    posed = problem(pending=pending_pods(5, requests={"cpu": "1"}), catalog=[SMALL, LARGE])
    ((_, worth),) = bound(posed, PRICES).pod_worth
    assert worth == pytest.approx(0.15 / 4)
    ((offering, count),) = bound(posed, PRICES).nodes
    assert offering.instance_type == "c5.xlarge"
    assert count == pytest.approx(1.25)


def test_two_shapes_of_pods_share_a_node_that_suits_neither() -> None:
    """Two pods of 1 cpu and 5 GiB with two of 1 cpu and 1 GiB fill a node; either kind alone would waste a resource."""
    kind = instance_type(name="m5.xlarge", cpu=4, memory="12Gi", price=0.2, capacity_types=(keys.ON_DEMAND,))
    pods = [
        *pending_pods(2, requests={"cpu": "1", "memory": "5Gi"}),
        *pending_pods(2, requests={"cpu": "1", "memory": "1Gi"}),
    ]
    assert price(problem(pending=pods, catalog=[kind])) == pytest.approx(0.2)


def test_a_pod_too_large_for_the_cheap_type_does_not_pay_its_price() -> None:
    cheap = instance_type(name="c5.large", cpu=2, price=0.01, capacity_types=(keys.ON_DEMAND,))
    posed = problem(pending=pending_pods(1, requests={"cpu": "3"}), catalog=[cheap, LARGE])
    assert price(posed) == pytest.approx(0.15 * 3 / 4)


def test_free_room_on_nodes_that_exist_costs_nothing() -> None:
    half = state_node(node=node(name="here"), pods=[running_pod(node="here", requests={"cpu": "1"})])
    posed = problem(pending=pending_pods(3, requests={"cpu": "1"}), nodes=[half], catalog=[LARGE])
    free = half.allocatable["cpu"] // 1000 - 1
    assert price(posed) == pytest.approx(0.15 * (3 - free) / 4)


def test_nodes_taken_together_lend_each_other_nothing_that_they_are_short_of() -> None:
    """Forty nodes are grouped: half have memory for 1.2 pods each, half have cpu for 1.1; sums must not mix them."""
    lopsided = [
        state_node(node=node(name=f"{cpu}-{n}", allocatable={"cpu": cpu, "memory": memory, "pods": "9"}))
        for n in range(20)
        for cpu, memory in (("4", "1229Mi"), ("1100m", "8Gi"))
    ]
    posed = problem(pending=pending_pods(100, requests={"cpu": "1", "memory": "1Gi"}), nodes=lopsided, catalog=[LARGE])
    assert price(posed) == pytest.approx(0.15 * (100 - 20 * (1.2 + 1.1)) / 4, rel=1e-3)


def test_daemons_take_their_share_of_every_node() -> None:
    daemon = DaemonSet(namespace="kube-system", name="agent", uid="u", template=pod(requests={"cpu": "2"}))
    posed = problem(
        pending=pending_pods(2, requests={"cpu": "1"}), catalog=[LARGE], daemon_sets={("kube-system", "agent"): daemon}
    )
    assert price(posed) == pytest.approx(0.15)


def test_selectors_and_taints_keep_pods_out_of_the_cheap_pool() -> None:
    pools = [provisioner(name="cheap", taints=[Taint("team", "red")]), provisioner(name="open")]
    catalog = {"cheap": [instance_type(name="c5.large", price=0.01)], "open": [LARGE]}
    posed = problem(pending=pending_pods(4, requests={"cpu": "1"}), provisioners=pools, catalog=catalog)
    assert price(posed) == pytest.approx(0.15)


def test_what_limits_leave_out_is_counted_and_not_paid_for() -> None:
    posed = problem(
        pending=pending_pods(10, requests={"cpu": "1"}),
        provisioners=[provisioner(limits={"cpu": "6"})],
        catalog=[LARGE],
    )
    least = bound(posed, PRICES)
    assert least.unplaced == pytest.approx(4)
    assert least.cost_per_hour == pytest.approx(0.15 * 1.5)


def test_anti_affinity_over_hosts_pays_for_a_node_each() -> None:
    posed = problem(
        pending=pending_pods(
            4, requests={"cpu": "100m"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), labels=WEB
        ),
        catalog=[SMALL, LARGE],
    )
    assert price(posed) == pytest.approx(0.4)


def test_spread_over_hosts_pays_for_nodes_by_its_skew() -> None:
    posed = problem(
        pending=pending_pods(4, requests={"cpu": "100m"}, topology_spread=(spread(keys.HOSTNAME, skew=2),), labels=WEB),
        catalog=[SMALL, LARGE],
    )
    assert price(posed) == pytest.approx(0.2)


def test_spread_over_zones_pays_the_dear_zone_its_part() -> None:
    """Six pods over three zones of which one is dear, maxSkew 1: at least (6 - 2) / 3 = 4/3 pods stand there."""
    cheap = instance_type(name="c5.xlarge", cpu=4, price=0.1, zones=ZONES[:2], capacity_types=(keys.ON_DEMAND,))
    dear = instance_type(name="c6.xlarge", cpu=4, price=1.0, zones=ZONES[2:], capacity_types=(keys.ON_DEMAND,))
    pods = pending_pods(6, requests={"cpu": "1"}, topology_spread=(spread(),), labels=WEB)
    expected = (4 / 3 * 1.0 + 14 / 3 * 0.1) / 4
    assert price(problem(pending=pods, catalog=[cheap, dear])) == pytest.approx(expected)


def test_anti_affinity_over_zones_pays_every_zone_it_needs() -> None:
    cheap = instance_type(name="c5.xlarge", cpu=4, price=0.1, zones=ZONES[:2], capacity_types=(keys.ON_DEMAND,))
    dear = instance_type(name="c6.xlarge", cpu=4, price=1.0, zones=ZONES[2:], capacity_types=(keys.ON_DEMAND,))
    pods = pending_pods(3, requests={"cpu": "1"}, required_pod_anti_affinity=(near(),), labels=WEB)
    assert price(problem(pending=pods, catalog=[cheap, dear])) == pytest.approx((1.0 + 0.1 + 0.1) / 4)


def test_preferences_may_be_given_up() -> None:
    posed = problem(
        pending=pending_pods(
            8, requests={"cpu": "100m"}, topology_spread=(spread(keys.HOSTNAME, soft=True),), labels=WEB
        ),
        catalog=[LARGE],
    )
    assert price(posed) == pytest.approx(0.15 * 0.8)


def test_no_pods_cost_nothing() -> None:
    assert price(problem(catalog=[SMALL])) == 0.0


def test_every_plan_of_a_test_is_held_against_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound above the plan's cost, or one that counts a placed pod as unplaced, fails the test."""
    posed = problem(pending=pending_pods(3, requests={"cpu": "1"}), catalog=[SMALL])
    plan = solved(posed)
    for wrong in (Bound(plan.cost_per_hour + 0.01, 0.0), Bound(0.0, 1.0)):
        monkeypatch.setattr(plans, "bound", lambda *_, wrong=wrong: wrong)
        with pytest.raises(AssertionError):
            judged(plan, posed)
