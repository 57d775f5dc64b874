"""Consolidation by money, with shapes that users of the peer reported, and the better outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, PodAffinityTerm, TopologySpreadConstraint
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.backoff import workload
from controller.core.deprovisioning.budgets import BUDGETS_ANNOTATION
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation import BEGIN, Cursor, Found, find, judge
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Stage
from controller.core.deprovisioning.worth import THRESHOLD_ANNOTATION
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories

NOW = 1_700_000_000.0
GPU = "nvidia.com/gpu"
FREE_BUDGET = FrozenMap({BUDGETS_ANNOTATION: '[{"nodes": "100%"}]'})


def owner(**fields: Any) -> Any:
    return factories.provisioner(**{"consolidation_enabled": True, "object_annotations": FREE_BUDGET, **fields})


def types_of(*prices: tuple[str, str, str, float], spot: bool = False) -> tuple[InstanceType, ...]:
    """(name, cpu, memory, price) each, on demand or on the spot market alone."""
    market = (keys.SPOT,) if spot else (keys.ON_DEMAND,)
    made = []
    for name, cpu, memory, price in prices:
        offered = tuple(Offering(zone, kind, price) for zone in factories.ZONES for kind in market)
        made.append(factories.instance_type(name=name, cpu=cpu, memory=memory, offered=offered))
    return tuple(made)


MARKET = types_of(("c5.large", "2", "4Gi", 0.1), ("c5.xlarge", "4", "8Gi", 0.2), ("c5.2xlarge", "8", "16Gi", 0.4))


def standing(
    name: str, kind: str, *requests: Mapping[str, str], types: Iterable[InstanceType] = MARKET, **fields: Any
) -> StateNode:
    entry = next(each for each in types if each.name == kind)
    room: dict[str, str | int | float] = {
        "cpu": f"{entry.capacity['cpu']}m",
        "memory": entry.capacity["memory"],
        "pods": 58,
        **{name: amount for name, amount in entry.capacity.items() if name == GPU},
    }
    pods = [factories.running_pod(node=name, name=f"{name}-{n}", requests=each) for n, each in enumerate(requests)]
    more = fields.pop("pods", ())
    node = factories.node(name=name, instance_type=kind, allocatable=room, created=NOW - 9000, **fields)
    return factories.state_node(node=node, pods=[*pods, *more])


def look(
    nodes: Iterable[StateNode],
    types: tuple[InstanceType, ...] = MARKET,
    provisioners: Iterable[Any] | None = None,
    cursor: Cursor = BEGIN,
    most: int = 24,
    resting: frozenset[str] = frozenset(),
    **fields: Any,
) -> Found:
    view = factories.snapshot(nodes=nodes, provisioners=provisioners or [owner()], **fields)
    found, stage, gate = parts(view, types)
    return find(found, stage, gate, resting, cursor, most)


def parts(view: Snapshot, types: tuple[InstanceType, ...] = MARKET) -> Any:
    catalog = dict.fromkeys(view.provisioners, types)
    return candidates(view, catalog, NOW), Stage(view, catalog), Gate(view, NOW)


def gone(found: Found) -> list[list[str]]:
    return sorted(sorted(c.name for c in command.candidates) for command in found.commands)


def only(found: Found) -> Command:
    (command,) = found.commands
    return command


def reasons(found: Found) -> str:
    return " | ".join(reason for _, reason in (*found.kept, *found.blocked))


def test_all_empty_nodes_go_at_once() -> None:
    """D24."""
    assert gone(look([standing("a", "c5.large"), standing("b", "c5.xlarge")])) == [["a"], ["b"]]


def test_a_budget_that_names_empty_nodes_holds_for_them() -> None:
    one = owner(object_annotations=FrozenMap({BUDGETS_ANNOTATION: '[{"nodes": "1", "reasons": ["empty"]}]'}))
    found = look([standing(name, "c5.large") for name in "abc"], provisioners=[one])
    assert len(found.commands) == 1
    assert len(found.blocked) == 2
    assert "1 at once for empty" in reasons(found)


def test_a_node_goes_when_its_pods_fit_on_another() -> None:
    """D15, D34: the node with fewer pods, and not both for a new one of the same type."""
    half = {"cpu": "500m"}
    found = look([standing("a", "c5.large", half, half), standing("b", "c5.large", half)])
    assert gone(found) == [["b"]]
    assert only(found).action == "delete"


def test_a_dear_node_is_replaced_by_a_cheaper_one() -> None:
    """D8."""
    command = only(look([standing("a", "c5.2xlarge", {"cpu": "1"})]))
    assert [node.offering.instance_type for node in command.replacements] == ["c5.large"]
    assert (command.price_before, command.price_after) == (0.4, 0.1)


def test_three_dear_nodes_become_one() -> None:
    """D33."""
    found = look([standing(name, "c5.2xlarge", {"cpu": "500m"}) for name in "abc"])
    assert sum(map(len, gone(found))) >= 2
    assert sum(len(command.replacements) for command in found.commands) <= 1


def test_one_large_node_becomes_two_small_ones() -> None:
    """aws#5304: two nodes at 0.14 are cheaper than one at 0.39; the peer never splits."""
    market = types_of(("m5dn.xlarge", "4", "16Gi", 0.14), ("m5dn.2xlarge", "8", "32Gi", 0.39))
    pods = [{"cpu": "3", "memory": "12Gi"}] * 2
    command = only(look([standing("a", "m5dn.2xlarge", *pods, types=market)], market))
    assert [node.offering.instance_type for node in command.replacements] == ["m5dn.xlarge"] * 2


