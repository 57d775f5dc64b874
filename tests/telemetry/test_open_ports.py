"""What the ports answer: probes that name what is wrong, pages by path, and trouble that stays on its own page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.errors import ValidationError
from controller.telemetry.http_server import MAX_PAGES, Guarded, Page, PageServer
from controller.telemetry.open_ports import Serving


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving(metrics_port=0, health_probe_port=0, profiling=True)
    made.start()
    yield made
    made.stop()


def get(server: PageServer, path: str, timeout_seconds: float = 5.0) -> tuple[int, str]:
    try:
        answer: HTTPResponse = urlopen(f"http://localhost:{server.port}{path}", timeout=timeout_seconds)
    except HTTPError as error:
        return error.code, error.read().decode()
    with answer:
        return answer.status, answer.read().decode()


def test_four_pages_are_made_at_once_and_a_fifth_is_refused(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.telemetry.http_server.CLIENT_SECONDS", 0.2)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(_query: object) -> Page:
        begun.release()
        assert go_on.wait(60)
        return Page(b"late")

    serving.pages.routes["/slow"] = slow
    with ThreadPoolExecutor(MAX_PAGES) as clients:
        answers = [clients.submit(get, serving.pages, "/slow", 60.0) for _ in range(MAX_PAGES)]
        try:
            assert all(begun.acquire(timeout=60) for _ in answers)
            assert get(serving.pages, "/metrics", 60.0)[0] == 503
        finally:
            go_on.set()
        assert [each.result() for each in answers] == [(200, "late")] * MAX_PAGES
    assert get(serving.pages, "/metrics")[0] == 200


def test_probes_name_every_check_and_fail_with_what_is_wrong(serving: Serving) -> None:
    assert get(serving.probes, "/healthz") == (200, "[+]ping ok\nhealthz check passed\n")
    trouble = {"loop": "", "caches": "not listed yet"}
    serving.health.live["loop"] = lambda: trouble["loop"]
    serving.health.ready["caches"] = lambda: trouble["caches"]
    assert get(serving.probes, "/healthz")[0] == 200, "not ready is no reason to restart"
    assert get(serving.probes, "/readyz") == (
        500,
        "[+]ping ok\n[-]caches failed: not listed yet\nreadyz check failed\n",
    )
    trouble.update(loop="its last pass ended 700 s ago", caches="")
    assert get(serving.probes, "/readyz")[0] == 200
    status, text = get(serving.probes, "/healthz")
    assert status == 500
    assert "[-]loop failed: its last pass ended 700 s ago" in text


def test_a_check_that_cannot_tell_has_failed(serving: Serving) -> None:
    def broken() -> str:
        raise RuntimeError("no idea")

    serving.health.live["broken"] = broken
    status, text = get(serving.probes, "/healthz")
    assert status == 500
    assert "[-]broken failed: RuntimeError: no idea" in text


def test_metrics_are_in_the_format_that_prometheus_reads(serving: Serving) -> None:
    status, text = get(serving.pages, "/metrics")
    assert status == 200
    names = {family.name for family in text_string_to_metric_families(text)}
    assert "process_cpu_seconds" in names


def test_profiling_shows_where_every_thread_is(serving: Serving) -> None:
    assert "serve-metrics\n" in get(serving.pages, "/debug/stacks")[1]


def test_without_profiling_nobody_sees_the_inside() -> None:
    serving = Serving(metrics_port=0, health_probe_port=0)
    assert "/debug/stacks" not in serving.pages.routes
    serving.stop()


def test_a_page_that_fails_says_so_and_the_next_request_is_answered(serving: Serving) -> None:
    def wrong(query: object) -> Page:
        raise ValueError("limit must be a number")

    def broken(query: object) -> Page:
        raise RuntimeError("secret")

    serving.pages.routes.update({"/wrong": wrong, "/broken": broken})
    assert get(serving.pages, "/wrong") == (400, "limit must be a number\n")
    status, text = get(serving.pages, "/broken")
    assert status == 500
    assert "secret" not in text
    assert get(serving.pages, "/nothing")[0] == 404
    assert get(serving.pages, "/metrics")[0] == 200


def test_only_reading_is_allowed(serving: Serving) -> None:
    connection = HTTPConnection("localhost", serving.pages.port, timeout=5)
    connection.request("POST", "/metrics")
    assert connection.getresponse().status == 501
    connection.close()
    connection = HTTPConnection("127.0.0.1", serving.pages.port, timeout=5)
    connection.request("HEAD", "/metrics")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    connection.close()


def test_a_taken_port_is_refused_with_a_remedy_and_leaves_no_socket_behind(serving: Serving) -> None:
    before = threading.active_count()
    with pytest.raises(ValidationError) as caught:
        Serving(metrics_port=serving.pages.port, health_probe_port=0)
    (problem,) = caught.value.problems
    assert problem.path == "--metrics-port"
    assert str(serving.pages.port) in str(problem)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("address", "authorization", "admitted"),
    [
        ("127.0.0.1", "", True),
        ("127.8.8.8", "", True),
        ("::1", "", True),
        ("::ffff:127.0.0.1", "", True),
        ("10.0.0.1", "", False),
        ("::ffff:10.0.0.1", "", False),
        ("fe80::1%eth0", "", False),
        ("10.0.0.1", "Bearer secret", True),
        ("10.0.0.1", "Bearer sécret", False),
        ("10.0.0.1", "Bearer ", False),
    ],
)
def test_guarded_pages_are_for_loopback_and_for_the_token(address: str, authorization: str, admitted: bool) -> None:
    assert Guarded(frozenset(), "secret").admits(address, authorization) is admitted
    assert Guarded().admits(address, authorization) is (admitted and not authorization)


def test_decisions_and_stacks_are_guarded_and_metrics_are_not(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving.pages.routes["/decisions"] = lambda _: Page(b"mine")
    assert get(serving.pages, "/decisions") == (200, "mine")
    monkeypatch.setattr(Guarded, "admits", lambda *_: False)
    for path in ("/decisions", "/decisions/", "/decisions?limit=1", "/debug/stacks"):
        status, text = get(serving.pages, path)
        assert status == 403
        assert "kubectl port-forward" in text
    assert get(serving.pages, "/metrics")[0] == 200
    assert get(serving.probes, "/healthz")[0] == 200
