"""Which offerings may replace a node: cheaper on whichever EC2 picks, and a choice of spot."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import TopologySpreadConstraint
from controller.core.cloud import InstanceType, Offering
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning.builders import (
    look,
    only,
    owner,
    priced,
    reasons,
    removed,
    standing,
)


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
    """Karpenter v0.27 never does; later versions ask for 15 types, which a narrow pool does not have (ks#1202)."""
    market = spot_market(cheap)
    wants_spot = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    node = standing("a", "m5.8xlarge", {"cpu": "1"}, types=market, capacity_type=keys.SPOT)
    assert removed(look([node], market, [wants_spot])) == [["a"]]


def test_spot_is_not_replaced_by_the_one_offering_that_is_cheaper() -> None:
    zone = factories.ZONES[0]
    dear = [
        factories.instance_type(name=f"m{i}.xlarge", cpu="4", memory="16Gi", offered=(Offering(zone, keys.SPOT, 0.2),))
        for i in range(1, 31)
    ]
    market = (*spot_market(1), *dear)
    wants_spot = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    node = standing("a", "m2.xlarge", {"cpu": "1"}, types=market, capacity_type=keys.SPOT)
    search = look([node], market, [wants_spot])
    assert search.commands == ()
    assert "offerings to choose from" in reasons(search)


def test_alternatives_never_cost_what_the_command_was_to_save() -> None:
    """EC2 may pick any offering that it is sent."""
    command = only(look([standing("a", "c5.2xlarge", {"cpu": "1"})]))
    (node,) = command.replacements
    assert all(offering.price < 0.4 for offering in (node.offering, *node.alternatives))


def test_no_offering_that_is_sent_to_ec2_costs_as_much_as_what_it_replaces() -> None:
    """Spot at 1.0, 0.2 and 0.4 by zone for a node of 0.5. Karpenter v0.27 gives up for the worst zone."""
    market = (priced("old", od_a=0.5), priced("new", spot_a=1.0, spot_b=0.2, spot_c=0.4))
    command = only(look([standing("a", "old", {"cpu": "1"}, types=market, zone=factories.ZONES[0])], market))
    (new,) = command.replacements
    offers = (new.offering, *new.alternatives)
    assert {offering.price for offering in offers} <= {0.2, 0.4}
    assert new.offering.price == 0.2


def test_cheap_spot_does_not_count_where_the_provisioner_allows_on_demand_alone() -> None:
    market = (priced("old", od_a=0.5), priced("new", od_a=0.6, spot_a=0.1))
    demand = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])
    assert (
        look([standing("a", "old", {"cpu": "1"}, types=market, zone=factories.ZONES[0])], market, [demand]).commands
        == ()
    )


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


def test_a_spread_over_zones_is_kept_by_what_replaces_a_node() -> None:
    """The dear node of the middle zone becomes a cheaper one in the same zone."""
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
