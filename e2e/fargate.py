"""Plays Fargate and the network to Services, for a stack that Pulumi's own engine deploys with its webhook.

As soon as the controller's Deployment is there, `nodeless` is started as it says, and the webhooks' Service becomes a
url on loopback. The hosts of its pods are launched once the webhooks answer: until then the Deployment is not up, and
what depends on it waits, as in a cluster.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sandbox.environment import Environment
from sandbox.stack_kube import (
    WEBHOOKS,
    Container,
    await_controller,
    controller_container,
    on_loopback,
    write_controller_kubeconfig,
)
from sandbox.world.client import ApiClient, ApiError, Connection

GROUP = "/apis/admissionregistration.k8s.io/v1"
PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
POLL_SECONDS = 0.2


class Fargate:
    """Starts the controller when its Deployment is there."""

    def __init__(self, environment: Environment, ready: Callable[[], object]) -> None:
        self._environment, self._ready = environment, ready
        self._container: Container | None = None
        self.ended = threading.Event()

    def environment_of_controller(self) -> Mapping[str, str]:
        """The variables of the controller's container; empty before it was started."""
        return self._container.environment if self._container else {}

    def play(self) -> None:
        """Until the controller answers, or the end."""
        while not self.ended.wait(POLL_SECONDS):
            try:
                configurations = asyncio.run(self._start())
            except ApiError:
                continue  # nothing is deployed yet
            await_controller(self._environment.kubeconfig, configurations)
            self._ready()
            return

    async def _start(self) -> list[dict[str, Any]]:
        """Raises ApiError until the Deployment and the webhooks before it are there."""
        environment = self._environment
        async with ApiClient(Connection.from_kubeconfig(environment.kubeconfig), "e2e-fargate") as client:
            container = await controller_container(client)
            configurations = []
            for kind, plural in zip(WEBHOOKS, PLURALS, strict=True):
                for each in (await client.request("GET", f"{GROUP}/{plural}"))["items"]:
                    path = f"{GROUP}/{plural}/{each['metadata']['name']}"
                    body = loopback_patch(each, environment.webhook_port)
                    await client.request("PATCH", path, body=body, content_type="application/json-patch+json")
                    configurations.append({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, **each})
            target = environment.settings.folder / "controller.kubeconfig"
            await write_controller_kubeconfig(client, environment.kubeconfig, target)
        environment.controller_kubeconfig = target
        environment.start_controller(container)
        self._container = container
        return configurations


def loopback_patch(configuration: Mapping[str, Any], port: int) -> list[dict[str, Any]]:
    """A JSON patch by which the API server asks a port of this machine in place of the Service."""
    return [
        {"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": on_loopback(hook, port)["clientConfig"]}
        for index, hook in enumerate(configuration["webhooks"])
    ]


@contextmanager
def fargate(environment: Environment, ready: Callable[[], object]) -> Iterator[Fargate]:
    """Play until the block ends; `ready` is called once the controller's webhooks answer."""
    player = Fargate(environment, ready)
    thread = threading.Thread(target=player.play, name="fargate", daemon=True)
    thread.start()
    try:
        yield player
    finally:
        player.ended.set()
        thread.join(30)
