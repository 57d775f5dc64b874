"""Emptiness over the API server: stamp, clear, delete."""

from __future__ import annotations

import threading
from dataclasses import replace

from controller.core.api.disruption import parse_budgets
from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME, TERMINATION_FINALIZER, ZONE
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from controller.core.state.snapshot import Snapshot
from controller.errors import NotFoundError
from controller.kube.resources import NODES, PROVISIONERS
from controller.reconcilers.deprovisioning.emptiness_reconciler import EmptinessReconciler
from controller.telemetry.decision_ledger import Ledger
from tests.reconcilers.conftest import World, apply_fault
from tests.reconcilers.deprovisioning.builders import emptiness_loop


def empty_node(world: World, name: str = "node") -> str:
    labels = {PROVISIONER_NAME: "default", INITIALIZED: "true"}
    world.add_node({"metadata": {"name": name, "labels": labels, "finalizers": [TERMINATION_FINALIZER]}})
    return name


def stamped(snapshot: Snapshot) -> bool:
    return V1ALPHA5.keys.emptiness_timestamp in snapshot.nodes["node"].node.annotations


def some_passes(world: World, loop: EmptinessReconciler) -> None:
    for _ in range(5):
        loop.reconcile(world.caught_up())


def test_an_empty_node_is_stamped_then_deleted_when_its_time_is_over(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=30)
    empty_node(world)
    ledger = Ledger(world.clock)
    loop = emptiness_loop(world, ledger)
    world.passes(loop, stamped)
    world.clock.ahead_seconds = 28.0
    some_passes(world, loop)
    assert "deletionTimestamp" not in world.node("node")["metadata"]
    world.clock.ahead_seconds = 31.0
    world.passes(loop, lambda s: s.nodes["node"].node.deleted_at is not None)
    assert "empty for 30 s" in world.await_event("DeprovisioningTerminating")["message"]
    (decision,) = (entry.decision for entry in ledger.entries())
    assert (decision.kind, decision.subject, decision.method) == ("remove", "Node/node", "emptiness")


