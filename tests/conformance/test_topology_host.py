"""Spread over hosts, capacity types, architectures and custom keys, alone and together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, Toleration
from controller.core.api.provisioner import Provisioner
from controller.core.state.snapshot import StateNode
from tests.conformance.fixtures import ARM, EVERYTHING, ZONE_1, ZONE_2, ZONE_3, Cluster, assorted_types, terms
from tests.core.provisioning.plans import OF_WEB, spread
from tests.factories import node, pending_pod, pending_pods, provisioner, requirement, running_pod, selector, state_node

APP = {"app": "web"}
SMALL_POD = {"cpu": "100m"}
CAPACITY, HOST, ZONE = keys.CAPACITY_TYPE, keys.HOSTNAME, keys.ZONE


def spreading(count: int, *constraints: Any, **fields: Any) -> tuple[Pod, ...]:
    """Pods labelled app=web with these constraints."""
    return pending_pods(count, **{"labels": APP, "requests": SMALL_POD, "topology_spread": constraints, **fields})


def of_capacity(*kinds: str) -> Provisioner:
    return provisioner(requirements=[requirement(CAPACITY, "In", *kinds)])


def full(
    *, zone: str = ZONE_1, capacity_type: str = keys.ON_DEMAND, arch: str = "amd64", count: int = 1, **pods: Any
) -> StateNode:
    """A node without room, with running pods labelled app=web."""
    standing = node(
        zone=zone, capacity_type=capacity_type, labels={keys.ARCH: arch}, allocatable={"cpu": "0", "pods": 0}
    )
    made = [running_pod(node=standing.name, **{"labels": APP, "requests": {"cpu": "0"}, **pods}) for _ in range(count)]
    return state_node(node=standing, pods=made)


@pytest.mark.parametrize(
    ("skew", "hosts"), [pytest.param(1, [1, 1, 1, 1], id="one-a-host"), pytest.param(4, [4], id="four-on-one-host")]
)
def test_hosts_hold_as_many_as_max_skew_allows(skew: int, hosts: list[int]) -> None:
    """The least count of a hostname is 0."""
    cluster = Cluster()
    cluster.provision(*spreading(4, spread(HOST, skew=skew)))
    assert cluster.counts(HOST) == hosts


def two_apps(**fields: dict[str, Any]) -> list[Pod]:
    """Two pods each of two apps, each app spread over hosts."""
    pods: list[Pod] = []
    for app in ("one", "two"):
        rule = spread(HOST, of=selector(app=app))
        pods += spreading(2, rule, labels={"app": app}, **fields.get(app, {}))
    return pods


def test_two_apps_spread_over_hosts_share_two_nodes() -> None:
    assert len(Cluster().provision(*two_apps()).new) == 2


def test_two_apps_of_different_architectures_share_no_node() -> None:
    pods = two_apps(one={"node_selector": {keys.ARCH: "amd64"}}, two={"node_selector": {keys.ARCH: "arm64"}})
    done = Cluster().provision(*pods)
    assert len(done.new) == 4
    assert done.types.count(ARM) == 2


def test_pods_are_balanced_over_capacity_types() -> None:
    cluster = Cluster()
    cluster.provision(*spreading(4, spread(CAPACITY)))
    assert cluster.counts(CAPACITY) == [2, 2]


def test_pods_are_balanced_over_the_capacity_types_that_the_provisioner_lists() -> None:
    cluster = Cluster([of_capacity(keys.SPOT, keys.ON_DEMAND)])
    cluster.provision(*spreading(4, spread(CAPACITY)))
    assert cluster.counts(CAPACITY) == [2, 2]


@pytest.mark.parametrize(
    ("soft", "counts"), [pytest.param(False, [1, 2], id="required"), pytest.param(True, [1, 5], id="anyway")]
)
def test_a_capacity_type_out_of_reach_bounds_the_other(soft: bool, counts: list[int]) -> None:
    """One pod on spot, then on-demand alone, five pods."""
    cluster = Cluster([of_capacity(keys.ON_DEMAND)])
    cluster.add(full(capacity_type=keys.SPOT))
    cluster.provision(*spreading(5, spread(CAPACITY, soft=soft)))
    assert cluster.counts(CAPACITY) == counts


@pytest.mark.parametrize(
    "ignored",
    [
        {"labels": {"app": "other"}},
        {"namespace": "other"},
        {"pod_fields": {"deleted_at": 9.0}},
    ],
    ids=["other-labels", "other-namespace", "terminating"],
)
def test_pods_that_do_not_count_move_nothing(ignored: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.add(full(capacity_type=keys.SPOT, count=5, **ignored))
    assert cluster.provision(*spreading(2, spread(CAPACITY))).homes(CAPACITY) == [keys.ON_DEMAND, keys.SPOT]


def test_pods_that_count_are_balanced_with_the_batch() -> None:
    """2 of spot stand; three more make 2,3."""
    cluster = Cluster()
    cluster.add(full(capacity_type=keys.SPOT, count=2))
    cluster.provision(*spreading(3, spread(CAPACITY)))
    assert cluster.counts(CAPACITY) == [2, 3]


def test_a_missing_selector_counts_nobody() -> None:
    """The pods carry the constraint, and five of them may be of one capacity type."""
    cluster = Cluster([of_capacity(keys.SPOT)])
    cluster.add(full(capacity_type=keys.ON_DEMAND))
    assert cluster.provision(*spreading(5, spread(CAPACITY, of=None))).left == set()


def test_pods_that_their_own_selector_misses_may_stack() -> None:
    """No rule parts the five, and one node that holds all is half the price of two."""
    done = Cluster().provision(*spreading(5, spread(CAPACITY), labels={"app": "other"}))
    assert len(done.new) == 1


def test_nodes_that_the_pod_s_affinity_rules_out_are_not_counted() -> None:
    """An on-demand pod in zone 1; five pods of zone 2 and spot are not held by it."""
    cluster = Cluster()
    cluster.add(full(zone=ZONE_1, capacity_type=keys.ON_DEMAND))
    only = terms([requirement(ZONE, "In", ZONE_2), requirement(CAPACITY, "In", keys.SPOT)])
    cluster.provision(*spreading(5, spread(CAPACITY), required_node_affinity=only))
    assert cluster.counts(CAPACITY) == [1, 5]


def test_nodes_count_although_the_provisioner_makes_none_like_them() -> None:
    """Nothing on the pod rules the on-demand node out, so its one pod bounds spot to two."""
    cluster = Cluster([of_capacity(keys.SPOT)])
    cluster.add(full(capacity_type=keys.ON_DEMAND))
    cluster.provision(*spreading(5, spread(CAPACITY)))
    assert cluster.counts(CAPACITY) == [1, 2]


def test_architecture_is_a_topology_key_like_any() -> None:
    cluster = Cluster([provisioner(requirements=[requirement(keys.ARCH, "In", "amd64")])])
    cluster.add(full(arch="arm64"))
    cluster.provision(*spreading(5, spread(keys.ARCH)))
    assert cluster.counts(keys.ARCH) == [1, 2]


def test_zone_and_host_hold_together_batch_by_batch() -> None:
    """Zones 1,1 then 2,2,1 then 4,3,3 then 7,7,7, never above three a host."""
    cluster = Cluster()
    for count, zones in ((2, [1, 1]), (3, [1, 2, 2]), (5, [3, 3, 4]), (11, [7, 7, 7])):
        done = cluster.provision(*spreading(count, spread(ZONE), spread(HOST, skew=3), requests={"cpu": "1100m"}))
        assert done.left == set()
        assert cluster.counts() == zones
        assert max(cluster.counts(HOST)) <= 3


def test_a_custom_key_splits_pods_between_provisioners_by_its_values() -> None:
    """Four values of spot and one of on-demand are a ratio of 4 to 1."""
    key = "capacity.spread.4-1"
    spot = [requirement(CAPACITY, "In", keys.SPOT), requirement(key, "In", "2", "3", "4", "5")]
    on_demand = [requirement(CAPACITY, "In", keys.ON_DEMAND), requirement(key, "In", "1")]
    cluster = Cluster([provisioner(name="spot", requirements=spot), provisioner(name="od", requirements=on_demand)])
    assert cluster.provision(*spreading(20, spread(key))).left == set()
    assert cluster.counts(key) == [4, 4, 4, 4, 4]
    assert cluster.counts(CAPACITY) == [4, 16]


def zone_3_without_room() -> Cluster:
    """Zones 1 and 2 are open; zone 3's Provisioner is at its limit."""
    pools = [
        provisioner(name="a", requirements=[requirement(ZONE, "In", ZONE_1, ZONE_2)]),
        provisioner(name="b", requirements=[requirement(ZONE, "In", ZONE_3)], limits={"cpu": "0"}),
    ]
    return Cluster(pools)


