"""Approved plans over the API server: carried out by the executor of all removals, by whoever leads, or given back."""

from __future__ import annotations

from controller.core.deprovisioning.rebalance.approval import (
    APPROVAL_ANNOTATION,
    Approval,
    pod_digest,
    read_approval,
    stop,
    write_approval,
)
from controller.core.state.snapshot import Snapshot
from controller.kube.resources import NODES
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import (
    come_up,
    consolidating,
    leader,
    old_node,
    record_of,
    replacements,
    untouched,
)


def approve(world: World, *names: str) -> None:
    """Approve the removal of these nodes in one step, as the command line does."""
    snapshot, now = world.caught_up(), world.clock.now()
    for name in names:
        pods = frozenset(map(pod_digest, snapshot.nodes[name].pods))
        write(world, name, Approval("p", now, 1, 1, len(names), pods, 0.0, 0.0))


def write(world: World, name: str, approval: Approval) -> None:
    annotations = {APPROVAL_ANNOTATION: write_approval(approval)}
    world.kube.patch(NODES, name, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}})
    world.until(lambda s: read_approval(s.nodes[name]) == approval, "approved")


def end(world: World, name: str) -> None:
    """Take the approval back while a command needs the cordon, as the command line does."""
    approval = read_approval(world.caught_up().nodes[name])
    assert approval is not None
    write(world, name, stop(approval, "enough", uncordoned=False))


def told(snapshot: Snapshot, name: str) -> str:
    approval = read_approval(snapshot.nodes[name])
    return approval.stopped if approval else ""


def test_an_approved_node_goes_and_no_other(world: World) -> None:
    """Without an approval nothing goes: the Provisioner has no consolidation."""
    world.add_provisioner()
    old_node(world, "one")
    old_node(world, "two")
    one = leader(world)
    assert all(untouched(one.some_passes(), name) for name in ("one", "two"))
    approve(world, "one")
    seen = one.passes(lambda s: s.nodes["one"].node.deleted_at is not None, "deleted")
    assert untouched(seen, "two")
    assert ("remove", "one", "rebalance/delete") in one.decided()


def test_what_one_leader_began_the_next_one_ends(world: World) -> None:
    world.add_provisioner()
    old_node(world, kind="m5.4xlarge")
    approve(world, "old")
    (new,) = replacements(leader(world).passes(replacements, "replacement"))
    come_up(world, new)
    leader(world).passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")
    assert len(world.cloud.requests) == 1


def test_a_step_that_is_taken_back_leaves_its_node_schedulable_and_no_replacement(world: World) -> None:
    world.add_provisioner()
    old_node(world, kind="m5.4xlarge")
    approve(world, "old")
    one = leader(world)
    (new,) = replacements(one.passes(replacements, "replacement"))
    end(world, "old")
    come_up(world, new)
    one.passes(lambda s: record_of(s) is None, "rolled back")
    seen = one.passes(lambda s: not s.nodes["old"].node.unschedulable, "uncordoned")
    assert untouched(seen)
    assert told(seen, "old") == "enough"
    assert new not in seen.nodes or seen.nodes[new].leaving


def test_what_has_changed_since_the_approval_gives_all_nodes_back(world: World) -> None:
    world.add_provisioner()
    for name in ("one", "two", "three"):
        old_node(world, name)
    approve(world, "one", "two")
    world.add_pod("late", node="two")
    seen = leader(world).passes(lambda s: told(s, "one") and told(s, "two"), "given back")
    assert all(untouched(seen, name) for name in ("one", "two"))
    assert "it has other pods, default/late" in told(seen, "one")
    assert "default/late" in world.await_event("RebalanceEnded")["message"]


def test_consolidation_waits_until_an_approved_plan_has_ended(world: World) -> None:
    """A node of the plan must not be evicted now; the empty one beside it is consolidation's to remove."""
    consolidating(world)
    old_node(world, "held", pods=0)
    world.add_pod("held", node="held", annotations={"karpenter.sh/do-not-evict": "true"})
    old_node(world, "empty", pods=0)
    approve(world, "held")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    assert untouched(one.some_passes(), "empty")
    end(world, "held")
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    one.passes(lambda s: s.nodes["empty"].node.deleted_at is not None, "deleted")