def test_an_empty_node_stays_while_a_zonal_shift_leaves_its_zone(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    labels = {PROVISIONER_NAME: "default", INITIALIZED: "true", ZONE: "eu-west-1a"}
    world.add_node({"metadata": {"name": "node", "labels": labels, "finalizers": [TERMINATION_FINALIZER]}})
    world.cloud.left = frozenset({"eu-west-1a"})
    loop = emptiness_loop(world)
    world.passes(loop, stamped)
    some_passes(world, loop)
    assert "deletionTimestamp" not in world.node("node")["metadata"]
    world.cloud.left = frozenset()
    world.passes(loop, lambda s: s.nodes["node"].node.deleted_at is not None)


def test_nothing_is_empty_before_it_is_planned_who_is_expected_where(world: World) -> None:
    """A new leader has forgotten the nominations of the one before."""
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    empty_node(world)
    planned = threading.Event()
    loop = emptiness_loop(world, planned=planned)
    some_passes(world, loop)
    metadata = world.node("node")["metadata"]
    assert "deletionTimestamp" not in metadata
    assert V1ALPHA5.keys.emptiness_timestamp not in metadata.get("annotations", {})
    planned.set()
    world.passes(loop, lambda s: s.nodes["node"].node.deleted_at is not None)


def test_a_pod_that_comes_back_clears_the_stamp(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=30)
    empty_node(world)
    loop = emptiness_loop(world)
    world.passes(loop, stamped)
    world.add_pod("a", node="node")
    world.passes(loop, lambda s: not stamped(s))
    world.clock.ahead_seconds = 60.0
    some_passes(world, loop)
    assert "deletionTimestamp" not in world.node("node")["metadata"]


def test_a_stamp_is_cleared_when_the_ttl_is_taken_off(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=30)
    empty_node(world)
    loop = emptiness_loop(world)
    world.passes(loop, stamped)
    world.kube.patch(PROVISIONERS, "default", {"spec": {"ttlSecondsAfterEmpty": None}})
    world.passes(loop, lambda s: not stamped(s))


def test_a_nomination_that_comes_at_the_last_moment_saves_the_node(world: World) -> None:
    """The verdict is taken once more in the thread that owns the state."""
    world.add_provisioner(ttlSecondsAfterEmpty=1)
    empty_node(world)
    loop = emptiness_loop(world)
    stale = world.passes(loop, stamped)
    world.clock.ahead_seconds = 5.0
    world.informers.submit(lambda cluster: cluster.nominate("node", world.clock.now() + 20)).result(5)
    loop.reconcile(stale)
    assert "deletionTimestamp" not in world.node("node")["metadata"]


def test_nothing_is_deleted_before_the_caches_are_synced(world: World) -> None:
    """The pod that is not known yet may be the node's."""
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    empty_node(world)
    loop = emptiness_loop(world)
    unsynced = replace(world.caught_up(), synced=False)
    for _ in range(5):
        loop.reconcile(unsynced)
    assert V1ALPHA5.keys.emptiness_timestamp not in (world.node("node")["metadata"].get("annotations") or {})


def test_a_delete_that_fails_takes_the_mark_back(world: World) -> None:
    """Else the node would take no pods and never go."""
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    empty_node(world)
    loop = emptiness_loop(world)
    stale = world.passes(loop, stamped)
    world.clock.ahead_seconds = 2.0
    apply_fault(world, {"kind": "errors", "seconds": 60, "code": 500})
    loop.reconcile(stale)
    apply_fault(world, None)
    world.until(lambda s: not s.nodes["node"].marked_for_deletion, "the mark taken back")
    assert "deletionTimestamp" not in world.node("node")["metadata"]


def test_two_nodes_are_judged_apart(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    empty_node(world)
    empty_node(world, "busy")
    world.add_pod("a", node="busy")
    loop = emptiness_loop(world)
    world.passes(loop, stamped)
    world.clock.ahead_seconds = 2.0
    world.passes(loop, lambda s: s.nodes["node"].leaving)
    assert not world.caught_up().nodes["busy"].leaving


def test_disruption_budgets_hold_for_empty_nodes_and_change_while_it_runs(world: World) -> None:
    """Karpenter v0.27 deletes all of them at once; a setting that changes need not wait for another process."""
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    for name in ("node", "other"):
        empty_node(world, name)
    loop = emptiness_loop(world)
    world.change_settings(disruption_budgets=parse_budgets('[{"nodes": "0", "reasons": ["empty"]}]'))
    world.passes(loop, stamped)
    world.clock.ahead_seconds = 2.0
    some_passes(world, loop)
    assert not any(node.leaving for node in world.caught_up().nodes.values())
    assert "disruptionBudgets: 0 at once for empty" in world.await_event("DeprovisioningBlocked")["message"]
    world.change_settings(disruption_budgets=parse_budgets('[{"nodes": "1"}]'))
    some_passes(world, loop)
    assert sum(node.leaving for node in world.caught_up().nodes.values()) == 1


def test_a_node_of_a_command_on_record_is_left_to_it(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    name = empty_node(world)
    world.add_pod("a", node=empty_node(world, "busy"))
    loop = emptiness_loop(world)
    world.passes(loop, stamped)
    record = Record("0123456789ab", "expiration", "it is old", (name,), (), world.clock.now())
    world.kube.patch(NODES, name, {"metadata": {"annotations": {COMMAND_ANNOTATION: write_record(record)}}})
    world.until(lambda s: COMMAND_ANNOTATION in s.nodes[name].node.annotations, "on record")
    world.clock.ahead_seconds = 2.0
    some_passes(world, loop)
    assert not world.caught_up().nodes[name].leaving


def test_a_node_that_is_gone_meanwhile_is_no_error(world: World) -> None:
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    empty_node(world)
    stale = world.caught_up()
    world.kube.patch(NODES, "node", {"metadata": {"finalizers": None}})
    world.kube.delete(NODES, "node")
    emptiness_loop(world).reconcile(stale)
    try:
        world.node("node")
    except NotFoundError:
        return
    raise AssertionError("the node came back")
