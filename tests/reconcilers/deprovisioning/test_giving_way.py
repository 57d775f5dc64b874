"""Removals that save money give way to provisioning; those for safety do not."""

from __future__ import annotations

from controller.core.deprovisioning.consolidation import Consolidation
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.errors import SearchInterruptedError
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import consolidating, leader, old_node, untouched


def test_consolidation_waits_for_pods_without_a_plan_and_for_nodes_on_their_way(world: World) -> None:
    consolidating(world)
    old_node(world, pods=0)
    one = leader(world)
    planning = world.context.planning
    for planning.unplanned, planning.launching in ((True, frozenset[str]()), (False, frozenset({"token"}))):
        one.some_passes()
        world.clock.ahead_seconds += 16.0
        assert untouched(one.some_passes()), "not even searched: it would go now"
    assert "nodeless_search_seconds 0.0\n" in one.metrics_text()
    planning.launching = frozenset()
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")
    assert "nodeless_search_seconds 0.0\n" not in one.metrics_text()


def test_expiration_keeps_its_turn(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    one = leader(world)
    world.context.planning.unplanned = True
    world.clock.ahead_seconds = 3600.0
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_a_search_ends_at_once_when_pods_come_and_goes_on_later(world: World) -> None:
    """The pods come during the first simulation."""
    consolidating(world)
    for name in ("one", "two"):
        old_node(world, name)
    planning, asked = world.context.planning, list[str]()

    class Watched(Consolidation):
        def decide(self, given: MethodInput) -> Proposal:
            planning.unplanned = True
            try:
                return super().decide(given)
            except SearchInterruptedError:
                asked.append("gave way")
                raise
            finally:
                planning.unplanned = False

    leader(world, consolidation=Watched()).some_passes(2)
    assert asked
    one = leader(world)
    one.some_passes()
    world.clock.ahead_seconds += 16.0
    one.passes(lambda s: any(node.node.deleted_at is not None for node in s.nodes.values()), "one deleted")