def test_two_pods_of_one_gpu_get_an_instance_each_when_that_is_cheaper() -> None:
    """ks#1149, aws#5379: one g5.12xlarge was launched for both, at more than twice the price of two g5.xlarge."""
    market = tuple(
        factories.instance_type(
            name=name,
            cpu=cpu,
            memory=memory,
            extended={GPU: gpus},
            offered=(Offering(factories.ZONES[0], keys.ON_DEMAND, price),),
        )
        for name, cpu, memory, gpus, price in (
            ("g5.xlarge", "4", "16Gi", 1, 1.006),
            ("g5.12xlarge", "48", "192Gi", 4, 5.672),
        )
    )
    command = only(look([standing("a", "g5.12xlarge", *[{"cpu": "2", GPU: "1"}] * 2, types=market)], market))
    assert [node.offering.instance_type for node in command.replacements] == ["g5.xlarge"] * 2
    assert command.price_after == pytest.approx(2.012)


def test_nodes_of_the_wrong_shape_become_fewer_of_the_right_one() -> None:
    """ks#2150: 80 % of the memory and 30 % of the cpu of c types in use; the r type holds it for less."""
    market = types_of(("c6a.2xlarge", "8", "16Gi", 0.306), ("r6a.2xlarge", "8", "64Gi", 0.4536))
    nodes = [standing(f"n{i}", "c6a.2xlarge", {"cpu": "2", "memory": "12Gi"}, types=market) for i in range(8)]
    command = only(look(nodes, market))
    assert len(command.candidates) == 8
    assert command.price_after < 0.6 * command.price_before
    assert {node.offering.instance_type for node in command.replacements} == {"r6a.2xlarge"}


def test_many_small_nodes_become_few_cheaper_ones() -> None:
    """aws#7984, ks#3305: eight small nodes at twice the price of one."""
    market = types_of(("c6g.large", "2", "4Gi", 0.068), ("r6g.xlarge", "4", "32Gi", 0.2016))
    nodes = [standing(f"n{i}", "c6g.large", {"cpu": "400m", "memory": "3Gi"}, types=market) for i in range(8)]
    command = only(look(nodes, market))
    assert command.price_after == pytest.approx(0.2016)
    assert len(command.candidates) == 8


