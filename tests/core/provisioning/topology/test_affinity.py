"""Pod affinity and anti-affinity: kube-scheduler's InterPodAffinity, inverse and preferred terms included."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import LabelSelector, Pod, PodAffinityTerm, WeightedPodAffinityTerm
from controller.core.api.workloads import Namespace
from controller.core.state.snapshot import StateNode
from tests.core.provisioning.plans import (
    DEFAULTS,
    FIRST,
    SMALL,
    WEB,
    homes,
    in_zones,
    near,
    preferring,
    skew,
    solved,
    spread,
)
from tests.factories import (
    ZONES,
    instance_type,
    node,
    node_affinity,
    pending_pod,
    pending_pods,
    problem,
    provisioner,
    requirement,
    running_pod,
    selector,
    state_node,
)


def test_self_affinity_over_hosts_puts_all_on_one_node() -> None:
    posed = problem(pending=pending_pods(3, labels=WEB, required_pod_affinity=(near(keys.HOSTNAME),)))
    assert len(solved(posed).new_nodes) == 1


def test_self_affinity_over_hosts_fills_one_node_and_leaves_the_rest_pending() -> None:
    """A node holds five; the other five wait, and a later batch adds none."""
    catalog = [instance_type(name="m5.large", pods=5, cpu="64")]
    pods = pending_pods(10, labels=WEB, required_pod_affinity=(near(keys.HOSTNAME),))
    plan = solved(problem(pending=pods, catalog=catalog))
    assert [len(planned.pods) for planned in plan.new_nodes] == [5]
    assert len(plan.unplaced) == 5
    full = state_node(
        node=node(name="n", allocatable={"cpu": "64", "pods": 5}),
        pods=[running_pod(node="n", labels=WEB) for _ in range(5)],
    )
    later = problem(pending=pods, catalog=catalog, nodes=[full])
    assert len(solved(later).unplaced) == 10


def test_self_affinity_over_zones_ends_in_one_zone() -> None:
    posed = problem(pending=pending_pods(40, labels=WEB, required_pod_affinity=(near(),)))
    assert len(set(homes(solved(posed), posed).values())) == 1


def test_self_affinity_over_zones_ends_in_one_zone_that_all_its_classes_can_use() -> None:
    term = (near(),)
    anywhere = pending_pods(5, labels=WEB, required_pod_affinity=term)
    only_b = pending_pods(2, labels=WEB, required_pod_affinity=term, node_selector={keys.ZONE: ZONES[1]})
    posed = problem(pending=[*anywhere, *only_b])
    assert set(homes(solved(posed), posed).values()) == {ZONES[1]}


@pytest.mark.parametrize("pinned", [True, False])
def test_an_affinity_that_pods_match_themselves_follows_younger_pods_that_can_go_nowhere_else(pinned: bool) -> None:
    """The older one, first in its zone, would have no place once kube-scheduler binds the younger one elsewhere."""
    one = pending_pod(labels=WEB, required_pod_affinity=(near(),))
    zoned = replace(one, spec=replace(one.spec, node_selector=FrozenMap({keys.ZONE: ZONES[0]} if pinned else {})))
    younger = pending_pod(labels=WEB, required_pod_affinity=(near(of=selector(app="db")),))
    here = state_node(node=node(name="n", zone=ZONES[1]), pods=[running_pod(node="n", labels={"app": "db"})])
    posed = problem(pending=[replace(zoned, created=0.0), replace(younger, created=9.0)], nodes=[here])
    for options in (FIRST, DEFAULTS):
        plan = solved(posed, options)
        assert [each.pod for each in plan.unplaced] == ([zoned.key] if pinned else [])
        assert set(homes(plan, posed).values()) == {ZONES[1]}


def test_followers_that_do_not_match_themselves_may_outnumber_the_targets_of_one_zone_among_two() -> None:
    """Two nodes are enough: both followers beside the one target in one zone, and the three of the other zone."""
    catalog = [instance_type(name="m5.xlarge", cpu=4, memory="16Gi", capacity_types=(keys.ON_DEMAND,))]
    targets = [
        pending_pod(labels=WEB, required_node_affinity=in_zones(ZONES[0])),
        *pending_pods(3, requests={"cpu": "1200m"}, labels=WEB, required_node_affinity=in_zones(ZONES[1])),
    ]
    followers = pending_pods(2, requests={"cpu": "1"}, required_pod_affinity=(near(),))
    plan = solved(problem(pending=[*targets, *followers], catalog=catalog))
    assert len(plan.new_nodes) == 2
    assert plan.proof is not None
    assert plan.proof.least == pytest.approx(plan.cost_per_hour)


def test_running_pods_decide_where_pods_with_affinity_may_go() -> None:
    """The first stands in zone a; pods restricted to b and c cannot join it."""
    first = state_node(node=node(name="n", zone=ZONES[0]), pods=[running_pod(node="n", labels=WEB)])
    elsewhere = node_affinity(requirement(keys.ZONE, "In", *ZONES[1:]))
    pods = pending_pods(3, labels=WEB, required_pod_affinity=(near(),), required_node_affinity=elsewhere)
    plan = solved(problem(pending=pods, nodes=[first]))
    assert len(plan.unplaced) == 3
    assert "its pod affinity over topology.kubernetes.io/zone allows only where matching pods run" in (
        plan.unplaced[0].reason
    )


def test_a_bundle_by_preference_is_no_first_pod_of_a_host_that_required_affinity_asks_for() -> None:
    """Kube-scheduler lets a pod be the first of its kind only while none stands anywhere, whoever goes with it."""
    team = {"team": "red", "app": "web"}
    pods = pending_pods(
        2,
        labels=team,
        required_pod_affinity=(near(keys.HOSTNAME, of=selector(team="red")),),
        preferred_pod_affinity=(WeightedPodAffinityTerm(50, near(keys.HOSTNAME)),),
    )
    full = state_node(
        node=node(name="full", allocatable={"cpu": "100m", "pods": 1}),
        pods=[running_pod(node="full", labels={"team": "red"}, requests=SMALL)],
    )
    assert len(solved(problem(pending=pods, nodes=[full])).unplaced) == 2


def bound_elsewhere(zone: str = ZONES[2], **fields: Any) -> StateNode:
    """The pod that others must stand beside, where kube-scheduler bound it: on a node with no room for them."""
    partner = running_pod(name="cache", node="full", labels=WEB, requests=SMALL)
    room: dict[str, str | int | float] = {"cpu": "150m", "memory": "1Gi", "pods": 10}
    return state_node(node=node(name="full", zone=zone, allocatable=room, **fields), pods=[partner])


def test_a_partner_that_was_bound_elsewhere_is_followed_into_its_zone() -> None:
    """Whatever an earlier plan had in mind for the two: the next one goes by where the partner is."""
    pods = pending_pods(2, required_pod_affinity=(near(keys.ZONE),))
    posed = problem(pending=pods, nodes=[bound_elsewhere()])
    assert set(homes(solved(posed), posed).values()) == {ZONES[2]}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "default/cache on full (0.05 CPU free)"),
        (
            {"taints": (Taint("dedicated", "x"),)},
            "default/cache on full, which its selectors or tolerations do not match",
        ),
        ({"deleted_at": 5.0}, "default/cache on full, which takes no more pods"),
    ],
    ids=["no room", "taint", "leaving"],
)
def test_a_partner_on_a_host_that_takes_no_more_is_named_with_what_would_help(fields: dict[str, Any], why: str) -> None:
    """No new node helps, for kube-scheduler wants the pod on that very host; none is launched in vain."""
    pods = pending_pods(2, required_pod_affinity=(near(keys.HOSTNAME),))
    plan = solved(problem(pending=pods, nodes=[bound_elsewhere(**fields)]))
    assert plan.new_nodes == ()
    assert all(why in left.reason for left in plan.unplaced)
    assert "No new node helps: free room there, or cordon that node and delete the pod" in plan.unplaced[0].reason


def test_once_its_host_is_cordoned_and_the_partner_made_anew_all_are_placed_on_one_node() -> None:
    """What the reason advises does help."""
    pods = pending_pods(2, required_pod_affinity=(near(keys.HOSTNAME),))
    left = state_node(
        node=node(name="full", unschedulable=True, allocatable={"cpu": "150m", "memory": "1Gi", "pods": 10})
    )
    plan = solved(problem(pending=[*pods, pending_pod(labels=WEB, requests=SMALL)], nodes=[left]))
    assert [len(planned.pods) for planned in plan.new_nodes] == [3]


def test_followers_join_an_unconstrained_target_of_the_same_batch() -> None:
    """Better than Karpenter v0.27: the target's zone is committed, so its followers are placed at once."""
    followers = pending_pods(10, labels={"app": "f"}, required_pod_affinity=(near(),))
    posed = problem(pending=[*followers, pending_pod(labels=WEB)])
    plan = solved(posed)
    assert plan.unplaced == ()
    assert len(set(homes(plan, posed).values())) == 1


