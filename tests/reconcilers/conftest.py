"""A Kubernetes API server over HTTP, the watches on it, and a cloud in memory: what every loop is tested in."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import urllib3

from controller.cloud.catalogs import Catalogs
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.connection import Connection, connect
from controller.kube.events import EventRecorder
from controller.kube.informers import Informers
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NODES,
    PODS,
    PROVISIONERS,
    Resource,
)
from controller.machines.launcher import Launcher
from controller.machines.removals import Removals
from controller.reconcilers.context import LiveSettings, ReconcilerContext
from controller.runtime.clock import SystemClock
from controller.runtime.executors import INLINE, ThreadExecutors
from controller.runtime.metrics import SILENT, Recorder
from controller.runtime.waits import Waits
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger
from sandbox.apiserver import Running, serve
from tests.manual_clock import ManualClock
from tests.product_crds import product_crds
from tests.reconcilers.cloud import MemoryCloud

DEADLINE_SECONDS = 20.0
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


class SettableClock(SystemClock):
    """The machine's clock, set forward at will."""

    ahead_seconds = 0.0
    worked_seconds = 0.0
    """Processor time beside that which the thread has really used."""

    def now(self) -> float:
        return super().now() + self.ahead_seconds

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_seconds

    def processor(self) -> float:
        return super().processor() + self.worked_seconds


