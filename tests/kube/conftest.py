"""An API server on loopback and a client of it, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.kube.client import ClientOptions, KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from controller.kube.retry import Backoff
from sandbox.apiserver import serve
from sandbox.apiserver.api import API
from tests.kube.server import Server
from tests.product_crds import product_crds

QUICK = ClientOptions(page_size=7, backoff=Backoff(initial_seconds=0.01, max_seconds=0.05, attempts=3))
"""Small pages, so that every list of more than a handful of objects has several."""


BOOKMARK_SECONDS = 0.1
"""Real servers send one a minute."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A fresh, empty API server."""
    kubeconfig = tmp_path / "kubeconfig"
    with serve(kubeconfig=kubeconfig, api=API(bookmark_seconds=BOOKMARK_SECONDS)) as running:
        yield Server(running.url, running.token, str(kubeconfig))


@pytest.fixture
def client(server: Server) -> KubeClient:
    """A client with short waits."""
    return KubeClient(connect(server.kubeconfig), QUICK)


@pytest.fixture
def crds(client: KubeClient) -> KubeClient:
    """A client of a server that has our two kinds."""
    for definition in product_crds():
        client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    return client
