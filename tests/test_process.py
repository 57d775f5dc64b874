"""The process around the loops: how it connects."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.kube.client import ClientOptions, KubeClient
from controller.kube.resources import NAMESPACES
from controller.options import Options
from controller.process import LEAST_CONNECTIONS, connection
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

    def read(_: int) -> None:
        together.wait(10)
        kube.get(NAMESPACES, "default")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(read, range(AT_ONCE)))
    return sum("Connection pool is full" in record.getMessage() for record in caplog.records)


def test_a_burst_has_room_in_the_pool_of_connections(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Else each of them is made anew for every request, and the log is full of it."""
    server.fault(kind="latency", seconds=60, delay_seconds=0.2)
    with caplog.at_level(logging.WARNING, "urllib3.connectionpool"):
        assert discarded(server, LEAST_CONNECTIONS, caplog) > 0, "the measure sees those that are thrown away"
        assert discarded(server, AT_ONCE, caplog) == 0