def test_zones_of_a_provisioner_without_room_still_count_as_empty() -> None:
    """Zone 3's Provisioner is at its limit. Two of ten are placed, one in each other zone; the rest wait."""
    cluster = zone_3_without_room()
    done = cluster.provision(*spreading(10, spread(ZONE), spread(HOST, soft=True)))
    assert cluster.counts() == [1, 1]
    assert cluster.counts(HOST) == [1, 1]
    assert len(done.left) == 8


def test_a_full_node_in_a_zone_without_room_holds_the_least_at_0() -> None:
    """With a node in zone 3, so that kube-scheduler itself would refuse a second pod in the other zones."""
    cluster = zone_3_without_room()
    cluster.add(full(zone=ZONE_3, count=0))
    cluster.provision(*spreading(10, spread(ZONE), spread(HOST, soft=True)))
    assert cluster.counts() == [1, 1]


def test_capacity_type_and_host_hold_together_batch_by_batch() -> None:
    cluster = Cluster()
    for count, kinds in ((2, [1, 1]), (3, [2, 3]), (5, [5, 5]), (11, [10, 11])):
        cluster.provision(*spreading(count, spread(CAPACITY), spread(HOST, skew=3)))
        assert cluster.counts(CAPACITY) == kinds
        assert max(cluster.counts(HOST)) <= 3


