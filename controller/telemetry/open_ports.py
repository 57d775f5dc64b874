"""The process's open ports: 8081 for the probes, 8080 for metrics, both from the first moment on.

What is served grows while the process starts: before settings and caches are there, the probes already say what it
waits for.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Mapping

from controller.telemetry.health import Health
from controller.telemetry.http_server import Page, PageServer
from controller.telemetry.registry import Metrics


class Serving:
    """Both servers, and what they show."""

    def __init__(self, *, metrics_port: int, health_probe_port: int, profiling: bool = False) -> None:
        """Port 0 is a free one. `profiling` adds /debug/stacks to the metrics port.

        Raises ValidationError when a port cannot be had.
        """
        self.health = Health()
        self.metrics = Metrics()
        probes = {"/healthz": self.health.healthz, "/readyz": self.health.readyz}
        self.probes = PageServer(health_probe_port, "health-probe", probes)
        try:
            self.pages = PageServer(metrics_port, "metrics", {"/metrics": self.metrics.page})
        except BaseException:
            self.probes.stop()
            raise
        if profiling:
            self.pages.routes["/debug/stacks"] = _stacks

    def start(self) -> None:
        """Answer from now on."""
        self.probes.start()
        self.pages.start()

    def stop(self) -> None:
        """Stop answering."""
        self.pages.stop()
        self.probes.stop()


def _stacks(_query: Mapping[str, str]) -> Page:
    """Where every thread is: what to send along with a report that something hangs."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sorted(sys._current_frames().items())
    ]
    return Page("\n".join(stacks).encode())
