"""Topology spread constraints: kube-scheduler's PodTopologySpread, on every key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import LabelSelector, SelectorRequirement, Toleration, WeightedPodAffinityTerm
from controller.core.provisioning.packing.rounds import holds
from controller.core.provisioning.topology.groups import GroupKey, RuleKind, TopologyGroup
from controller.core.state.snapshot import StateNode
from tests.core.provisioning.plans import FIRST, SMALL, WEB, homes, in_zones, near, skew, solved, spread
from tests.factories import (
    ZONES,
    instance_type,
    node,
    pending_pod,
    pending_pods,
    problem,
    provisioner,
    requirement,
    running_pod,
    state_node,
)


def running(zone: str, count: int = 1, **fields: Any) -> StateNode:
    """A full node of `zone` with `count` web pods."""
    name = f"standing-{zone}-{count}"
    labels = fields.pop("labels", WEB)
    pods = [running_pod(node=name, labels=labels, requests={"cpu": "10m"}, **fields) for _ in range(count)]
    return state_node(node=node(name=name, zone=zone, allocatable={"cpu": "100m", "pods": 10}), pods=pods)


@pytest.mark.parametrize(
    "selector",
    [
        LabelSelector((SelectorRequirement("app", "In", ("web",)),)),
        LabelSelector((SelectorRequirement("app", "In", ("web", "other")),)),
        LabelSelector((SelectorRequirement("app", "Exists"),)),
    ],
)
def test_zones_stay_within_max_skew(selector: LabelSelector) -> None:
    posed = problem(pending=pending_pods(4, labels=WEB, topology_spread=(spread(of=selector),)))
    assert skew(solved(posed), posed) == [1, 1, 2]


def test_zones_that_the_provisioner_rules_out_do_not_count() -> None:
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", *ZONES[:2])])
    posed = problem(pending=pending_pods(4, labels=WEB, topology_spread=(spread(),)), provisioners=[pool])
    assert skew(solved(posed), posed) == [2, 2]


def test_a_running_pod_in_a_zone_that_the_provisioner_left_holds_the_minimum() -> None:
    """One pod in zone c, the Provisioner now limited to a and b, six pods: 2 and 2, and two stay pending."""
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", *ZONES[:2])])
    posed = problem(
        pending=pending_pods(6, labels=WEB, topology_spread=(spread(),)),
        provisioners=[pool],
        nodes=[running(ZONES[2])],
    )
    plan = solved(posed)
    assert skew(plan, posed) == [2, 2]
    assert len(plan.unplaced) == 2
    assert "topology spread over topology.kubernetes.io/zone (maxSkew 1)" in plan.unplaced[0].reason


def test_pods_go_where_the_least_is_although_the_skew_stays_violated() -> None:
    """3 in zone a, none elsewhere, three more: a gets none."""
    posed = problem(pending=pending_pods(3, labels=WEB, topology_spread=(spread(),)), nodes=[running(ZONES[0], 3)])
    plan = solved(posed)
    assert sorted(homes(plan, posed).values()) in ([ZONES[1], ZONES[1], ZONES[2]], [ZONES[1], ZONES[2], ZONES[2]])


@pytest.mark.parametrize(
    "other",
    [
        {"labels": {"app": "other"}},
        {"namespace": "elsewhere"},
        {"pod_fields": {"deleted_at": 5.0}},
    ],
)
def test_pods_of_other_labels_or_namespaces_and_terminating_ones_do_not_count(other: dict[str, object]) -> None:
    posed = problem(
        pending=pending_pods(3, labels=WEB, topology_spread=(spread(),)), nodes=[running(ZONES[0], 5, **other)]
    )
    assert skew(solved(posed), posed) == [1, 1, 1]


def test_a_missing_selector_counts_no_pod() -> None:
    posed = problem(pending=pending_pods(5, labels=WEB, topology_spread=(spread(of=None),), requests={"cpu": "100m"}))
    assert len(solved(posed).new_nodes) == 1


def test_pods_that_their_own_selector_does_not_match_may_stack() -> None:
    posed = problem(
        pending=pending_pods(5, labels={"app": "x"}, topology_spread=(spread(keys.HOSTNAME),), requests={"cpu": "100m"})
    )
    assert len(solved(posed).new_nodes) == 1


@pytest.mark.parametrize(("max_skew", "nodes"), [(1, 4), (2, 2), (4, 1)])
def test_hosts_hold_max_skew_pods_each(max_skew: int, nodes: int) -> None:
    posed = problem(pending=pending_pods(4, labels=WEB, topology_spread=(spread(keys.HOSTNAME, skew=max_skew),)))
    assert len(solved(posed).new_nodes) == nodes


@pytest.mark.parametrize("count", [1, 2])
def test_pods_that_a_host_spread_only_counts_stay_off_its_owner_s_host(count: int) -> None:
    """Were they bound there first, as they may be, the owner would find no place there."""
    owner = pending_pod(labels=WEB, topology_spread=(spread(keys.HOSTNAME),))
    counted = pending_pods(count, labels=WEB, requests=SMALL)
    posed = problem(pending=[owner, *counted])
    at = homes(solved(posed), posed, keys.HOSTNAME)
    assert at[owner.key] not in {at[each.key] for each in counted}


def test_two_apps_spread_over_hosts_share_them() -> None:
    """Two apps of two pods, each spread over hosts, need two nodes."""
    other = LabelSelector((SelectorRequirement("app", "In", ("db",)),))
    pods = [
        *pending_pods(2, labels=WEB, topology_spread=(spread(keys.HOSTNAME),)),
        *pending_pods(2, labels={"app": "db"}, topology_spread=(spread(keys.HOSTNAME, of=other),)),
    ]
    assert len(solved(problem(pending=pods)).new_nodes) == 2


def test_capacity_types_are_domains_too() -> None:
    posed = problem(pending=pending_pods(4, labels=WEB, topology_spread=(spread(keys.CAPACITY_TYPE),)))
    assert skew(solved(posed), posed, keys.CAPACITY_TYPE) == [2, 2]


def test_a_label_with_several_values_of_a_provisioner_is_a_domain_per_value() -> None:
    """Values 2 to 5 on spot, 1 on demand, 20 pods: 4 each."""
    key = "capacity.spread.4-1"
    pools = [
        provisioner(
            name="spot",
            requirements=[requirement(keys.CAPACITY_TYPE, "In", "spot"), requirement(key, "In", "2", "3", "4", "5")],
        ),
        provisioner(
            name="on-demand",
            requirements=[requirement(keys.CAPACITY_TYPE, "In", "on-demand"), requirement(key, "In", "1")],
        ),
    ]
    posed = problem(pending=pending_pods(20, labels=WEB, topology_spread=(spread(key),)), provisioners=pools)
    plan = solved(posed)
    assert skew(plan, posed, key) == [4, 4, 4, 4, 4]
    assert skew(plan, posed, keys.CAPACITY_TYPE) == [4, 16]


def test_an_unknown_key_stops_its_pod_alone() -> None:
    posed = problem(pending=[pending_pod(name="odd", topology_spread=(spread("unknown"),)), pending_pod(name="fine")])
    assert [left.pod[1] for left in solved(posed).unplaced] == ["odd"]


def test_zone_and_host_hold_together() -> None:
    """Zone maxSkew 1 and host maxSkew 3, eleven pods: 3, 4, 4 and never more than three a host."""
    both = (spread(), spread(keys.HOSTNAME, skew=3))
    posed = problem(pending=pending_pods(11, labels=WEB, topology_spread=both))
    plan = solved(posed)
    assert skew(plan, posed) == [3, 4, 4]
    assert max(skew(plan, posed, keys.HOSTNAME)) <= 3


def test_capacity_type_and_zone_hold_together() -> None:
    """No domain of either key holds more than its share."""
    both = (spread(), spread(keys.CAPACITY_TYPE))
    posed = problem(pending=pending_pods(11, labels=WEB, topology_spread=both))
    plan = solved(posed)
    assert skew(plan, posed) == [3, 4, 4]
    assert skew(plan, posed, keys.CAPACITY_TYPE) == [5, 6]


def test_a_soft_spread_gives_way() -> None:
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", ZONES[0])])
    posed = problem(
        pending=pending_pods(5, labels=WEB, topology_spread=(spread(soft=True),)),
        provisioners=[pool],
        nodes=[running(ZONES[1])],
    )
    plan = solved(posed)
    assert plan.unplaced == ()


def test_a_soft_spread_is_kept_where_it_costs_no_pod() -> None:
    posed = problem(pending=pending_pods(6, labels=WEB, topology_spread=(spread(soft=True),)))
    assert skew(solved(posed), posed) == [2, 2, 2]


def test_node_affinity_limits_the_domains_that_count() -> None:
    """Six pods for zones a and b, none of which may go to c: 3 and 3."""
    pods = pending_pods(6, labels=WEB, topology_spread=(spread(),), required_node_affinity=in_zones(*ZONES[:2]))
    posed = problem(pending=pods)
    assert skew(solved(posed), posed) == [3, 3]


@pytest.mark.parametrize(
    ("nodes", "policy"),
    [({"labels": {keys.ARCH: "amd64"}}, "Ignore"), ({"taints": [Taint("dedicated")]}, "Honor")],
    ids=["architecture", "taint"],
)
def test_pods_on_nodes_that_its_owners_may_not_use_do_not_count(nodes: dict[str, Any], policy: str) -> None:
    """Three stand in one zone, on a node that is none of the spread's: the zone gets its part of the new ones."""
    name = "standing"
    there = [running_pod(node=name, labels=WEB, requests=SMALL) for _ in range(3)]
    existing = state_node(node=node(name=name, zone=ZONES[0], **nodes), pods=there)
    arm = {keys.ARCH: "arm64"} if policy == "Ignore" else {}
    pods = pending_pods(3, labels=WEB, node_selector=arm, topology_spread=(spread(taints_policy=policy),))
    kinds = [instance_type(name=arch, cpu=4, memory="16Gi", arch=arch) for arch in ("amd64", "arm64")]
    posed = problem(pending=pods, nodes=[existing], catalog=kinds)
    assert skew(solved(posed), posed) == [1, 1, 1]