def test_capacity_type_and_zone_hold_together_batch_by_batch() -> None:
    """Per domain never above 1/1, 3/2, 5/4, 11/7."""
    cluster = Cluster()
    for count, kinds, zones in ((2, 1, 1), (3, 3, 2), (5, 5, 4), (11, 11, 7)):
        cluster.provision(*spreading(count, spread(CAPACITY), spread(ZONE)))
        assert max(cluster.counts(CAPACITY)) <= kinds
        assert max(cluster.counts(ZONE)) <= zones


def test_three_keys_hold_together_for_batches_of_every_size() -> None:
    """Capacity type 1, zone 2, host 3, batches of 1 to 14 on 1,344 types; every pod is placed."""
    cluster = Cluster(catalog=assorted_types())
    rules = (spread(CAPACITY), spread(ZONE, skew=2), spread(HOST, skew=3))
    for count in range(1, 15):
        assert cluster.provision(*spreading(count, *rules)).left == set()
        assert max(cluster.counts(HOST)) <= 3
        kinds, zones = cluster.counts(CAPACITY), cluster.counts(ZONE)
        assert max(kinds) - (min(kinds) if len(kinds) == 2 else 0) <= 1
        assert max(zones) - (min(zones) if len(zones) == 3 else 0) <= 2


def test_the_provisioner_s_taints_are_planned_on_the_node() -> None:
    taint = Taint("test", "bar", "NoSchedule")
    waiting = pending_pod(tolerations=(Toleration("test", "Exists", effect="NoSchedule"),))
    assert taint in Cluster([provisioner(taints=[taint])]).provision(waiting).only.taints


