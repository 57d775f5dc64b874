"""How a search goes through all nodes, look by look, and which sets it takes."""

from __future__ import annotations

import pytest

from controller.core.api.pod import Pod
from controller.core.deprovisioning.consolidation_search import BEGIN, judge
from tests import factories
from tests.core.deprovisioning.builders import (
    MARKET,
    ROOM,
    keeping_apart,
    look,
    only,
    owner,
    parts,
    reasons,
    removed,
    standing,
    types_of,
    with_budget,
)


@pytest.mark.parametrize("pools", [1, 5])
def test_no_node_is_never_looked_at(pools: int) -> None:
    """ks#3305: each look goes on where the last one ended; in the end every node has been judged."""
    owners = [owner(name=f"pool-{i}") for i in range(pools)]
    nodes = [keeping_apart(f"n{i:02}", provisioner=f"pool-{i % pools}") for i in range(16)]
    seen: set[str] = set()
    cursor = BEGIN
    for _ in range(20):
        search = look([*nodes, ROOM], MARKET, owners, cursor=cursor, most=6)
        assert search.simulations <= 6
        seen.update(candidate.name for candidate, _ in search.kept)
        cursor = search.cursor
        if cursor == BEGIN:
            break
    assert cursor == BEGIN, "sets of the first pools were tried again and again"
    assert seen == {node.name for node in nodes}


def test_nodes_that_come_and_go_between_two_looks_hide_no_other() -> None:
    """The search goes on by name: with an index, as many nodes were passed over as had gone from before it."""
    nodes = [keeping_apart(f"n{i:02}") for i in range(16)]
    first = look([*nodes, ROOM], most=8)
    assert first.cursor != BEGIN
    judged = {candidate.name for candidate, _ in first.kept}
    left = [node for node in nodes if node.name not in sorted(judged)[:4]]
    cursor, simulations = first.cursor, 0
    while cursor != BEGIN:
        search = look([*left, ROOM], cursor=cursor, most=8)
        simulations += search.simulations
        judged.update(candidate.name for candidate, _ in search.kept)
        cursor = search.cursor
    assert judged == {node.name for node in nodes}
    assert simulations == len(nodes) - len(first.kept), "and none was looked at twice"


def test_what_the_last_of_many_provisioners_wastes_is_found_too() -> None:
    """ks#3305: nodes of over 20 pools; the last pool's eight c6g.large were never looked at together."""
    market = types_of(("c6g.large", "2", "4Gi", 0.068), ("r6g.xlarge", "4", "32Gi", 0.2016))
    owners = [owner(name=f"pool-{i:02}") for i in range(20)] + [owner(name="zz")]
    full = {"cpu": "1900m", "memory": "3900Mi"}
    nodes = [standing(f"n{i:03}", "c6g.large", full, types=market, provisioner=f"pool-{i % 20:02}") for i in range(80)]
    small = {"cpu": "400m", "memory": "3Gi"}
    nodes += [standing(f"z{i}", "c6g.large", small, types=market, provisioner="zz") for i in range(8)]
    cursor, looks = BEGIN, 0
    while looks < 30:
        looks += 1
        search = look(nodes, market, owners, cursor)
        cursor = search.cursor
        if search.commands:
            break
        assert cursor != BEGIN, "all was looked at, and nothing found"
    assert only(search).price_after == pytest.approx(0.2016)
    assert {candidate.provisioner.name for candidate in only(search).candidates} == {"zz"}


def test_disruption_budgets_limit_sets_and_single_nodes() -> None:
    nodes = [standing(f"n{i}", "c5.2xlarge", {"cpu": "500m"}) for i in range(10)]
    search = look(nodes, provisioners=[with_budget('[{"nodes": "3"}]')])
    assert 1 <= sum(map(len, removed(search))) <= 3
    none = look(nodes, provisioners=[with_budget('[{"nodes": "0"}]')])
    assert none.commands == ()
    assert "budget" in reasons(none)


def test_the_largest_set_that_is_worth_most_is_taken() -> None:
    """Where six nodes become one, no command takes just a pair."""
    search = look([standing(f"n{i}", "c5.large", {"cpu": "600m"}) for i in range(6)])
    assert max(map(len, removed(search))) >= 3
    kept = 6 - sum(map(len, removed(search))) + sum(len(command.replacements) for command in search.commands)
    assert kept <= 2, "3.6 cpu of pods: two nodes of 2 cpu hold them, or one of 4"


def test_the_same_snapshot_gives_the_same_commands() -> None:
    """In whatever order the nodes come."""
    nodes = [standing(f"n{i}", "c5.xlarge", {"cpu": f"{300 * (i % 5 + 1)}m"}) for i in range(12)]
    assert removed(look(nodes)) == removed(look(list(reversed(nodes))))


def test_what_was_found_is_judged_anew_before_it_begins() -> None:
    """With what is known then."""
    node = standing("a", "c5.2xlarge", {"cpu": "1"})
    everyone, stage, gate = parts(factories.snapshot(nodes=[node], provisioners=[owner()]))
    assert judge(everyone, everyone, stage, gate).commands
    full: list[Pod] = [factories.running_pod(node="a", requests={"cpu": "7"})]
    grown = factories.state_node(node=node.node, pods=[*node.pods, *full])
    everyone, stage, gate = parts(factories.snapshot(nodes=[grown], provisioners=[owner()]))
    assert judge(everyone, everyone, stage, gate).commands == ()
