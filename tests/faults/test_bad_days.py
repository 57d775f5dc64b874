"""What goes wrong around a removal, for every command kind at once: one cluster has a pool for each of them.

The end is always the same: pods running, no instance without a node, nothing left cordoned. That the kinds stand side
by side shows that a removal that is stuck holds back itself alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import EMPTY
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.backoff import FAILURE_ANNOTATION
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.errors import InsufficientCapacityError
from controller.kube.resources import EVENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, PROVISIONERS, VOLUME_ATTACHMENTS
from controller.runtime.loops import BackoffTimes
from controller.settings import Settings
from tests.core.instances import cloud_instance
from tests.faults.cluster_actors import ClusterActors
from tests.faults.crashing_controller import CrashingController, exists
from tests.faults.test_every_write import QUICK, kills_are_silent
from tests.reconcilers.conftest import World, world
from tests.reconcilers.nodes.test_termination import volume_of

__all__ = ["kills_are_silent", "world"]

SLOW = BackoffTimes(600.0, 600.0)
"""A method that failed is not tried again while the test looks."""


@dataclass(frozen=True)
class Kind:
    """A pool: its nodes' type, what runs on each, and what is launched for those that go."""

    instance_type: str
    cpus: tuple[str, ...]
    nodes: int = 1
    launches: int = 1
    consolidates: bool = False
    ami: str = "ami-new"
    annotations: Mapping[str, str] = EMPTY


KINDS = {
    "expiration": Kind("c5.large", ("1",), annotations={V1ALPHA5.keys.voluntary_disruption: "expired"}),
    "drift": Kind("c5.large", ("1",), ami="ami-old"),
    "replace": Kind("m5.4xlarge", ("1",), consolidates=True),
    "n-to-m": Kind("r5.4xlarge", ("9500m",), nodes=2, launches=2, consolidates=True),
}


class Cluster:
    """One cluster with a pool for each kind of removal, and its controller. `names`: nodes to be removed, by kind."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.actors = ClusterActors(world, grace_seconds=5)
        world.cloud.images = lambda _template: ("ami-new",)
        settings = Settings(cluster_name="test", drift_enabled=True)
        self.controller = CrashingController(world, self.actors, QUICK, settings=settings)
        self.controller.plan.never = True
        self.names: dict[str, list[str]] = {}
        for number, (name, kind) in enumerate(KINDS.items()):
            world.add_provisioner(name, consolidation={"enabled": kind.consolidates})
            budget = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
            world.kube.patch(PROVISIONERS, name, {"metadata": {"annotations": budget}})
            self.names[name] = [self._node(name, kind, 100 + 10 * number + index) for index in range(kind.nodes)]
        self.actors.turn()

    def _node(self, pool: str, kind: Kind, number: int) -> str:
        world = self.world
        instance = world.cloud.add(
            cloud_instance(
                number=number,
                provisioner=pool,
                instance_type=kind.instance_type,
                capacity_type="on-demand",
                launched_at=world.clock.now(),
            )
        )
        own = {**instance.labels, keys.INITIALIZED: "true", keys.ARCH: "amd64", keys.OS: "linux"}
        own |= {keys.PROVISIONER_NAME: pool, keys.HOSTNAME: instance.node_name, keys.INSTANCE_AMI_ID: kind.ami}
        metadata = {"name": instance.node_name, "labels": own, "finalizers": [keys.TERMINATION_FINALIZER]}
        metadata["annotations"] = dict(kind.annotations)
        world.kube.create(NODES, {"metadata": metadata, "spec": {"providerID": instance.provider_id}})
        for index, cpu in enumerate(kind.cpus):
            self.actors.pools[pool] = pool
            self.actors.make(f"old-{number}-{index}", pool, cpu, instance.node_name)
            count, _ = self.actors.wanted.get(pool, (0, cpu))
            self.actors.wanted[pool] = (count + 1, cpu)
        return instance.node_name

    @property
    def old(self) -> list[str]:
        """All nodes that are to go."""
        return [name for names in self.names.values() for name in names]

    def nodes(self) -> list[dict[str, Any]]:
        return self.world.kube.list(NODES)

    def recorded(self) -> set[str]:
        """Nodes with a command's record."""
        metadata = (node["metadata"] for node in self.nodes())
        return {each["name"] for each in metadata if COMMAND_ANNOTATION in (each.get("annotations") or {})}

    def said(self, reason: str, words: str = "") -> set[str]:
        """Nodes of which that was said."""
        events = self.world.kube.list(EVENTS)
        matching = [event for event in events if event["reason"] == reason and words in event["message"]]
        return {event["involvedObject"]["name"] for event in matching}

    def until_said_by(self, leaders: int, reason: str) -> None:
        """So many leaders have said so; each says it once."""
        self.controller.until(lambda: len(self.world.said(reason)) >= leaders, f"{reason} from {leaders} leaders")

    def until_all_are_replaced(self) -> None:
        controller, world = self.controller, self.world
        controller.until(lambda: not any(exists(world, NODES, name) for name in self.old), f"{self.old} gone")
        self.until_at_rest()
        assert len(self.nodes()) == sum(kind.launches for kind in KINDS.values())

    def until_at_rest(self) -> None:
        """Pods running, a node for each instance, nothing cordoned, nothing on record."""
        controller, world = self.controller, self.world
        pods = sum(count for count, _ in self.actors.wanted.values())
        controller.until(lambda: self.actors.running() == pods, "all pods running")
        controller.until(lambda: len(world.cloud.running) == len(self.nodes()), "a node for each instance")
        controller.until(lambda: not self.recorded(), "nothing on record")
        assert [node["metadata"]["name"] for node in self.nodes() if node["spec"].get("unschedulable")] == []

    def until_taken_back(self, because: str) -> None:
        controller = self.controller
        controller.until(lambda: self.said("DeprovisioningFailed", because) >= set(self.old), f"told: {because}")
        controller.until(
            lambda: {node["metadata"]["name"] for node in self.nodes()} == set(self.old), "only the old ones"
        )
        self.until_at_rest()
        for name in self.old:
            assert FAILURE_ANNOTATION in self.world.node(name)["metadata"]["annotations"]


