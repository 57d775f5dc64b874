"""A SnapshotIndex shared by many solves changes no plan."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.workloads import DaemonSet
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning import solve
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SchedulingProblem
from tests.core.provisioning.clusters import clusters
from tests.core.provisioning.plans import FIRST, judged, solved
from tests.factories import (
    ZONES,
    daemon_owner,
    instance_type,
    node,
    pending_pod,
    pod,
    problem,
    replica_set_owner,
    running_pod,
    snapshot,
    state_node,
)


def with_removal_simulated(posed: SchedulingProblem, name: str) -> SchedulingProblem:
    """The problem with the removal of a node simulated."""
    left = tuple(each for each in posed.nodes if each.name != name)
    return replace(posed, nodes=left, without_nodes=frozenset({name}))


def without_node(posed: SchedulingProblem, name: str) -> SchedulingProblem:
    """The problem in a cluster without the node and its pods."""
    here = posed.snapshot
    nodes = {each: standing for each, standing in here.nodes.items() if each != name}
    pods = {key: pod for key, pod in here.pods.items() if pod.node_name != name}
    left = tuple(each for each in posed.nodes if each.name != name)
    return replace(posed, nodes=left, snapshot=replace(here, nodes=FrozenMap(nodes), pods=FrozenMap(pods)))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_a_simulated_removal_plans_as_if_the_node_had_never_existed(posed: SchedulingProblem) -> None:
    """One node after the other on the same index, and then the whole problem again."""
    snapshot_index, tables = SnapshotIndex(posed.snapshot), TableCache()
    whole = solved(posed, FIRST, tables)
    for name in posed.snapshot.nodes:
        alone = without_node(posed, name)
        never = solve(alone, FIRST, SnapshotIndex(alone.snapshot, tables))
        assert solve(with_removal_simulated(posed, name), FIRST, snapshot_index) == never
    assert solve(posed, FIRST, snapshot_index) == whole


def test_free_room_follows_what_the_batch_asks_for() -> None:
    """A later batch asks for a resource that the first one did not, and finds what runs there counted."""
    taken = running_pod(node="n", requests={"cpu": "1", "example.com/card": "1"})
    own = {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/card": "1"}
    here = state_node(node=node(name="n", capacity=own, allocatable=own), pods=[taken])
    plain = problem(pending=[pending_pod(requests={"cpu": "1"})], nodes=[here])
    greedy = replace(plain, pending=(pending_pod(requests={"cpu": "1", "example.com/card": "1"}),))
    snapshot_index = SnapshotIndex(plain.snapshot)
    assert [placed.node for placed in judged(solve(plain, FIRST, snapshot_index), plain).existing] == ["n"]
    assert not solve(greedy, FIRST, snapshot_index).existing


def test_a_node_that_is_short_of_one_resource_takes_pods_that_do_not_ask_for_it() -> None:
    """Two cards are requested of one; kube-scheduler looks only at what the pod itself requests."""
    own = {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/card": "1"}
    holders = [running_pod(node="n", requests={"example.com/card": "1"}) for _ in range(2)]
    here = state_node(node=node(name="n", capacity=own, allocatable=own), pods=holders)
    plain, greedy = pending_pod(requests={"cpu": "1"}), pending_pod(requests={"example.com/card": "1"})
    plan = solve(problem(pending=[plain, greedy], nodes=[here]), FIRST)
    assert [placed.pods for placed in plan.existing] == [(plain.key,)]


def test_the_index_of_another_snapshot_is_not_used() -> None:
    """A simulator made from another one with another snapshot builds its index anew."""
    small = {"cpu": "1", "memory": "2Gi", "pods": "10"}
    full = state_node(node=node(name="b", capacity=small, allocatable=small), pods=[running_pod(node="b")])
    mover = state_node(node=node(name="a"), pods=[running_pod(node="a", requests={"cpu": "900m"})])
    empty = replace(full, pods=())
    simulator = Simulator(snapshot(nodes=[mover, full]), FrozenMap(), options=FIRST)
    assert simulator.simulate([mover]).targets == ()
    roomier = replace(simulator, snapshot=snapshot(nodes=[mover, empty]))
    assert roomier.simulate([mover]).targets == ("b",)
    assert replace(simulator, going=frozenset({"x"})).simulate([mover]).targets == ()


def test_a_daemon_that_runs_already_is_not_charged_again() -> None:
    """Two cpus, one of the daemon's: the other is free where it runs, and kept for it where it doesn't yet."""
    owner = daemon_owner()
    template = pod(namespace="kube-system", requests={"cpu": "1"}, owner=owner)
    sets = {("kube-system", "daemon"): DaemonSet("kube-system", "daemon", owner.uid, template)}
    own = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    there = state_node(
        node=node(name="a", capacity=own, allocatable=own),
        pods=[running_pod(node="a", requests={"cpu": "1"}, owner=owner)],
    )
    absent = state_node(
        node=node(name="b", capacity=own, allocatable=own),
        pods=[running_pod(node="b", requests={"cpu": "500m"}, owner=daemon_owner(name="other"))],
    )
    waiting = [pending_pod(requests={"cpu": "1"}), pending_pod(requests={"cpu": "1"})]
    plan = solved(problem(pending=waiting, nodes=[there, absent], daemon_sets=sets), FIRST)
    assert [(placed.node, len(placed.pods)) for placed in plan.existing] == [("a", 1)]


def test_replicas_of_a_node_whose_removal_is_simulated_count_for_no_pool() -> None:
    """Six replicas keep the two that come out of their pool, until the removal of their node is simulated."""
    owner = replica_set_owner()
    types = [instance_type(name=f"f{n}.large", cpu=2, price=0.1, capacity_types=(keys.SPOT,)) for n in range(8)]
    own = {keys.INSTANCE_TYPE: "f0.large", keys.ZONE: ZONES[0], keys.CAPACITY_TYPE: keys.SPOT}
    running = [running_pod(node="a", requests={"cpu": "10m"}, owner=owner) for _ in range(6)]
    here = state_node(node=node(name="a", labels=own), pods=running)
    full = state_node(node=node(name="b"), pods=[running_pod(node="b", requests={"cpu": "2"})])
    waiting = [pending_pod(requests={"cpu": "1500m"}, owner=owner) for _ in range(2)]
    posed = problem(pending=waiting, nodes=[here, full], catalog=types)
    snapshot_index = SnapshotIndex(posed.snapshot)
    assert solve(with_removal_simulated(posed, "a"), FIRST, snapshot_index) == solve(without_node(posed, "a"), FIRST)
