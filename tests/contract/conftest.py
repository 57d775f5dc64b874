"""Every contract test runs twice: against the embedded API server and, with KUBEBUILDER_ASSETS, against a real one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3

from sandbox import apiserver, realkube
from sandbox.apiserver import Running
from tests.contract.client import Client, eventually

CONTROLLERS = (
    "garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
    "serviceaccount-token-controller",
)  # fmt: skip
"""Those whose work the embedded server does itself."""

_real = pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("real-control-plane")])


UNCACHED = ("podtemplates",)
"""A kind that nothing else uses: the real server keeps no watch cache of it."""


class Servers:
    """Both control planes, each started when first asked for and stopped at the end of the session."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._running: dict[str, Running] = {}
        self._plane: realkube.RealControlPlane | None = None

    def get(self, kind: str) -> Running:
        """The running server of a kind."""
        if kind not in self._running:
            self._running[kind] = self._start(kind)
        return self._running[kind]

    def _start(self, kind: str) -> Running:
        folder = self._folder / kind
        if kind == "embedded":
            return self._stack.enter_context(apiserver.serve(kubeconfig=folder / "kubeconfig"))
        self._plane = self._stack.enter_context(
            realkube.serve(
                state=folder,
                components=("kube-controller-manager",),
                options=realkube.PlaneOptions(controllers=CONTROLLERS, uncached=UNCACHED),
            )
        )
        return realkube.running(self._plane)

    def compact(self, kind: str) -> None:
        """Makes a server forget its history."""
        if kind == "real" and self._plane is not None:
            self._plane.compact()
        else:
            urllib3.request("POST", f"{self.get(kind).url}/sandbox/faults", json={"kind": "compact"}, timeout=5.0)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, tmp_path_factory.mktemp("control-planes"))


@pytest.fixture(params=["embedded", _real])
def client(request: pytest.FixtureRequest, servers: Servers) -> Client:
    """A client without a namespace of its own."""
    if request.param == "real" and not os.environ.get(realkube.ASSETS_VARIABLE):
        pytest.skip(f"{realkube.ASSETS_VARIABLE} is not set")
    return Client(servers.get(request.param), request.param, lambda: servers.compact(request.param))


@pytest.fixture
def api(client: Client) -> Client:
    """A client with a fresh namespace, in which pods can be created."""
    name = f"t-{secrets.token_hex(4)}"
    client.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    client.namespace = name
    eventually(lambda: client.get(client.path("serviceaccounts", "default")).code == 200)
    return client