def test_node_affinity_policy_ignore_counts_domains_that_the_pod_may_not_use() -> None:
    pods = pending_pods(
        6,
        labels=WEB,
        topology_spread=(spread(affinity_policy="Ignore"),),
        required_node_affinity=in_zones(*ZONES[:2]),
    )
    posed = problem(pending=[*pods, pending_pod(node_selector={keys.ZONE: ZONES[2]})], nodes=[running(ZONES[2], 0)])
    plan = solved(posed)
    assert len(plan.unplaced) == 4


@pytest.mark.parametrize(("policy", "placed"), [("Ignore", 2), ("Honor", 6)])
def test_node_taints_policy_decides_whether_tainted_nodes_count(policy: str, placed: int) -> None:
    """A tainted node alone in zone c: counted, its zone holds the minimum at 0; not counted, a and b share."""
    tainted = state_node(node=node(name="t", zone=ZONES[2], taints=[Taint("gpu")]))
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", *ZONES[:2])])
    posed = problem(
        pending=pending_pods(6, labels=WEB, topology_spread=(spread(taints_policy=policy),)),
        nodes=[tainted],
        provisioners=[pool],
    )
    plan = solved(posed)
    assert 6 - len(plan.unplaced) == placed


def test_fewer_domains_than_min_domains_hold_max_skew_pods_each() -> None:
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", *ZONES[:2])])
    posed = problem(pending=pending_pods(6, labels=WEB, topology_spread=(spread(min_domains=3),)), provisioners=[pool])
    plan = solved(posed)
    assert skew(plan, posed) == [1, 1]
    assert len(plan.unplaced) == 4


