"""Install the stack on a real control plane, with replicas that run under the controller's ServiceAccount."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.audit import USER
from e2e.cluster import Cluster
from e2e.replicas import Replicas
from sandbox.demo.story import connected, install
from sandbox.environment import Environment, EnvironmentSettings, start
from sandbox.realkube import PlaneOptions
from sandbox.stack_kube import Container

REPLICAS = ("karpenter-0", "karpenter-1")


@contextmanager
def installed(
    folder: Path,
    names: tuple[str, ...] = REPLICAS,
    client_qps: int = 0,
    boot_seconds: tuple[float, float] = (0.5, 0.5),
) -> Iterator[Cluster]:
    """With machines that boot fast, and every request of the controller audited, until the block ends.

    `client_qps` are PlaneOptions'; `boot_seconds` go from a running instance to its kubelet's first word, and from
    there to Ready. Raises AssetsMissingError without KUBEBUILDER_ASSETS, and ProcessFailedError.
    """
    plane = PlaneOptions(audited_users=(USER,), client_qps=client_qps)
    join, ready = boot_seconds
    settings = EnvironmentSettings(folder, "real", join_delay_seconds=join, ready_delay_seconds=ready, plane=plane)
    with start(settings) as environment:
        assert environment.plane is not None
        environment.ask_aws("POST", "delays", {"pending_seconds": 1.0, "shutting_down_seconds": 1.0})
        with ExitStack() as ends:
            started: list[Replicas] = []

            def run(container: Container) -> None:
                started.append(ends.enter_context(Replicas(environment, container, names)))

            asyncio.run(_install(environment, run))
            cluster = Cluster(environment, environment.plane, started[0])
            cluster.until(lambda: cluster.leader() in names, "a replica leads")
            yield cluster


async def _install(environment: Environment, run: Callable[[Container], None]) -> None:
    async with connected(environment) as client:
        await install(client, environment, run)
