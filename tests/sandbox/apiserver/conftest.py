"""An embedded API server per test: faults of one test must not reach another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import urllib3

from sandbox import apiserver
from sandbox.apiserver.api import API
from tests.contract.client import Client


@pytest.fixture
def server() -> Iterator[apiserver.Running]:
    with apiserver.serve(api=API(bookmark_seconds=0.2)) as running:
        yield running


@pytest.fixture
def api(server: apiserver.Running) -> Client:
    def compact() -> None:
        fault(server, kind="compact")

    return Client(server, "embedded", compact, "default")


def fault(server: apiserver.Running, **body: object) -> dict[str, object]:
    """POST /sandbox/faults."""
    answer = urllib3.request("POST", f"{server.url}/sandbox/faults", json=body, timeout=5.0)
    assert answer.status == 200, answer.data
    answered: dict[str, object] = answer.json()
    return answered
