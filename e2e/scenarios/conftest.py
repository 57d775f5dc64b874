"""One control plane, one AWS and two replicas of the controller for the whole run; a namespace for each scenario."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import Cluster
from e2e.installation import installed
from e2e.scenario import Scenario, scenario


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Logs are in the folder that is printed first; it is removed when every scenario passed."""
    folder = Path(tempfile.mkdtemp(prefix="nodeless-e2e-"))
    print(f"\nLogs and the kubeconfig are in {folder}", file=sys.__stderr__)
    with installed(folder) as running:
        yield running
    if not request.session.testsfailed:
        shutil.rmtree(folder)


@pytest.fixture
def world(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scenario]:
    """A scenario with the test's name."""
    with scenario(cluster, namespace_of(request.node.name)) as started:
        yield started


def namespace_of(test: str) -> str:
    """A namespace's name out of a test's."""
    return re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower()).strip("-")[:60].strip("-")
