"""Choose the offerings that a launch asks EC2 for, and their order; mask those that turn out to have no capacity.

Karpenter v0.27 falls back from spot to on-demand in a later loop; here one launch tries all of its offerings.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

import structlog

from controller.aws.api.aws_errors import NO_ADDRESSES
from controller.aws.catalog.unavailable_offerings import UnavailableOfferings
from controller.aws.launch.create_fleet import FleetError
from controller.aws.launch.zone_balance import ZoneBalance
from controller.aws.network.node_addresses import node_addresses
from controller.aws.network.subnets import Subnets
from controller.core.api import labels as keys
from controller.core.api.labels import ON_DEMAND, SPOT
from controller.core.cloud import CloudInstance, InstanceType, LaunchRequest, PricedOffering
from controller.core.provisioning.flexibility import Flexibility
from controller.settings import Settings

DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")
"""Resources that make a type exotic."""


class OfferingChoice:
    """Chooses among the offerings of a request, and masks those without capacity. Safe for many threads."""

    def __init__(
        self,
        settings: Settings,
        subnets: Subnets,
        unavailable: UnavailableOfferings,
        balance: ZoneBalance | None,
        logger: structlog.typing.FilteringBoundLogger,
    ) -> None:
        """`balance`: prefer the zones with fewest instances; None: EC2 and the prices choose."""
        self._flexibility = Flexibility(
            settings.alternative_price_tolerance, settings.spot_offerings, settings.spot_interruption_cost
        )
        self._subnets = subnets
        self._unavailable = unavailable
        self._balance = balance
        self._log = logger
        self._mask_lock = threading.Lock()

    def sendable(
        self, request: LaunchRequest, tier: Sequence[PricedOffering], failed_attempts: int
    ) -> list[PricedOffering]:
        """Return the offerings of a tier to ask for now: not masked, with a subnet,
        and near the price of the cheapest such.

        First those of the request's first choice, or as many as `Flexibility` names. After a failed attempt all within
        the tolerance, which doubles with each. With zone balance, those of one zone alone.
        """
        _, masked = self._unavailable.active()
        pods = request.requests.get("pods", 1)
        asked = {offering.instance_type for offering in tier}
        kinds = [kind for name, kind in request.instance_types.items() if name in asked]
        least = min((node_addresses(kind.interfaces, pods) for kind in kinds), default=0)
        unmasked = [o for o in tier if (o.capacity_type, o.instance_type, o.zone) not in masked]
        zones = self._subnets.zones(request.template, least, {offering.zone for offering in unmasked})
        left = [offering for offering in unmasked if offering.zone in zones]
        if not left:
            return []
        first = [offering for offering in left if offering in request.first_choice]
        if not failed_attempts and first:
            left = first
        most = min(offering.charged for offering in left) * (1 + self._flexibility.price_spread * 2**failed_attempts)
        near = [offering for offering in left if offering.charged <= most]
        if self._balance is not None:
            near = self._balance.fewest(request.provisioner.name, near)
        return near if failed_attempts else self._flexibility.named(near)

    def launched(self, request: LaunchRequest, instance: CloudInstance, *, new: bool) -> None:
        """Record a launch: forget the failures of its offering, and count it for zone balance if it is `new`."""
        self._unavailable.clear(instance.capacity_type, instance.instance_type, instance.zone)
        if self._balance is not None and new:
            self._balance.launched(request.provisioner.name, instance.zone)

    def mask(self, offerings: Sequence[PricedOffering], errors: Sequence[FleetError]) -> None:
        """Mask the offerings that the errors report without capacity; an error that names none concerns all.

        Under a lock, so that only one of many launches with the same errors logs them.
        """
        with self._mask_lock:
            _, before = self._unavailable.active()
            masked: dict[str, str] = {}
            for error in errors:
                if error.code == NO_ADDRESSES and error.subnet_id:
                    if self._subnets.exhaust(error.subnet_id):
                        self._log.warning("Subnet has no free addresses", subnet=error.subnet_id)
                elif error.capacity:
                    for offering in filter(error.concerns, offerings):
                        key = (offering.capacity_type, offering.instance_type, offering.zone)
                        self._unavailable.mark(*key, error.code)
                        if key not in before:
                            masked["/".join(key)] = error.code
            if masked:
                self._log.info("Offerings have no capacity", offerings=masked)

    def refusal(self, request: LaunchRequest) -> str:
        reasons = {
            self._unavailable.reason((o.capacity_type, o.instance_type, o.zone)) or "not tried to the end"
            for o in request.offerings
        }
        return (
            f"Provisioner {request.provisioner.name}: none of {len(request.offerings)} offerings has capacity "
            f"({', '.join(sorted(reasons))}); allow more instance types, zones or capacity types"
        )


def tiers(offerings: Sequence[PricedOffering], exotic: Callable[[str], bool]) -> list[list[PricedOffering]]:
    """Split the offerings into lists of one capacity type each, in the order in which they are tried.

    Spot before on-demand, but no spot that costs more than the cheapest on-demand, surplus CPU counted in; types with
    GPUs or accelerators and bare metal after all others of both kinds (Karpenter v0.27 dropped them where others
    remained).
    """
    in_order: list[list[PricedOffering]] = []
    for last in (False, True):
        group = [o for o in offerings if exotic(o.instance_type) == last]
        on_demand = [o for o in group if o.capacity_type == ON_DEMAND]
        cheapest = min((o.charged for o in on_demand), default=math.inf)
        in_order += [[o for o in group if o.capacity_type == SPOT and o.charged <= cheapest], on_demand]
    return [tier for tier in in_order if tier]


def is_exotic(item: InstanceType) -> bool:
    size = item.requirements[keys.INSTANCE_SIZE].values if keys.INSTANCE_SIZE in item.requirements else frozenset()
    return any(value.startswith("metal") for value in size) or any(name in item.capacity for name in DEVICES)
