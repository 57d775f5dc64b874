"""A day in virtual time: a short one, made up, whose every pod is bound and whose every machine goes in the end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.life.day import Day, varied
from bench.life.made_up import made_up
from bench.life.optimum import optimum
from bench.life.report import ratios, table
from bench.life.run import Lived, live

SEED = 3


@pytest.fixture(scope="module")
def day() -> Day:
    """Pods come, half of them go, then the others; of few types, so that a plan takes little time."""
    whole = made_up(SEED, pods=12)
    stages = (whole.phases[0], whole.phases[2], whole.phases[5])
    phases = tuple(replace(phase, at=at) for phase, at in zip(stages, (0.0, 40.0, 90.0), strict=True))
    return replace(whole, phases=phases, ends_at=150.0, types=whole.types[::6])


@pytest.fixture(scope="module")
def lived(day: Day) -> Lived:
    return live(day, seed=1)


def test_every_pod_is_bound_and_every_machine_goes_in_the_end(lived: Lived) -> None:
    assert lived.never_bound == 0
    assert lived.left_at_end == 0
    assert lived.launched >= lived.most_machines > 0
    assert sum(phase.dollars for phase in lived.phases) == pytest.approx(lived.dollars)
    assert lived.pods_moved == lived.evictions, "nothing but an eviction ended a pod that was wanted"
    assert 0 < lived.wait_p50 <= lived.wait_max < 60.0


def test_a_day_is_the_same_again(day: Day, lived: Lived) -> None:
    again = live(day, seed=1)
    assert replace(again, processor_seconds=lived.processor_seconds, by_step=lived.by_step) == lived


def test_no_fleet_undercuts_the_bound(day: Day, lived: Lived) -> None:
    optima = [optimum(day, phase) for phase in day.phases]
    assert all(ratio >= 1.0 for ratio in ratios(lived, optima))
    assert all(each.fresh >= each.bound for each in optima)
    assert f"| {lived.evictions}; {lived.refused_evictions} |" in table(lived, optima, {})


def test_a_varied_day_changes_where_the_day_does() -> None:
    day = made_up(SEED, pods=200)
    other = varied(day, 2)
    assert other == varied(day, 2)
    steps = list(pairwise(zip(day.phases, other.phases, strict=True)))
    assert any(phase.replicas != own.replicas for _, (phase, own) in steps)
    for (before, own_before), (phase, own) in steps:
        kept = [name for name, count in phase.replicas.items() if count in (0, before.replicas[name])]
        assert all(own.replicas[name] in (0, own_before.replicas[name]) for name in kept)
        assert all((own.replicas[name] == 0) == (count == 0) for name, count in phase.replicas.items() if count > 1)
