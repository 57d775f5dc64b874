"""Open the process's ports: 8081 for the probes, 8080 for metrics, both from the start of the process.

Pages are added while the process starts: the probes show what it waits for before settings and caches are available.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Mapping

from controller.telemetry.health import Health
from controller.telemetry.http_server import Guarded, Page, PageServer
from controller.telemetry.registry import Metrics

GUARDED = frozenset({"/decisions", "/debug/stacks"})
"""Names of pods and nodes, prices, stacks."""


class Serving:
    """Both servers, and the health checks and metrics that they show."""

    def __init__(self, *, metrics_port: int, health_probe_port: int, profiling: bool = False, token: str = "") -> None:
        """Port 0 is a free one. `profiling` adds /debug/stacks to the metrics port. `token` opens
        /decisions and /debug/stacks to those that are not on loopback.

        Raises ValidationError when it cannot listen on a port.
        """
        self.health = Health()
        self.metrics = Metrics()
        probes = {"/healthz": self.health.healthz, "/readyz": self.health.readyz}
        self.probes = PageServer(health_probe_port, "health-probe", probes)
        try:
            self.pages = PageServer(metrics_port, "metrics", {"/metrics": self.metrics.page}, Guarded(GUARDED, token))
        except BaseException:
            self.probes.stop()
            raise
        if profiling:
            self.pages.routes["/debug/stacks"] = _stacks

    def start(self) -> None:
        """Start answering."""
        self.probes.start()
        self.pages.start()

    def stop(self) -> None:
        """Stop answering."""
        self.pages.stop()
        self.probes.stop()


def _stacks(_query: Mapping[str, str]) -> Page:
    """Return the stack of every thread, for reports of hangs."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sorted(sys._current_frames().items())
    ]
    return Page("\n".join(stacks).encode())
