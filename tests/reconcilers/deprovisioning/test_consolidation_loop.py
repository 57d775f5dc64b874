"""Consolidation over the API server: what it finds has to hold for a while; why nodes stay is said."""

from __future__ import annotations

import threading
from dataclasses import replace

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.backoff import (
    RESTING_ANNOTATION,
    resting,
    workload,
)
from controller.core.deprovisioning.consolidation import Consolidation
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.kube.resources import (
    NODES,
)
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import (
    annotate_provisioner,
    come_up,
    consolidating,
    leader,
    old_node,
    replacements,
    untouched,
)


def test_an_empty_node_goes_when_it_has_been_empty_for_a_while(world: World) -> None:
    consolidating(world)
    old_node(world, pods=0)
    one = leader(world)
    assert untouched(one.some_passes(), "old")
    world.clock.ahead_seconds += 16.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_an_empty_node_goes_although_searches_have_used_up_their_time(world: World) -> None:
    """One search took 100 s of processor time: the next has to wait for a quarter of an hour."""
    searched = list[bool]()

    class Slow(Consolidation):
        def decide(self, given: MethodInput) -> Proposal:
            searched.append(given.searches)
            proposal = super().decide(given)
            world.clock.worked_seconds += 100.0 if given.searches else 0.0
            return proposal

    consolidating(world)
    one = leader(world, consolidation=Slow())
    one.some_passes(2)
    old_node(world, pods=0)
    one.some_passes(2)
    world.clock.ahead_seconds += 16.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")
    assert searched.count(True) == 1


def test_an_empty_node_that_gets_a_pod_during_the_wait_stays(world: World) -> None:
    consolidating(world)
    old_node(world, pods=0)
    one = leader(world)
    one.some_passes()
    world.add_pod("late", node="old")
    world.clock.ahead_seconds += 16.0
    assert untouched(one.some_passes())
    assert one.metrics_text().count("karpenter_deprovisioning_actions_performed{") == 0, "not begun and taken back"


def test_a_node_whose_pods_fit_on_another_goes_and_its_workload_rests(world: World) -> None:
    """Then no pod of the workload is moved again for ten minutes."""
    consolidating(world)
    old_node(world, "one")
    old_node(world, "two")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    gone = one.passes(lambda s: any(node.node.deleted_at is not None for node in s.nodes.values()), "one deleted")
    assert sum(node.leaving for node in gone.nodes.values()) == 1
    assert world.cloud.requests == []
    (stays,) = (node for node in gone.nodes.values() if not node.leaving)
    moved = {workload(pod) for node in gone.nodes.values() if node.leaving for pod in node.pods}
    assert moved
    later = replace(gone, nodes=FrozenMap({stays.name: stays}))
    assert moved <= resting(later, world.clock.now() + 590.0), "whoever leads next knows it, when the node is gone too"
    world.clock.ahead_seconds += 601.0
    assert not resting(world.caught_up(), world.clock.now()) - {
        workload(p) for n in gone.nodes.values() for p in n.pods
    }
    one.passes(lambda s: RESTING_ANNOTATION not in s.nodes[stays.name].node.annotations, "taken off when it is over")


def test_a_dear_node_is_replaced_by_a_cheaper_one(world: World) -> None:
    """Replacement first; the price before and after is logged."""
    consolidating(world)
    old_node(world, kind="m5.4xlarge")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    (new,) = replacements(one.passes(replacements, "replacement"))
    assert world.cloud.requests[0].offerings[0].price < 0.768
    assert all(offering.price < 0.768 for offering in world.cloud.requests[0].offerings), "nothing dearer on any path"
    come_up(world, new)
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_a_node_that_the_base_on_demand_needs_is_not_consolidated_and_says_why(world: World) -> None:
    """Both could be one; each is one of the two that are to be on demand."""
    consolidating(world)
    annotate_provisioner(world, on_demand_base="2")
    old_node(world, "one")
    old_node(world, "two")
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    seen = one.some_passes()
    assert untouched(seen, "one")
    assert untouched(seen, "two")
    why = "2 of 2 nodes of Provisioner default are to be on demand"
    assert world.await_event("Unconsolidatable")["message"] == why


def test_two_dear_nodes_become_one_when_that_has_held_for_a_while(world: World) -> None:
    consolidating(world)
    annotate_provisioner(world, disruption_budgets='[{"nodes": "100%"}]')
    for name in ("one", "two"):
        old_node(world, name, kind="m5.4xlarge")
    one = leader(world)
    assert all(untouched(one.some_passes(), name) for name in ("one", "two"))
    world.clock.ahead_seconds += 16.0
    (new,) = replacements(one.passes(replacements, "replacement"))
    assert len(world.cloud.requests) == 1
    come_up(world, new)
    one.passes(lambda s: all(s.nodes[name].leaving for name in ("one", "two")), "both deleted")


def test_nodes_of_provisioners_without_consolidation_hear_nothing_of_it(world: World) -> None:
    """Karpenter v0.27 publishes Unconsolidatable for each of them every 15 minutes."""
    world.add_provisioner()
    old_node(world, pods=0)
    one = leader(world)
    world.clock.ahead_seconds += 60.0
    assert untouched(one.some_passes())
    assert world.said("Unconsolidatable") == []


def test_why_a_node_stays_is_said_and_said_anew_when_it_changes(world: World) -> None:
    consolidating(world)
    old_node(world)
    one = leader(world)
    one.some_passes()
    first = world.await_event("Unconsolidatable")["message"]
    world.kube.patch(NODES, "old", {"metadata": {"annotations": {"karpenter.sh/do-not-consolidate": "true"}}})
    one.some_passes()
    deadline = threading.Event()
    for _ in range(100):
        messages = {event["message"] for event in world.said("Unconsolidatable")}
        if len(messages) > 1:
            break
        deadline.wait(0.05)
    assert any("do-not-consolidate" in message for message in messages)
    assert first in messages