@pytest.fixture
def cluster(world: World) -> Iterator[Cluster]:
    made = Cluster(world)
    yield made
    made.controller.end()


def patience(cluster: Cluster, **times: Any) -> None:
    """Give up sooner, and try again later."""
    cluster.controller.times = replace(QUICK, commands=replace(QUICK.commands, hold_back=SLOW, **times))


def test_a_budget_that_never_allows_leaves_every_node_as_it_is(cluster: Cluster) -> None:
    spec = {"minAvailable": "100%", "selector": {}}
    made = {"metadata": {"name": "all", "namespace": "default"}, "spec": spec}
    cluster.world.kube.create(POD_DISRUPTION_BUDGETS, made, "default")
    cluster.controller.until(lambda: cluster.said("DeprovisioningBlocked", "default/all") >= set(cluster.old), "told")
    assert cluster.recorded() == set()
    assert cluster.world.cloud.requests == []
    cluster.until_at_rest()
    cluster.world.kube.delete(POD_DISRUPTION_BUDGETS, "all", "default")
    cluster.until_all_are_replaced()


def test_replacements_that_never_join_are_removed_and_the_old_nodes_stay(cluster: Cluster) -> None:
    patience(cluster, ready_seconds=0.5)
    cluster.actors.joining = False
    cluster.until_taken_back("was not initialized")


def test_do_not_evict_that_arrives_during_the_wait_keeps_the_nodes(cluster: Cluster) -> None:
    patience(cluster)
    cluster.actors.joining = False
    cluster.controller.until(lambda: cluster.recorded() >= set(cluster.old), "every command on record")
    kept = {"metadata": {"annotations": {V1ALPHA5.keys.do_not_evict: "true"}}}
    for pod in cluster.world.kube.list(PODS, "default"):
        cluster.world.kube.patch(PODS, pod["metadata"]["name"], kept, namespace="default")
    cluster.actors.joining = True
    cluster.until_taken_back(V1ALPHA5.keys.do_not_evict)


def test_no_capacity_in_the_middle_of_a_replacement_is_tried_again_later(cluster: Cluster) -> None:
    """The first launch of every kind, and the second of the one that launches two, find none."""
    lacking = sum(kind.launches for kind in KINDS.values())
    cluster.world.cloud.create_errors = [InsufficientCapacityError("no capacity")] * lacking
    cluster.until_all_are_replaced()
    assert cluster.said("DeprovisioningFailed", "no capacity"), "and it was told"
    assert len(cluster.world.cloud.instances) == len(cluster.old) + lacking, "none launched and given back"


def test_the_next_leader_goes_on_with_every_kind_where_the_last_one_stopped(cluster: Cluster) -> None:
    cluster.actors.joining = False
    controller, world = cluster.controller, cluster.world
    controller.until(lambda: cluster.recorded() >= set(cluster.old), "every command on record")
    controller.until(lambda: len(cluster.nodes()) == 2 * len(cluster.old), "every replacement launched")
    tokens = [request.token for request in world.cloud.requests]
    controller.end()
    cluster.actors.joining = True
    cluster.until_all_are_replaced()
    assert controller.count == 2
    assert [request.token for request in world.cloud.requests] == tokens, "nothing launched again"


def test_the_next_leader_waits_for_volumes_too(cluster: Cluster) -> None:
    controller, world = cluster.controller, cluster.world
    (old,) = cluster.names["expiration"]
    (instance,) = (each for each in world.cloud.running if each.node_name == old)
    volume_of(world, "pv-1", instance)
    for leader in (1, 2):
        cluster.until_said_by(leader, "AwaitingVolumeDetachment")
        controller.end()
    assert instance in world.cloud.running
    world.kube.delete(VOLUME_ATTACHMENTS, "csi-pv-1")
    cluster.until_all_are_replaced()
    assert len(world.cloud.instances) == 2 * len(cluster.old)


def test_pods_that_never_end_do_not_keep_their_nodes_for_ever(cluster: Cluster) -> None:
    """A kubelet that does not answer: a minute past their time they hold nothing back any more."""
    cluster.actors.ending = False
    controller, world = cluster.controller, cluster.world

    def going() -> Collection[str]:
        return {node["metadata"]["name"] for node in cluster.nodes() if "deletionTimestamp" in node["metadata"]}

    controller.until(lambda: set(going()) >= set(cluster.old), "all nodes asked to go")
    controller.until(
        lambda: all(
            "deletionTimestamp" in world.kube.get(PODS, pod, "default")["metadata"]
            for pod in [f"old-{100 + 10 * number}-0" for number in range(len(KINDS))]
        ),
        "evicted",
    )
    assert all(exists(world, NODES, name) for name in cluster.old), "not before the pods had their time"
    world.clock.ahead_seconds += 100.0
    cluster.until_all_are_replaced()