@dataclass
class World:
    """One test's cluster."""

    kube: KubeClient
    informers: Informers
    events: EventRecorder
    api: Running
    cloud: MemoryCloud = field(default_factory=MemoryCloud)
    clock: SettableClock = field(default_factory=SettableClock)
    settings: LiveSettings = field(default_factory=lambda: LiveSettings(Settings(cluster_name="test")))
    stop: threading.Event = field(default_factory=threading.Event)
    planned: threading.Event = field(default_factory=threading.Event)
    """For loops that set it; in `context` it is set."""

    @cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self.cloud)

    @cached_property
    def executors(self) -> ThreadExecutors:
        return ThreadExecutors()

    @cached_property
    def context(self) -> ReconcilerContext:
        """As it is once a leader has adopted all instances and planned once."""
        return ReconcilerContext(
            settings=self.settings,
            kube=self.kube,
            informers=self.informers,
            events=self.events,
            cloud=self.cloud,
            catalogs=self.catalogs,
            launcher=self.launcher,
            removals=self.removals,
            clock=self.clock,
            ledger=Ledger(self.clock),
            waits=Waits(self.clock, SILENT),
            executors=self.executors,
            stop=self.stop,
            adopted=raised(),
            planned=raised(),
            namespace="kube-system",
        )

    @cached_property
    def launcher(self) -> Launcher:
        return Launcher(
            kube=self.kube, informers=self.informers, cloud=self.cloud, removals=self.removals, clock=self.clock
        )

    @cached_property
    def removals(self) -> Removals:
        """The door, once the process has proven its cluster."""
        door = Removals(
            kube=self.kube,
            cloud=self.cloud,
            clock=self.clock,
            recorder=SILENT,
            cluster_arn=self.cloud.where.cluster_arn,
        )
        door.check(Snapshot())
        return door

    def change_settings(self, **fields: Any) -> None:
        """As a change of the ConfigMap does, for loops that read `context.settings`."""
        self.settings.current = replace(self.settings.current, **fields)

    def until(
        self, condition: Callable[[Snapshot], Any], what: str = "", deadline_seconds: float = DEADLINE_SECONDS
    ) -> Snapshot:
        """The first snapshot in which the condition holds."""
        deadline = time.monotonic() + deadline_seconds
        snapshot = self.informers.snapshot()
        while not condition(snapshot):
            assert time.monotonic() < deadline, f"did not come true in time: {what or condition}"
            snapshot = self.informers.wait_for_change(snapshot.version, self.stop, 0.1)
        return snapshot

    def passes(self, reconciler: Any, done: Callable[[Snapshot], Any], what: str = "") -> Snapshot:
        """Pass after pass, each with the newest snapshot, until the condition holds."""

        def one_more(snapshot: Snapshot) -> bool:
            if done(snapshot):
                return True
            reconciler.reconcile(snapshot)
            return False

        return self.until(one_more, what)

    def caught_up(self) -> Snapshot:
        """A snapshot that has every change made before this call."""
        marker = self.kube.create(
            PODS,
            {
                "metadata": {"generateName": "marker-", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"},
            },
            "default",
        )["metadata"]["name"]
        self.until(lambda snapshot: ("default", marker) in snapshot.pods)
        nodes = {entry["metadata"]["name"]: entry["metadata"]["resourceVersion"] for entry in self.kube.list(NODES)}
        self.until(lambda s: {name: node.node.resource_version for name, node in s.nodes.items()} == nodes, "nodes")
        self.kube.delete(PODS, marker, "default", grace_period_seconds=0)
        return self.informers.snapshot()

    def add_provisioner(self, name: str = "default", **spec: Any) -> dict[str, Any]:
        """A Provisioner of the template `default`, which is made with the first one."""
        try:
            self.kube.get(AWS_NODE_TEMPLATES, "default")
        except NotFoundError:
            discovery = {"karpenter.sh/discovery": "test"}
            self.kube.create(
                AWS_NODE_TEMPLATES,
                {
                    "apiVersion": AWS_NODE_TEMPLATES.api_version,
                    "kind": "AWSNodeTemplate",
                    "metadata": {"name": "default"},
                    "spec": {"subnetSelector": discovery, "securityGroupSelector": discovery},
                },
            )
            self.until(lambda snapshot: "default" in snapshot.node_templates)
        made = self.kube.create(
            PROVISIONERS,
            {
                "apiVersion": PROVISIONERS.api_version,
                "kind": "Provisioner",
                "metadata": {"name": name},
                "spec": {"providerRef": {"name": "default"}, **spec},
            },
        )
        self.until(lambda s: name in s.provisioners or ("Provisioner", name) in s.invalid, "provisioner")
        return made

    def add_pod(
        self, name: str, *, node: str = "", spec: Mapping[str, Any] | None = None, tried: bool = True, **metadata: Any
    ) -> dict[str, Any]:
        """A pod of 1 cpu: unschedulable, or bound to a node; not `tried`: kube-scheduler has not come to it yet."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        pod = {
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"containers": [container], **({"nodeName": node} if node else {}), **(spec or {})},
        }
        made = self.kube.create(PODS, pod, "default")
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Running"} if node else {"conditions": [waiting] if tried else []}
        self.kube.patch(PODS, name, {"status": status}, namespace="default", subresource="status")
        key = ("default", name)
        self.until(
            lambda s: key in s.pods and (s.pods[key].node_name == node) and (node or s.pods[key].unschedulable == tried)
        )
        return made

    def kill_pod(self, name: str) -> None:
        """What a kubelet does in the end."""
        self.kube.delete(PODS, name, "default", grace_period_seconds=0)

    def add_node(self, document: Mapping[str, Any], *, ready: bool = True) -> StateNode:
        """A Node, with the status of a kubelet that came up."""
        name = self.kube.create(NODES, document)["metadata"]["name"]
        if ready:
            self.come_up(name)
        return self.caught_up().nodes[name]

    def come_up(self, name: str, resources: Mapping[str, str] | None = None) -> None:
        """The kubelet joins: capacity, allocatable, Ready; the not-ready taint goes."""
        room = dict(resources or {"cpu": "2", "memory": "8Gi", "pods": "29"})
        status = {"capacity": room, "allocatable": room, "conditions": [READY]}
        self.kube.patch(NODES, name, {"status": status}, subresource="status")
        taints = [
            taint
            for taint in self.kube.get(NODES, name)["spec"].get("taints") or []
            if taint["key"] != "node.kubernetes.io/not-ready"
        ]
        self.kube.patch(NODES, name, {"spec": {"taints": taints or None}})
        self.until(lambda s: name in s.nodes and s.nodes[name].node.ready, f"{name} ready")

    def node(self, name: str) -> dict[str, Any]:
        return self.kube.get(NODES, name)

    def said(self, reason: str) -> list[dict[str, Any]]:
        """The events of a reason that the API server has."""
        return [event for event in self.kube.list(EVENTS) if event["reason"] == reason]

    def await_event(self, reason: str) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (events := self.said(reason)):
            assert time.monotonic() < deadline, f"no event {reason}"
            self.clock.wait(self.stop, 0.02)
        return events[0]


def raised() -> threading.Event:
    """A flag that is set."""
    flag = threading.Event()
    flag.set()
    return flag


def apply_fault(world: World, fault: Mapping[str, Any] | None) -> None:
    """Tell the API server to misbehave; None: all is well again."""
    sent = Request(
        f"{world.api.url}/sandbox/faults",
        data=None if fault is None else json.dumps(fault).encode(),
        method="DELETE" if fault is None else "POST",
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {world.api.token}"},
    )
    urlopen(sent).close()


def apply_crds(kube: KubeClient) -> None:
    """Both CRDs, served when this returns."""
    for definition in product_crds():
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for resource in (PROVISIONERS, AWS_NODE_TEMPLATES):
        await_served(kube, resource)


def await_served(kube: KubeClient, resource: Resource) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            kube.list(resource)
        except NotFoundError:
            assert time.monotonic() < deadline, f"{resource.kind} is not served"
            threading.Event().wait(0.02)
        else:
            return


def detached_context(
    cloud: MemoryCloud, clock: ManualClock, recorder: Recorder, kube: KubeClient | None = None
) -> ReconcilerContext:
    """For loops that get their snapshots from the test and ask no API server: there is none, unless `kube` is one."""
    kube = kube or KubeClient(Connection("http://127.0.0.1:9", urllib3.PoolManager(), None), clock=clock)
    informers = Informers(kube, Cluster(), clock)
    removals = Removals(kube=kube, cloud=cloud, clock=clock, recorder=SILENT, cluster_arn=cloud.where.cluster_arn)
    removals.check(Snapshot())
    return ReconcilerContext(
        settings=LiveSettings(Settings(cluster_name="test")),
        kube=kube,
        informers=informers,
        events=EventRecorder(kube, clock),
        cloud=cloud,
        catalogs=Catalogs(cloud),
        launcher=Launcher(kube=kube, informers=informers, cloud=cloud, removals=removals, clock=clock),
        removals=removals,
        clock=clock,
        ledger=Ledger(clock, recorder),
        waits=Waits(clock, recorder),
        executors=INLINE,
        stop=threading.Event(),
        adopted=raised(),
        planned=raised(),
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serve(kubeconfig=tmp_path / "kubeconfig") as api:
        clock = SettableClock()
        kube = KubeClient(connect(str(tmp_path / "kubeconfig")), clock=clock)
        apply_crds(kube)
        informers = Informers(kube, Cluster(), clock)
        events = EventRecorder(kube, clock)
        informers.start()
        events.start()
        made = World(kube, informers, events, api, clock=clock)
        try:
            assert informers.wait_synced(made.stop, DEADLINE_SECONDS)
            yield made
        finally:
            made.stop.set()
            made.executors.close()
            events.stop()
            informers.stop()