def test_followers_wait_for_a_target_that_gives_up_a_preference_first() -> None:
    """Followers have nothing to give up, and had their turn before the target found its place."""
    target = pending_pod(labels=WEB, preferred_node_affinity=preferring(keys.ZONE, "nowhere"))
    followers = pending_pods(3, required_pod_affinity=(near(),))
    assert solved(problem(pending=[target, *followers])).unplaced == ()


def test_affinity_to_pods_that_do_not_exist_places_none() -> None:
    plan = solved(problem(pending=pending_pods(3, required_pod_affinity=(near(),))))
    assert len(plan.unplaced) == 3
    assert "finds no matching pod anywhere" in plan.unplaced[0].reason


def test_a_target_and_its_follower_share_a_host_beside_spread_pods() -> None:
    spread_pods = pending_pods(10, labels={"app": "s"}, topology_spread=(spread(keys.HOSTNAME, of=selector(app="s")),))
    target, follower = pending_pod(labels=WEB), pending_pod(required_pod_affinity=(near(keys.HOSTNAME),))
    posed = problem(pending=[*spread_pods, target, follower])
    where = homes(solved(posed), posed, keys.HOSTNAME)
    assert where[target.key] == where[follower.key]


def test_chains_of_affinity_over_hosts_are_placed_in_one_batch() -> None:
    """DB, Web, Cache, UI, each beside the one before, fifty times."""
    pods = []
    for number in range(50):
        before = None
        for app in ("db", "web", "cache", "ui"):
            labels = {"app": f"{app}-{number}"}
            term = (near(keys.HOSTNAME, selector(app=f"{before}-{number}")),) if before else ()
            pods.append(pending_pod(labels=labels, required_pod_affinity=term, requests=SMALL))
            before = app
    posed = problem(pending=pods)
    plan = solved(posed)
    assert plan.unplaced == ()


