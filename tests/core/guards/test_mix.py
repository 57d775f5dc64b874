"""So many nodes on demand, and a share of those beyond: what launches turn, what consolidation leaves alone."""

from __future__ import annotations

import pytest

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import PricedOffering
from controller.core.guards.mix import BASE_ANNOTATION, PERCENTAGE_ANNOTATION, Mix, mix_of, needed, with_mix
from controller.core.provisioning.plan import PlannedNode
from controller.core.scheduling.requirements import Requirements
from tests import factories

TYPES = {entry.name: entry for entry in factories.small_catalog()}
ZONE_A, ZONE_B = factories.ZONES[:2]


def planned(*, capacity_types: tuple[str, ...] = (SPOT, ON_DEMAND), zone: str = "") -> PlannedNode:
    requirements = [factories.requirement(CAPACITY_TYPE, "In", *capacity_types)]
    if zone:
        requirements.append(factories.requirement(ZONE, "In", zone))
    offering = PricedOffering(0.0384, "m5.large", ZONE_A, SPOT)
    other = PricedOffering(0.0768, "m5.xlarge", ZONE_A, SPOT)
    return PlannedNode(
        "default", offering, (other,), Requirements.of(requirements), EMPTY, (), (), (), EMPTY, "cheapest"
    )


def provisioner(base: str | None = None, percentage: str | None = None) -> Provisioner:
    given = {BASE_ANNOTATION: base, PERCENTAGE_ANNOTATION: percentage}
    return factories.provisioner(object_annotations=FrozenMap({k: v for k, v in given.items() if v is not None}))


def present(*capacity_types: str) -> list[object]:
    return [factories.state_node(node=factories.node(capacity_type=each)) for each in capacity_types]


def turned(owner: Provisioner, count: int, *standing: str, going: int = 0) -> list[str]:
    nodes = present(*standing)
    snapshot = factories.snapshot(nodes=nodes, provisioners=[owner])  # type: ignore[arg-type]
    leaving = [name for name, node in snapshot.nodes.items() if node.node.labels[CAPACITY_TYPE] == ON_DEMAND][:going]
    mixed = with_mix([planned()] * count, owner, TYPES, snapshot, leaving)
    return [node.offering.capacity_type for node in mixed]


@pytest.mark.parametrize(
    ("mix", "nodes", "on_demand"),
    [
        (Mix(2, 0), 0, 0),
        (Mix(2, 0), 1, 1),
        (Mix(2, 0), 9, 2),
        (Mix(0, 20), 10, 2),
        (Mix(0, 20), 11, 3),
        (Mix(2, 50), 6, 4),
        (Mix(0, 100), 3, 3),
    ],
)
def test_how_many_of_so_many_nodes(mix: Mix, nodes: int, on_demand: int) -> None:
    assert mix.on_demand_of(nodes) == on_demand


def test_launches_make_the_mix_up_and_no_more() -> None:
    assert turned(provisioner("2"), 3) == [ON_DEMAND, ON_DEMAND, SPOT]
    assert turned(provisioner("2"), 3, ON_DEMAND, ON_DEMAND) == [SPOT] * 3
    assert turned(provisioner("2"), 2, SPOT, SPOT, ON_DEMAND) == [ON_DEMAND, SPOT]
    assert turned(provisioner(percentage="50"), 2, SPOT, SPOT) == [ON_DEMAND, ON_DEMAND]
    assert turned(provisioner(), 2) == [SPOT, SPOT]
    assert turned(provisioner("1"), 1, ON_DEMAND, going=1) == [ON_DEMAND], "in place of one that goes"


def test_a_node_that_is_turned_takes_the_cheapest_of_what_holds_its_pods_where_it_may_be() -> None:
    snapshot = factories.snapshot()
    (node,) = with_mix([planned(zone=ZONE_B)], provisioner("1"), TYPES, snapshot)
    assert node.offering == PricedOffering(0.096, "m5.large", ZONE_B, ON_DEMAND)
    assert {each.instance_type for each in node.alternatives} == {"m5.xlarge"}
    assert {each.zone for each in node.alternatives} == {ZONE_B}
    assert "on-demand-base 1" in node.reason


def test_pods_that_ask_for_spot_alone_stay_on_spot() -> None:
    node = planned(capacity_types=(SPOT,))
    assert with_mix([node], provisioner("5"), TYPES, factories.snapshot()) == (node,)


def test_consolidation_leaves_alone_what_the_mix_needs() -> None:
    owner = provisioner("2")
    few = factories.snapshot(nodes=present(ON_DEMAND, ON_DEMAND, SPOT), provisioners=[owner])  # type: ignore[arg-type]
    assert set(needed(few)) == {n for n, node in few.nodes.items() if node.node.labels[CAPACITY_TYPE] == ON_DEMAND}
    assert all("2 of 3 nodes of Provisioner default are to be on demand" in why for why in needed(few).values())
    many = factories.snapshot(nodes=present(*[ON_DEMAND] * 3, SPOT), provisioners=[owner])  # type: ignore[arg-type]
    assert needed(many) == {}, "one more than it takes: any of them may go"
    assert needed(factories.snapshot(nodes=present(ON_DEMAND), provisioners=[provisioner()])) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(("base", "percentage"), [("two", None), ("-1", None), (None, "101"), (None, "")])
def test_an_annotation_that_cannot_be_read_is_said_and_errs_on_demand(base: str | None, percentage: str | None) -> None:
    mix = mix_of(provisioner(base, percentage))
    assert mix is not None
    assert "of Provisioner default" in mix.problem
    assert mix.on_demand_of(7) == 7
