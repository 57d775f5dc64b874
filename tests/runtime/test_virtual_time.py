"""The same loops that run on threads run in one thread, on a clock that is turned by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.core.cloud import InterruptionQueue, QueueMessage
from controller.core.state.change import Change, ChangeType
from controller.core.state.snapshot import StateNode
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import AWS_NODE_TEMPLATES, CLUSTER_STATE, NODES, PODS, PROVISIONERS
from controller.operator.composition import Edges, Operator
from controller.runtime.executors import INLINE
from controller.runtime.workers import periodic
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger
from sandbox.apiserver import serve
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import READY, apply_crds
from tests.runtime.virtual_time import VirtualTime

TTL_SECONDS = 120
SOON_SECONDS = 60.0
POLL_SECONDS = 20.0


class Cluster:
    """An API server, a cloud in memory, and every loop of the controller, of which none has a thread."""

    def __init__(self, kube: KubeClient, clock: ManualClock, queue: InterruptionQueue | None = None) -> None:
        self.kube, self.clock, self.cloud = kube, clock, MemoryCloud()
        self.cloud.interruptions = queue or self.cloud.interruptions
        self.time, self.stop = VirtualTime(clock), threading.Event()
        edges = Edges(kube, self.cloud, clock, Ledger(clock), self.stop, INLINE, self.time.run)
        settings = Settings(cluster_name="test", interruption_queue_name="queue" if queue else "")
        self.operator = Operator(settings, edges, namespace="default")
        self.time.run(periodic("watches", self._watch, clock, self.stop))
        self.operator.watch()
        self.operator.start_leading()

    def _watch(self) -> float:
        """What the watches would have told in two seconds."""
        for resource in CLUSTER_STATE:
            listed = self.kube.list_all(resource)
            change = Change(resource.kind, ChangeType.REPLACED, listed.items, listed.resource_version)
            self.operator.informers.take(change)
        return 2.0

    def until(self, condition: Any, what: str, at_most_seconds: float = SOON_SECONDS) -> None:
        self.time.until(self.operator.informers, condition, what, at_most_seconds)

    def nodes(self) -> list[StateNode]:
        return list(self.operator.informers.snapshot().nodes.values())

    def add_pool(self) -> None:
        discovery = {"karpenter.sh/discovery": "test"}
        for resource, spec in (
            (AWS_NODE_TEMPLATES, {"subnetSelector": discovery, "securityGroupSelector": discovery}),
            (PROVISIONERS, {"providerRef": {"name": "default"}, "ttlSecondsAfterEmpty": TTL_SECONDS}),
        ):
            document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "default"}}
            self.kube.create(resource, {**document, "spec": spec})

    def add_pod(self) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        pod = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": [container]}}
        self.kube.create(PODS, pod, "default")
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        self.kube.patch(PODS, "a", {"status": {"conditions": [waiting]}}, namespace="default", subresource="status")

    def join(self) -> None:
        """The kubelet of the one node comes up."""
        (node,) = self.nodes()
        room = {"cpu": "2", "memory": "8Gi", "pods": "29"}
        status = {"capacity": room, "allocatable": room, "conditions": [READY]}
        self.kube.patch(NODES, node.name, {"status": status}, subresource="status")
        self.kube.patch(NODES, node.name, {"spec": {"taints": None}})


class LongPoll:
    """A queue that stays empty: each receive takes the whole time of a long poll."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked_at: list[float] = []

    def receive(self, *, wait: bool = True) -> tuple[QueueMessage, ...]:
        self.asked_at.append(self.clock.monotonic())
        self.clock.advance(POLL_SECONDS)
        return ()

    def delete(self, messages: Collection[QueueMessage]) -> int:
        raise AssertionError("there are no messages")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with serve(kubeconfig=tmp_path / "kubeconfig"):
        yield Cluster(*_api(tmp_path))


def _api(folder: Path) -> tuple[KubeClient, ManualClock]:
    clock = ManualClock(time.time())
    kube = KubeClient(connect(str(folder / "kubeconfig")), clock=clock)
    apply_crds(kube)
    return kube, clock


def test_a_node_is_launched_initialized_emptied_and_terminated_in_one_thread_and_without_a_wait(
    cluster: Cluster,
) -> None:
    """Two minutes of the cluster: every loop is called in turn, and none of them has a thread."""
    threads = {thread.name for thread in threading.enumerate()}
    began = cluster.clock.monotonic()
    cluster.add_pool()
    cluster.add_pod()
    cluster.until(cluster.nodes, "a node for the pod")
    assert len(cluster.cloud.running) == 1
    cluster.join()
    cluster.until(lambda: all(node.initialized for node in cluster.nodes()), "the node initialized")
    cluster.kube.delete(PODS, "a", "default", grace_period_seconds=0)
    cluster.until(lambda: not cluster.nodes(), "the empty node gone", TTL_SECONDS + 2 * SOON_SECONDS)
    assert not cluster.cloud.running
    assert cluster.clock.monotonic() - began >= TTL_SECONDS
    assert {thread.name for thread in threading.enumerate()} == threads
    loops = {"provisioning", "registration", "termination", "emptiness", "garbagecollection", "deprovisioning"}
    assert loops <= set(cluster.time.calls)


def test_no_loop_rests_after_the_long_poll_of_the_interruption_queue(tmp_path: Path) -> None:
    """A spot warning leaves two minutes: while nobody polls, it waits."""
    with serve(kubeconfig=tmp_path / "kubeconfig"):
        kube, clock = _api(tmp_path)
        queue = LongPoll(clock)
        cluster = Cluster(kube, clock, queue)
        cluster.until(lambda: len(queue.asked_at) > 3, "four polls", 5 * POLL_SECONDS)
    pauses = [later - before - POLL_SECONDS for before, later in pairwise(queue.asked_at)]
    assert max(pauses) < 0.1, pauses
