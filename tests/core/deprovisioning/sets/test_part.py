"""Which part of a set goes when it does not go as a whole any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from controller.core.api.pod import Pod
from controller.core.deprovisioning.sets.part import Part, largest_part
from controller.core.deprovisioning.worth import totals_of
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning.builders import FREELY, owner, parts, standing

FOUR, TWO, ONE = ({"cpu": cpu, "memory": "1Gi"} for cpu in ("3900m", "1900m", "900m"))
STAYS = standing("stays", "c5.2xlarge", FOUR)
"""It has room for one pod of FOUR, or for two of TWO."""


def part_of(
    removed: Iterable[str],
    nodes: Iterable[StateNode],
    idle: Mapping[str, float] | None = None,
    refused: Iterable[str] = (),
    threshold: float | None = None,
    waiting: Iterable[Pod] = (),
) -> Part | None:
    """The part of a command on record for `removed`, of which `refused` are held."""
    names, policy = set(removed), FREELY if threshold is None else replace(FREELY, consolidation_threshold=threshold)
    cordoned = [
        replace(each, node=replace(each.node, unschedulable=True)) if each.name in names else each for each in nodes
    ]
    view = factories.snapshot(nodes=cordoned, pending=waiting, provisioners=[owner(disruption=policy)])
    everyone, simulator, _ = parts(view)
    recorded = replace(simulator, going=frozenset(names))
    allowed = [each for each in everyone if each.name in names - set(refused)]
    return largest_part(allowed, names, recorded, idle or {}, totals_of(everyone))


def names_of(part: Part | None) -> list[str]:
    return sorted(each.name for each in part.removed) if part else []


def test_as_many_nodes_go_as_fit_and_the_pods_of_the_others_take_no_room() -> None:
    """All three need 11.4 CPU of 4.1: the pods of `c`, which stays, would otherwise be planned for, too."""
    going = [standing("a", "c5.large", TWO), standing("b", "c5.large", TWO), standing("c", "c5.2xlarge", FOUR, FOUR)]
    assert names_of(part_of("abc", [STAYS, *going])) == ["a", "b"]


def test_a_dear_node_goes_rather_than_a_cheap_one() -> None:
    going = [standing("cheap", "c5.large", TWO), standing("dear", "c5.2xlarge", FOUR)]
    part = part_of(["cheap", "dear"], [STAYS, *going])
    assert names_of(part) == ["dear"]
    assert part is not None
    assert part.outcome.targets == ("stays",)


def test_a_node_that_is_refused_is_no_part_of_it_and_keeps_its_pods() -> None:
    going = [standing("a", "c5.large", TWO), standing("b", "c5.large", TWO)]
    assert names_of(part_of("ab", [STAYS, *going], refused="a")) == ["b"]


def test_the_room_of_a_pod_that_waits_is_not_taken() -> None:
    """`stays` has room for the pod that waits, or for the one of `a`."""
    nodes = [standing("stays", "c5.xlarge", TWO), standing("a", "c5.large", TWO), standing("b", "c5.large", TWO)]
    assert names_of(part_of("ab", nodes)) == ["a"]
    assert part_of("ab", nodes, waiting=[factories.pending_pod(name="waits", requests=TWO)]) is None


def test_nothing_goes_where_no_node_fits() -> None:
    full = standing("stays", "c5.xlarge", FOUR)
    assert part_of("ab", [full, standing("a", "c5.large", TWO), standing("b", "c5.large", TWO)]) is None


@pytest.mark.parametrize(("cost", "goes"), [(0.02, ["a"]), (0.15, [])])
def test_what_goes_costs_more_than_the_idle_replacement_that_takes_its_pods(cost: float, goes: list[str]) -> None:
    """`a` costs $0.10 and what a node costs beside it."""
    full = standing("full", "c5.xlarge", FOUR)
    new = standing("new", "c5.large")
    going = [standing("a", "c5.large", TWO), standing("b", "c5.2xlarge", FOUR)]
    assert names_of(part_of("ab", [full, new, *going], {"new": cost})) == goes


def test_an_idle_replacement_that_no_pod_of_the_part_takes_does_not_count() -> None:
    new = standing("new", "c5.large", unschedulable=True)
    assert names_of(part_of("ab", [STAYS, new, standing("a", "c5.large", ONE)], {"new": 9.0})) == ["a"]


@pytest.mark.parametrize(("threshold", "goes"), [(0.15, ["many"]), (4.0, [])])
def test_what_goes_is_worth_its_moves(threshold: float, goes: list[str]) -> None:
    many = standing("many", "c5.large", *[{"cpu": "100m", "memory": "64Mi"}] * 8)
    assert names_of(part_of(["many", "gone"], [STAYS, many], threshold=threshold)) == goes
