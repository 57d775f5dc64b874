"""Spread over zones, and what Karpenter v0.27 gets wrong about domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import LabelSelector, Pod, SelectorRequirement
from controller.core.api.provisioner import Provisioner
from controller.core.state.snapshot import StateNode
from tests.conformance.fixtures import ZONE_1, ZONE_2, ZONE_3, ZONES, Cluster, terms
from tests.core.provisioning.plans import OF_WEB, spread
from tests.factories import (
    node,
    pending_pod,
    pending_pods,
    provisioner,
    requirement,
    running_pod,
    selector,
    state_node,
)

APP = {"app": "web"}
BIG = {"cpu": "1100m"}
"""One pod of it fills the small type, three the default one."""


def spreading(count: int, *constraints: Any, **fields: Any) -> tuple[Pod, ...]:
    """Pods labelled app=web, spread over zones unless told otherwise."""
    rules = constraints or (spread(),)
    return pending_pods(count, **{"labels": APP, "requests": BIG, "topology_spread": rules, **fields})


def in_zones(*zones: str) -> Provisioner:
    return provisioner(requirements=[requirement(keys.ZONE, "In", *zones)])


def demanding(*zones: str) -> dict[str, Any]:
    return {"required_node_affinity": terms([requirement(keys.ZONE, "In", *zones)])}


def full_node(zone: str, *pods: Pod, name: str = "", labels: dict[str, str] | None = None) -> StateNode:
    """A node in a zone with these pods and no room left."""
    standing = node(
        name=name or f"full-{zone}-{len(pods)}", zone=zone, allocatable={"cpu": "0", "pods": 0}, labels=labels
    )
    bound = [replace(pod, node_name=standing.name, phase="Running", ready=True, unschedulable=False) for pod in pods]
    return state_node(node=standing, pods=bound)


def holding(zone: str, count: int = 1, **fields: Any) -> StateNode:
    """A full node with running pods labelled app=web."""
    pods = [running_pod(node="", **{"labels": APP, "requests": {"cpu": "0"}, **fields}) for _ in range(count)]
    return full_node(zone, *pods)


def test_an_unknown_topology_key_stops_its_pod_alone() -> None:
    unknown, plain = pending_pod(labels=APP, topology_spread=(spread("unknown"),)), pending_pod()
    done = Cluster().provision(unknown, plain)
    assert done.left == {unknown.name}
    assert "unknown" in done.plan.unplaced[0].reason


def test_a_selector_that_matches_no_pod_spreads_nothing() -> None:
    """Pods that no constraint counts may share a node."""
    nobody = LabelSelector((SelectorRequirement("app", "In", ("nobody",)),))
    done = Cluster().provision(
        *pending_pods(2, labels=APP, requests={"cpu": "10m"}, topology_spread=(spread(keys.HOSTNAME, of=nobody),))
    )
    assert len(done.new) == 1


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(OF_WEB, id="labels"),
        pytest.param(LabelSelector((SelectorRequirement("app", "In", ("web", "other")),)), id="expressions"),
    ],
)
def test_pods_are_balanced_over_zones(of: LabelSelector) -> None:
    cluster = Cluster()
    cluster.provision(*spreading(4, spread(of=of)))
    assert cluster.counts() == [1, 1, 2]


def test_pods_are_balanced_over_zones_that_the_provisioner_lists() -> None:
    cluster = Cluster([in_zones(*ZONES)])
    cluster.provision(*spreading(4))
    assert cluster.counts() == [1, 1, 2]


def test_pods_are_balanced_over_the_zones_of_the_provisioner_alone() -> None:
    cluster = Cluster([in_zones(ZONE_1, ZONE_2)])
    cluster.provision(*spreading(4))
    assert cluster.counts() == [2, 2]


def test_a_standing_pod_in_a_zone_out_of_reach_bounds_the_others() -> None:
    """One in zone 3, which nothing new can join: two each in the others, two wait."""
    cluster = Cluster([in_zones(ZONE_1, ZONE_2)])
    cluster.add(holding(ZONE_3))
    assert len(cluster.provision(*spreading(6)).left) == 2
    assert cluster.counts() == [1, 2, 2]


def test_only_one_zone_may_run_ahead_up_to_max_skew() -> None:
    """One each in zones 1 and 2, maxSkew 5, only zone 3 is open: six of ten."""
    cluster = Cluster([in_zones(ZONE_3)])
    cluster.add(holding(ZONE_1), holding(ZONE_2))
    cluster.provision(*spreading(10, spread(skew=5)))
    assert cluster.counts() == [1, 1, 6]


def test_pods_never_make_a_violated_skew_worse() -> None:
    """Of 3,3,3 only zone 1 keeps its pods; three more go to the other zones although the skew stays above 1."""
    cluster = Cluster()
    cluster.provision(*spreading(9))
    assert cluster.counts() == [3, 3, 3]
    for name, each in list(cluster.nodes.items()):
        if each.node.labels[keys.ZONE] != ZONE_1:
            cluster.change(name, pods=())
    done = cluster.provision(*spreading(3))
    assert done.left == set()
    assert ZONE_1 not in done.homes()
    assert cluster.counts() == [1, 2, 3]


@pytest.mark.parametrize("first", [True, False], ids=["with-the-constraint", "without"])
def test_pods_that_stand_count_whether_they_are_constrained_or_not(first: bool) -> None:
    """One in zone 1, zones 2 and 3 open, ten more: two each."""
    cluster = Cluster([in_zones(ZONE_2, ZONE_3)])
    cluster.add(holding(ZONE_1, topology_spread=(spread(),) if first else ()))
    cluster.provision(*spreading(10))
    assert cluster.counts() == [1, 2, 2]


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param({"labels": {"app": "other"}}, id="other-labels"),
        pytest.param({"namespace": "other"}, id="other-namespace"),
        pytest.param({"pod_fields": {"deleted_at": 9.0}}, id="terminating"),
    ],
)
def test_pods_that_do_not_count_move_nothing(ignored: dict[str, Any]) -> None:
    """Five such pods stand in zone 1; three more pods still go one to each zone."""
    cluster = Cluster()
    cluster.add(holding(ZONE_1, 5, **ignored))
    assert cluster.provision(*spreading(3)).homes() == list(ZONES)


def test_pods_on_nodes_without_the_key_do_not_count() -> None:
    """A node that no zone is known of."""
    bare = holding(ZONE_1, 5)
    labels = {key: value for key, value in bare.node.labels.items() if key != keys.ZONE}
    cluster = Cluster()
    cluster.add(replace(bare, node=replace(bare.node, labels=type(bare.node.labels)(labels))))
    assert cluster.provision(*spreading(3)).homes() == list(ZONES)


def test_pods_that_count_are_balanced_with_the_batch() -> None:
    """Two in zone 1 count, so that four more make 2,2,2."""
    cluster = Cluster()
    cluster.add(holding(ZONE_1, 2))
    assert cluster.provision(*spreading(4)).homes() == [ZONE_2, ZONE_2, ZONE_3, ZONE_3]


def test_a_missing_selector_counts_nobody() -> None:
    """The pods carry the constraint, unlike those of Karpenter v0.27. No selector matches no pod in Kubernetes."""
    cluster = Cluster()
    cluster.add(holding(ZONE_1, 5))
    pods = spreading(4, spread(of=None), node_selector={keys.ZONE: ZONE_1})
    assert cluster.provision(*pods).left == set()


def test_an_empty_selector_counts_every_pod_of_the_namespace() -> None:
    """`{}` matches all."""
    cluster = Cluster()
    cluster.add(holding(ZONE_1, labels={"any": "thing"}))
    assert cluster.provision(*spreading(2, spread(of=LabelSelector()))).homes() == [ZONE_2, ZONE_3]


def test_pods_that_their_own_selector_misses_may_stack() -> None:
    """Five pods with another label spread over hosts by app=web: all on one node."""
    pods = spreading(5, spread(keys.HOSTNAME), labels={"app": "other"}, requests={"cpu": "10m"})
    assert len(Cluster().provision(*pods).new) == 1


def test_node_selectors_limit_the_domains_that_count() -> None:
    """Five pods for zone 1, ten for zone 2."""
    cluster = Cluster()
    done = cluster.provision(
        *spreading(5, node_selector={keys.ZONE: ZONE_1}), *spreading(10, node_selector={keys.ZONE: ZONE_2})
    )
    assert done.left == set()
    assert cluster.counts() == [5, 10]


def test_node_affinity_limits_the_domains_that_count() -> None:
    cluster = Cluster()
    cluster.provision(*spreading(10, **demanding(ZONE_1, ZONE_2)))
    assert cluster.counts() == [5, 5]


def test_domains_follow_each_pod_s_own_affinity_batch_by_batch() -> None:
    """3,3 in zones 1 and 2; one for 2 or 3 takes the empty zone; five more for any even all out."""
    cluster = Cluster()
    cluster.provision(*spreading(6, **demanding(ZONE_1, ZONE_2)))
    assert cluster.counts() == [3, 3]
    assert cluster.provision(*spreading(1, **demanding(ZONE_2, ZONE_3))).homes() == [ZONE_3]
    cluster.provision(*spreading(5))
    assert cluster.counts() == [4, 4, 4]


def test_node_affinity_of_several_domains_of_another_key_is_balanced() -> None:
    """Both capacity types allowed by name, ten pods."""
    both = terms([requirement(keys.CAPACITY_TYPE, "In", keys.SPOT, keys.ON_DEMAND)])
    cluster = Cluster()
    cluster.provision(*spreading(10, spread(keys.CAPACITY_TYPE), required_node_affinity=both))
    assert cluster.counts(keys.CAPACITY_TYPE) == [5, 5]


def test_capacity_types_follow_each_pod_s_own_affinity_batch_by_batch() -> None:
    """Three of spot alone, then one of either, then five more."""
    cluster = Cluster()
    rule = spread(keys.CAPACITY_TYPE)
    spot = terms([requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    either = terms([requirement(keys.CAPACITY_TYPE, "In", keys.SPOT, keys.ON_DEMAND)])
    cluster.provision(*spreading(3, rule, required_node_affinity=spot))
    assert cluster.counts(keys.CAPACITY_TYPE) == [3]
    cluster.provision(*spreading(1, rule, required_node_affinity=either))
    assert cluster.counts(keys.CAPACITY_TYPE) == [1, 3]
    cluster.provision(*spreading(5, rule, required_node_affinity=either))
    assert cluster.counts(keys.CAPACITY_TYPE) == [4, 5]


def test_domains_of_several_provisioners_are_one_universe() -> None:
    """Disjoint zones of two Provisioners, ten pods: 3,3,4."""
    pools: Sequence[Provisioner] = (
        in_zones(ZONE_1),
        replace(in_zones(ZONE_2, ZONE_3), name="other"),
    )
    cluster = Cluster(pools)
    assert cluster.provision(*spreading(10)).left == set()
    assert cluster.counts() == [3, 3, 4]


def test_a_zone_given_as_a_label_of_the_provisioner_is_a_domain() -> None:
    """Karpenter v0.27 leaves spec.labels out of the universe, so that such pods cannot be placed."""
    pools = [provisioner(name=rack, labels={"rack": rack}) for rack in ("r1", "r2")]
    cluster = Cluster(pools)
    assert cluster.provision(*spreading(4, spread("rack"))).left == set()
    assert cluster.counts("rack") == [2, 2]


def test_values_that_not_in_excludes_are_no_domains() -> None:
    """Karpenter v0.27 adds them to the universe, where they hold the minimum at 0 for ever."""
    cluster = Cluster([provisioner(requirements=[requirement(keys.ZONE, "NotIn", ZONE_3, "test-zone-9")])])
    assert cluster.provision(*spreading(6)).left == set()
    assert cluster.counts() == [3, 3]


def test_node_affinity_policy_ignore_counts_zones_that_the_pod_may_not_use() -> None:
    """Unlike Karpenter v0.27, which always honours affinity: nodes in zones 2 and 3 count with 0."""
    cluster = Cluster()
    cluster.add(*(full_node(zone) for zone in ZONES))
    honour = spreading(4, **demanding(ZONE_1))
    assert cluster.provision(*honour, bind=False).left == set()
    ignore = spreading(4, spread(affinity_policy="Ignore"), **demanding(ZONE_1))
    fresh = Cluster()
    fresh.add(*(full_node(zone) for zone in ZONES))
    assert len(fresh.provision(*ignore).left) == 3


def test_min_domains_counts_zones_that_pool_labels_leave() -> None:
    """Karpenter v0.27 gets this wrong: two zones reachable of a minDomains of 3, so that the least counts as 0."""
    cluster = Cluster([in_zones(ZONE_1, ZONE_2)])
    assert len(cluster.provision(*spreading(6, spread(min_domains=3))).left) == 4
    assert cluster.counts() == [1, 1]
    enough = Cluster([in_zones(ZONE_1, ZONE_2)])
    assert enough.provision(*spreading(6, spread(min_domains=2))).left == set()


def test_match_label_keys_spread_each_revision_alone() -> None:
    """Karpenter v0.27 ignores matchLabelKeys: pods of the old revision do not count for the new."""
    cluster = Cluster()
    cluster.add(holding(ZONE_1, 5, labels={**APP, "rev": "1"}))
    new = spreading(3, spread(match_label_keys=("rev",)), labels={**APP, "rev": "2"})
    assert cluster.provision(*new).homes() == list(ZONES)


def test_pods_spread_with_soft_zones_are_balanced_where_nothing_hinders() -> None:
    """ScheduleAnyway is honoured as long as it costs no pod."""
    cluster = Cluster()
    cluster.provision(*spreading(6, spread(soft=True)))
    assert cluster.counts() == [2, 2, 2]


def test_a_soft_spread_gives_way() -> None:
    """One zone alone is open."""
    cluster = Cluster([in_zones(ZONE_1)])
    cluster.add(full_node(ZONE_2), full_node(ZONE_3))
    assert cluster.provision(*spreading(6, spread(soft=True))).left == set()


def test_pods_of_another_selector_may_share_the_batch() -> None:
    """Two apps in one batch are balanced each for itself."""
    cluster = Cluster()
    other = selector(app="other")
    cluster.provision(*spreading(3), *spreading(3, spread(of=other), labels={"app": "other"}))
    assert cluster.counts(of=OF_WEB) == [1, 1, 1]
    assert cluster.counts(of=other) == [1, 1, 1]


def test_pods_that_a_spread_binds_go_before_free_ones_that_it_counts() -> None:
    """One node in zone 1, an empty full one in zone 2, nothing to launch: bound first, all three fit zone 1."""
    cluster = Cluster([provisioner(limits={"cpu": "0"})])
    cluster.add(state_node(node=node(name="open", zone=ZONE_1)), full_node(ZONE_2))
    bound = spreading(1, requests={"cpu": "100m"})
    free = pending_pods(2, labels=APP, requests={"cpu": "100m"})
    assert cluster.provision(*bound, *free).left == set()


def test_pods_that_a_spread_only_counts_come_before_those_it_binds() -> None:
    """Ten pods of the tier may use two zones and spread by rules of their own; the three that spread over the whole
    tier then belong into the third zone, or what they were bound by would not hold any more."""
    tier, two_zones = selector(tier="web"), demanding(ZONE_1, ZONE_2)
    counted = pending_pods(
        10,
        labels={"app": "counted", "tier": "web"},
        topology_spread=(
            spread(of=selector(app="counted")),
            spread(keys.CAPACITY_TYPE, skew=5, of=selector(app="counted")),
        ),
        **two_zones,
    )
    bound = pending_pods(
        3, labels={"app": "bound", "tier": "web"}, topology_spread=(spread(of=tier), spread(keys.HOSTNAME, of=tier))
    )
    world = Cluster()
    done = world.provision(*counted, *bound)
    assert done.left == set()
    assert world.counts(of=selector(app="bound")) == [3]
    assert world.counts(of=selector(app="counted")) == [5, 5]


def test_nodes_without_the_label_of_another_spread_do_not_count() -> None:
    """kube-scheduler counts pods on nodes that have the keys of all required spreads of a pod."""
    standing = holding(ZONE_3, 5)
    labels = {key: value for key, value in standing.node.labels.items() if key != keys.CAPACITY_TYPE}
    world = Cluster()
    world.add(replace(standing, node=replace(standing.node, labels=FrozenMap(labels))))
    done = world.provision(*spreading(6, spread(), spread(keys.CAPACITY_TYPE, skew=9)))
    assert done.left == set()
    assert world.counts(of=OF_WEB) == [2, 2, 7]
