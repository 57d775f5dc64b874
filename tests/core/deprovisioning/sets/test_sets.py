"""Sets that go together: nodes whose pods fit in the room of those that stay, by few moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.labels import SPOT
from controller.core.deprovisioning.consolidation import Consolidation, ConsolidationTimes
from controller.core.deprovisioning.consolidation_search import depends_on_kube_scheduler, find, rearranges
from tests import factories
from tests.core.deprovisioning.builders import (
    MARKET,
    ROOM,
    keeping_apart,
    look,
    method_input,
    only,
    owner,
    parts,
    removed,
    standing,
    types_of,
    with_budget,
)

BIG, SMALL = {"cpu": "4", "memory": "4Gi"}, {"cpu": "500m", "memory": "512Mi"}
HALF_EMPTY = [
    *(standing(f"few-{number}", "c5.2xlarge", BIG) for number in range(4)),
    *(standing(f"many-{number}", "c5.2xlarge", *[SMALL] * 8) for number in range(4)),
]
"""Half of each node is in use: by one pod, or by eight."""
LARGE = types_of(("c5.2xlarge", "8", "16Gi", 0.4))
"""A market without anything smaller."""


def test_after_half_of_the_pods_have_gone_half_of_the_nodes_go_in_one_command_and_few_pods_move() -> None:
    command = only(look(HALF_EMPTY))
    assert [candidate.name for candidate in command.candidates] == [f"few-{number}" for number in range(4)]
    assert command.replacements == ()
    assert sum(len(candidate.pods) for candidate in command.candidates) == 4


def test_a_set_is_no_larger_than_the_disruption_budget() -> None:
    (names,) = removed(look(HALF_EMPTY, provisioners=[with_budget('[{"nodes": "2"}]')]))
    assert names == ["few-0", "few-1"]


def test_a_dear_node_goes_rather_than_those_that_fit_in_its_room() -> None:
    """Either saves as much; the one moves a single pod."""
    dear = standing("dear", "c5.2xlarge", {"cpu": "1900m", "memory": "3900Mi"})
    full = standing("full", "c5.large", {"cpu": "1900m", "memory": "3900Mi"})
    halves = [standing(f"half-{number}", "c5.large", SMALL, SMALL) for number in range(2)]
    command = only(look([dear, full, *halves]))
    assert [candidate.name for candidate in command.candidates] == ["dear"]
    assert [node.offering.instance_type for node in command.replacements] == ["c5.large"]


def test_a_node_whose_pods_need_its_type_again_stays() -> None:
    """Going from the dearest for its moves, `same` comes before `crowded`, whose removal saves more."""
    market = (*MARKET[:2], *types_of(("x1.large", "2", "4Gi", 0.6)))
    first = standing("first", "x1.large", {"cpu": "1900m", "memory": "3800Mi"}, types=market)
    same = standing("same", "c5.xlarge", {"cpu": "2500m", "memory": "6Gi"}, types=market)
    crowded = standing("crowded", "x1.large", *[{"cpu": "95m", "memory": "190Mi"}] * 20, types=market)
    command = only(look([first, same, crowded], types=market))
    assert sorted(candidate.name for candidate in command.candidates) == ["crowded", "first"]
    assert [node.offering.instance_type for node in command.replacements] == ["c5.xlarge"]


def test_a_set_is_not_judged_again_while_its_nodes_stay_as_they_are() -> None:
    view = factories.snapshot(nodes=[ROOM, *map(keeping_apart, ("a", "b", "c"))], provisioners=[owner()])
    everyone, simulator, gate = parts(view)
    names = {each.name for each in everyone}

    def simulations(judged: set[str]) -> int:
        return find(everyone, simulator, gate, judged=frozenset(judged)).simulations

    assert simulations(names) == 0
    assert simulations(names - {"a"}) > 1, "the set of all, and the one node"


def test_empty_nodes_go_all_at_once_and_a_set_in_part_where_it_does_not_go_as_a_whole() -> None:
    """When it has settled: nobody waits for another 15 s, and no node that has not settled goes."""
    method = Consolidation(ConsolidationTimes(settle_seconds=15.0))
    empty = [standing(f"empty-{number}", "c5.2xlarge") for number in range(3)]
    before = factories.snapshot(nodes=[*HALF_EMPTY, *empty], provisioners=[owner()])
    assert removed(method.decide(method_input(before, LARGE, monotonic=100.0))) == []
    filled = replace(HALF_EMPTY[4], pods=(*HALF_EMPTY[4].pods, *standing("x", "c5.2xlarge", *[SMALL] * 7).pods))
    nodes = [filled if node.name == filled.name else node for node in HALF_EMPTY]
    after = factories.snapshot(nodes=[*nodes, *empty], provisioners=[owner()])
    assert removed(method.decide(method_input(after, LARGE, monotonic=115.0))) == [[node.name] for node in empty]
    later = factories.snapshot(nodes=nodes, provisioners=[owner()])
    (names,) = removed(method.decide(method_input(later, LARGE, monotonic=115.2)))
    assert len(names) == 3
    assert set(names) < {f"few-{number}" for number in range(4)}


def test_a_node_that_was_judged_alone_is_judged_so_again_when_its_pods_change_or_after_a_while() -> None:
    method = Consolidation(ConsolidationTimes(verdict_seconds=120.0))
    nodes = [ROOM, *(keeping_apart(f"n{number}") for number in range(3))]

    def judged(at: float, version: int) -> int:
        view = replace(factories.snapshot(nodes=nodes, provisioners=[owner()]), version=version)
        return len(method.decide(method_input(view, monotonic=at)).kept)

    assert [judged(100.0, 1), judged(110.0, 2), judged(230.0, 3)] == [3, 0, 3]
    nodes[1] = keeping_apart("n0", cpu="1800m")
    assert judged(240.0, 4) == 1


def test_the_next_look_is_when_a_removal_has_settled() -> None:
    """And not when the search would begin anew: an empty node costs money until then."""
    method = Consolidation(ConsolidationTimes(settle_seconds=15.0))
    view = factories.snapshot(nodes=[standing("empty", "c5.2xlarge")], provisioners=[owner()])
    looks = [method.decide(method_input(view, LARGE, monotonic=at)) for at in (100.0, 110.0, 115.0)]
    assert [look.again_seconds for look in looks[:2]] == [15.0, 5.0]
    assert removed(looks[2]) == [["empty"]]


MEMORY = types_of(("r5.large", "2", "8Gi", 0.1), ("r5.xlarge", "4", "16Gi", 0.2))


def gi(amount: float) -> dict[str, str]:
    return {"cpu": "100m", "memory": f"{int(amount * 1024)}Mi"}


def test_a_set_goes_as_a_whole_where_no_part_of_it_is_found_when_it_has_settled() -> None:
    """The pods of both nodes need one of the larger type again, once a third pod has gone elsewhere; removed alone,
    neither node saves anything. They are dear because memory is cheap beside the pods of the full nodes, not among
    themselves."""
    nodes = [
        standing("small", "r5.large", gi(7), types=MEMORY),
        standing("large", "r5.xlarge", gi(8.5), gi(4.5), types=MEMORY),
        *(standing(f"full-{n}", "r5.xlarge", {"cpu": "2"}, {"cpu": "2"}, types=MEMORY) for n in range(3)),
        standing("stays", "r5.large", gi(2), types=MEMORY, provisioner=""),
    ]
    view = factories.snapshot(nodes=nodes, provisioners=[owner()])
    method = Consolidation(ConsolidationTimes(settle_seconds=15.0))
    assert removed(method.decide(method_input(view, MEMORY, monotonic=100.0))) == []
    command = only(method.decide(method_input(view, MEMORY, monotonic=115.0)))
    assert sorted(each.name for each in command.candidates) == ["large", "small"]
    assert [node.offering.instance_type for node in command.replacements] == ["r5.xlarge"]


@pytest.mark.parametrize(
    ("removed_types", "launched", "stays"),
    [
        ("r6g.xlarge r6g.xlarge r6g.2xlarge", "r6g.xlarge r6g.2xlarge", False),
        ("r6g.xlarge r6g.xlarge t4g.xlarge", "r6g.xlarge t4g.xlarge m8g.large", True),
        ("r6g.xlarge r6g.xlarge t4g.xlarge", "r6g.xlarge r6g.large m8g.large", False),
        ("r6g.xlarge r6g.large", "r6g.xlarge m8g.large", False),
        ("r6g.xlarge", "c6g.large c6g.large", False),
    ],
    ids=["a node less", "two of three again", "one of three again", "half of it again", "other types"],
)
def test_a_set_that_would_only_be_rearranged_is_none(removed_types: str, launched: str, stays: bool) -> None:
    """What it saves hangs on where kube-scheduler puts the pods."""
    assert rearranges(removed_types.split(), launched.split()) is stays


def test_all_on_demand_nodes_beside_spot_nodes_are_one_set() -> None:
    """Full nodes, of which none is dear for its pods or worth replacing alone: together a larger one is cheaper."""
    types = (
        *types_of(("m5.xlarge", "4", "16Gi", 0.2), ("m5.2xlarge", "8", "32Gi", 0.37)),
        *types_of(("m5.large", "2", "8Gi", 0.1), spot=True),
    )
    pods = [{"cpu": "4", "memory": "1Gi"}]
    fleet = [
        *(standing(name, "m5.xlarge", *pods, types=types) for name in "ab"),
        standing("s", "m5.large", *[{"cpu": "200m"}] * 10, types=types, capacity_type=SPOT),
    ]
    command = only(look(fleet, types))
    assert removed(look(fleet, types)) == [["a", "b"]]
    assert [each.offering.instance_type for each in command.replacements] == ["m5.2xlarge"]


@pytest.mark.parametrize(
    ("cpus", "setting", "hangs"),
    [(("3", "2500m"), True, False), (("3", "2500m"), False, True), (("3", "3"), True, True)],
    ids=["placed as planned", "with the setting off", "pods of one size"],
)
def test_a_set_that_is_rearranged_goes_where_its_pods_are_placed_as_planned(
    cpus: tuple[str, str], setting: bool, hangs: bool
) -> None:
    types = types_of(("c5.xlarge", "4", "8Gi", 0.2))
    nodes = [standing(name, "c5.xlarge", {"cpu": cpu}, types=types) for name, cpu in zip("ab", cpus, strict=True)]
    everyone, simulator, _ = parts(factories.snapshot(nodes=nodes, provisioners=[owner()]), types)
    replacements = simulator.simulate([each.node for each in everyone]).replacements
    assert len(replacements) == 2
    assert depends_on_kube_scheduler(everyone, replacements, replace(simulator, place_as_planned=setting)) is hangs
