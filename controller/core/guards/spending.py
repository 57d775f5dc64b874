"""Limits on launches: $ an hour per Provisioner and for the cluster, resources for the cluster, nodes a minute.

The setting `launchLimits` bounds the cluster; the annotation `karpenter.sh/price-limit` ($ an hour) bounds a
Provisioner, in addition to `spec.limits`. A price limit that cannot be read allows nothing until it is corrected.
Replacements of deprovisioning are not bounded: they cost less than what they replace, or are needed to remove it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from controller.core.api import quantity
from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.api.settings.readers import decimal
from controller.core.cloud import Catalog, InstanceType
from controller.core.decisions.fleet_cost import Fleet, fleet, owned
from controller.core.guards.mix import with_mix
from controller.core.machines.launching import Allotment, allot
from controller.core.machines.provisioner_limits import exceeded, total, usage
from controller.core.provisioning.plan import PlannedNode
from controller.core.state.snapshot import Snapshot
from controller.core.untrusted_json import UnreadableJsonError, read_json

PRICE_LIMIT_ANNOTATION: Final = "karpenter.sh/price-limit"
RATE_SECONDS: Final = 60.0
EXAMPLE: Final = '{"pricePerHour": 50, "nodesPerMinute": 20, "resources": {"cpu": "1000"}}'


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """Limits of the whole cluster; None and absent resources: no limit. Prices are $ an hour."""

    price_per_hour: float | None = None
    nodes_per_minute: int | None = None
    resources: Resources = EMPTY
    """Capacity of all our nodes together, as in `spec.limits`."""


def parse_launch_limits(text: str) -> LaunchLimits:
    """Parse JSON such as EXAMPLE. Raises ValueError with every problem and its remedy."""
    try:
        parsed = read_json(text) if text.strip() else {}
    except UnreadableJsonError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ValueError(f"is not a JSON object: write {EXAMPLE}, or leave it empty")
    problems = [f"{key} is unknown" for key in sorted(parsed.keys() - {"pricePerHour", "nodesPerMinute", "resources"})]
    price, rate = parsed.get("pricePerHour"), parsed.get("nodesPerMinute")
    if price is not None and not _positive(price):
        problems.append(f"pricePerHour is {price!r}, not a number above 0")
    if rate is not None and (not isinstance(rate, int) or isinstance(rate, bool) or rate < 1):
        problems.append(f"nodesPerMinute is {rate!r}, not an integer above 0")
    resources: Resources = EMPTY
    try:
        resources = _resources(parsed.get("resources") or {})
    except ValueError as error:
        problems.append(f"resources {error}")
    if problems:
        raise ValueError(f"{', '.join(problems)}: write {EXAMPLE}, say")
    return LaunchLimits(None if price is None else float(price), rate, resources)


def price_limit(provisioner: Provisioner) -> float | None:
    """Return the annotation's $ an hour; None without one. Raises ValueError."""
    text = provisioner.object_annotations.get(PRICE_LIMIT_ANNOTATION)
    if text is None:
        return None
    value = decimal(text)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"annotation {PRICE_LIMIT_ANNOTATION}: {text!r} is no number of $ an hour; write 12.5, say")
    return value


