"""Which words are said when several watches are in trouble of several sorts."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from controller.errors import ForbiddenError, GoneError, TooManyRequestsError, UnavailableError
from controller.kube.outages import Outages
from controller.kube.refusals import SilentStreamError
from tests.manual_clock import ManualClock


def heard(logs: list[Any]) -> list[Any]:
    return [line for line in logs if line["log_level"] != "debug"]


def test_one_outage_of_the_server_for_all_kinds_with_its_length() -> None:
    clock = ManualClock()
    outages = Outages(clock)
    with capture_logs() as logs:
        outages.begin("Pod", UnavailableError("refused"))
        outages.begin("Node", TooManyRequestsError("busy"))
        outages.begin("Pod", UnavailableError("refused"))
        clock.advance(20.0)
        outages.end("Pod")
        assert outages.current() == ("server",)
        outages.end("Node")
    assert outages.current() == ()
    assert [line["event"] for line in heard(logs)] == ["API server does not answer", "API server answers again"]
    assert {key: heard(logs)[1][key] for key in ("after_seconds", "failures", "kinds")} == {
        "after_seconds": 20.0,
        "failures": 3,
        "kinds": ["Node", "Pod"],
    }


def test_a_kind_that_is_refused_does_not_hide_an_outage_of_the_server() -> None:
    """A role that lacks one verb would otherwise swallow the words of the outage that comes later."""
    outages = Outages(ManualClock())
    with capture_logs() as logs:
        outages.begin("CSINode", ForbiddenError("csinodes is forbidden"))
        outages.begin("Pod", UnavailableError("refused"))
    assert [(line["event"], line["kind"]) for line in logs] == [
        ("API server refuses to list or watch", "CSINode"),
        ("API server does not answer", "Pod"),
    ]
    assert outages.current() == ("refused/CSINode", "server")


def test_a_connection_proves_nothing_about_silence() -> None:
    outages = Outages(ManualClock())
    with capture_logs() as logs:
        outages.begin("Pod", SilentStreamError("nothing came"))
        outages.end("Pod", silent=False)
        outages.begin("Pod", SilentStreamError("nothing came"))
        outages.end("Pod")
    assert [line["event"] for line in heard(logs)] == ["Watch fell silent, connecting anew", "Watch speaks again"]


def test_lost_history_is_no_warning() -> None:
    outages = Outages(ManualClock())
    with capture_logs() as logs:
        outages.begin("Pod", GoneError("too old"))
    assert [line["log_level"] for line in logs] == ["info"]
