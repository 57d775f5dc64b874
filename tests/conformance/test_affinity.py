"""Pod affinity and anti-affinity, in one batch where Karpenter v0.27 needs two."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import LabelSelector, Pod, PodAffinityTerm, WeightedPodAffinityTerm
from controller.core.api.workloads import Namespace
from controller.core.state.snapshot import StateNode
from tests.conformance.fixtures import ZONE_1, ZONE_2, ZONE_3, ZONES, Cluster, fake_type, terms
from tests.core.provisioning.plans import near, spread
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

HOST, ZONE, ARCH = keys.HOSTNAME, keys.ZONE, keys.ARCH
APP = {"app": "web"}
TINY = {"cpu": "10m"}


def web(count: int = 1, **fields: Any) -> tuple[Pod, ...]:
    """Pods labelled app=web."""
    return pending_pods(count, **{"labels": APP, "requests": TINY, **fields})


def seeking(key: str, **fields: Any) -> Pod:
    """A pod with required affinity to app=web."""
    return pending_pod(**{"requests": TINY, "required_pod_affinity": (near(key),), **fields})


def shunning(key: str, **fields: Any) -> Pod:
    """A pod with required anti-affinity to app=web."""
    return pending_pod(**{"requests": TINY, "required_pod_anti_affinity": (near(key),), **fields})


def in_zones(*zones: str) -> dict[str, Any]:
    return {"required_node_affinity": terms([requirement(ZONE, "In", *zones)])}


def standing(zone: str, room: str = "0", **fields: Any) -> StateNode:
    """A node in a zone with one running pod labelled app=web; without room unless told."""
    made = node(name=f"standing-{zone}", zone=zone, allocatable={"cpu": room, "pods": 50})
    return state_node(node=made, pods=[running_pod(node=made.name, **{"labels": APP, "requests": {}, **fields})])


def wish(key: str) -> tuple[WeightedPodAffinityTerm, ...]:
    return (WeightedPodAffinityTerm(50, near(key)),)


def test_affinity_without_terms_changes_nothing() -> None:
    waiting = pending_pod(required_pod_affinity=(), required_pod_anti_affinity=())
    assert Cluster().provision(waiting).placed(waiting)


def test_a_follower_shares_the_host_of_its_target() -> None:
    """Beside ten pods that are spread over hosts."""
    others = pending_pods(10, labels={"app": "s"}, requests=TINY, topology_spread=(spread(HOST, of=selector(app="s")),))
    (target,), follower = web(), seeking(HOST)
    done = Cluster().provision(*others, target, follower)
    assert done.left == set()
    assert done.home(target, HOST) == done.home(follower, HOST)


def test_a_follower_shares_the_architecture_of_its_target_on_another_node() -> None:
    apart = (spread(HOST, of=selector(group="both")),)
    both = {"group": "both"}
    (target,) = web(labels=APP | both, topology_spread=apart, node_selector={ARCH: "arm64"})
    follower = seeking(ARCH, labels=both, topology_spread=apart)
    done = Cluster().provision(target, follower)
    assert done.left == set()
    assert len(done.new) == 2
    assert {done.home(each, keys.INSTANCE_TYPE) for each in (target, follower)} == {"arm-instance-type"}


def test_pods_that_seek_each_other_share_a_host() -> None:
    assert len(Cluster().provision(*web(3, required_pod_affinity=(near(HOST),))).new) == 1


def test_pods_that_seek_each_other_fill_one_host_and_no_second() -> None:
    """A type of five pods takes five of ten; a later batch of ten finds the host full."""
    cluster = Cluster()
    done = cluster.provision(*web(10, required_pod_affinity=(near(HOST),)))
    assert [len(planned.pods) for planned in done.new] == [5]
    assert len(done.left) == 5
    assert len(cluster.provision(*web(10, required_pod_affinity=(near(HOST),))).left) == 10


def test_the_first_of_pods_that_seek_each_other_decides_the_zone() -> None:
    """It went to zone 1; ten of zones 2 and 3 cannot join it: node affinity does not narrow what counts."""
    cluster = Cluster()
    assert cluster.provision(*web(required_pod_affinity=(near(ZONE),), **in_zones(ZONE_1))).left == set()
    later = web(10, required_pod_affinity=(near(ZONE),), **in_zones(ZONE_2, ZONE_3))
    assert len(cluster.provision(*later).left) == 10


def test_pods_that_seek_each_other_share_a_zone() -> None:
    """Many more than a node holds."""
    done = Cluster().provision(*web(30, required_pod_affinity=(near(ZONE),)))
    assert done.left == set()
    assert len(set(done.homes())) == 1


def test_pods_that_seek_each_other_share_the_zone_that_they_ask_for() -> None:
    done = Cluster().provision(*web(3, required_pod_affinity=(near(ZONE),), **in_zones(ZONE_3)))
    assert done.homes() == [ZONE_3] * 3


def test_zone_self_affinity_of_many_sizes_is_never_split_in_two() -> None:
    """Karpenter v0.27 gets this wrong: pods of one app, of unlike sizes and selectors, end in one zone."""
    pods = [
        *web(20, required_pod_affinity=(near(ZONE),), requests={"cpu": "1500m"}),
        *web(20, required_pod_affinity=(near(ZONE),), requests={"cpu": "3"}),
        *web(5, required_pod_affinity=(near(ZONE),), requests={"cpu": "12"}),
        *web(5, required_pod_affinity=(near(ZONE),), **in_zones(ZONE_2, ZONE_3)),
        *web(5, required_pod_affinity=(near(ZONE),), **in_zones(ZONE_2, ZONE_1)),
    ]
    done = Cluster().provision(*pods)
    assert done.left == set()
    assert set(done.homes()) == {ZONE_2}


def test_preferred_affinity_may_be_violated() -> None:
    """The target's zone is out of the fan's reach."""
    (target,) = web(node_selector={ZONE: ZONE_1})
    fan = pending_pod(preferred_pod_affinity=wish(ZONE), node_selector={ZONE: ZONE_2})
    assert Cluster().provision(target, fan).home(fan) == ZONE_2


def test_preferred_anti_affinity_may_be_violated() -> None:
    """More pods than zones."""
    assert Cluster().provision(*web(10, preferred_pod_anti_affinity=wish(ZONE))).left == set()


@pytest.mark.parametrize("first", ["target", "shy"])
def test_a_pod_and_one_that_shuns_its_host_are_apart_in_either_order(first: str) -> None:
    (target,), shy = web(requests={"cpu": "2" if first == "target" else "1"}), shunning(HOST, requests={"cpu": "1500m"})
    done = Cluster().provision(target, shy)
    assert done.left == set()
    assert done.home(target, HOST) != done.home(shy, HOST)


def test_a_pod_that_shuns_zones_with_targets_in_all_of_them_waits() -> None:
    targets = [*(each for zone in ZONES for each in web(requests={"cpu": "2"}, node_selector={ZONE: zone}))]
    shy = shunning(ZONE)
    assert Cluster().provision(*targets, shy).left == {shy.name}


def test_a_target_without_a_zone_is_given_one_so_that_the_pod_that_shuns_it_has_another() -> None:
    """Better than Karpenter v0.27, which leaves the shunning pod for the next batch."""
    (target,), shy = web(requests={"cpu": "2"}), shunning(ZONE)
    done = Cluster().provision(target, shy)
    assert done.left == set()
    assert done.home(target) != done.home(shy)


def test_architectures_can_be_shunned() -> None:
    (target,), shy = web(requests={"cpu": "2"}, node_selector={ARCH: "arm64"}), shunning(ARCH)
    done = Cluster().provision(target, shy)
    assert done.left == set()
    assert done.home(shy, keys.INSTANCE_TYPE) != "arm-instance-type"


def test_a_preference_to_be_shunned_by_nobody_may_be_violated() -> None:
    """Pods in all zones would rather stand alone; the target is placed all the same."""
    hermits = [
        pending_pod(requests={"cpu": "2"}, preferred_pod_anti_affinity=wish(ZONE), node_selector={ZONE: zone})
        for zone in ZONES
    ]
    (target,) = web()
    assert Cluster().provision(*hermits, target).left == set()


def test_required_anti_affinity_keeps_its_targets_away() -> None:
    """Hermits of all zones and their target: one of the four has no place."""
    hermits = [shunning(ZONE, requests={"cpu": "2"}, node_selector={ZONE: zone}) for zone in ZONES]
    done = Cluster().provision(*hermits, *web())
    assert len(done.left) == 1
    assert len(set(done.homes())) == 3


def test_a_hermit_without_a_zone_is_given_one_so_that_its_target_has_another() -> None:
    """Better than Karpenter v0.27, where the hermit blocks every zone that it could use until the next batch."""
    hermit = shunning(ZONE, requests={"cpu": "2"})
    (target,) = web()
    done = Cluster().provision(hermit, target)
    assert done.left == set()
    assert done.home(hermit) != done.home(target)


def test_hermits_that_run_keep_their_targets_away() -> None:
    """In each zone one runs; no zone is left."""
    cluster = Cluster()
    hermits = [shunning(ZONE, requests={"cpu": "2"}, node_selector={ZONE: zone}) for zone in ZONES]
    assert cluster.provision(*hermits).left == set()
    (target,) = web()
    assert cluster.provision(target).left == {target.name}


def test_preferences_of_pods_that_run_repel_nobody() -> None:
    cluster = Cluster()
    cluster.provision(
        *(
            pending_pod(requests={"cpu": "2"}, preferred_pod_anti_affinity=wish(ZONE), node_selector={ZONE: zone})
            for zone in ZONES
        )
    )
    (target,) = web()
    assert cluster.provision(target).left == set()


def test_a_wish_for_affinity_yields_to_a_required_spread() -> None:
    of = selector(app="fan")
    fans = pending_pods(
        3,
        labels={"app": "fan"},
        requests=TINY,
        topology_spread=(spread(HOST, of=of),),
        preferred_pod_affinity=wish(HOST),
    )
    (target,) = web()
    cluster = Cluster()
    assert cluster.provision(target, *fans).left == set()
    assert cluster.counts(HOST, of=of) == [1, 1, 1]


def test_zone_anti_affinity_of_an_app_fills_all_zones_in_one_batch() -> None:
    """Better than Karpenter v0.27, which places one pod a batch: three at once, and nothing afterwards."""
    cluster = Cluster()
    done = cluster.provision(*web(3, required_pod_anti_affinity=(near(ZONE),)))
    assert done.homes() == list(ZONES)
    assert len(cluster.provision(*web(3, required_pod_anti_affinity=(near(ZONE),))).left) == 3
    assert cluster.counts() == [1, 1, 1]


def test_affinity_to_a_pod_that_is_nowhere_places_none() -> None:
    assert len(Cluster().provision(*(seeking(HOST) for _ in range(10))).left) == 10


def test_followers_join_an_unconstrained_target_in_the_same_batch() -> None:
    """Better than Karpenter v0.27, which needs two batches: eleven in the target's zone."""
    done = Cluster().provision(*web(), *(seeking(ZONE) for _ in range(10)))
    assert done.left == set()
    assert len(set(done.homes())) == 1


