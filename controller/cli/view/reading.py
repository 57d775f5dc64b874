"""Read the view again and again in a thread of its own, so that keys are answered while it lists and plans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from controller.cli.view.view_data import View
from controller.errors import NodelessError

Read = Callable[[], View]
Opener = Callable[[], AbstractContextManager[Read]]
"""Connects, which may take long, and yields what reads the view."""
LISTING_SECONDS = 0.25
"""Between two reads while the first lists arrive."""
STOP_SECONDS = 2.0
"""Longest wait for the thread at the end: it may be planning, or waiting for a server that does not answer."""


class Reading:
    """`view` is the newest one, None before the first."""

    def __init__(self, opener: Opener, interval: float, wake: Callable[[], None]) -> None:
        self.view: View | None = None
        self.problem = ""
        """Why the last read failed; empty when it did not."""
        self.failure: Exception | None = None
        """Why the thread ended: it could not connect, or a bug."""
        self._opener, self._interval, self._wake = opener, interval, wake
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="view", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, or leave it behind if it does not end soon."""
        self._stop.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            with self._opener() as read:
                while not self._stop.is_set():
                    self._read(read)
                    self._wake()
                    partial = self.view is not None and self.view.listing
                    self._stop.wait(LISTING_SECONDS if partial else self._interval)
        except Exception as error:  # noqa: BLE001 - raised again by the thread that draws
            self.failure = error
            self._wake()

    def _read(self, read: Read) -> None:
        try:
            self.view, self.problem = read(), ""
        except NodelessError as error:
            self.problem = str(error)


@contextmanager
def reading(opener: Opener, interval: float, wake: Callable[[], None]) -> Iterator[Reading]:
    """Read inside a `with` block every `interval` seconds; `wake` is called after each read."""
    own = Reading(opener, interval, wake)
    own.start()
    try:
        yield own
    finally:
        own.stop()
