"""The demo itself: the guides' objects, pods that wait, nodes that come, pods that go, nodes that go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.status import Status

from sandbox.demo.apply import apply, load
from sandbox.demo.report import NodeLine, durations_table, events_table, node_line, nodes_table
from sandbox.demo.timeline import Observer, Timeline
from sandbox.environment import NAMESPACE, Environment
from sandbox.stack_kube import Container
from sandbox.world.client import ApiClient, ApiError, Connection
from sandbox.world.informer import Informer
from sandbox.world.resources import DEPLOYMENTS, EVENTS, LEASES, NODES, PODS, Obj

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"

LEASE = "karpenter-leader-election"
REPLICAS = 5
QUICK_TTL_SECONDS = 5

SPANS = {
    "scaled up → Node object": ("Scaled inflate to 5", "Node object is created"),
    "Node object → initialized": ("Node object is created", "Node is initialized"),
    "scaled up → pods Running": ("Scaled inflate to 5", "5 pods are Running"),
    "empty → deletion": ("Node is empty", "Node is being deleted"),
    "deletion → Node gone": ("Node is being deleted", "Node is gone"),
}


class DemoFailedError(Exception):
    """Something that must hold at the end of the demo does not."""


@dataclass(slots=True)
class Result:
    """What the demo leaves to show."""

    nodes: list[NodeLine] = field(default_factory=list)
    events: list[Obj] = field(default_factory=list)


async def install(client: ApiClient, environment: Environment, run: Callable[[Container], object] | None = None) -> int:
    """The stack with the controller (started by `run`), and the guides' workload. Returns the stack's resources."""
    made = await asyncio.to_thread(environment.deploy_stack, run=run)
    await apply(client, load([EXAMPLES / "inflate.yaml"]))
    return made


@contextlib.asynccontextmanager
async def connected(environment: Environment) -> AsyncIterator[ApiClient]:
    """A client of the sandbox's API server."""
    async with ApiClient(Connection.from_kubeconfig(environment.kubeconfig), "sandbox-demo") as client:
        yield client


class Story:
    """Runs the acts and checks what each must bring about."""

    def __init__(self, environment: Environment, client: ApiClient, console: Console, status: Status) -> None:
        self._environment = environment
        self._client = client
        self._timeline = Timeline(console)
        self._pods, self._nodes = Informer(client, PODS), Informer(client, NODES)
        self._events = Informer(client, EVENTS)
        self._observer = Observer(self._timeline, self._pods, self._nodes, "inflate", environment.check, status)
        self._result = Result()

    async def run(self) -> Result:
        """Both acts. Raises TimeoutError or DemoFailedError, naming what is missing."""
        watches = [asyncio.create_task(i.run()) for i in (self._pods, self._nodes, self._events)]
        try:
            for informer in (self._pods, self._nodes, self._events):
                await informer.synced.wait()
            await self._controller_leads()
            self._timeline.title("Spot: requirement capacity-type In [spot], ttlSecondsAfterEmpty 30")
            await self._act("spot", empty_after_seconds=30)
            self._timeline.title("The same Provisioner, now on-demand c, m, r of generation 3 and newer")
            await apply(self._client, load([EXAMPLES / "provisioner-categories.yaml"]))
            await self._shorten_ttl()
            await self._act("on-demand", empty_after_seconds=QUICK_TTL_SECONDS)
            await self._nothing_leaks()
        finally:
            for watch in watches:
                watch.cancel()
        self._result.events = [e for e in self._events if e.get("source", {}).get("component") == "karpenter"]
        return self._result

    async def _controller_leads(self) -> None:
        deadline = asyncio.get_running_loop().time() + 60
        while not await self._lease_holder():
            self._environment.check()
            if asyncio.get_running_loop().time() > deadline:
                raise DemoFailedError("the controller did not take its Lease within 60 s")
            await asyncio.sleep(0.1)
        self._timeline.add("The controller leads", f"Lease {NAMESPACE}/{LEASE}")

    async def _lease_holder(self) -> str:
        try:
            lease = await self._client.get(LEASES, NAMESPACE, LEASE)
        except ApiError as error:
            if error.not_found:
                return ""
            raise
        return lease["spec"].get("holderIdentity") or ""

    async def _shorten_ttl(self) -> None:
        body = {"spec": {"ttlSecondsAfterEmpty": QUICK_TTL_SECONDS}}
        path = "/apis/karpenter.sh/v1alpha5/provisioners/default"
        await self._client.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        self._timeline.add(f"ttlSecondsAfterEmpty is {QUICK_TTL_SECONDS} for this act, so that nobody waits twice")

    async def _act(self, capacity_type: str, empty_after_seconds: int) -> None:
        await self._scale(REPLICAS)
        await self._observer.wait(
            lambda: self._observer.pod_states()["Running"] == REPLICAS, 60, f"{REPLICAS} pods running"
        )
        await self._observer.wait(self._all_initialized, 30, "initialized nodes")
        self._note_nodes(capacity_type)
        await self._scale(0)
        await self._observer.wait(lambda: not self._observer.nodes(), empty_after_seconds + 60, "removal of the nodes")

    def _all_initialized(self) -> bool:
        nodes = self._observer.nodes()
        return bool(nodes) and all(n["metadata"]["labels"].get("karpenter.sh/initialized") == "true" for n in nodes)

    async def _scale(self, replicas: int) -> None:
        self._timeline.add(f"Scaled inflate to {replicas}", f"kubectl scale deployment inflate --replicas {replicas}")
        body = {"spec": {"replicas": replicas}}
        await self._client.patch(DEPLOYMENTS, ("default", "inflate"), body, subresource="scale")

    def _note_nodes(self, capacity_type: str) -> None:
        by_id = {i["instanceId"]: i for i in self._environment.instances()}
        for node in self._observer.nodes():
            instance = by_id[node["spec"]["providerID"].rsplit("/", 1)[1]]
            line = node_line(node, instance["pricePerHour"], self._observer.app_pods())
            if line.capacity_type != capacity_type:
                raise DemoFailedError(f"{line.name} is {line.capacity_type}, its Provisioner asks for {capacity_type}")
            self._result.nodes.append(line)

    async def _nothing_leaks(self) -> None:
        deadline = asyncio.get_running_loop().time() + 30
        while alive := [i for i in self._environment.instances() if i["state"] not in ("shutting-down", "terminated")]:
            if asyncio.get_running_loop().time() > deadline:
                raise DemoFailedError(f"instances leaked: {', '.join(i['instanceId'] for i in alive)}")
            await asyncio.sleep(0.2)
        launched = len(self._environment.instances())
        if launched != len(self._result.nodes):
            raise DemoFailedError(f"{launched} instances were launched for {len(self._result.nodes)} nodes")
        self._timeline.add("EC2 has terminated every instance", f"{launched} were launched, none is left")

    def show(self, console: Console) -> None:
        """The tables."""
        console.print()
        console.print(nodes_table(self._result.nodes))
        console.print(durations_table(self._timeline.moments, SPANS))
        console.print(events_table(self._result.events))