def test_a_node_at_ninety_percent_is_not_swapped_for_pennies() -> None:
    """ks#2388, aws#8536: a few percent are not worth the move of every pod."""
    market = types_of(("m6a.2xlarge", "8", "32Gi", 0.40), ("m5.2xlarge", "8", "32Gi", 0.384))
    nodes = [standing(n, "m6a.2xlarge", *[{"cpu": "900m"}] * 8, types=market) for n in ("a", "b")]
    found = look(nodes, market)
    assert found.commands == ()
    assert "threshold" in reasons(found)
    asked = owner(object_annotations=FrozenMap({**FREE_BUDGET, THRESHOLD_ANNOTATION: "0"}))
    assert look(nodes, market, [asked]).commands, "whoever wants the peer's rule may have it"


def room_that_nobody_may_use() -> StateNode:
    """Not ours, and tainted: what is told by amounts alone takes it for room."""
    return standing("z", "c5.2xlarge", provisioner="", taints=[Taint("mine")])


@pytest.mark.parametrize("pools", [1, 5])
def test_no_node_is_never_looked_at(pools: int) -> None:
    """ks#3305: each look goes on where the last one ended; in the end every node has been judged."""
    owners = [owner(name=f"pool-{i}") for i in range(pools)]
    full = {"cpu": "1900m"}
    nodes = [standing(f"n{i:02}", "c5.large", full, provisioner=f"pool-{i % pools}") for i in range(16)]
    seen: set[str] = set()
    cursor = BEGIN
    for _ in range(20):
        found = look([*nodes, room_that_nobody_may_use()], MARKET, owners, cursor=cursor, most=6)
        assert found.simulations <= 6
        seen.update(candidate.name for candidate, _ in found.kept)
        cursor = found.cursor
        if cursor == BEGIN:
            break
    assert cursor == BEGIN, "sets of the first pools were tried again and again"
    assert seen == {node.name for node in nodes}


def test_nodes_that_come_and_go_between_two_looks_hide_no_other() -> None:
    """The search goes on by name: with an index, as many nodes were passed over as had gone from before it."""
    nodes = [standing(f"n{i:02}", "c5.large", {"cpu": "1900m"}) for i in range(16)]
    first = look([*nodes, room_that_nobody_may_use()], most=8)
    judged = {candidate.name for candidate, _ in first.kept}
    left = [node for node in nodes if node.name not in sorted(judged)[:4]]
    cursor, simulations = first.cursor, 0
    while cursor != BEGIN:
        found = look([*left, room_that_nobody_may_use()], cursor=cursor, most=8)
        simulations += found.simulations
        judged.update(candidate.name for candidate, _ in found.kept)
        cursor = found.cursor
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
        found = look(nodes, market, owners, cursor)
        cursor = found.cursor
        if found.commands:
            break
        assert cursor != BEGIN, "all was looked at, and nothing found"
    assert only(found).price_after == pytest.approx(0.2016)
    assert {candidate.provisioner.name for candidate in only(found).candidates} == {"zz"}


def test_a_fleet_of_small_spot_nodes_comes_back_to_what_a_fresh_pack_costs() -> None:
    """aws#9531: twice the nodes at the same load, most of them 2xlarge; the peer deletes single nodes, and few."""
    zone, families = factories.ZONES[0], [f"m{i}" for i in range(5, 15)]
    market = tuple(
        factories.instance_type(
            name=f"{family}.{size}", cpu=str(cpu), memory=f"{4 * cpu}Gi",
            offered=(Offering(zone, keys.SPOT, 0.012 * cpu + number / 1e4),),
        )
        for number, family in enumerate(families)
        for size, cpu in (("2xlarge", 8), ("4xlarge", 16))
    )  # fmt: skip
    spot = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    pod = {"cpu": "4500m", "memory": "9Gi"}
    nodes = [
        standing(f"n{i:02}", f"{families[i % 10]}.2xlarge", pod, types=market, capacity_type=keys.SPOT)
        for i in range(36)
    ]
    command = only(look(nodes, market, [spot]))
    assert len(command.candidates) == 36
    assert len(command.replacements) == 12, "three pods a 4xlarge"
    assert command.price_after < 0.7 * command.price_before


