"""Compare what was launched with what was planned: price it, and check that the planned pods fit.

EC2 chooses among the offerings that it is sent, and another process may have launched the node from others.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Resources
from controller.core.cloud import CloudInstance, InstanceType, LaunchRequest, PricedOffering
from controller.core.decisions.fleet_cost import node_price_of


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """One launch. `shortfall` is what the planned pods and daemons request beyond the node's allocatable."""

    token: str
    provisioner: str
    instance_id: str
    node_name: str
    planned: PricedOffering
    instance_type: str
    zone: str
    capacity_type: str
    price_per_hour: float | None
    """$ an hour of what was launched; None when the catalog does not know it."""
    shortfall: Resources = EMPTY
    checked: bool = True
    """Whether the type is one whose allocatable is known, so that the fit could be checked."""

    @property
    def as_planned(self) -> bool:
        planned = self.planned
        wanted = (planned.instance_type, planned.zone, planned.capacity_type)
        return wanted == (self.instance_type, self.zone, self.capacity_type)

    @property
    def in_words(self) -> str:
        """What was launched: Launched m5.large spot in eu-west-1a at $0.1000/h."""
        price = "" if self.price_per_hour is None else f" at ${self.price_per_hour:.4f}/h"
        return f"Launched {self.instance_type} {self.capacity_type} in {self.zone}{price}"

    @property
    def price_difference_per_hour(self) -> float | None:
        """$ an hour more than planned; below 0 when it is cheaper, None when the price is not known."""
        return None if self.price_per_hour is None else self.price_per_hour - self.planned.price


def launch_outcome(request: LaunchRequest, instance: CloudInstance) -> LaunchOutcome:
    entry = request.instance_types.get(instance.instance_type)
    return LaunchOutcome(
        token=request.token,
        provisioner=request.provisioner.name,
        instance_id=instance.id,
        node_name=instance.node_name,
        planned=request.offerings[0],
        instance_type=instance.instance_type,
        zone=instance.zone,
        capacity_type=instance.capacity_type,
        price_per_hour=_price(request, instance, entry),
        shortfall=EMPTY if entry is None else _shortfall(request.requests, entry.allocatable),
        checked=entry is not None,
    )


def _price(request: LaunchRequest, instance: CloudInstance, entry: InstanceType | None) -> float | None:
    """Return the price in the request; of an offering that is not in the request, that in the catalog."""
    place = (instance.zone, instance.capacity_type)
    for asked in request.offerings:
        if (asked.instance_type, asked.zone, asked.capacity_type) == (instance.instance_type, *place):
            return asked.price
    return node_price_of(entry, *place)


def _shortfall(requests: Resources, allocatable: Resources) -> Resources:
    missing = {name: amount - allocatable.get(name, 0) for name, amount in requests.items()}
    return FrozenMap({name: amount for name, amount in sorted(missing.items()) if amount > 0})
