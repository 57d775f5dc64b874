"""What Prometheus reads."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from controller.telemetry.server import Page


class Metrics:
    """The registry of this process: nothing is global, so that two operators in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def page(self, _query: Mapping[str, str]) -> Page:
        """The text format."""
        return Page(generate_latest(self.registry), CONTENT_TYPE_LATEST)
