"""Records on nodes that cannot be read are reported once, and stop nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.backoff import FAILURE_ANNOTATION
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.state.snapshot import Snapshot
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.record_reports import RecordReports
from controller.telemetry.registry import Metrics
from tests import factories
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import detached_context
from tests.telemetry.test_registry import values


def cluster(**records: str) -> Snapshot:
    """Nodes by name, each with a command on record."""
    nodes = (
        factories.node(name=name, annotations=FrozenMap({COMMAND_ANNOTATION: text})) for name, text in records.items()
    )
    return factories.snapshot(nodes=[factories.state_node(node=node) for node in nodes])


class Reports:
    """The reports of one process, and what they came to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = ManualClock()
        self.metrics = Metrics(clock)
        context: ReconcilerContext = detached_context(MemoryCloud(), clock, self.metrics)
        self.events: list[tuple[str, str, str]] = []
        monkeypatch.setattr(context.events, "publish", self._publish)
        self._reports = RecordReports(context)

    def _publish(self, ref: ObjectRef, _type: str, reason: str, message: str) -> None:
        self.events.append((ref.name, reason, message))

    def report(self, snapshot: Snapshot) -> list[str]:
        """The nodes that log lines name."""
        with capture_logs() as logs:
            self._reports.report(snapshot)
        return [entry["node"] for entry in logs if entry["event"] == "Record cannot be read"]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    return Reports(monkeypatch)


def test_an_unreadable_record_is_reported_once_with_what_happens_to_it(reports: Reports) -> None:
    snapshot = cluster(a="{", b='{"version": 2}')
    assert reports.report(snapshot) == ["a", "b"]
    assert reports.report(snapshot) == []
    (first, later) = reports.events
    assert first[:2] == ("a", "UnreadableRecord")
    assert later[2] == (
        f"{COMMAND_ANNOTATION} is of version 2; this controller reads up to 1; "
        "the command is taken back: the node stays, and is made schedulable again"
    )
    counted = values(reports.metrics.page({}).body, "nodeless_unreadable_records_total", "record")
    assert counted == {(COMMAND_ANNOTATION,): 2.0}


def test_another_text_is_reported_anew_and_one_that_is_gone_is_forgotten(reports: Reports) -> None:
    reports.report(cluster(a="{"))
    assert reports.report(cluster(a="[")) == ["a"]
    assert reports.report(factories.snapshot()) == []
    assert reports.report(cluster(a="[")) == ["a"]


def test_a_record_that_can_be_read_is_no_news(reports: Reports) -> None:
    node = factories.node(name="a", annotations=FrozenMap({FAILURE_ANNOTATION: '{"method": "m"}'}))
    state = factories.state_node(node=node)
    assert reports.report(factories.snapshot(nodes=[state])) == ["a"], "members are missing"
    whole = FrozenMap({FAILURE_ANNOTATION: '{"method": "m", "generation": 1, "at": 1.5, "count": 1}'})
    state = factories.state_node(node=replace(node, annotations=whole))
    assert reports.report(factories.snapshot(nodes=[state])) == []
