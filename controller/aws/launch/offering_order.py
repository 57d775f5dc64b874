"""In which order a launch tries its offerings. Pure.

Karpenter v0.27 falls back from spot to on-demand in a later loop; here those of one launch are tried to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from controller.core.api import labels as keys
from controller.core.api.labels import ON_DEMAND, SPOT
from controller.core.cloud import InstanceType, PricedOffering

DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")
"""Resources that make a type exotic."""


def tiers(offerings: Sequence[PricedOffering], exotic: Callable[[str], bool]) -> list[list[PricedOffering]]:
    """The offerings in the order in which they are tried, as lists of one capacity type each.

    Spot before on-demand, but no spot that costs more than the cheapest on-demand; types with GPUs or accelerators and
    bare metal after all others of both kinds (Karpenter v0.27 dropped them where others remained).
    """
    found: list[list[PricedOffering]] = []
    for last in (False, True):
        group = [o for o in offerings if exotic(o.instance_type) == last]
        on_demand = [o for o in group if o.capacity_type == ON_DEMAND]
        cheapest = min((o.price for o in on_demand), default=math.inf)
        found += [[o for o in group if o.capacity_type == SPOT and o.price <= cheapest], on_demand]
    return [tier for tier in found if tier]


def is_exotic(item: InstanceType) -> bool:
    """Bare metal, or with GPUs or accelerators."""
    size = item.requirements[keys.INSTANCE_SIZE].values if keys.INSTANCE_SIZE in item.requirements else frozenset()
    return any(value.startswith("metal") for value in size) or any(name in item.capacity for name in DEVICES)
