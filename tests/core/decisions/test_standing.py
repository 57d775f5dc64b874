"""What a decision without a plan stands on: a digest that every input changes, and prices that follow one another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import Catalog
from controller.core.decisions.decision import Decision, node_details
from controller.core.decisions.standing import Standing
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories

TYPES = factories.small_catalog()
CATALOG: Catalog = {"default": TYPES}
PRICES = {
    entry.name: {(o.zone, o.capacity_type): o.price for o in entry.offerings}[factories.ZONES[0], "on-demand"]
    for entry in TYPES
}
SMALL, LARGE = sorted(PRICES, key=lambda name: PRICES[name])[:2]


def node(name: str, kind: str = SMALL, *, leaving: bool = False, empty_since: str = "") -> StateNode:
    made = factories.node(name=name, instance_type=kind)
    if empty_since:
        made = replace(made, annotations=FrozenMap({V1ALPHA5.keys.emptiness_timestamp: empty_since}))
    return factories.state_node(node=made, marked_for_deletion=leaving)


def world(*nodes: StateNode, generation: int = 1) -> Snapshot:
    provisioner = replace(factories.provisioner(), generation=generation)
    return factories.snapshot(nodes=nodes, provisioners=[provisioner], pending=[factories.pending_pod(name="waits")])


def removal(name: str, **fields: object) -> Decision:
    known = {"kind": "remove", "method": "emptiness", "reason": "empty", "provisioner": "default"}
    return Decision(**{**known, "subject": f"Node/{name}", **fields})  # type: ignore[arg-type]


def test_a_removal_has_the_price_of_our_nodes_with_the_node_and_without_it() -> None:
    decision = Standing.of(world(node("a"), node("b", LARGE)), CATALOG).completed(removal("b"), ())
    assert decision.price_before == pytest.approx(PRICES[SMALL] + PRICES[LARGE])
    assert decision.price_after == pytest.approx(PRICES[SMALL])


def test_removals_at_one_moment_follow_one_another() -> None:
    """Three nodes are marked before the first is on record: each takes its own part off."""
    standing = Standing.of(world(*(node(name, leaving=True) for name in "abc")), CATALOG)
    seen = [standing.completed(removal(name), gone) for name, gone in (("a", ""), ("b", "a"), ("c", "ab"))]
    price = PRICES[SMALL]
    assert [each.price_before for each in seen] == pytest.approx([3 * price, 2 * price, price])
    assert [each.price_after for each in seen] == pytest.approx([2 * price, price, 0.0])


def test_a_node_that_took_the_name_of_one_removed_before_counts() -> None:
    decision = Standing.of(world(node("a"), node("b")), CATALOG).completed(removal("b"), {"a"})
    assert decision.price_before == pytest.approx(2 * PRICES[SMALL])


def test_a_launch_adds_its_node_whether_the_snapshot_has_it_or_not() -> None:
    new = node("new", LARGE)
    launch = removal("new", kind="launch", details=node_details(new))
    for present in (world(node("a")), world(node("a"), new)):
        decision = Standing.of(present, CATALOG).completed(launch, ())
        assert decision.price_before == pytest.approx(PRICES[SMALL])
        assert decision.price_after == pytest.approx(PRICES[SMALL] + PRICES[LARGE])


def test_a_skip_changes_no_price() -> None:
    decision = Standing.of(world(node("a"), node("b")), CATALOG).completed(removal("b", kind="skip"), ())
    assert decision.price_before == decision.price_after == pytest.approx(2 * PRICES[SMALL])


def test_an_instance_without_a_node_has_the_price_of_its_offering() -> None:
    leaked = removal("i-1", subject="Instance/i-1", details=node_details(node("x", LARGE)))
    decision = Standing.of(world(node("a")), CATALOG).completed(leaked, ())
    assert decision.price_before == pytest.approx(PRICES[SMALL] + PRICES[LARGE])
    assert decision.price_after == pytest.approx(PRICES[SMALL])


def test_a_price_that_nobody_knows_is_not_made_up() -> None:
    decision = Standing.of(world(node("a"), node("odd", "x9.huge")), CATALOG).completed(removal("odd"), ())
    assert decision.price_before is None
    assert decision.price_after == pytest.approx(PRICES[SMALL])


def test_what_a_plan_says_of_itself_stands() -> None:
    told = removal("a", inputs="known", price_before=7.0, price_after=6.0)
    assert Standing.of(world(node("a")), CATALOG).completed(told, ()) == told


def test_equal_worlds_have_equal_digests_and_each_input_counts() -> None:
    def inputs(snapshot: Snapshot, catalog: Catalog = CATALOG) -> str:
        return Standing.of(snapshot, catalog).completed(removal("a"), ()).inputs

    same = world(node("a"))
    with_pod = factories.state_node(node=factories.node(name="a"), pods=[factories.running_pod(node="a", name="p")])
    sold_out = replace(TYPES[0], offerings=tuple(replace(o, available=False) for o in TYPES[0].offerings))
    digests = [
        inputs(same),
        inputs(world(node("a"), node("b"))),
        inputs(world(with_pod)),
        inputs(world(node("a"), generation=2)),
        inputs(world(node("a", empty_since="2026-01-01T00:00:00Z"))),
        inputs(same, {"default": (sold_out, *TYPES[1:])}),
        inputs(factories.snapshot(nodes=[node("a")], provisioners=[factories.provisioner()])),
    ]
    assert inputs(world(node("a"))) == digests[0]
    assert len(set(digests)) == len(digests)
