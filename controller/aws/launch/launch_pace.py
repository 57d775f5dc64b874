"""Keep CreateFleet within the account's token buckets, so that EC2 throttles neither us nor others in the account.

EC2 has a bucket of requests for each action, and for launches one of instances (EC2 developer guide, "Request
throttling for the Amazon EC2 API"). A call that was throttled costs a token as well, and its retries come at once.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from controller.aws.api.batcher import Window
from controller.runtime.clock import Clock
from controller.runtime.rate_limit import TokenBucket
from controller.settings import Settings


class LaunchPace:
    """The buckets of `aws.createFleetBucket` and `aws.launchBucket`. Safe for many threads."""

    def __init__(self, settings: Settings, clock: Clock, stop: threading.Event) -> None:
        """Setting `stop` ends waits: the call that waited is made."""
        self._clock, self._stop = clock, stop
        self._requests = _bucket(settings.create_fleet_bucket, clock)
        self._instances = _bucket(settings.launch_bucket, clock)
        self._most = settings.launch_bucket[0] if settings.launch_bucket else None

    def limited(self, window: Window) -> Window:
        """Return the window in which calls are merged, with no more launches than the bucket ever has tokens."""
        return window if self._most is None else replace(window, max_items=min(window.max_items, self._most))

    def admit(self) -> None:
        """Wait until a call has its token of the bucket of requests."""
        self._wait(self._requests.reserve() if self._requests else 0.0)

    def take(self, instances: int) -> None:
        """Wait until an admitted call has the tokens of so many instances; one that waited is admitted again."""
        if self._wait(self._instances.reserve(instances) if self._instances else 0.0):
            self.admit()

    def _wait(self, seconds: float) -> bool:
        if seconds > 0:
            self._clock.wait(self._stop, seconds)
        return seconds > 0


def _bucket(sizes: tuple[int, float] | None, clock: Clock) -> TokenBucket | None:
    return None if sizes is None else TokenBucket(sizes[1], sizes[0], clock)