def test_min_domains_counts_the_zones_that_the_pod_s_pool_reaches_alone() -> None:
    """The pod asks for a pool of two zones; the third zone of another pool is no domain of its own."""
    pools = [
        provisioner(name="two", labels={"tier": "two"}, requirements=[requirement(keys.ZONE, "In", *ZONES[:2])]),
        provisioner(name="all"),
    ]
    pods = pending_pods(6, labels=WEB, topology_spread=(spread(min_domains=3),), node_selector={"tier": "two"})
    posed = problem(pending=pods, provisioners=pools)
    assert skew(solved(posed), posed) == [1, 1]


def test_values_of_an_open_label_that_the_pod_s_selector_rules_out_do_not_count() -> None:
    """The pool leaves team open, red or blue; pods that ask for blue are not held back by a red that has none."""
    pool = provisioner(requirements=[requirement("team", "In", "red", "blue")])
    pods = pending_pods(3, labels=WEB, node_selector={"team": "blue"}, topology_spread=(spread("team"),))
    assert solved(problem(pending=pods, provisioners=[pool])).unplaced == ()


def test_match_label_keys_spread_each_revision_alone() -> None:
    constraint = spread(match_label_keys=("pod-template-hash",))
    old = pending_pods(3, labels={**WEB, "pod-template-hash": "1"}, topology_spread=(constraint,))
    new = pending_pods(3, labels={**WEB, "pod-template-hash": "2"}, topology_spread=(constraint,))
    posed = problem(pending=[*old, *new], nodes=[])
    where = homes(solved(posed), posed)
    for revision in (old, new):
        assert len({where[pod.key] for pod in revision}) == 3