def test_followers_join_a_target_of_a_fixed_zone() -> None:
    done = Cluster().provision(*web(node_selector={ZONE: ZONE_1}), *(seeking(ZONE) for _ in range(10)))
    assert done.homes() == [ZONE_1] * 11


def test_chains_of_affinity_over_hosts_are_placed_in_one_batch() -> None:
    """Database, web, cache, UI, each on the host of the one before, fifty times."""
    pods: list[Pod] = []
    for number in range(50):
        before = ""
        for role in ("db", "web", "cache", "ui"):
            term = (near(HOST, selector(app=before)),) if before else ()
            before = f"{role}-{number}"
            pods.append(pending_pod(labels={"app": before}, requests=TINY, required_pod_affinity=term))
    done = Cluster().provision(*pods)
    assert done.left == set()


def test_dependencies_that_cannot_be_met_end() -> None:
    """Each waits for another, the last for nobody."""
    pods = [
        pending_pod(labels={"app": str(n)}, required_pod_affinity=(near(HOST, selector(app=str(n + 1))),))
        for n in range(4)
    ]
    assert len(Cluster().provision(*pods).left) == 4


def test_rings_of_affinity_wait_for_ever() -> None:
    """Two pods that wait for each other; kube-scheduler could place neither first."""
    one = pending_pod(labels={"app": "one"}, required_pod_affinity=(near(HOST, selector(app="two")),))
    two = pending_pod(labels={"app": "two"}, required_pod_affinity=(near(HOST, selector(app="one")),))
    assert Cluster().provision(one, two).left == {one.name, two.name}