def test_a_pending_pod_that_nobody_can_place_does_not_stop_consolidation() -> None:
    """The peer stops for the whole cluster."""
    stuck = factories.pending_pod(requests={"cpu": "500"})
    assert gone(look([standing("a", "c5.2xlarge", {"cpu": "1"})], pending=[stuck])) == [["a"]]


def test_a_pending_pod_that_would_share_the_replacement_does_not_stop_consolidation() -> None:
    """Its own node is provisioning's to launch, in a moment; the replacement is for the pods of the node that goes."""
    waits = factories.pending_pod(requests={"cpu": "900m"})
    command = only(look([standing("a", "c5.2xlarge", {"cpu": "1"})], pending=[waits]))
    assert [node.offering.instance_type for node in command.replacements] == ["c5.large"]
    assert waits.key not in command.replacements[0].pods


def test_free_room_on_nodes_that_are_not_ours_is_used() -> None:
    stranger = standing("managed", "c5.2xlarge", provisioner="")
    command = only(look([standing("a", "c5.large", {"cpu": "1"}), stranger]))
    assert command.action == "delete"


@pytest.mark.parametrize(("value", "stays"), [("true", True), ("false", False), ("yes", False)])
def test_do_not_consolidate_means_true_alone(value: str, stays: bool) -> None:
    """D11."""
    node = standing("a", "c5.large", annotations=FrozenMap({keys.DO_NOT_CONSOLIDATE: value}))
    assert (gone(look([node])) == []) == stays


def test_do_not_consolidate_false_does_not_turn_consolidation_on() -> None:
    """The peer's defect (sheet 1.3)."""
    node = standing("a", "c5.large", annotations=FrozenMap({keys.DO_NOT_CONSOLIDATE: "false"}))
    found = look([node], provisioners=[owner(consolidation_enabled=False)])
    assert (found.commands, found.kept) == ((), ())


@pytest.mark.parametrize("blocker", ["pdb", "do-not-evict", "nominated", "uninitialized"])
def test_the_gate_holds_for_consolidation(blocker: str) -> None:
    """D9, D16, D17, D19."""
    labels = FrozenMap({"app": "web"})
    notes = {"karpenter.sh/do-not-evict": "true"} if blocker == "do-not-evict" else {}
    pod = factories.running_pod(node="a", labels=labels, annotations=notes, requests={"cpu": "1"})
    node = standing("a", "c5.2xlarge", pods=[pod], initialized=blocker != "uninitialized")
    budget = PodDisruptionBudget("default", "web", factories.selector(app="web"), 0)
    if blocker == "nominated":
        node = factories.state_node(node=node.node, pods=node.pods, nominated_until=NOW + 5)
    budgets = FrozenMap({("default", "web"): budget} if blocker == "pdb" else {})
    assert look([node], budgets=budgets).commands == ()


def test_workloads_that_were_moved_rest() -> None:
    """The same pod is not moved again and again (aws#7344)."""
    pod = factories.running_pod(node="a", owner=factories.replica_set_owner(), requests={"cpu": "1"})
    node = standing("a", "c5.2xlarge", pods=[pod])
    assert gone(look([node])) == [["a"]]
    found = look([node], resting=frozenset({workload(pod)}))
    assert found.commands == ()
    assert "moved a short while ago" in reasons(found)


def spot_market(count: int) -> tuple[InstanceType, ...]:
    """A dear spot type, and so many cheap ones in one zone."""
    zone = factories.ZONES[0]
    dear = factories.instance_type(
        name="m5.8xlarge", cpu="32", memory="128Gi", offered=(Offering(zone, keys.SPOT, 0.6),)
    )
    cheap = [
        factories.instance_type(name=f"m{i}.large", cpu="2", memory="8Gi", offered=(Offering(zone, keys.SPOT, 0.03),))
        for i in range(1, count + 1)
    ]
    return (dear, *cheap)