@pytest.mark.parametrize(
    ("tolerations", "placed"),
    [
        ((Toleration("test-key", "Exists"),), True),
        ((Toleration("test-key", "Equal", "test-value"),), True),
        ((), False),
        ((Toleration("invalid", "Exists"),), False),
        ((Toleration("test-key", "Equal", "invalid"),), False),
    ],
    ids=["exists", "equal", "none", "other-key", "other-value"],
)
def test_only_pods_that_tolerate_the_taint_are_placed(tolerations: tuple[Toleration, ...], placed: bool) -> None:
    pool = provisioner(taints=[Taint("test-key", "test-value", "NoSchedule")])
    waiting = pending_pod(tolerations=tolerations)
    assert Cluster([pool]).provision(waiting).placed(waiting) is placed


def test_startup_taints_need_no_toleration() -> None:
    taint = Taint("ignore-me", "nothing-to-see-here", "NoSchedule")
    planned = Cluster([provisioner(startup_taints=(taint,))]).provision(pending_pod()).only
    assert planned.startup_taints == (taint,)
    assert taint not in planned.taints


def test_tolerations_make_no_taints() -> None:
    assert Cluster().provision(pending_pod(tolerations=(EVERYTHING,))).only.taints == ()


@pytest.mark.parametrize(("policy", "hosts"), [("Ignore", 2), ("Honor", 6)])
def test_node_taints_policy_decides_whether_tainted_zones_count(policy: str, hosts: int) -> None:
    """Karpenter v0.27 ignores taints: an empty node in zone 3 that the pods do not tolerate holds the least at 0."""
    cluster = Cluster([provisioner(requirements=[requirement(ZONE, "In", ZONE_1, ZONE_2)])])
    bare = node(zone=ZONE_3, taints=[Taint("dedicated")], labels={"other": "pool"})
    cluster.add(state_node(node=bare))
    cluster.provision(*spreading(6, spread(ZONE, taints_policy=policy)))
    assert sum(cluster.counts(of=OF_WEB)) == hosts


def test_pods_of_a_full_host_do_not_hold_a_new_one_back() -> None:
    """A new host may always be opened: the least count of a hostname is 0, whatever stands."""
    cluster = Cluster()
    cluster.add(full(count=7))
    assert cluster.provision(*spreading(3, spread(HOST))).left == set()


def test_the_order_of_constraints_is_no_matter() -> None:
    """The same two rules written either way give the same counts."""
    rules = (spread(ZONE), spread(CAPACITY))
    plans = []
    for order in (rules, rules[::-1]):
        cluster = Cluster()
        cluster.provision(*(replace(pod) for pod in spreading(12, *order)))
        plans.append((cluster.counts(ZONE), cluster.counts(CAPACITY)))
    assert plans[0] == plans[1]


def test_pods_that_a_host_spread_only_counts_go_beside_its_owner_where_nothing_else_is_left() -> None:
    """One node, nothing to launch: the owner is bound first, and the pods that no rule binds after it."""
    cluster = Cluster([provisioner(limits={"cpu": "0"})])
    cluster.add(state_node(node=node(name="open", zone=ZONE_1)))
    owner = spreading(1, spread(HOST))
    assert cluster.provision(*owner, *pending_pods(2, labels=APP, requests=SMALL_POD)).left == set()


def test_two_owners_of_a_host_spread_never_share_a_host_for_want_of_another() -> None:
    """Whatever order kube-scheduler takes, the second owner is refused."""
    cluster = Cluster([provisioner(limits={"cpu": "0"})])
    cluster.add(state_node(node=node(name="open", zone=ZONE_1)))
    owners = spreading(2, spread(HOST))
    assert len(cluster.provision(*owners, *pending_pods(1, labels=APP, requests=SMALL_POD)).left) == 1
