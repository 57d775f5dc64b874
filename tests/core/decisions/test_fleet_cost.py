"""What nodes cost: each at its own offering, nobody else's nodes, and unknown prices by name."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.decisions.fleet_cost import fleet
from tests import factories


def test_nodes_cost_what_their_own_offering_costs() -> None:
    (entry, *_) = catalog = factories.small_catalog()
    offering = entry.offerings[0]
    place = {keys.INSTANCE_TYPE: entry.name, keys.ZONE: offering.zone, keys.CAPACITY_TYPE: offering.capacity_type}
    ours = {**place, keys.PROVISIONER_NAME: "default"}
    nodes = [
        factories.state_node(node=factories.node(name="ours", labels=ours)),
        factories.state_node(node=factories.node(name="leaving", labels=ours), marked_for_deletion=True),
        factories.state_node(node=factories.node(name="elsewhere", labels={**ours, keys.ZONE: "mars-1a"})),
        factories.state_node(node=factories.node(name="orphan", labels={**ours, keys.PROVISIONER_NAME: "gone"})),
        factories.state_node(node=factories.node(name="not-ours", labels=place, provisioner="")),
    ]
    costs = fleet(factories.snapshot(nodes=nodes), {"default": catalog})
    assert dict(costs.prices) == {"ours": offering.price, "leaving": offering.price}
    assert set(costs.unpriced) == {"elsewhere", "orphan"}
    assert costs.price_per_hour == pytest.approx(2 * offering.price)
