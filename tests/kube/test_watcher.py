"""One watcher against exact streams: what it hands on, when it lists anew, and that it never spins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from controller.core.state.change import Change
from controller.errors import UnavailableError
from controller.kube.client import KubeClient, ObjectList
from controller.kube.resources import NODES
from controller.kube.retry import Backoff
from controller.kube.stream import WatchStream
from controller.kube.watcher import Watcher, WatchOptions
from controller.runtime.clock import SystemClock
from tests.factories import node_object
from tests.kube.scripted import Script, event, scripted, status
from tests.kube.server import Server, eventually

OPTIONS = WatchOptions(read_timeout_seconds=5.0, backoff=Backoff(initial_seconds=0.01, max_seconds=0.02))


def node(name: str, version: int) -> dict[str, object]:
    document = node_object(name=name)
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}


@contextmanager
def watching(client: KubeClient, options: WatchOptions = OPTIONS) -> Iterator[tuple[Watcher, list[Change]]]:
    changes: list[Change] = []
    watcher = Watcher(NODES, client, changes.append, SystemClock(), options=options)
    watcher.start()
    try:
        yield watcher, changes
    finally:
        watcher.stop()


def said(changes: list[Change]) -> list[str]:
    """ "ADDED a", "REPLACED a,b"."""
    return [f"{each.type.value} {','.join(obj['metadata']['name'] for obj in each.objects)}" for each in changes]


def test_a_list_then_the_events_after_it(server: Server) -> None:
    stream = event("ADDED", **node("b", 101)) + event("MODIFIED", **node("a", 102)) + event("DELETED", **node("a", 103))
    script = Script(stream, items=(node("a", 50),))
    with scripted(script, server) as client, watching(client) as (watcher, changes):
        eventually(lambda: len(changes) == 4 and len(script.watched_from) == 2, "the events")
        assert said(changes) == ["REPLACED a", "ADDED b", "MODIFIED a", "DELETED a"]
        assert changes[0].resource_version == "100"
        assert watcher.synced.is_set()
    assert script.watched_from == ["100", "103"], "the second stream goes on where the first ended"
    assert script.lists == 1


def test_a_bookmark_moves_the_version_and_is_no_change(server: Server) -> None:
    bookmark = event("BOOKMARK", kind="Node", metadata={"resourceVersion": "900"})
    script = Script(bookmark)
    with scripted(script, server) as client, watching(client) as (_, changes):
        eventually(lambda: len(script.watched_from) == 2, "the second stream")
        assert said(changes) == ["REPLACED "]
    assert script.watched_from == ["100", "900"]


def test_410_in_the_stream_lists_anew_and_says_so_once(server: Server) -> None:
    script = Script(event("ADDED", **node("a", 101)) + status(410, "Expired"), items=(node("b", 70),))
    with capture_logs() as logs, scripted(script, server) as client, watching(client) as (_, changes):
        eventually(lambda: len(script.watched_from) == 2, "the second stream")
        assert said(changes) == ["REPLACED b", "ADDED a", "REPLACED b"]
    assert [line["event"] for line in logs] == [
        "Watch history expired, listing anew",
        "Listed anew after expired watch history",
    ]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (event("ADDED", **node("a", 101))[:-20], "cut within an event"),
        (b"not json\n", "no JSON"),
        (b'{"type": "ADDED"}\n', "no object"),
        (b"[]\n", "no event"),
        (status(500, "InternalError"), "an error that will pass"),
    ],
)
def test_a_broken_stream_goes_on_from_the_last_version(server: Server, broken: bytes, why: str) -> None:
    script = Script(event("ADDED", **node("z", 101)) + broken, event("ADDED", **node("a", 102)))
    with scripted(script, server) as client, watching(client) as (_, changes):
        eventually(lambda: len(changes) == 3, f"the event after {why}")
        assert said(changes) == ["REPLACED ", "ADDED z", "ADDED a"]
    assert script.watched_from[:2] == ["100", "101"]
    assert script.lists == 1


def test_three_failures_in_a_row_without_an_event_list_anew(server: Server) -> None:
    """The version may be one that the server does not know: after a restore from a backup, say."""
    script = Script(*[status(504, "Timeout")] * 3, event("ADDED", **node("a", 102)))
    with scripted(script, server) as client, watching(client) as (_, changes):
        eventually(lambda: len(changes) == 3, "the event")
    assert script.lists == 2


def test_streams_that_end_at_once_are_not_asked_for_without_a_pause(server: Server) -> None:
    slow = WatchOptions(read_timeout_seconds=5.0, backoff=Backoff(initial_seconds=60.0, max_seconds=60.0))
    script = Script(*[b""] * 1000)
    with scripted(script, server) as client, watching(client, slow) as (watcher, _):
        eventually(lambda: len(script.watched_from) == 1, "the first stream")
        watcher.stop()
    assert len(script.watched_from) == 1


def test_an_event_that_is_split_over_many_packets_is_one_event(server: Server) -> None:
    document = node("a", 101)
    document["metadata"]["annotations"] = {"long": "x" * 1_000_000}  # type: ignore[index]
    script = Script(event("ADDED", **document) + event("ADDED", **node("b", 102)))
    with scripted(script, server) as client, watching(client) as (_, changes):
        eventually(lambda: len(changes) == 3, "both events")
        assert len(changes[1].objects[0]["metadata"]["annotations"]["long"]) == 1_000_000


def test_a_fault_of_ours_does_not_end_the_watch(server: Server) -> None:
    script = Script(event("ADDED", **node("a", 101)), event("ADDED", **node("b", 102)))
    changes: list[Change] = []

    def sink(change: Change) -> None:
        if change.type.value == "ADDED" and change.objects[0]["metadata"]["name"] == "a":
            raise ZeroDivisionError("a bug")
        changes.append(change)

    with capture_logs() as logs, scripted(script, server) as client:
        watcher = Watcher(NODES, client, sink, SystemClock(), options=OPTIONS)
        watcher.start()
        eventually(lambda: len(changes) == 3, "the event after the fault")
        watcher.stop()
    assert said(changes) == ["REPLACED ", "REPLACED ", "ADDED b"], "what the fault lost is listed again"
    assert [line["event"] for line in logs] == ["Watch failed unexpectedly"]


def test_a_stream_that_outlives_the_time_it_was_asked_for_is_silent_and_replaced(server: Server) -> None:
    """No read timeout of its own: the limit of the watch alone tells a half-open stream from a quiet one."""
    brief = WatchOptions(min_timeout_seconds=1.0, max_timeout_seconds=1.0, late_seconds=0.1, backoff=OPTIONS.backoff)
    bookmark = event("BOOKMARK", kind="Node", metadata={"resourceVersion": "900"})
    script = Script(bookmark)
    with capture_logs() as logs, scripted(script, server) as client, watching(client, brief) as (_, changes):
        eventually(lambda: len(script.watched_from) == 3, "a stream after the silent one")
        assert said(changes) == ["REPLACED "], "nothing is listed anew, nothing forgotten"
    assert script.watched_from == ["100", "900", "900"], "it goes on from the bookmark"
    assert "Watch fell silent, connecting anew" in [line["event"] for line in logs]


class AskedClient:
    """In place of a KubeClient: remembers what watches were asked for, and refuses them."""

    def __init__(self) -> None:
        self.limits: list[tuple[float, float]] = []

    def list_all(self, *_args: Any) -> ObjectList:
        return ObjectList((), "100")

    def watch(self, *_args: Any, timeout_seconds: float, read_timeout_seconds: float, **_fields: Any) -> WatchStream:
        self.limits.append((timeout_seconds, read_timeout_seconds))
        raise UnavailableError("scripted")


def test_a_leader_is_blind_for_a_minute_and_a_half_at_most(server: Server) -> None:
    asked = AskedClient()
    quick = WatchOptions(backoff=OPTIONS.backoff)
    with watching(cast("KubeClient", asked), quick):
        eventually(lambda: len(asked.limits) >= 20, "watches")
    assert all(60.0 <= limit <= 90.0 for limit, _ in asked.limits)
    assert all(limit < silent <= 95.0 for limit, silent in asked.limits), "a healthy quiet watch is ended by the server"
    assert len({limit for limit, _ in asked.limits}) > 1, "spread, so that watches do not all end at once"
    script = Script()
    with scripted(script, server) as client, watching(client, quick) as _:
        eventually(lambda: len(script.queries) == 1, "the watch")
    assert script.queries[0]["allowWatchBookmarks"] == "true"
    assert 60 <= int(script.queries[0]["timeoutSeconds"]) <= 90


def test_stopping_does_not_wait_for_a_silent_stream(server: Server) -> None:
    patient = WatchOptions(read_timeout_seconds=3600.0)
    script = Script()
    with scripted(script, server) as client, watching(client, patient) as (watcher, _):
        eventually(lambda: len(script.watched_from) == 1, "the stream")
        watcher.stop(timeout_seconds=10.0)
        assert not watcher.alive