@pytest.mark.parametrize("cheap", [20, 15, 3])
def test_spot_is_replaced_by_spot_where_there_is_choice(cheap: int) -> None:
    """The peer never does; its later versions ask for 15 types, which a narrow pool does not have (ks#1202)."""
    market = spot_market(cheap)
    wants_spot = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    node = standing("a", "m5.8xlarge", {"cpu": "1"}, types=market, capacity_type=keys.SPOT)
    assert gone(look([node], market, [wants_spot])) == [["a"]]


def test_spot_is_not_replaced_by_the_one_offering_that_is_cheaper() -> None:
    zone = factories.ZONES[0]
    dear = [
        factories.instance_type(name=f"m{i}.xlarge", cpu="4", memory="16Gi", offered=(Offering(zone, keys.SPOT, 0.2),))
        for i in range(1, 31)
    ]
    market = (*spot_market(1), *dear)
    wants_spot = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    node = standing("a", "m2.xlarge", {"cpu": "1"}, types=market, capacity_type=keys.SPOT)
    found = look([node], market, [wants_spot])
    assert found.commands == ()
    assert "offerings to choose from" in reasons(found)


def test_alternatives_never_cost_what_the_command_was_to_save() -> None:
    """EC2 may pick any offering that it is sent."""
    command = only(look([standing("a", "c5.2xlarge", {"cpu": "1"})]))
    (node,) = command.replacements
    assert all(offering.price < 0.4 for offering in (node.offering, *node.alternatives))


def test_a_node_whose_price_is_unknown_is_never_replaced() -> None:
    lonely = factories.state_node(
        node=factories.node(name="a", instance_type="x9.huge"), pods=[factories.running_pod(node="a")]
    )
    assert look([lonely]).commands == ()


def test_disruption_budgets_limit_sets_and_single_nodes() -> None:
    nodes = [standing(f"n{i}", "c5.2xlarge", {"cpu": "500m"}) for i in range(10)]
    found = look(nodes, provisioners=[owner(object_annotations=FrozenMap({BUDGETS_ANNOTATION: '[{"nodes": "3"}]'}))])
    assert 1 <= sum(map(len, gone(found))) <= 3
    none = look(nodes, provisioners=[owner(object_annotations=FrozenMap({BUDGETS_ANNOTATION: '[{"nodes": "0"}]'}))])
    assert none.commands == ()
    assert "budget" in reasons(none)


def test_what_was_found_is_judged_anew_before_it_begins() -> None:
    """D27, D30: with what is known then."""
    node = standing("a", "c5.2xlarge", {"cpu": "1"})
    everyone, stage, gate = parts(factories.snapshot(nodes=[node], provisioners=[owner()]))
    assert judge(everyone, everyone, stage, gate).commands
    full: list[Pod] = [factories.running_pod(node="a", requests={"cpu": "7"})]
    grown = factories.state_node(node=node.node, pods=[*node.pods, *full])
    everyone, stage, gate = parts(factories.snapshot(nodes=[grown], provisioners=[owner()]))
    assert judge(everyone, everyone, stage, gate).commands == ()


def priced(name: str, **prices: float) -> InstanceType:
    """A type of 2 cpu with an offering per keyword: od_ or spot_ and the last letter of the zone."""
    zones = {zone[-1]: zone for zone in factories.ZONES}
    kinds = {"od": keys.ON_DEMAND, "spot": keys.SPOT}
    offered = tuple(Offering(zones[key[-1]], kinds[key.split("_")[0]], price) for key, price in prices.items())
    return factories.instance_type(name=name, cpu="2", memory="4Gi", offered=offered)