def test_many_followers_get_a_target_each_time_a_node_is_full() -> None:
    """Followers that one node cannot hold still use the room beside other targets."""
    targets = pending_pods(4, labels=WEB, requests={"cpu": "1"}, topology_spread=(spread(keys.HOSTNAME),))
    followers = pending_pods(4, labels={"app": "f"}, requests=SMALL, required_pod_affinity=(near(keys.HOSTNAME),))
    posed = problem(pending=[*targets, *followers])
    assert solved(posed).unplaced == ()


def test_a_pod_joins_one_that_matches_all_its_terms() -> None:
    """kube-scheduler counts a pod only if it matches every required term; one for each term is not enough."""
    both = (near(of=selector(app="web")), near(of=selector(tier="front")))
    pods = [pending_pod(labels=WEB), pending_pod(labels={"tier": "front"})]
    follower = pending_pod(name="follower", required_pod_affinity=both)
    assert [left.pod[1] for left in solved(problem(pending=[*pods, follower])).unplaced] == ["follower"]
    match = pending_pod(labels={"app": "web", "tier": "front"})
    assert solved(problem(pending=[match, follower])).unplaced == ()


def test_anti_affinity_over_hosts_gives_each_its_own_node() -> None:
    pods = pending_pods(4, labels=WEB, requests=SMALL, required_pod_anti_affinity=(near(keys.HOSTNAME),))
    assert len(solved(problem(pending=pods)).new_nodes) == 4


