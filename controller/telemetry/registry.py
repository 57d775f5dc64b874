"""Collect the process's counters, gauges, histograms and summaries for Prometheus.

Prometheus' client keeps histograms and writes the text. Counters and summaries are kept here: the client appends
`_total` to a counter's name, which Karpenter v0.27's counters do not have, and its summaries have no quantiles.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client import Metric as Family
from prometheus_client.exposition import generate_latest

from controller.runtime import metrics
from controller.runtime.clock import Clock, SystemClock
from controller.runtime.metrics import Metric
from controller.telemetry.http_server import Page

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series beside every histogram, that no dashboard asks for

WINDOW_SECONDS = 600.0
"""Maximum age of the observations in quantiles (default of Prometheus' Go client)."""
MOST_OBSERVATIONS = 4096
"""The newest observations kept per series of a summary."""

Values = dict[tuple[str, ...], float]


@dataclass(slots=True)
class _Summary:
    count: int = 0
    total: float = 0.0
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MOST_OBSERVATIONS))
    """(when in monotonic seconds, value)."""

    def quantiles(self, since: float) -> Iterator[tuple[float, float]]:
        """Yield (quantile, value) of the observations after `since`; NaN without any."""
        values = sorted(value for at, value in self.recent if at >= since)
        for quantile in metrics.QUANTILES:
            index = round(quantile * (len(values) - 1))
            yield quantile, values[index] if values else float("nan")


class Metrics:
    """A Recorder and its page. Without global state: two operators in one process have separate metrics."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._counters: dict[Metric, Values] = defaultdict(lambda: defaultdict(float))
        self._gauges: dict[Metric, Values] = {}
        self._summaries: dict[Metric, dict[tuple[str, ...], _Summary]] = defaultdict(lambda: defaultdict(_Summary))
        self._parts: tuple[Callable[[], bytes], ...] = ()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._histograms = {
            each: Histogram(each.name, each.help, each.labels, buckets=each.buckets, registry=self.registry)
            for each in metrics.ALL
            if each.kind == "histogram"
        }
        self.registry.register(self)

    def count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        _check(metric, labels)
        with self._lock:
            self._counters[metric][labels] += amount

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        _check(metric, labels)
        if metric.kind == "histogram":
            histogram = self._histograms[metric]
            (histogram.labels(*labels) if labels else histogram).observe(value)
            return
        with self._lock:
            summary = self._summaries[metric][labels]
            summary.count += 1
            summary.total += value
            summary.recent.append((self._clock.monotonic(), value))

    def replace(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        for labels in values:
            _check(metric, labels)
        with self._lock:
            self._gauges[metric] = dict(values)

    def collect(self) -> Iterable[Family]:
        """Yield all series, for Prometheus' registry. A metric without a series still has its help and type."""
        since = self._clock.monotonic() - WINDOW_SECONDS
        with self._lock:
            for each in metrics.ALL:
                if each.kind == "counter":
                    yield family(each, self._counters.get(each) or ({} if each.labels else {(): 0.0}))
            yield from [family(each, self._gauges[each]) for each in metrics.ALL if each in self._gauges]
            yield from [self._summary(each, since) for each in metrics.ALL if each.kind == "summary"]

    def _summary(self, metric: Metric, since: float) -> Family:
        made = Family(metric.name, metric.help, "summary")
        for values, summary in self._summaries.get(metric, {}).items():
            labels = dict(zip(metric.labels, values, strict=True))
            for quantile, value in summary.quantiles(since):
                made.add_sample(metric.name, {**labels, "quantile": f"{quantile:g}"}, value)
            made.add_sample(f"{metric.name}_count", labels, summary.count)
            made.add_sample(f"{metric.name}_sum", labels, summary.total)
        return made

    def page(self, _query: Mapping[str, str]) -> Page:
        """Return Prometheus' text format, with counters under the names of their declarations."""
        text = generate_latest(self.registry)
        for metric in metrics.ALL:
            if metric.kind == "counter" and not metric.name.endswith("_total"):
                for word in ("HELP", "TYPE"):
                    text = text.replace(f"# {word} {metric.name}_total ".encode(), f"# {word} {metric.name} ".encode())
        return Page(text + b"".join(part() for part in self._parts), CONTENT_TYPE_LATEST)

    def add_part(self, part: Callable[[], bytes]) -> None:
        """Append `part` to the page: text in Prometheus' format, computed at each scrape."""
        self._parts = (*self._parts, part)


def family(metric: Metric, values: Mapping[tuple[str, ...], float]) -> Family:
    """Return a counter or a gauge with these values by label values."""
    made = Family(metric.name.removesuffix("_total"), metric.help, metric.kind)
    for labels, value in values.items():
        made.add_sample(metric.name, dict(zip(metric.labels, labels, strict=True)), value)
    return made


def _check(metric: Metric, labels: tuple[str, ...]) -> None:
    if len(labels) != len(metric.labels):
        raise TypeError(f"{metric.name} has labels {metric.labels}, not {labels}")
