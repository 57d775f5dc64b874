"""Zone balance: which planned nodes go to another zone, and for how much more."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.zones.balance import (
    PREMIUM_ANNOTATION,
    SHARE_ANNOTATION,
    Move,
    PlannedZones,
    ZoneBalance,
    ZoneChoice,
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
def test_no_zone_that_took_nodes_is_beyond_its_share_and_no_single_move_helps_the_fullest(
    standing: dict[str, int], groups: list[PlannedZones], share: float
) -> None:
    """Reckoned anew from the moves alone."""
    made = moves(standing, groups, ZoneBalance(share))
    load: Counter[str] = Counter(standing)
    left = [each.count for each in groups]
    for each in groups:
        load[each.zone] += each.cpu * each.count
    total = sum(load.values())  # nodes here have the same CPU in every zone
    for move in made:
        left[move.group] -= move.count
        load[groups[move.group].zone] -= move.count * groups[move.group].cpu
        load[move.zone] += move.count * groups[move.group].cpu
    assert all(count >= 0 for count in left)
    assert all(load[move.zone] <= share * total + 1e-6 for move in made)
    fullest = max(sorted(load), key=lambda zone: load[zone])
    if load[fullest] > share * total + 1e-6:
        assert not any(
            load[zone] + each.cpu <= share * total
            for place, each in enumerate(groups)
            if left[place] and each.zone == fullest
            for zone in each.others
        )
