"""Hints of EndpointSlices: what kube-controller-manager makes of zones' CPU and a Service's endpoints."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.core.zones.hints import (
    FEW_ENDPOINTS,
    NO_ENDPOINT_ZONE,
    NO_NODE_INFO,
    OVERLOADED,
    Loan,
    ZoneCPU,
    enough_endpoints,
    even,
    hints,
    zone_cpu,
)
from tests.factories import node

EVEN = ZoneCPU({"a": 8, "b": 8, "c": 8})
MOST_IN_A = ZoneCPU({"a": 60, "b": 20, "c": 20})


def test_shares_count_every_ready_node_with_fargates_and_none_of_the_control_plane() -> None:
    nodes = [
        node(zone="a", allocatable={"cpu": "3"}),
        node(zone="b", allocatable={"cpu": "1"}, labels={"eks.amazonaws.com/compute-type": "fargate"}),
        node(zone="b", allocatable={"cpu": "8"}, ready=False),
        node(zone="c", allocatable={"cpu": "8"}, labels={"node-role.kubernetes.io/control-plane": ""}),
    ]
    assert zone_cpu(nodes) == ZoneCPU({"a": 3000, "b": 1000})
    assert zone_cpu([*nodes, node(name="new", zone="", allocatable={"cpu": "1"})]) == ZoneCPU(incomplete="new")


@pytest.mark.parametrize(
    ("zones", "endpoints", "reason"),
    [
        (EVEN, {"a": 1, "b": 1, "c": 1}, ""),
        (EVEN, {"a": 2, "b": 1, "c": 1}, f"{OVERLOADED} (4 endpoints, 3 zones)"),  # a minimum of ceil(1.11) each: 6
        (EVEN, {"a": 2, "b": 2, "c": 2}, ""),
        (EVEN, {"a": 1, "b": 1}, f"{FEW_ENDPOINTS} (2 endpoints, 3 zones)"),
        (EVEN, {"a": 2, "b": 2, "c": 1, "": 1}, NO_ENDPOINT_ZONE),
        (ZoneCPU({"a": 8}), {"a": 5}, NO_NODE_INFO),
        (ZoneCPU(incomplete="n"), {"a": 5}, NO_NODE_INFO),
        (MOST_IN_A, {"a": 1, "b": 1, "c": 1}, f"{OVERLOADED} (3 endpoints, 3 zones)"),  # 2 + 1 + 1
        (MOST_IN_A, {"a": 1, "b": 2, "c": 1}, ""),  # 2 + 1 + 1
    ],
)
def test_hints_are_refused_in_the_controllers_own_words(zones: ZoneCPU, endpoints: dict[str, int], reason: str) -> None:
    assert hints(zones, endpoints).reason == reason


@pytest.mark.parametrize(
    ("zones", "endpoints", "loans"),
    [
        (EVEN, {"a": 2, "b": 2, "c": 2}, ()),
        (EVEN, {"a": 4, "b": 2}, (Loan("a", "c", 2),)),
        (EVEN, {"a": 3, "b": 3, "c": 1}, (Loan("a", "c", 1),)),  # c wants 3 (its minimum is ceil(1.94) = 2, 2.33 due)
        (MOST_IN_A, {"a": 4, "b": 3, "c": 3}, (Loan("b", "a", 1), Loan("c", "a", 1))),
        (EVEN, {"a": 3, "b": 3, "d": 3}, ()),  # d's endpoints keep their own zone; nobody has more than its share
    ],
)
def test_endpoints_are_lent_to_zones_with_less_than_their_share(
    zones: ZoneCPU, endpoints: dict[str, int], loans: tuple[Loan, ...]
) -> None:
    assert hints(zones, endpoints).loans == loans


def test_enough_endpoints_is_the_next_number_for_which_the_minimums_sum_up() -> None:
    assert [enough_endpoints(EVEN, n) for n in range(1, 10)] == [3, 3, 3, 6, 6, 6, 7, 9, 9]
    assert enough_endpoints(ZoneCPU({"a": 8}), 3) is None


CPU = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 64), min_size=2, max_size=4)


@given(CPU, st.lists(st.sampled_from("abcd"), min_size=1, max_size=40))
def test_hinted_endpoints_are_about_each_zones_share(cpu: dict[str, int], own: list[str]) -> None:
    """Reckoned apart from how loans are found, in whole numbers. A zone may want its minimum, which is rounded up."""
    endpoints = {zone: own.count(zone) for zone in cpu}
    outcome = hints(ZoneCPU(cpu), endpoints)
    total, all_cpu = sum(endpoints.values()), sum(cpu.values())
    minimum = {zone: -(-5 * total * each // (6 * all_cpu)) for zone, each in cpu.items()}
    assume(all(5 * total * each % (6 * all_cpu) for each in cpu.values()))  # else floating point decides, there as here
    assert outcome.hinted == (total >= len(cpu) and sum(minimum.values()) <= total)
    hinted = dict(endpoints)
    for loan in outcome.loans:
        hinted[loan.from_zone] -= loan.endpoints
        hinted[loan.to_zone] += loan.endpoints
    assert sum(hinted.values()) == total
    if outcome.hinted:
        assert outcome.minimum == minimum
        due = {zone: max(total * each / all_cpu, minimum[zone]) for zone, each in cpu.items()}
        too_much = sum(due.values()) - total  # minimums are rounded up: together more than there is can be due
        short = max(1.0, (len(cpu) - 1) / 2)  # nothing is lent of less than half an endpoint
        assert all(hinted[zone] >= want - short - too_much - 1e-9 for zone, want in due.items())


@given(CPU, st.integers(1, 60))
def test_from_six_endpoints_a_zone_on_every_number_is_enough(cpu: dict[str, int], more: int) -> None:
    zones = ZoneCPU(cpu)
    total = 6 * len(cpu) + more
    assert enough_endpoints(zones, total) == total
    assert hints(zones, even(total, cpu)).hinted