class Guards:
    """The limits for one round of launches; each launch allowed counts against those after it."""

    def __init__(self, limits: LaunchLimits, snapshot: Snapshot, catalog: Catalog, now: float) -> None:
        """`now` in Unix seconds. `snapshot` has every node that was launched."""
        self._limits = limits
        launched = fleet(snapshot, catalog)
        self._spent = launched.price_per_hour
        self._spent_by = _by_provisioner(launched, snapshot)
        self._used = total(node.capacity for node in owned(snapshot) if not node.leaving)
        recent = [node.node.created for node in owned(snapshot) if node.node.created > now - RATE_SECONDS]
        self._recent = len(recent)
        self.refused: list[tuple[str, str, str]] = []
        """Of each refusal, in order: the guard (see `_refusal`), the Provisioner, and why."""

    def judge(self, allotment: Allotment, provisioner: Provisioner, types: Mapping[str, InstanceType]) -> Allotment:
        """Return the allotment with the offerings that no limit forbids; refused if the planned one is forbidden."""
        if allotment.refusal:
            return allotment
        price = allotment.planned.offering.price
        capacity = types[allotment.planned.offering.instance_type].capacity
        guard, refusal = self._refusal(price, capacity, provisioner)
        if refusal:
            self.refused.append((guard, provisioner.name, refusal))
            return Allotment(allotment.planned, refusal=refusal)
        room = min(self._room(provisioner), default=math.inf)
        self._spent += price
        self._spent_by[provisioner.name] += price
        self._used = total((self._used, capacity))
        self._recent += 1
        own = self._limits.resources
        fitting = tuple(
            offering
            for offering in allotment.offerings
            if offering == allotment.planned.offering
            or (offering.price <= room and _within(types[offering.instance_type].capacity, capacity, own))
        )
        return replace(allotment, offerings=fitting)

    def _refusal(self, price: float, capacity: Resources, provisioner: Provisioner) -> tuple[str, str]:
        """Return the guard that forbids it, and why; empty when none does."""
        limits, name = self._limits, provisioner.name
        try:
            own = price_limit(provisioner)
        except ValueError as error:
            return "provisioner-price", f"{error} (Provisioner {name})"
        spent = self._spent_by[name]
        if own is not None and spent + price > own:
            what = f"annotation {PRICE_LIMIT_ANNOTATION} of Provisioner {name}"
            return "provisioner-price", f"{what}: ${spent:.4f} + ${price:.4f} an hour would exceed ${own:g}"
        most = limits.price_per_hour
        if most is not None and self._spent + price > most:
            what = "launchLimits.pricePerHour of the settings"
            return "cluster-price", f"{what}: ${self._spent:.4f} + ${price:.4f} an hour would exceed ${most:g}"
        resource, excess = exceeded(limits.resources, self._used, capacity)
        if excess:
            return "cluster-resources", f"launchLimits.resources.{resource} of the settings: {excess}"
        rate = limits.nodes_per_minute
        if rate is not None and self._recent >= rate:
            what = "launchLimits.nodesPerMinute of the settings"
            return "launch-rate", f"{what}: {self._recent} nodes were launched within a minute, {rate} may be"
        return "", ""

    def _room(self, provisioner: Provisioner) -> Iterable[float]:
        """Yield the $ an hour that each price limit leaves for one node."""
        if (own := price_limit(provisioner)) is not None:
            yield own - self._spent_by[provisioner.name]
        if self._limits.price_per_hour is not None:
            yield self._limits.price_per_hour - self._spent


def within_limits(
    planned: Sequence[PlannedNode],
    provisioner: Provisioner,
    types: Mapping[str, InstanceType],
    snapshot: Snapshot,
    leaving: Collection[str] = (),
    guards: Guards | None = None,
) -> tuple[Allotment, ...]:
    """Apply the on-demand mix, the Provisioner's limits and the guards to its `planned` nodes, in this order.

    Returns an allotment per node, in their order. Existing nodes named in `leaving` do not count.
    """
    mixed = with_mix(planned, provisioner, types, snapshot, leaving)
    allotments = allot(mixed, provisioner, types, usage(snapshot, provisioner.name, leaving))
    return tuple(guards.judge(each, provisioner, types) for each in allotments) if guards else allotments


def _within(capacity: Resources, planned: Resources, limits: Resources) -> bool:
    """Return whether an alternative is no larger than planned in limited resources, which later nodes need too."""
    return all(capacity.get(name, 0) <= planned.get(name, 0) for name in limits)


def _by_provisioner(launched: Fleet, snapshot: Snapshot) -> defaultdict[str, float]:
    spent: defaultdict[str, float] = defaultdict(float)
    for name, price in launched.prices.items():
        spent[snapshot.nodes[name].provisioner_name] += price
    return spent


def _positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def _resources(parsed: Any) -> Resources:
    if not isinstance(parsed, dict):
        raise ValueError("is no object of quantities")
    return quantity.resources({str(name): str(amount) for name, amount in parsed.items()})
