"""Zone balance: of the zones that cost about the same, choose the one in which a Provisioner has fewest instances.

Prices and EC2's allocation strategies concentrate nodes in the cheapest zone. Zone balance spreads the nodes of pods
that have no topology spread constraints. It is off unless `aws.enableZoneBalance` is set, and its cost is bounded: it
chooses among offerings within `aws.alternativePriceTolerance`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from controller.aws.api.ttl_cache import Cache
from controller.aws.launch.instances import LEAVING_STATES
from controller.core.cloud import CloudInstance, PricedOffering
from controller.runtime.clock import Clock

COUNT_SECONDS = 60.0


class ZoneBalance:
    """Counts a cluster's instances by Provisioner and zone. Safe for many threads."""

    def __init__(self, launched: Callable[[], Iterable[CloudInstance]], clock: Clock) -> None:
        """`launched` lists the cluster's live instances."""
        self._launched = launched
        self._lock = threading.Lock()
        self._read: Cache[str, Counter[tuple[str, str]]] = Cache(clock, COUNT_SECONDS)
        self._since: Counter[tuple[str, str]] = Counter()

    def fewest(self, provisioner: str, offerings: Sequence[PricedOffering]) -> list[PricedOffering]:
        """Return the offerings of the zone with its fewest instances, the first of equals. Raises CloudErrors."""
        counted = self._read.get("zones", self._count)
        zones = dict.fromkeys(offering.zone for offering in offerings)
        with self._lock:
            best = min(zones, key=lambda zone: counted[provisioner, zone] + self._since[provisioner, zone])
        return [offering for offering in offerings if offering.zone == best]

    def launched(self, provisioner: str, zone: str) -> None:
        """Count an instance that was launched since EC2 was asked last."""
        with self._lock:
            self._since[provisioner, zone] += 1

    def _count(self) -> Counter[tuple[str, str]]:
        instances = self._launched()
        with self._lock:
            self._since.clear()
        return Counter((one.provisioner_name, one.zone) for one in instances if one.state not in LEAVING_STATES)