def test_match_label_keys_part_revisions_after_a_pod_without_labels_too() -> None:
    """Four of each revision share hosts, and the pod without labels has one; as one group they would need eight."""
    constraint = spread(keys.HOSTNAME, match_label_keys=("rev",))
    bare = pending_pod(name="a", topology_spread=(constraint,), requests={"cpu": "100m"})
    web = [
        replace(bare, name=f"web-{rev}-{number}", labels=FrozenMap({**WEB, "rev": rev}))
        for rev in ("1", "2")
        for number in range(4)
    ]
    assert len(solved(problem(pending=[bare, *web])).new_nodes) <= 5


def test_a_class_that_its_volume_or_type_keeps_out_of_a_zone_is_held_by_that_zone() -> None:
    """Large pods fit only a type of zones a and b; c still counts, so each may hold maxSkew pods."""
    catalog = [instance_type(name="m5.large"), instance_type(name="m5.4xlarge", cpu="16", zones=ZONES[:2])]
    pods = pending_pods(4, labels=WEB, topology_spread=(spread(),), requests={"cpu": "10"})
    posed = problem(pending=pods, catalog=catalog)
    plan = solved(posed)
    assert skew(plan, posed) == [1, 1]


def test_limits_that_stop_one_zone_stop_the_others_at_max_skew() -> None:
    """The Provisioner of zone c has a limit of 0."""
    pools = [
        provisioner(name="ab", requirements=[requirement(keys.ZONE, "In", *ZONES[:2])]),
        provisioner(name="c", requirements=[requirement(keys.ZONE, "In", ZONES[2])], limits={"cpu": "0"}),
    ]
    posed = problem(pending=pending_pods(10, labels=WEB, topology_spread=(spread(),)), provisioners=pools)
    plan = solved(posed)
    assert skew(plan, posed) == [1, 1]
    assert len(plan.unplaced) == 8


def test_limits_that_stop_a_zone_midway_take_pods_back_elsewhere() -> None:
    pools = [
        provisioner(name="ab", requirements=[requirement(keys.ZONE, "In", *ZONES[:2])]),
        provisioner(name="c", requirements=[requirement(keys.ZONE, "In", ZONES[2])], limits={"cpu": "4"}),
    ]
    pods = pending_pods(30, labels=WEB, topology_spread=(spread(),), requests={"cpu": "1900m"})
    posed = problem(pending=pods, provisioners=pools)
    assert skew(solved(posed), posed) == [2, 3, 3]


def test_pods_leave_a_host_with_the_pod_that_they_have_affinity_to() -> None:
    """Webs fill half a node, sides most of the rest; webs of zone b are taken back for the limit of zone c."""
    pools = [
        provisioner(name="ab", requirements=[requirement(keys.ZONE, "In", *ZONES[:2])]),
        provisioner(name="c", requirements=[requirement(keys.ZONE, "In", ZONES[2])], limits={"cpu": "4"}),
    ]
    webs = pending_pods(11, labels=WEB, topology_spread=(spread(),), requests={"cpu": "1900m"})
    beside = {"required_pod_affinity": (near(keys.HOSTNAME),), "node_selector": {keys.ZONE: ZONES[1]}}
    sides = pending_pods(4, labels={"app": "side"}, requests={"cpu": "1500m"}, **beside)
    catalog = [instance_type(name="m5.xlarge", cpu=4, memory="16Gi")]
    plan = solved(problem(pending=[*webs, *sides], provisioners=pools, catalog=catalog))
    assert len(plan.unplaced) == 6


