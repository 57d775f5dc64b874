"""Zone balance: which planned nodes go to another zone, and for how much more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.zones.balance import (
    INTERVAL_ANNOTATION,
    PREMIUM_ANNOTATION,
    SCOPE_ANNOTATION,
    SHARE_ANNOTATION,
    Load,
    Move,
    PlannedZones,
    ZoneBalance,
    ZoneChoice,
    fullest,
    moves,
)

HALF = ZoneBalance(0.5)


def group(count: int, zone: str = "a", cpu: int = 4, **extra: float) -> PlannedZones:
    """Equal nodes; `extra`: the other zones with what a node costs more there."""
    return PlannedZones(zone, cpu, count, {name: ZoneChoice(cpu, dollars) for name, dollars in extra.items()})


def test_as_many_move_as_the_share_asks_for_to_the_cheapest_zone() -> None:
    assert moves({}, [group(10, b=0.01, c=0.02)], HALF) == (Move(0, "b", 5),)
    assert moves({}, [group(10, b=0.01, c=0.01)], ZoneBalance(0.4)) == (Move(0, "b", 3), Move(0, "c", 3))


def test_what_stands_counts() -> None:
    assert moves({"b": 40}, [group(10, b=0.0)], HALF) == ()
    assert moves({"a": 40}, [group(10, b=0.0)], HALF) == (Move(0, "b", 10),), "those that stand do not move"


def test_a_crowded_zone_is_left_though_a_fuller_one_keeps_what_stands_there() -> None:
    """As while a zonal shift leaves a: its nodes stay, and new ones are evened out over b and c."""
    assert moves({"a": 48}, [group(10, "b", c=0.0)], ZoneBalance(0.4)) == (Move(0, "c", 2),), "35 of 88 are allowed"


def test_the_cheapest_per_cpu_moves_first_and_what_may_not_move_stays() -> None:
    groups = [group(4, b=0.02), group(4, cpu=8, b=0.03), group(4)]
    assert moves({}, groups, HALF) == (Move(1, "b", 4),)
    assert moves({}, [group(9)], HALF) == ()


@pytest.mark.parametrize(
    ("share", "premium", "aim"),
    [
        ("0.4", "0.1", ZoneBalance(0.4, 0.1)),
        ("1", "", ZoneBalance(1.0)),
        ("60%", "much", HALF),
        ("0", "-1", HALF),
        ("0", "0", ZoneBalance(0.5, 0.0)),
        ("nan", "inf", HALF),
    ],
)
def test_a_provisioner_has_its_own_aim_if_that_can_be_read(share: str, premium: str, aim: ZoneBalance) -> None:
    assert HALF.of({SHARE_ANNOTATION: share, PREMIUM_ANNOTATION: premium}) == aim


@pytest.mark.parametrize(
    ("scope", "interval", "aim"),
    [
        ("cluster", "90s", replace(HALF, cluster=True, move_seconds=90.0)),
        ("provisioner", "0", HALF),
        ("Cluster", "90", HALF),
        ("", "-1m", HALF),
    ],
)
def test_a_provisioner_says_what_counts_and_how_often_nodes_move(scope: str, interval: str, aim: ZoneBalance) -> None:
    assert HALF.of({SCOPE_ANNOTATION: scope, INTERVAL_ANNOTATION: interval}) == aim


@pytest.mark.parametrize(
    ("own", "zone"), [([("a", 4)] * 5, ""), ([("a", 4)] * 6, "a"), ([*[("a", 4)] * 3, *[("b", 4)] * 3], "")]
)
def test_a_zone_is_crowded_from_so_many_nodes_on(own: list[tuple[str, int]], zone: str) -> None:
    assert HALF.crowded(Load.of([*own, ("", 99)])) == zone


ZONES = "abc"
GROUPS = st.lists(
    st.builds(
        lambda zone, cpu, count, extra: group(count, zone, cpu, **{z: e for z, e in extra.items() if z != zone}),
        st.sampled_from(ZONES),
        st.sampled_from([2, 4, 16]),
        st.integers(1, 6),
        st.dictionaries(st.sampled_from(ZONES), st.sampled_from([0.0, 0.01, 0.02])),
    ),
    min_size=1,
    max_size=4,
)


@given(st.dictionaries(st.sampled_from(ZONES), st.integers(0, 40)), GROUPS, st.sampled_from([0.4, 0.5, 0.6]))
def test_no_zone_that_took_nodes_is_the_worse_for_it_and_no_single_move_helps_a_crowded_one(
    standing: dict[str, int], groups: list[PlannedZones], share: float
) -> None:
    """Reckoned anew from the moves alone; nodes here have the same CPU in every zone."""
    made = moves(standing, groups, ZoneBalance(share))
    before: Counter[str] = Counter(standing)
    for each in groups:
        before[each.zone] += each.cpu * each.count
    load, left, total = Counter(before), [each.count for each in groups], before.total()
    for move in made:
        left[move.group] -= move.count
        load[groups[move.group].zone] -= move.count * groups[move.group].cpu
        load[move.zone] += move.count * groups[move.group].cpu
    assert all(count >= 0 for count in left)
    most = share * total + 1e-6
    assert all(load[move.zone] <= max(most, before[fullest(before)]) for move in made)
    assert not any(
        load[zone] + each.cpu <= max(most, load[each.zone] - each.cpu)
        for place, each in enumerate(groups)
        if left[place] and load[each.zone] > most
        for zone in each.others
    )


@given(
    st.dictionaries(st.sampled_from(ZONES), st.integers(0, 5)),
    st.lists(st.tuples(st.sampled_from(ZONES), st.sets(st.sampled_from(ZONES))), min_size=1, max_size=6),
    st.sampled_from([0.34, 0.4, 0.5, 0.6]),
)
def test_nodes_of_one_size_come_as_close_to_the_share_as_any_choice_of_their_zones(
    standing: dict[str, int], nodes: list[tuple[str, set[str]]], share: float
) -> None:
    """Up to one node, against all choices there are."""
    groups = [group(1, zone, 1, **dict.fromkeys(sorted(others - {zone}), 0.0)) for zone, others in nodes]
    total = sum(standing.values()) + len(nodes)

    def largest(zones: Iterable[str]) -> int:
        return max((Counter(standing) + Counter(zones)).values())

    chosen = [zone for zone, _ in nodes]
    for move in moves(standing, groups, ZoneBalance(share)):
        chosen[move.group] = move.zone
    best = min(map(largest, product(*({zone, *others} for zone, others in nodes))))
    assert largest(chosen) <= max(share * total, best) + 1
