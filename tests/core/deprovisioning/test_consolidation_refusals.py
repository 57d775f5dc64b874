"""Which nodes consolidation leaves alone, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import PodAffinityTerm
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.deprovisioning.backoff import Moves, workload
from tests import factories
from tests.core.deprovisioning.builders import (
    FREELY,
    NOW,
    look,
    owner,
    reasons,
    removed,
    standing,
    types_of,
    with_budget,
)


def test_a_node_at_ninety_percent_is_not_swapped_for_pennies() -> None:
    """ks#2388, aws#8536: a few percent are not worth the move of every pod."""
    market = types_of(("m6a.2xlarge", "8", "32Gi", 0.40), ("m5.2xlarge", "8", "32Gi", 0.384))
    nodes = [standing(n, "m6a.2xlarge", *[{"cpu": "900m"}] * 8, types=market) for n in ("a", "b")]
    search = look(nodes, market)
    assert search.commands == ()
    assert "threshold" in reasons(search)
    asked = owner(disruption=replace(FREELY, consolidation_threshold=0.0))
    assert look(nodes, market, [asked]).commands, "any saving will do where the annotation says so"


def test_empty_nodes_beside_it_make_no_move_dearer() -> None:
    """They go by themselves. Were their cost part of the fleet's, a saving would be a smaller share of it."""
    market = types_of(("m6a.2xlarge", "8", "32Gi", 0.40), ("m5.2xlarge", "8", "32Gi", 0.28))
    held = with_budget('[{"nodes": "100%", "reasons": ["underutilized"]}, {"nodes": "0", "reasons": ["empty"]}]')
    full = standing("a", "m6a.2xlarge", *[{"cpu": "1900m"}] * 4, types=market)
    empty = [standing(f"empty-{n}", "m6a.2xlarge", types=market, taints=[Taint("mine")]) for n in range(9)]
    assert removed(look([full], market, [held])) == [["a"]]
    assert removed(look([full, *empty], market, [held])) == [["a"]]


@pytest.mark.parametrize(("value", "stays"), [("true", True), ("false", False), ("yes", False)])
def test_do_not_consolidate_means_true_alone(value: str, stays: bool) -> None:
    node = standing("a", "c5.large", annotations=FrozenMap({V1ALPHA5.keys.do_not_consolidate: value}))
    assert (removed(look([node])) == []) == stays


def test_do_not_consolidate_false_does_not_turn_consolidation_on() -> None:
    """In Karpenter v0.27 it does."""
    node = standing("a", "c5.large", annotations=FrozenMap({V1ALPHA5.keys.do_not_consolidate: "false"}))
    search = look([node], provisioners=[owner(disruption=replace(FREELY, consolidation=False))])
    assert (search.commands, search.kept) == ((), ())


@pytest.mark.parametrize("blocker", ["pdb", "do-not-evict", "nominated", "uninitialized"])
def test_the_gate_holds_for_consolidation(blocker: str) -> None:
    labels = FrozenMap({"app": "web"})
    notes = {"karpenter.sh/do-not-evict": "true"} if blocker == "do-not-evict" else {}
    pod = factories.running_pod(node="a", labels=labels, annotations=notes, requests={"cpu": "1"})
    node = standing("a", "c5.2xlarge", pods=[pod], initialized=blocker != "uninitialized")
    budget = PodDisruptionBudget("default", "web", factories.selector(app="web"), 0)
    if blocker == "nominated":
        node = factories.state_node(node=node.node, pods=node.pods, nominated_until=NOW + 5)
    budgets = FrozenMap({("default", "web"): budget} if blocker == "pdb" else {})
    assert look([node], budgets=budgets).commands == ()


def test_a_pod_that_was_moved_is_moved_again_only_for_a_saving_three_times_as_large() -> None:
    """The same pod is not moved again and again (aws#7344), and no other pod of its workload is held for it."""
    requests = {"cpu": "1", "memory": "1Gi"}
    owned = factories.replica_set_owner()
    moved, others = (
        [replace(factories.running_pod(node=node, owner=owned, requests=requests), created=at) for _ in range(3)]
        for node, at in (("a", NOW - 30), ("b", NOW - 3000))
    )
    moves = Moves({workload(moved[0]): frozenset({NOW - 35})})
    assert [moves.rests(pod) for pod in (moved[0], others[0])] == [True, False]
    careful = owner(disruption=replace(FREELY, consolidation_threshold=0.4))
    nodes = [standing("a", "c5.2xlarge", pods=moved), standing("b", "c5.2xlarge", pods=others)]
    assert removed(look(nodes, provisioners=[careful])) == [["a"]]
    assert removed(look(nodes, provisioners=[careful], moves=moves)) == [["b"]]
    assert removed(look(nodes[:1], provisioners=[careful])) == [["a"]]
    assert removed(look(nodes[:1], provisioners=[careful], moves=moves)) == [], "not for a third of the price"


def test_a_node_whose_price_is_unknown_is_never_replaced() -> None:
    lonely = factories.state_node(
        node=factories.node(name="a", instance_type="x9.huge"), pods=[factories.running_pod(node="a")]
    )
    assert look([lonely]).commands == ()


def test_pods_that_keep_apart_stay_apart() -> None:
    """Each of three on the cheapest node there is; nothing is to be had."""
    term = PodAffinityTerm(keys.HOSTNAME, factories.selector(app="web"))
    nodes = [
        standing(
            name,
            "c5.large",
            pods=[
                factories.running_pod(
                    node=name,
                    labels=FrozenMap({"app": "web"}),
                    required_pod_anti_affinity=(term,),
                    requests={"cpu": "100m"},
                )
            ],
        )
        for name in "abc"
    ]
    assert look(nodes).commands == ()


def test_a_budget_that_names_empty_nodes_holds_for_them() -> None:
    one = with_budget('[{"nodes": "1", "reasons": ["empty"]}]')
    search = look([standing(name, "c5.large") for name in "abc"], provisioners=[one])
    assert len(search.commands) == 1
    assert len(search.blocked) == 2
    assert "1 at once for empty" in reasons(search)
