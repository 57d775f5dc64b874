"""The process around the loops: how it connects, and that it does what its options say."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from structlog.testing import capture_logs

from controller.errors import ValidationError
from controller.kube.client import ClientOptions, KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CONFIG_MAPS, LEASES, NAMESPACES, SECRETS
from controller.operator import process
from controller.operator.composition import OperatorTimes
from controller.operator.options import Options
from controller.operator.process import LEAST_CONNECTIONS, connection, wait_for_lease
from controller.operator.startup import refuse_old_kubernetes
from controller.runtime.clock import Clock, SystemClock
from controller.webhook.serving import Webhook
from sandbox.realkube import free_ports
from tests.kube.conftest import server
from tests.kube.server import Server

__all__ = ["server"]

AT_ONCE = LEAST_CONNECTIONS + 6


def discarded(server: Server, burst: int, caplog: pytest.LogCaptureFixture) -> int:
    """How many connections had no place to be kept when AT_ONCE requests ran at the same time."""
    caplog.clear()
    options = Options("karpenter", kube_client_burst=burst)
    kube = KubeClient(connection(options, server.kubeconfig), ClientOptions(qps=1e6, burst=burst))
    together = threading.Barrier(AT_ONCE)

    def get(_: int) -> None:
        together.wait(10)
        kube.get(NAMESPACES, "default")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(get, range(AT_ONCE)))
    return sum("Connection pool is full" in record.getMessage() for record in caplog.records)


OPTIONS = {
    "SYSTEM_NAMESPACE": "default",
    "METRICS_PORT": "0",
    "HEALTH_PROBE_PORT": "0",
    "KUBE_CLIENT_QPS": "50",
    "KUBE_CLIENT_BURST": "60",
    "ENABLE_PROFILING": "true",
    "MEMORY_LIMIT": "1000000000",
    "CONFIG_LOGGING_NAME": "levels",
    "KUBERNETES_MIN_VERSION": "1.99",
    "KARPENTER_SERVICE": "karpenter",
}


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """What a process sets for itself is this one's again."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    thresholds = gc.get_threshold()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.fixture
def webhooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process' webhook is closed in the end, as the end of a process would."""
    made: list[Webhook] = []

    class Known(Webhook):
        def start(self) -> None:
            made.append(self)
            super().start()

    monkeypatch.setattr(process, "Webhook", Known)
    yield
    for each in made:
        each.close(0.0)


def read(port: int, path: str) -> str:
    try:
        with urlopen(f"http://localhost:{port}{path}", timeout=5) as answer:
            text: bytes = answer.read()
    except HTTPError as error:
        text = error.read()
    return text.decode()


def await_page(port: int, path: str, what: str) -> str:
    deadline = time.monotonic() + 10
    while what not in (page := read(port, path)):
        assert time.monotonic() < deadline, f"{what} is not on {path}"
        time.sleep(0.02)
    return page


@pytest.mark.usefixtures("as_it_was", "webhooks")
def test_each_option_reaches_what_it_is_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at from within, while the process starts: it ends by the version that it asks for. By then, before there
    are settings or a lease, its webhook is served: by every replica."""
    levels = {"metadata": {"name": "levels"}, "data": {"loglevel.controller": "loud"}}
    kube = KubeClient(connect(server.kubeconfig))
    kube.create(CONFIG_MAPS, levels, "default")
    kube.create(SECRETS, {"metadata": {"name": "karpenter-cert"}}, "default")
    (free,) = free_ports(1)
    looked: list[float] = []

    def look(kube: KubeClient, least: str, clock: Clock, stop: threading.Event) -> None:
        try:
            ports = {line["what"]: line["port"] for line in logs if line["event"] == "Serves"}
            port = ports["metrics"]
            assert (kube.options.qps, kube.options.burst) == (50, 60)
            assert "MainThread" in read(port, "/debug/stacks")
            assert '"decisions"' in read(port, "/decisions")
            assert "memory" in {thread.name for thread in threading.enumerate()}
            await_page(port, "/metrics", 'nodeless_configuration_refused{config_map="levels"} 1.0')
            ready = await_page(ports["health-probe"], "/readyz", "[+]webhook ok")
            assert "[-]caches failed: waiting for settings and for AWS" in ready
            looked.append(clock.now())
            refuse_old_kubernetes(kube, least, clock, stop)
        finally:
            stop.set()

    monkeypatch.setattr(process, "refuse_old_kubernetes", look)
    with capture_logs() as logs, pytest.raises(ValidationError, match=r"1\.99 is the least"):
        process.run(Options.parse({**OPTIONS, "WEBHOOK_PORT": str(free)}), kubeconfig=server.kubeconfig)
    assert looked
    assert [line["port"] for line in logs if line["event"] == "Serves admission"] == [free]
    (refused,) = [line for line in logs if line.get("config_map") == "default/levels"]
    assert "loglevel.controller: 'loud' is no log level" in refused["problems"][0]


def test_without_leader_election_nobody_is_asked(server: Server) -> None:
    clock, stop = SystemClock(), threading.Event()
    kube = KubeClient(connect(server.kubeconfig))
    options = Options("default", leader_elect=False)
    assert wait_for_lease(options, kube, clock, stop, OperatorTimes()) is None
    assert kube.list(LEASES, "default") == []
    elector = wait_for_lease(replace(options, leader_elect=True, pod_name="a"), kube, clock, stop, OperatorTimes())
    assert elector is not None
    elector.release()
    (lease,) = kube.list(LEASES, "default")
    assert lease["spec"]["holderIdentity"] == ""


def test_a_burst_has_room_in_the_pool_of_connections(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Else each of them is made anew for every request, and the log is full of it."""
    server.fault(kind="latency", seconds=60, delay_seconds=0.2)
    with caplog.at_level(logging.WARNING, "urllib3.connectionpool"):
        assert discarded(server, LEAST_CONNECTIONS, caplog) > 0, "the measure sees those that are thrown away"
        assert discarded(server, AT_ONCE, caplog) == 0