def test_no_offering_that_is_sent_to_ec2_costs_as_much_as_what_it_replaces() -> None:
    """D12: spot at 1.0, 0.2 and 0.4 by zone for a node of 0.5. The peer gives up for the worst zone; we omit it."""
    market = (priced("old", od_a=0.5), priced("new", spot_a=1.0, spot_b=0.2, spot_c=0.4))
    command = only(look([standing("a", "old", {"cpu": "1"}, types=market, zone=factories.ZONES[0])], market))
    (new,) = command.replacements
    offers = (new.offering, *new.alternatives)
    assert {offering.price for offering in offers} <= {0.2, 0.4}
    assert new.offering.price == 0.2


def test_cheap_spot_does_not_count_where_the_provisioner_allows_on_demand_alone() -> None:
    """D13."""
    market = (priced("old", od_a=0.5), priced("new", od_a=0.6, spot_a=0.1))
    demand = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])
    assert (
        look([standing("a", "old", {"cpu": "1"}, types=market, zone=factories.ZONES[0])], market, [demand]).commands
        == ()
    )


def test_a_pod_that_nobody_owns_is_moved_like_any_other() -> None:
    """D18: it holds its node no more than others do (whoever made it accepted that it may be evicted)."""
    orphan = factories.running_pod(node="b", owner=None, requests={"cpu": "500m"})
    half = {"cpu": "500m"}
    assert gone(look([standing("a", "c5.large", half, half), standing("b", "c5.large", pods=[orphan])])) == [["b"]]


def test_a_spread_over_zones_is_kept_by_what_replaces_a_node() -> None:
    """D21: the dear node of the middle zone becomes a cheaper one in the same zone."""
    web = FrozenMap({"app": "web"})
    constraint = TopologySpreadConstraint(1, keys.ZONE, "DoNotSchedule", factories.selector(app="web"))

    def one(zone: str, kind: str) -> StateNode:
        fields: dict[str, Any] = {"labels": web, "requests": {"cpu": "1900m"}, "topology_spread": (constraint,)}
        return standing(f"n-{zone}", kind, zone=zone, pods=[factories.running_pod(node=f"n-{zone}", **fields)])

    a, b, c = factories.ZONES[:3]
    command = only(look([one(a, "c5.large"), one(b, "c5.2xlarge"), one(c, "c5.large")]))
    (new,) = command.replacements
    assert new.offering.zone == b
    assert all(offering.zone == b for offering in new.alternatives)


def test_pods_that_keep_apart_stay_apart() -> None:
    """D22: each of three on the cheapest node there is; nothing is to be had."""
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


def test_spot_and_on_demand_nodes_may_become_one_spot_node() -> None:
    """The rule of spot for spot asks for a choice only where all that goes is spot."""
    market = (priced("old", od_a=0.5, spot_a=0.3), priced("new", spot_a=0.05))
    zone = factories.ZONES[0]
    nodes = [
        standing("a", "old", {"cpu": "500m"}, types=market, zone=zone),
        standing("b", "old", {"cpu": "500m"}, types=market, zone=zone, capacity_type=keys.SPOT),
    ]
    saved = sum(command.price_before - command.price_after for command in look(nodes, market).commands)
    assert saved >= 0.5


def test_the_largest_set_that_is_worth_most_is_taken() -> None:
    """Where six nodes become one, no command takes just a pair."""
    found = look([standing(f"n{i}", "c5.large", {"cpu": "600m"}) for i in range(6)])
    assert max(map(len, gone(found))) >= 3
    kept = 6 - sum(map(len, gone(found))) + sum(len(command.replacements) for command in found.commands)
    assert kept <= 2, "3.6 cpu of pods: two nodes of 2 cpu hold them, or one of 4"


def test_the_same_snapshot_gives_the_same_commands() -> None:
    """Invariant 1."""
    nodes = [standing(f"n{i}", "c5.xlarge", {"cpu": f"{300 * (i % 5 + 1)}m"}) for i in range(12)]
    assert gone(look(nodes)) == gone(look(list(reversed(nodes))))
