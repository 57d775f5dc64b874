"""Zone balance: of the zones that cost about the same, the one in which a Provisioner has fewest instances.

Prices and EC2's own choice pile nodes up in the cheapest zone, and with it everything that runs on them. Spread
constraints are the means of pods; this is the operator's, for pods that have none. It is off unless
`aws.enableZoneBalance` says otherwise. What an even spread costs is bounded: it chooses among the offerings that are
affordable anyway (`aws.alternativePriceTolerance`).
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
        """The offerings of the zone that has fewest of the Provisioner's instances; of equals, the one named first.

        Raises CloudErrors when EC2 does not say what runs.
        """
        counted = self._read.get("zones", self._count)
        zones = dict.fromkeys(offering.zone for offering in offerings)
        with self._lock:
            best = min(zones, key=lambda zone: counted[provisioner, zone] + self._since[provisioner, zone])
        return [offering for offering in offerings if offering.zone == best]

    def launched(self, provisioner: str, zone: str) -> None:
        """One more, that EC2 may not have been asked about yet."""
        with self._lock:
            self._since[provisioner, zone] += 1

    def _count(self) -> Counter[tuple[str, str]]:
        instances = self._launched()
        with self._lock:
            self._since.clear()
        return Counter((one.provisioner_name, one.zone) for one in instances if one.state not in LEAVING_STATES)