def test_anti_affinity_over_zones_commits_a_zone_for_each_pod() -> None:
    """Better than Karpenter v0.27: three pods, three zones, in one batch; the fourth has none."""
    pods = pending_pods(4, labels=WEB, required_pod_anti_affinity=(near(),))
    posed = problem(pending=pods)
    plan = solved(posed)
    assert skew(plan, posed) == [1, 1, 1]
    assert "its pod anti-affinity over topology.kubernetes.io/zone rules out" in plan.unplaced[0].reason


def test_targets_and_the_pod_with_anti_affinity_to_them_get_different_zones() -> None:
    """Better than Karpenter v0.27: the targets' zone is committed, so the shunning pod has one left."""
    targets = pending_pods(5, labels=WEB)
    shy = pending_pod(required_pod_anti_affinity=(near(),))
    posed = problem(pending=[*targets, shy])
    where = homes(solved(posed), posed)
    assert where[shy.key] not in {where[target.key] for target in targets}


def test_a_pod_with_anti_affinity_to_a_target_in_every_zone_stays_pending() -> None:
    targets = [pending_pod(labels=WEB, node_selector={keys.ZONE: zone}) for zone in ZONES]
    shy = pending_pod(name="shy", required_pod_anti_affinity=(near(),))
    assert [left.pod[1] for left in solved(problem(pending=[*targets, shy])).unplaced] == ["shy"]


def test_running_pods_repel_those_that_their_anti_affinity_names() -> None:
    """Inverse anti-affinity of what stands."""
    shy = running_pod(node="n", required_pod_anti_affinity=(near(),), requests=SMALL)
    posed = problem(pending=pending_pods(6, labels=WEB), nodes=[state_node(node=node(name="n"), pods=[shy])])
    plan = solved(posed)
    assert plan.unplaced == ()
    assert ZONES[0] not in homes(plan, posed).values()


def test_running_pods_repel_over_hosts() -> None:
    shy = running_pod(node="n", required_pod_anti_affinity=(near(keys.HOSTNAME),), requests=SMALL)
    posed = problem(pending=[pending_pod(labels=WEB)], nodes=[state_node(node=node(name="n"), pods=[shy])])
    assert solved(posed).existing == ()


def test_terminating_pods_still_repel() -> None:
    leaving = running_pod(node="n", labels=WEB, requests=SMALL, pod_fields={"deleted_at": 9.0})
    shy = pending_pod(required_pod_anti_affinity=(near(keys.HOSTNAME),), requests=SMALL)
    posed = problem(pending=[shy], nodes=[state_node(node=node(name="n"), pods=[leaving])])
    assert solved(posed).existing == ()


def test_preferred_anti_affinity_is_kept_where_it_can_be_and_given_up_where_not() -> None:
    wish = (WeightedPodAffinityTerm(10, near()),)
    posed = problem(pending=pending_pods(4, labels=WEB, preferred_pod_anti_affinity=wish))
    plan = solved(posed)
    assert plan.unplaced == ()
    assert skew(plan, posed) == [1, 1, 2]


def test_preferred_anti_affinity_of_running_pods_does_not_repel() -> None:
    wish = (WeightedPodAffinityTerm(10, near(keys.HOSTNAME)),)
    shy = running_pod(node="n", preferred_pod_anti_affinity=wish, requests=SMALL)
    posed = problem(pending=[pending_pod(labels=WEB)], nodes=[state_node(node=node(name="n"), pods=[shy])])
    assert len(solved(posed).existing) == 1


