"""Zone moves: when a node of the fullest zone is replaced in another, and what keeps it where it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import ON_DEMAND
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, recorded_commands, write_record
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.resumption import planned_again
from controller.core.deprovisioning.zones.zone_moves import ZoneMoves
from controller.core.provisioning.plan import SolveOptions
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.zones.balance import ZoneBalance
from tests import factories
from tests.core.deprovisioning.builders import FREELY, NOW, only, owner, reasons, removed, standing

A, B, C = factories.ZONES[:3]
INTERVAL = 600.0


def market(*prices: float) -> tuple[InstanceType, ...]:
    """One type, at a price for each zone from a on."""
    offered = tuple(Offering(zone, ON_DEMAND, price) for zone, price in zip((A, B, C), prices, strict=False))
    return (factories.instance_type(name="c5.xlarge", cpu="4", memory="8Gi", offered=offered),)


EVEN = market(0.2, 0.2, 0.2)


def full(name: str, zone: str, **fields: Any) -> StateNode:
    """A node whose one pod leaves no room for another."""
    return standing(name, "c5.xlarge", {"cpu": "3500m"}, types=EVEN, zone=zone, **fields)


CROWDED = [*(full(f"a{n}", A) for n in range(6)), full("b0", B), full("c0", C)]


def asking(interval: str = "10m", **fields: Any) -> Any:
    """A Provisioner that asks for moves."""
    return owner(object_annotations=FrozenMap({"karpenter.sh/zone-move-interval": interval}), **fields)


def given(
    nodes: list[StateNode], types: tuple[InstanceType, ...] = EVEN, monotonic: float = 0.0, **fields: Any
) -> MethodInput:
    view = factories.snapshot(**{"nodes": nodes, "provisioners": [asking()], **fields})
    catalog = dict.fromkeys(view.provisioners, types)
    simulator = Simulator(view, catalog, options=SolveOptions(zone_balance=ZoneBalance(0.5)))
    everyone = candidates(view, catalog, NOW, beside=simulator.options.beside)
    return MethodInput(simulator, Gate(view, NOW), everyone, NOW, monotonic)


def after_an_interval(nodes: list[StateNode], types: tuple[InstanceType, ...] = EVEN, **fields: Any) -> Proposal:
    method = ZoneMoves()
    assert not method.decide(given(nodes, types, 0.0, **fields)).commands
    return method.decide(given(nodes, types, INTERVAL, **fields))


def test_one_node_in_each_interval_goes_to_another_zone() -> None:
    method, nodes = ZoneMoves(), list(CROWDED)
    assert method.decide(given(nodes)).again_seconds == INTERVAL
    assert not method.decide(given(nodes, monotonic=INTERVAL - 1)).commands
    command = only(method.decide(given(nodes, monotonic=INTERVAL)))
    (new,) = command.replacements
    assert command.text() == (
        "replace 1 node (a0/c5.xlarge/on-demand) with 1: c5.xlarge/on-demand, because zone "
        f"{A} has 75% of the CPU, and 50% is the most that zone balance wants, which saves $0.0000 an hour"
    )
    assert {new.offering.zone, *(each.zone for each in new.alternatives)} == {B, C}, "it never falls back"
    nodes[0] = full("new", new.offering.zone)
    assert not method.decide(given(nodes, monotonic=2 * INTERVAL - 1)).commands, "the next one waits as long"
    assert only(method.decide(given(nodes, monotonic=2 * INTERVAL))).replacements
    nodes[1] = full("newer", C)
    assert method.decide(given(nodes, monotonic=9 * INTERVAL)).eligible == 0, "the aim is reached"


def test_the_interval_begins_anew_where_the_aim_was_kept_meanwhile() -> None:
    method = ZoneMoves()
    method.decide(given(CROWDED))
    method.decide(given(CROWDED[4:], monotonic=10.0))
    assert not method.decide(given(CROWDED, monotonic=INTERVAL)).commands


LOCKED = PodDisruptionBudget("default", "web", factories.selector(), 0)


@pytest.mark.parametrize(
    ("types", "fields"),
    [
        (EVEN, {"provisioners": [owner()]}),
        (EVEN, {"provisioners": [asking("0")]}),
        (EVEN, {"provisioners": [asking(disruption=replace(FREELY, consolidation=False))]}),
        (EVEN, {"budgets": FrozenMap({("default", "web"): LOCKED})}),
        (market(0.2), {}),
        (market(0.2, 0.21, 0.21), {}),
    ],
    ids=["not asked", "never", "no consolidation", "PDB", "no capacity elsewhere", "beyond the premium"],
)
def test_nodes_stay(types: tuple[InstanceType, ...], fields: dict[str, Any]) -> None:
    assert removed(after_an_interval(CROWDED, types, **fields)) == []


def test_the_premium_buys_a_move_and_what_it_does_not_buy_is_said() -> None:
    assert "for $0.0030 an hour more" in only(after_an_interval(CROWDED, market(0.2, 0.203))).because
    assert "takes its pods for at most 2.0% more" in reasons(after_an_interval(CROWDED, market(0.2, 0.21)))
    (gone,) = market(0.2, 0.21)
    gone = replace(gone, offerings=(replace(gone.offerings[0], available=False), gone.offerings[1]))
    assert "$0.0100 an hour more, and 2.0% more is allowed" in reasons(after_an_interval(CROWDED, (gone,)))


def test_the_node_that_disrupts_least_goes_and_one_that_may_not_go_is_passed_over() -> None:
    few = [*CROWDED[1:], full("z", A, labels={"few": "pods"})]
    cheap = replace(few[-1], pods=(replace(few[-1].pods[0], spec=replace(few[-1].pods[0].spec, priority=-(2**24))),))
    assert removed(after_an_interval([*few[:-1], cheap])) == [["z"]]
    kept = replace(cheap, node=replace(cheap.node, annotations=FrozenMap({"karpenter.sh/do-not-consolidate": "true"})))
    assert removed(after_an_interval([*few[:-1], kept])) == [["a1"]]


def begun(nodes: list[StateNode]) -> Snapshot:
    """The first of them carries the record of its move; none of its replacements is launched."""
    record = Record("c-1", "zone-move", "even", (nodes[0].name,), ("token",), NOW - 60)
    marked = replace(nodes[0].node, annotations=FrozenMap({COMMAND_ANNOTATION: write_record(record)}))
    return factories.snapshot(nodes=[replace(nodes[0], node=marked), *nodes[1:]], provisioners=[asking()])


def test_one_move_at_a_time_and_the_next_leader_launches_it_nowhere_else() -> None:
    view = begun(CROWDED)
    assert removed(after_an_interval(list(view.nodes.values()))) == []
    command = recorded_commands(view)[0]
    (again,) = planned_again(command, given(list(view.nodes.values())).simulator, NOW).replacements
    assert A not in {again.offering.zone, *(each.zone for each in again.alternatives)}


@pytest.mark.parametrize(("interval", "pause"), [("1s", 1.0), ("0", math.inf)])
def test_an_interval_is_kept_though_it_is_shorter_than_the_pause_between_searches(interval: str, pause: float) -> None:
    """While a move is under way, too: else the next one would wait for a search that is due later."""
    for nodes in (CROWDED[4:], list(begun(CROWDED).nodes.values())):
        assert ZoneMoves().decide(given(nodes, provisioners=[asking(interval)])).again_seconds == pause


def test_it_is_wanted_while_no_zone_is_fuller() -> None:
    asked = given(CROWDED)
    first, other = asked.candidates[0], next(each for each in asked.candidates if each.name == "b0")
    assert ZoneMoves().wanted(first, asked.snapshot, NOW)
    assert not ZoneMoves().wanted(other, asked.snapshot, NOW)


@pytest.mark.parametrize(("scope", "evened", "crowded"), [("provisioner", [["a0"]], []), ("cluster", [], [["a0"]])])
def test_the_whole_cluster_counts_where_the_provisioner_says_so(scope: str, evened: Any, crowded: Any) -> None:
    """Nodes of others even out its own for hints, or crowd a zone in which it has no more than its share."""
    annotations = FrozenMap({**asking().object_annotations, "karpenter.sh/zone-share-of": scope})

    def moved(nodes: list[StateNode], zones: str) -> list[list[str]]:
        places = {"a": A, "b": B, "c": C}
        others = [full(f"other-{n}", places[zone], provisioner="") for n, zone in enumerate(zones)]
        return removed(after_an_interval([*nodes, *others], provisioners=[owner(object_annotations=annotations)]))

    assert moved(CROWDED, "bbbbcccc") == evened
    even = [full(f"{zone[-1]}{n}", zone) for zone in (A, B, C) for n in range(2)]
    assert moved(even, "aaaa") == crowded
