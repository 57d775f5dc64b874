"""Faults on request, as recovery tests use them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from sandbox.apiserver import Running
from tests.contract.builders import config_map
from tests.contract.client import Client, eventually
from tests.sandbox.apiserver.conftest import fault


def reachable(server: Running) -> bool:
    try:
        return urllib3.request("GET", f"{server.url}/readyz", timeout=1.0, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def test_an_outage_refuses_connections_and_ends(server: Running, api: Client) -> None:
    api.post(api.path("configmaps"), config_map("kept")).ok()
    fault(server, kind="outage", seconds=0.5)
    eventually(lambda: not reachable(server))
    eventually(lambda: reachable(server))
    assert api.get(api.path("configmaps", "kept")).code == 200


def read_all(stream: Iterator[dict[str, Any]], seen: queue.Queue[str]) -> None:
    """Puts the name of each event's object into `seen`, and "end" when the stream ends in whatever way."""
    try:
        for event in stream:
            seen.put(event["object"]["metadata"]["name"])
    except urllib3.exceptions.HTTPError:
        pass
    finally:
        seen.put("end")


def test_an_outage_ends_open_watches(server: Running, api: Client) -> None:
    path = api.path("configmaps")
    api.post(path, config_map("first")).ok()
    seen: queue.Queue[str] = queue.Queue()
    threading.Thread(target=read_all, args=(api.watch(path, seconds=60), seen), daemon=True).start()
    assert seen.get(timeout=10) == "first"
    fault(server, kind="outage", seconds=0.2)
    assert seen.get(timeout=10) == "end"


def test_errors_hit_at_their_rate(server: Running, api: Client) -> None:
    fault(server, kind="errors", seconds=30, code=429, rate=0.5, retry_after_seconds=2)
    replies = [api.get(api.path("configmaps")) for _ in range(60)]
    throttled = [reply for reply in replies if reply.code == 429]
    assert 10 < len(throttled) < 50
    assert throttled[0].headers["Retry-After"] == "2"
    assert throttled[0].body["details"]["retryAfterSeconds"] == 2
    urllib3.request("DELETE", f"{server.url}/sandbox/faults", timeout=5.0)
    assert {api.get(api.path("configmaps")).code for _ in range(20)} == {200}


def test_latency_delays_requests(server: Running, api: Client) -> None:
    fault(server, kind="latency", seconds=30, delay_seconds=0.3)
    before = time.monotonic()
    api.get(api.path("configmaps")).ok()
    assert time.monotonic() - before >= 0.3


def test_silent_watches_stay_open_and_say_nothing(server: Running, api: Client) -> None:
    """New watches work again: the client must give up the old one by itself."""
    path = api.path("configmaps")
    api.post(path, config_map("first")).ok()
    seen: queue.Queue[str] = queue.Queue()
    threading.Thread(target=read_all, args=(api.watch(path, seconds=1), seen), daemon=True).start()
    assert seen.get(timeout=10) == "first"
    assert fault(server, kind="silent-watches")["watches"] == 1
    api.post(path, config_map("second")).ok()
    names = [event["object"]["metadata"]["name"] for event in api.watch_until(path, 2)]
    assert names == ["first", "second"]
    with pytest.raises(queue.Empty):
        seen.get(timeout=1.5)  # not even its timeoutSeconds ends it


def test_dropped_watches_end(server: Running, api: Client) -> None:
    path = api.path("configmaps")
    stream = api.watch(path, seconds=30)
    api.post(path, config_map("first")).ok()
    next(stream)
    fault(server, kind="drop-watches")
    assert list(stream) == []


def test_an_unknown_fault_is_400(server: Running) -> None:
    answer = urllib3.request("POST", f"{server.url}/sandbox/faults", json={"kind": "earthquake"}, timeout=5.0)
    assert answer.status == 400


@pytest.mark.parametrize(("when", "stored"), [("before", 404), ("after", 200)])
def test_a_held_write_gets_no_answer(server: Running, api: Client, when: str, stored: int) -> None:
    """`before`: the client died before its call was done; `after`: after it, and it never learned that."""
    path = api.path("configmaps")
    fault(server, kind="hold-writes", after=1, when=when, user_agent="contract")
    api.post(path, config_map("passes")).ok()
    answered: list[int] = []
    writer = threading.Thread(target=lambda: answered.append(api.post(path, config_map("held")).code))
    writer.start()
    eventually(lambda: urllib3.request("GET", f"{server.url}/sandbox/calls", timeout=5.0).json()["held"] == 1)
    assert api.get(api.path("configmaps", "held")).code == stored
    assert answered == []
    urllib3.request("DELETE", f"{server.url}/sandbox/faults", timeout=5.0)
    writer.join(10)
    assert answered == [201]


def test_the_log_names_calls_in_their_order(server: Running, api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a")).ok()
    first = urllib3.request("GET", f"{server.url}/sandbox/calls", timeout=5.0).json()
    api.delete(api.path("configmaps", "a")).ok()
    second = urllib3.request("GET", f"{server.url}/sandbox/calls?after={first['total']}", timeout=5.0).json()
    (call,) = second["calls"]
    assert (call["method"], call["path"], call["code"]) == ("DELETE", api.path("configmaps", "a"), 200)
    assert call["user_agent"].startswith("contract")
