"""The price of our nodes, by the catalog that decisions use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.core.cloud import Catalog, CpuCredits, InstanceType, Offering, PricedOffering
from controller.core.provisioning.plan import Beside
from controller.core.state.snapshot import Snapshot, StateNode


@dataclass(frozen=True, slots=True)
class Fleet:
    """`prices` in $ an hour by node, leaving ones too: they are paid for until they are gone. `unpriced` are
    those of our nodes whose price is not known."""

    prices: Mapping[str, float]
    unpriced: tuple[str, ...] = ()

    @property
    def price_per_hour(self) -> float:
        """$ an hour of all whose price is known."""
        return sum(self.prices.values())


def fleet(snapshot: Snapshot, catalog: Catalog) -> Fleet:
    types = {name: {entry.name: entry for entry in entries} for name, entries in catalog.items()}
    known = {
        node.name: node_price(node, types.get(node.provisioner_name, {}).get(node.node.instance_type))
        for node in owned(snapshot)
    }
    prices = {name: price for name, price in known.items() if price is not None}
    return Fleet(prices, tuple(name for name in known if name not in prices))


def price_per_hour(nodes: Iterable[StateNode], types: Iterable[InstanceType]) -> float:
    """Return the $ an hour of nodes of one Provisioner, without those whose price is not known."""
    by_name = {entry.name: entry for entry in types}
    return sum(node_price(node, by_name.get(node.node.instance_type)) or 0.0 for node in nodes)


def owned(snapshot: Snapshot) -> Iterable[StateNode]:
    """Return nodes of any Provisioner."""
    return (node for node in snapshot.nodes.values() if node.provisioner_name)


def node_cost(node: StateNode, instance_type: InstanceType | None, beside: Beside) -> PricedOffering | None:
    """Return the node's own offering with what it costs beside its price, and its surplus CPU at what its pods request.

    None where the price is not known.
    """
    offering = _priced(instance_type, node.node.zone, node.node.capacity_type)
    if instance_type is None or offering is None:
        return None
    credits = instance_type.credits
    surplus = credits.surplus(beside.cpu_use * _cpu_asked(node)) if credits else 0.0
    charges = beside.node + (offering.beside if beside.charges else 0.0)
    return PricedOffering(offering.price, instance_type.name, offering.zone, offering.capacity_type, charges, surplus)


def added_surplus(node: StateNode, credits: CpuCredits, cpu: float, cpu_use: float) -> float:
    """Return the $ an hour of surplus CPU that pods which request so many vCPUs add on the node."""
    there = _cpu_asked(node)
    return credits.surplus(cpu_use * (there + cpu)) - credits.surplus(cpu_use * there)


def _cpu_asked(node: StateNode) -> float:
    return sum(pod.spec.requests.get("cpu", 0) for pod in node.pods) / 1000.0


def node_price(node: StateNode, instance_type: InstanceType | None) -> float | None:
    """Return the price of the node's own offering, available or not; None where it is not known."""
    return node_price_of(instance_type, node.node.zone, node.node.capacity_type)


def node_price_of(instance_type: InstanceType | None, zone: str | None, capacity_type: str | None) -> float | None:
    """Return the price of an offering; None where it is not known (a listed price of 0)."""
    offering = _priced(instance_type, zone, capacity_type)
    return None if offering is None else offering.price


def _priced(instance_type: InstanceType | None, zone: str | None, capacity_type: str | None) -> Offering | None:
    offered = instance_type.offerings if instance_type else ()
    return next((o for o in offered if (o.zone, o.capacity_type) == (zone, capacity_type) and o.price), None)