def test_preferred_affinity_is_kept_where_it_can_be() -> None:
    target = pending_pod(labels=WEB, node_selector={keys.ZONE: ZONES[2]})
    wish = (WeightedPodAffinityTerm(10, near()),)
    fan = pending_pod(preferred_pod_affinity=wish)
    posed = problem(pending=[target, fan])
    assert homes(solved(posed), posed)[fan.key] == ZONES[2]
    alone = problem(pending=[fan])
    assert solved(alone).unplaced == ()


def test_anti_affinity_over_a_key_that_some_nodes_lack_does_not_hold_there() -> None:
    pools = [provisioner(name="racked", labels={"rack": "r1"}), provisioner(name="free")]
    shy = pending_pods(3, labels=WEB, required_pod_anti_affinity=(near("rack"),), requests=SMALL)
    posed = problem(pending=shy, provisioners=pools)
    assert solved(posed).unplaced == ()


def test_affinity_over_a_key_that_a_node_lacks_fails_there() -> None:
    pools = [provisioner(name="racked", labels={"rack": "r1"}), provisioner(name="free", weight=50)]
    posed = problem(pending=pending_pods(3, labels=WEB, required_pod_affinity=(near("rack"),)), provisioners=pools)
    assert {planned.provisioner for planned in solved(posed).new_nodes} == {"racked"}


@pytest.mark.parametrize(
    ("term", "placed"),
    [
        (near(), False),
        (near(namespaces=("other",)), True),
        (replace(near(), namespace_selector=LabelSelector()), True),
        (replace(near(), namespace_selector=selector(team="a")), True),
        (replace(near(), namespace_selector=selector(team="b")), False),
    ],
)
def test_namespaces_of_affinity_terms(term: PodAffinityTerm, placed: bool) -> None:
    """Own namespace unless listed; a selector adds those it matches, an empty one all."""
    target = pending_pod(labels=WEB, namespace="other")
    follower = pending_pod(name="follower", required_pod_affinity=(term,))
    posed = problem(
        pending=[target, follower],
        namespaces={
            "other": Namespace("other", FrozenMap({"team": "a"})),
            "default": Namespace("default", FrozenMap({"team": "c"})),
        },
    )
    assert (solved(posed).unplaced == ()) is placed


def test_match_and_mismatch_label_keys_narrow_a_term() -> None:
    same = replace(near(keys.HOSTNAME), match_label_keys=("rev",))
    pods = [
        pending_pod(labels={**WEB, "rev": rev}, required_pod_anti_affinity=(same,), requests=SMALL)
        for rev in ("1", "1", "2", "2")
    ]
    assert len(solved(problem(pending=pods)).new_nodes) == 2
    other = replace(near(), mismatch_label_keys=("tenant",))
    tenants = [
        pending_pod(labels={**WEB, "tenant": tenant}, required_pod_anti_affinity=(other,), requests=SMALL)
        for tenant in ("a", "a", "b", "b")
    ]
    posed = problem(pending=tenants)
    where = homes(solved(posed), posed)
    assert len({where[pod.key] for pod in tenants[:2]} & {where[pod.key] for pod in tenants[2:]}) == 0


def test_zone_anti_affinity_of_many_apps_places_all_in_one_batch() -> None:
    """Karpenter v0.27 leaves half of them pending."""
    pods: list[Pod] = []
    for number in range(30):
        labels = {"app": f"a{number}"}
        term = (near(of=selector(app=f"a{number}")),)
        pods += pending_pods(3, labels=labels, required_pod_anti_affinity=term, requests=SMALL)
    posed = problem(pending=pods)
    plan = solved(posed)
    assert plan.unplaced == ()
    assert Counter(Counter(homes(plan, posed).values()).values()) == Counter({30: 3})
