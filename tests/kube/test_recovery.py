"""The informers against a server that goes away, falls silent or forgets: they recover alone and say so once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.kube.client import KubeClient
from controller.kube.connection import Connection
from controller.kube.informers import Informers
from controller.kube.resources import CLUSTER_STATE, NODES, Resource
from controller.kube.retry import Backoff
from controller.kube.watcher import WatchOptions
from controller.runtime.clock import SystemClock
from tests.factories import node_object
from tests.kube.conftest import QUICK
from tests.kube.documents import fresh
from tests.kube.server import Server, eventually

NEVER = threading.Event()
PATIENT = Backoff(initial_seconds=0.05, max_seconds=0.1, attempts=200)
OPTIONS = WatchOptions(read_timeout_seconds=2.0, backoff=Backoff(initial_seconds=0.02, max_seconds=0.1))
"""A server that sends a bookmark every 0.1 s is silent after 2 s."""
CORE_STATE = tuple(resource for resource in CLUSTER_STATE if not resource.group.startswith("karpenter"))


@contextmanager
def informing(
    client: KubeClient, resources: tuple[Resource, ...], options: WatchOptions = OPTIONS
) -> Iterator[Informers]:
    cluster = Cluster([resource.kind for resource in resources])
    informers = Informers(client, cluster, SystemClock(), resources, options)
    informers.start()
    try:
        yield informers
    finally:
        informers.stop()


def names(snapshot: Snapshot) -> list[str]:
    return list(snapshot.nodes)


def outage_lines(logs: list[MutableMapping[str, Any]]) -> list[str]:
    """Repeated failures of an outage are logged for debugging."""
    loud = [line["event"] for line in logs if line["log_level"] != "debug"]
    return [event for event in loud if event != "Cluster state is synced"]


def listening(client: KubeClient, informers: Informers) -> None:
    """Listed, and the watch of nodes is open: it told of a node that came after the list."""
    assert informers.wait_synced(NEVER, 15)
    add_node(client, "marker")
    eventually(lambda: "marker" in informers.snapshot().nodes, "an event")
    client.delete(NODES, "marker")
    eventually(lambda: "marker" not in informers.snapshot().nodes, "another event")


def add_node(client: KubeClient, name: str) -> None:
    client.create(NODES, fresh(node_object(name=name)))


def test_the_server_is_away_for_a_while(server: Server, crds: KubeClient) -> None:
    """Eleven watches suffer; it is said once when it begins and once when it ends; nothing is forgotten meanwhile."""
    add_node(crds, "before")
    with capture_logs() as logs, informing(crds, CLUSTER_STATE) as informers:
        listening(crds, informers)
        server.fault(kind="outage", seconds=1.5)
        eventually(lambda: "server" in informers.outages.current(), "the outage is noticed")
        assert names(informers.snapshot()) == ["before"]
        assert informers.snapshot().synced
        add_node(crds.with_options(backoff=PATIENT), "after")
        eventually(lambda: names(informers.snapshot()) == ["after", "before"], "what was written after the outage")
        eventually(lambda: not informers.outages.current(), "the end of the outage")
    assert outage_lines(logs) == ["API server does not answer", "API server answers again"]


def test_the_server_is_not_there_yet_when_we_start(server: Server, client: KubeClient) -> None:
    add_node(client, "n1")
    server.fault(kind="outage", seconds=1.0)
    with capture_logs() as logs, informing(client, CORE_STATE) as informers:
        assert not informers.snapshot().synced
        assert informers.wait_synced(NEVER, 15)
        assert names(informers.snapshot()) == ["n1"]
        eventually(lambda: not informers.outages.current(), "the end of the outage")
    assert outage_lines(logs) == ["API server does not answer", "API server answers again"]


def test_watches_fall_silent(server: Server, client: KubeClient) -> None:
    """The sockets stay open and nothing comes, as with a host that vanished. On a busy machine it may seem so again."""
    with capture_logs() as logs, informing(client, CORE_STATE) as informers:
        listening(client, informers)
        server.fault(kind="silent-watches")
        add_node(client, "unheard")
        eventually(lambda: names(informers.snapshot()) == ["unheard"], "what was said into the silence")
        eventually(lambda: not informers.outages.current(), "all watches speak")
    lines = outage_lines(logs)
    assert lines
    assert lines == ["Watch fell silent, connecting anew", "Watch speaks again"] * (len(lines) // 2)


def test_history_is_compacted_while_a_watch_is_deaf(server: Server, client: KubeClient) -> None:
    """The deletion is lost with the history; the new list tells it all the same."""
    add_node(client, "gone")
    add_node(client, "kept")
    with capture_logs() as logs, informing(client, (NODES,)) as informers:
        listening(client, informers)
        server.fault(kind="silent-watches")
        client.delete(NODES, "gone")
        add_node(client, "new")
        server.fault(kind="compact")
        eventually(lambda: names(informers.snapshot()) == ["kept", "new"], "the state after the lost history")
        eventually(lambda: not informers.outages.current(), "the end of it")
    lines = outage_lines(logs)
    assert lines.count("Watch history expired, listing anew") == 1
    assert lines.count("Listed anew after expired watch history") == 1


def test_watches_that_the_server_ends_are_taken_up_without_a_word(server: Server, client: KubeClient) -> None:
    with capture_logs() as logs, informing(client, CORE_STATE) as informers:
        listening(client, informers)
        for number in range(3):
            server.fault(kind="drop-watches")
            add_node(client, f"n{number}")
            eventually(lambda want=number + 1: len(informers.snapshot().nodes) == want, "the node")  # type: ignore[misc]
    assert outage_lines(logs) == []


def test_a_busy_server_is_waited_for(server: Server, client: KubeClient) -> None:
    server.fault(kind="errors", seconds=1.0, code=429, rate=0.7, retry_after_seconds=0)
    add = client.with_options(backoff=PATIENT)
    with informing(client, CORE_STATE) as informers:
        add_node(add, "n1")
        assert informers.wait_synced(NEVER, 15)
        eventually(lambda: names(informers.snapshot()) == ["n1"], "the node")


def test_kinds_whose_crd_is_not_there_yet_hold_up_only_the_sync(client: KubeClient, server: Server) -> None:
    """Each missing kind is named once; the others are followed."""
    with capture_logs() as logs, informing(client, CLUSTER_STATE) as informers:
        add_node(client, "n1")
        eventually(lambda: names(informers.snapshot()) == ["n1"], "the node")
        eventually(lambda: informers.unsynced() == ("AWSNodeTemplate", "Provisioner"), "the others are listed")
        assert not informers.wait_synced(NEVER, 0.2)
    refusals = [
        line["kind"]
        for line in logs
        if (line["event"], line["log_level"]) == ("API server refuses to list or watch", "warning")
    ]
    assert sorted(refusals) == ["AWSNodeTemplate", "Provisioner"]


def test_a_reader_of_nobody_is_not_synced(client: KubeClient) -> None:
    """No server at all: start, waiting and stopping still work."""
    absent = KubeClient(
        Connection("http://127.0.0.1:1", client.connection.pool, client.connection.configuration), QUICK
    )
    with informing(absent, CORE_STATE) as informers:
        assert not informers.wait_synced(NEVER, 0.3)
        assert informers.snapshot().nodes == {}
