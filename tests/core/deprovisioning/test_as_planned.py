"""A removal that goes as it was planned needs no new plan; what has changed since is seen."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.api.pod import Pod, PodKey
from controller.core.deprovisioning.removal_simulation import Outcome
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning.builders import keeping_apart, owner, parts, standing

OLD = standing("old", "c5.xlarge", {"cpu": "1500m"}, {"cpu": "500m"})
NEW, FREE = standing("new", "c5.large"), standing("free", "c5.large")
BIG, SMALL = (pod.key for pod in OLD.pods)
PLACES = {BIG: "new", SMALL: "free"}


def as_planned(
    *others: StateNode, old: StateNode = OLD, places: dict[PodKey, str] | None = None, pods: Sequence[Pod] = ()
) -> Outcome | None:
    view = factories.snapshot(nodes=[old, *others], provisioners=[owner()], pending=pods)
    _, simulator, _ = parts(view)
    outcome: Outcome | None = simulator.as_planned([old], PLACES if places is None else places)
    return outcome


def test_pods_go_where_the_plan_has_them_and_nothing_is_launched() -> None:
    """The first plan would fill one of the two nodes with both."""
    outcome = as_planned(NEW, FREE)
    assert outcome is not None
    assert (outcome.targets, outcome.replacements, outcome.problem) == (("free", "new"), (), "")


def test_a_pod_that_came_since_has_no_place() -> None:
    late = standing("old", "c5.xlarge", {"cpu": "1500m"}, {"cpu": "500m"}, {"cpu": "100m"})
    places = {pod.key: place for pod, place in zip(late.pods, ("new", "free"), strict=False)}
    assert as_planned(NEW, FREE, old=late, places=places) is None
    assert as_planned(NEW, FREE, old=late, places={**places, late.pods[2].key: "free"}) is not None


def test_room_that_others_took_since_is_not_there() -> None:
    assert as_planned(standing("new", "c5.large", {"cpu": "1"}), FREE) is None


def test_a_rule_that_forbids_it_by_now_does() -> None:
    """Another pod of its app runs there, beside which it must not be."""
    old = keeping_apart("old", cpu="100m")
    (pod,) = old.pods
    assert as_planned(NEW, old=old, places={pod.key: "new"}) is not None
    assert as_planned(keeping_apart("new", cpu="100m"), old=old, places={pod.key: "new"}) is None


def test_a_node_that_is_gone_goes_or_still_starts_takes_no_pods() -> None:
    assert as_planned(FREE) is None
    going = factories.state_node(node=factories.node(name="new", deleted_at=1.0), pods=[])
    assert as_planned(going, FREE) is None
    starting = factories.state_node(node=factories.node(name="new", initialized=False), pods=[])
    assert as_planned(starting, FREE) is None


def test_pods_that_wait_may_need_the_room() -> None:
    assert as_planned(NEW, FREE, pods=[factories.pending_pod()]) is None
