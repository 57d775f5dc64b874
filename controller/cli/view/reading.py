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

    def __init__(self) -> None:
        self.view: View | None = None
        self.problem = ""
        """Why the last read failed; empty when it did not."""
        self.failure: Exception | None = None
        """Why the thread ended: it could not connect, or a bug."""

    def run(self, opener: Opener, interval: float, wake: Callable[[], None], stop: threading.Event) -> None:
        """Read until `stop` is set."""
        try:
            with opener() as read:
                while not stop.is_set():
                    try:
                        self.view, self.problem = read(), ""
                    except NodelessError as error:
                        self.problem = str(error)
                    wake()
                    partial = self.view is not None and self.view.listing
                    stop.wait(LISTING_SECONDS if partial else interval)
        except Exception as error:  # noqa: BLE001 - raised again by the thread that draws
            self.failure = error
            wake()


@contextmanager
def reading(opener: Opener, interval: float, wake: Callable[[], None]) -> Iterator[Reading]:
    """Read inside a `with` block every `interval` seconds; `wake` is called after each read."""
    own, stop = Reading(), threading.Event()
    thread = threading.Thread(target=own.run, args=(opener, interval, wake, stop), name="view", daemon=True)
    thread.start()
    try:
        yield own
    finally:
        stop.set()
        thread.join(STOP_SECONDS)
