"""Giving up preferences and trying OR terms."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import SelectorRequirement, Toleration, WeightedPodAffinityTerm
from tests.conformance.fixtures import ARM, ZONE_1, ZONE_2, ZONE_3, ZONES, Cluster, preferring, terms
from tests.core.provisioning.plans import near
from tests.factories import pending_pod, pending_pods, provisioner, requirement


def zone(*values: str) -> SelectorRequirement:
    return requirement(keys.ZONE, "In", *values)


def not_zone(*values: str) -> SelectorRequirement:
    return requirement(keys.ZONE, "NotIn", *values)


def landed(**fields: Any) -> str:
    """Where one pod of these fields goes; empty: nowhere."""
    waiting = pending_pod(**fields)
    done = Cluster().provision(waiting)
    return done.home(waiting) if done.placed(waiting) else ""


def test_the_last_required_term_is_never_given_up() -> None:
    only = terms([zone("invalid"), requirement(keys.INSTANCE_TYPE, "In", "invalid")])
    assert landed(required_node_affinity=only) == ""


def test_required_terms_that_cannot_be_met_give_way_to_one_that_can() -> None:
    some = terms([zone("invalid")], [zone("invalid")], [zone(ZONE_1)], [zone(ZONE_2)])
    assert landed(required_node_affinity=some) in (ZONE_1, ZONE_2)
    first = terms([zone("invalid")], [zone(ZONE_1)])
    assert landed(required_node_affinity=first) == ZONE_1


def test_every_preference_can_be_given_up() -> None:
    wishes = tuple(preferring(1, zone("invalid")) for _ in range(3))
    assert landed(preferred_node_affinity=(*wishes, preferring(1, requirement(keys.INSTANCE_TYPE, "In", "invalid"))))


def test_the_heavier_preference_goes_first_and_a_lighter_one_that_can_be_met_wins() -> None:
    wishes = (preferring(100, zone(ZONE_3)), preferring(50, zone(ZONE_2)), preferring(1, zone(ZONE_1)))
    among = terms([zone(ZONE_1, ZONE_2)])
    assert landed(required_node_affinity=among, preferred_node_affinity=wishes) == ZONE_2


def test_prefer_no_schedule_is_tolerated_only_after_preferences_are_given_up() -> None:
    pool = provisioner(taints=[Taint("foo", "bar", "PreferNoSchedule")])
    wishes = (preferring(1, zone("invalid")), preferring(1, requirement(keys.INSTANCE_TYPE, "In", "invalid")))
    waiting = pending_pod(preferred_node_affinity=wishes)
    assert Cluster([pool]).provision(waiting).placed(waiting)


def test_a_pod_that_tolerates_a_preferred_taint_keeps_its_preferences() -> None:
    pool = provisioner(taints=[Taint("foo", "bar", "PreferNoSchedule")])
    waiting = pending_pod(
        preferred_node_affinity=(preferring(1, zone(ZONE_3)),), tolerations=(Toleration("foo", "Exists"),)
    )
    assert Cluster([pool]).provision(waiting).home(waiting) == ZONE_3


def test_a_preference_that_can_be_met_is_kept() -> None:
    among = terms([zone(ZONE_1, ZONE_2, "unknown")])
    assert landed(required_node_affinity=among, preferred_node_affinity=(preferring(1, zone(ZONE_2, "unknown")),)) == (
        ZONE_2
    )


def test_a_preference_that_cannot_be_met_is_given_up() -> None:
    assert landed(preferred_node_affinity=(preferring(1, zone("unknown")),))


def test_a_not_in_preference_that_can_be_met_is_kept() -> None:
    assert landed(preferred_node_affinity=(preferring(1, not_zone(ZONE_1, ZONE_3)),)) == ZONE_2


def test_a_not_in_preference_that_cannot_be_met_is_given_up() -> None:
    assert landed(preferred_node_affinity=(preferring(1, not_zone(*ZONES)),))


def test_selectors_requirements_and_preferences_add_up() -> None:
    assert (
        landed(
            node_selector={keys.ZONE: ZONE_3},
            required_node_affinity=terms([zone(*ZONES)]),
            preferred_node_affinity=(preferring(1, zone(*ZONES)),),
        )
        == ZONE_3
    )


def test_all_dimensions_together_resolve_to_one_offering() -> None:
    waiting = pending_pod(
        node_selector={keys.ZONE: ZONE_3, keys.INSTANCE_TYPE: ARM},
        required_node_affinity=terms([zone(ZONE_1, ZONE_3), requirement(keys.ARCH, "In", "arm64", "amd64")]),
        preferred_node_affinity=(preferring(1, not_zone("unknown")), preferring(1, zone(ZONE_3))),
    )
    done = Cluster().provision(waiting)
    assert done.home(waiting) == ZONE_3
    assert done.types == [ARM]


def test_a_preference_that_contradicts_a_requirement_is_given_up() -> None:
    wishes = (preferring(1, not_zone(ZONE_3)), preferring(1, zone(ZONE_1)))
    assert landed(required_node_affinity=terms([zone(ZONE_3)]), preferred_node_affinity=wishes) == ZONE_3


def test_preferences_that_contradict_themselves_are_given_up() -> None:
    assert landed(preferred_node_affinity=(preferring(1, zone(ZONE_1), not_zone(ZONE_1)),))


def test_a_weightless_or_empty_preference_changes_nothing() -> None:
    """An empty preferred term matches no node (Kubernetes API), so it can only be given up."""
    assert landed(preferred_node_affinity=(preferring(1),))


@pytest.mark.parametrize(
    "kind", ["preferred_pod_affinity", "preferred_pod_anti_affinity"], ids=["affinity", "anti-affinity"]
)
def test_preferred_pod_affinity_and_anti_affinity_may_be_violated(kind: str) -> None:
    """Nobody to stand beside, or more pods than zones."""
    wish: dict[str, Any] = {kind: (WeightedPodAffinityTerm(50, near()),)}
    pods = pending_pods(5, labels={"app": "web"}, **wish)
    assert Cluster().provision(*pods).left == set()
    lonely = pending_pod(**wish)
    assert Cluster().provision(lonely).placed(lonely)


def test_or_terms_are_tried_for_the_cheapest_not_for_the_first() -> None:
    """Terms are ORed; Karpenter v0.27 takes the first that works whatever it costs."""
    either = terms([requirement(keys.INSTANCE_TYPE, "In", ARM)], [requirement(keys.ARCH, "In", "amd64")])
    assert Cluster().provision(pending_pod(required_node_affinity=either)).types != [ARM]


def test_a_batch_goes_on_while_one_pod_gives_up_its_preferences() -> None:
    """In Karpenter v0.27 each step restarts the pod at the tail of the queue; here nobody waits for it."""
    fussy = pending_pods(3, preferred_node_affinity=tuple(preferring(w, zone(f"no-{w}")) for w in range(1, 20)))
    assert Cluster().provision(*fussy, *pending_pods(10)).left == set()