def of_namespaces(target: str, term: PodAffinityTerm) -> bool:
    """Whether a follower in `default` finds its target in another namespace."""
    spaces = {"default": Namespace("default"), "other": Namespace("other", FrozenMap({"team": "a"}))}
    follower = seeking(HOST, required_pod_affinity=(term,))
    done = Cluster(objects={"namespaces": spaces}).provision(*web(namespace=target), follower)
    return done.placed(follower) and len(done.new) == 1


def test_a_target_in_another_namespace_does_not_match() -> None:
    assert of_namespaces("default", near(HOST))
    assert not of_namespaces("other", near(HOST))


def test_a_target_in_a_listed_namespace_matches() -> None:
    assert of_namespaces("other", near(HOST, namespaces=("other",)))
    assert not of_namespaces("default", near(HOST, namespaces=("other",)))


def test_an_empty_namespace_selector_is_all_namespaces() -> None:
    assert of_namespaces("other", replace(near(HOST), namespace_selector=LabelSelector()))


def test_a_namespace_selector_adds_the_namespaces_that_it_matches() -> None:
    assert of_namespaces("other", replace(near(HOST), namespace_selector=selector(team="a")))
    assert not of_namespaces("other", replace(near(HOST), namespace_selector=selector(team="b")))


def test_anti_affinity_over_a_key_that_some_nodes_lack_does_not_hold_there() -> None:
    """Karpenter v0.27 gets this wrong: a node without the key is no domain, so any number may go there."""
    pools = [provisioner(name="racked", labels={"rack": "r1"}), provisioner(name="free")]
    shy = web(4, required_pod_anti_affinity=(near("rack"),))
    cluster = Cluster(pools)
    assert cluster.provision(*shy).left == set()
    assert cluster.counts("rack") in ([], [1])


