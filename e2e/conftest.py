"""One control plane, one AWS and two replicas of the controller for the whole run; a namespace for each scenario."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from e2e.audit import USER
from e2e.cluster import Cluster
from e2e.replicas import Replicas
from e2e.scenario import Scenario, scenario
from sandbox.demo.story import connected, install
from sandbox.environment import Environment, EnvironmentSettings, start
from sandbox.realkube import PlaneOptions
from sandbox.stack_kube import Container

REPLICAS = ("karpenter-0", "karpenter-1")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """What `pulumi up` leaves, with machines that boot fast."""
    settings = EnvironmentSettings(
        tmp_path_factory.mktemp("cluster"),
        "real",
        join_delay_seconds=0.5,
        ready_delay_seconds=0.5,
        plane=PlaneOptions(audited_users=(USER,)),
    )
    with start(settings) as environment:
        assert environment.plane is not None
        environment.ask_aws("POST", "delays", {"pending_seconds": 1.0, "shutting_down_seconds": 1.0})
        with ExitStack() as ends:
            started: list[Replicas] = []

            def run(container: Container) -> None:
                started.append(ends.enter_context(Replicas(environment, container, REPLICAS)))

            asyncio.run(_install(environment, run))
            running = Cluster(environment, environment.plane, started[0])
            running.until(lambda: running.leader() in REPLICAS, "a replica leads")
            yield running


async def _install(environment: Environment, run: Callable[[Container], None]) -> None:
    async with connected(environment) as client:
        await install(client, environment, run)


@pytest.fixture
def world(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scenario]:
    """A scenario with the test's name."""
    with scenario(cluster, namespace_of(request.node.name)) as found:
        yield found


def namespace_of(test: str) -> str:
    """A namespace's name out of a test's."""
    return re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower()).strip("-")[:60].strip("-")
