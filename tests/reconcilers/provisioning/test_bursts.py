"""A Deployment scaled up and down within the batch window at random, in virtual time; BURSTS=1000 for as many."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable, Mapping
from typing import Any

from controller.core.state.change import Change, ChangeType
from controller.kube.client import KubeClient
from controller.kube.resources import CLUSTER_STATE, NODES, Resource
from controller.reconcilers.provisioning.provisioning_reconciler import ProvisioningReconciler
from controller.runtime.metrics import SILENT
from tests import factories
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import detached_context

BURSTS = int(os.environ.get("BURSTS", "100"))
CREATED_A_STEP, TRIED_A_STEP, STEP_SECONDS = 12, 5, 0.2
IDLE_SECONDS = 1.0
TRIED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


class NodeWrites(KubeClient):
    """Creates Nodes, which is all that launches ask of the API server."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def create(self, resource: Resource, obj: Mapping[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        assert resource is NODES
        number = str(next(self._numbers))
        return {**obj, "metadata": {**obj["metadata"], "uid": f"node-{number}", "resourceVersion": number}}


class Bursts:
    """One Provisioner, and a Deployment that is scaled; the loop under test runs in the test's thread."""

    def __init__(self) -> None:
        self.clock, self.cloud = ManualClock(), MemoryCloud()
        context = detached_context(self.cloud, self.clock, SILENT, NodeWrites())
        self.informers, self.loop = context.informers, ProvisioningReconciler(context)
        self.empty = self.launched = 0
        for resource in CLUSTER_STATE:
            self._list(resource.kind, ())
        self._list("Provisioner", [factories.provisioner_object()])
        self._list("AWSNodeTemplate", [factories.node_template_object()])

    def _list(self, kind: str, documents: Iterable[Mapping[str, Any]]) -> None:
        self.informers.take(Change(kind, ChangeType.REPLACED, tuple(documents)))

    def play(self, number: int, size: int, left: int, down_at: float) -> None:
        """`size` replicas come; from `down_at` on (seconds) `left` of them remain, the oldest.

        They go while the loop makes its pass: after it was handed its snapshot.
        """
        pods = [factories.pod_object(name=f"pod-{number}-{n}", status={"conditions": []}) for n in range(size)]
        seconds, steps, before = 0.0, 0, len(self.cloud.requests)
        while seconds <= max(down_at, size / CREATED_A_STEP * STEP_SECONDS + IDLE_SECONDS) + 2 * STEP_SECONDS:
            steps, seconds = steps + 1, seconds + STEP_SECONDS
            there = pods[: min(steps * CREATED_A_STEP, left if seconds > down_at + STEP_SECONDS else size)]
            tried = [{**pod, "status": {**pod["status"], **TRIED}} for pod in there[: steps * TRIED_A_STEP]]
            self._list("Pod", [*tried, *there[len(tried) :]])
            snapshot = self.informers.snapshot()
            if seconds > down_at:
                self._list("Pod", [*tried, *there[len(tried) :]][:left])
            self.loop.reconcile(snapshot)
            self.clock.advance(STEP_SECONDS)
        self._count(self.cloud.requests[before:], left)

    def _count(self, requests: Iterable[Any], left: int) -> None:
        """Fill the launched nodes with what is left, the largest first; the others are empty. Then all is gone."""
        cores = (each.instance_types[each.offerings[0].instance_type].allocatable["cpu"] // 1000 for each in requests)
        for room in sorted(cores, reverse=True):
            self.launched += 1
            self.empty += left <= 0
            left -= room
        for kind in ("Pod", "Node"):
            self._list(kind, ())
        self.cloud.instances.clear()
        self.loop.reconcile(self.informers.snapshot())
        self.clock.advance(30.0)


def test_of_twenty_nodes_at_most_one_is_empty_when_bursts_end_within_their_window() -> None:
    draw, bursts = random.Random(11), Bursts()
    for number in range(BURSTS):
        size = draw.randint(1, 40)
        window = size / CREATED_A_STEP * STEP_SECONDS + IDLE_SECONDS
        bursts.play(number, size, draw.randint(0, size), draw.uniform(0.0, window))
    assert bursts.launched > BURSTS
    assert bursts.empty <= bursts.launched / 20, f"{bursts.empty} of {bursts.launched}"