def test_affinity_over_a_key_that_a_node_lacks_fails_there() -> None:
    """kube-scheduler: the key must be there, also for the first of pods that seek each other."""
    pools = [provisioner(name="racked", labels={"rack": "r1"}), provisioner(name="free", weight=50)]
    done = Cluster(pools).provision(*web(3, required_pod_affinity=(near("rack"),)))
    assert {planned.provisioner for planned in done.new} == {"racked"}


def test_zone_anti_affinity_of_many_apps_fills_all_zones_in_one_batch() -> None:
    """Karpenter v0.27 leaves two of three pods of every app; all can be placed."""
    pods = [
        each
        for number in range(40)
        for each in web(
            3,
            labels={"app": f"app-{number}"},
            required_pod_anti_affinity=(near(ZONE, selector(app=f"app-{number}")),),
        )
    ]
    done = Cluster().provision(*pods)
    assert done.left == set()
    assert Counter(done.homes()) == Counter(dict.fromkeys(ZONES, 40))


def test_pods_on_their_way_out_still_repel() -> None:
    """kube-scheduler counts them until they are gone."""
    leaving = standing(ZONE_1, room="4", pod_fields={"deleted_at": 5.0})
    cluster = Cluster()
    cluster.add(leaving)
    done = cluster.provision(shunning(ZONE))
    assert done.homes() != [ZONE_1]
    assert done.left == set()


def test_targets_on_nodes_of_any_origin_count() -> None:
    """A managed node group's pod is a target like any."""
    foreign = node(name="foreign", provisioner="", zone=ZONE_3, allocatable={"cpu": "0", "pods": 0})
    cluster = Cluster()
    cluster.add(state_node(node=foreign, pods=[running_pod(node="foreign", labels=APP, requests={})]))
    follower = seeking(ZONE)
    assert cluster.provision(follower).home(follower) == ZONE_3


def test_a_target_s_node_without_room_sends_its_follower_to_another_of_the_zone() -> None:
    """Affinity over zones needs no room beside the target itself."""
    cluster = Cluster()
    cluster.add(standing(ZONE_2))
    follower = seeking(ZONE, requests={"cpu": "3"})
    done = cluster.provision(follower)
    assert len(done.new) == 1
    assert done.home(follower) == ZONE_2


def test_followers_of_one_host_are_bounded_by_its_room() -> None:
    """A type of three pods: the target and two followers; the others wait, and say for what."""
    cluster = Cluster(catalog=[fake_type("three", pods=3)])
    done = cluster.provision(*web(), *(seeking(HOST) for _ in range(4)))
    assert len(done.left) == 2
    assert all("pod affinity" in unplaced.reason for unplaced in done.plan.unplaced)


def test_all_terms_must_hold_of_one_and_the_same_pod() -> None:
    """kube-scheduler counts a pod only if it matches every required term."""
    both = (near(ZONE), near(ZONE, selector(tier="front")))
    follower = seeking(ZONE, required_pod_affinity=both)
    halves = [*web(), *web(labels={"tier": "front"})]
    assert Cluster().provision(*halves, follower).left == {follower.name}
    assert Cluster().provision(*web(labels=APP | {"tier": "front"}), follower).left == set()


def test_a_free_pod_leaves_the_zone_to_one_that_has_no_other() -> None:
    """The fussy pod must join web in zone 1 and shuns the free one, which fits zone 2 as well."""
    cluster = Cluster()
    cluster.add(standing(ZONE_1, room="4"), state_node(node=node(name="z-other", zone=ZONE_2)))
    free = pending_pod(labels={"app": "free"}, requests=TINY)
    fussy = seeking(ZONE, required_pod_anti_affinity=(near(ZONE, selector(app="free")),))
    assert cluster.provision(free, fussy).left == set()