def test_existing_capacity_is_used_zone_by_zone() -> None:
    nodes = [state_node(node=node(name=f"n{zone}", zone=zone)) for zone in ZONES]
    posed = problem(pending=pending_pods(3, labels=WEB, topology_spread=(spread(),)), nodes=nodes)
    plan = solved(posed)
    assert plan.new_nodes == ()
    assert skew(plan, posed) == [1, 1, 1]


def test_unconstrained_pods_that_a_spread_counts_do_not_break_it() -> None:
    constrained = pending_pods(6, labels=WEB, topology_spread=(spread(),))
    free = pending_pods(20, labels=WEB, requests={"cpu": "300m"})
    posed = problem(pending=[*constrained, *free])
    plan = solved(posed)
    assert plan.unplaced == ()


def test_affinity_preference_yields_to_required_spread() -> None:
    pods = pending_pods(
        3, labels=WEB, topology_spread=(spread(),), preferred_pod_affinity=(WeightedPodAffinityTerm(50, near()),)
    )
    posed = problem(pending=pods)
    assert skew(solved(posed), posed) == [1, 1, 1]


def test_nodes_without_a_provisioner_count() -> None:
    strange = state_node(
        node=replace(node(name="s", provisioner="", zone=ZONES[0]), allocatable=FrozenMap({"cpu": 10, "pods": 1})),
        pods=[running_pod(node="s", labels=WEB, requests={"cpu": "10m"})],
    )
    posed = problem(pending=pending_pods(2, labels=WEB, topology_spread=(spread(),)), nodes=[strange])
    assert set(homes(solved(posed), posed).values()) == set(ZONES[1:])


def test_constrained_pods_do_not_rely_on_unconstrained_ones_that_may_be_bound_later() -> None:
    """Two owners in one zone, one free pod in the other: only the free pod would level the zones."""
    group = TopologyGroup(0, GroupKey(RuleKind.SPREAD, keys.ZONE, (0,), max_skew=1), domains=frozenset(ZONES[:2]))
    group.max_matched.update({ZONES[0]: 2, ZONES[1]: 1})
    group.min_matched.update({ZONES[0]: 2, ZONES[1]: 1})
    group.owners.update({ZONES[0]: 2})
    group.unconstrained.update({ZONES[1]: 1})
    assert holds(group)
    assert not holds(group, constrained_first=True)


@pytest.mark.parametrize("taints_policy", ["Ignore", "Honor"])
def test_pods_that_a_spread_may_count_or_not_keep_its_owners_from_no_zone(taints_policy: str) -> None:
    """Nine that have waited longer may go where they are counted, or elsewhere: which, is settled for its owners."""
    kinds = [instance_type(name=arch, cpu=4, memory="16Gi", arch=arch) for arch in ("amd64", "arm64")]
    anything = (Toleration(operator="Exists"),)
    nine = pending_pods(9, labels=WEB, topology_spread=(spread(keys.CAPACITY_TYPE),), tolerations=anything)
    arm = {} if taints_policy == "Honor" else {keys.ARCH: "arm64"}
    owners = pending_pods(3, node_selector=arm, topology_spread=(spread(taints_policy=taints_policy),))
    later = [replace(each, created=3600.0) for each in owners]
    pools = [provisioner(name="a", taints=[Taint("a")]), provisioner(name="b")]
    assert solved(problem(pending=[*nine, *later], catalog=kinds, provisioners=pools)).unplaced == ()


def test_pods_of_one_zone_get_their_part_of_a_spread_that_counts_others() -> None:
    """Eight for zone a, sixteen for any zone: all have a place if those sixteen leave zone a to the eight."""
    rule = (spread(skew=2, affinity_policy="Ignore"),)
    pinned = pending_pods(8, labels=WEB, topology_spread=rule, required_node_affinity=in_zones(ZONES[0]))
    free = pending_pods(16, labels=WEB, requests=SMALL, topology_spread=rule)
    posed = problem(pending=[*pinned, *free])
    plan = solved(posed, FIRST)
    assert plan.unplaced == ()
    assert skew(plan, posed)[-1] == 8
