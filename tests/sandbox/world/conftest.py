"""Tests of controllers and kubelets run on the embedded cluster and, with KUBEBUILDER_ASSETS, on a real control
plane."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sandbox.apiserver import Running
from sandbox.controlplane import Kind
from sandbox.realkube import ASSETS_VARIABLE
from tests.sandbox.world.harness import Cluster, ScriptedCloud, living_cluster

_embedded = pytest.param("embedded", marks=pytest.mark.xdist_group("world"))
_real = pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("real-world")])


class Clusters:
    """Clusters by kind, started when first asked for."""

    def __init__(self, stack: ExitStack, factory: pytest.TempPathFactory) -> None:
        self._stack, self._factory = stack, factory
        self._started: dict[Kind, tuple[Running, ScriptedCloud]] = {}

    def get(self, kind: Kind) -> tuple[Running, ScriptedCloud]:
        """The API server and the cloud of a kind."""
        if kind not in self._started:
            folder = self._factory.mktemp(f"world-{kind}")
            self._started[kind] = self._stack.enter_context(living_cluster(kind, folder))
        return self._started[kind]


@pytest.fixture(scope="package")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """They end with this folder's tests: kubelets that live on take time from all tests after these."""
    with ExitStack() as stack:
        yield Clusters(stack, tmp_path_factory)


@pytest.fixture(params=[_embedded, _real])
def kube(request: pytest.FixtureRequest, clusters: Clusters) -> Cluster:
    """A namespace of its own in a living cluster of either kind."""
    if request.param == "real" and not os.environ.get(ASSETS_VARIABLE):
        pytest.skip(f"{ASSETS_VARIABLE} is not set")
    running, cloud = clusters.get(request.param)
    return Cluster(running, cloud, real=request.param == "real")
