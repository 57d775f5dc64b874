"""Volumes, and what Karpenter v0.27 gets wrong about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod, PodVolume, SelectorRequirement
from controller.core.api.workloads import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from tests.conformance.fixtures import ZONE_1, ZONE_2, ZONE_3, ZONES, Cluster, fake_type, terms
from tests.factories import Quantity, node, pending_pod, pending_pods, provisioner, requirement, running_pod, state_node

EBS = "ebs.csi.aws.com"
LATE = "WaitForFirstConsumer"


def zones(*values: str) -> list[SelectorRequirement]:
    return [requirement(keys.ZONE, "In", *values)]


def mounting(*claims: str, **fields: Any) -> Pod:
    """A pending pod with these claims."""
    return pending_pod(pod_fields={"volumes": tuple(PodVolume(claim, claim) for claim in claims)}, **fields)


def claim(name: str, **fields: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim("default", name, **fields)


def storage_class(name: str, *allowed: str, **fields: Any) -> StorageClass:
    """A class that binds late and, if zones are given, in these alone."""
    topologies = terms(zones(*allowed)) if allowed else None
    return StorageClass(name, **{"provisioner": EBS, "binding_mode": LATE, "allowed_topologies": topologies, **fields})


def volume(name: str, *where: str, **fields: Any) -> PersistentVolume:
    affinity = terms(zones(*where)) if where else None
    return PersistentVolume(name, **{"node_affinity": affinity, "driver": EBS, **fields})


def storing(
    claims: Iterable[PersistentVolumeClaim] = (),
    volumes: Iterable[PersistentVolume] = (),
    classes: Iterable[StorageClass] = (),
    csi_nodes: Iterable[CSINode] = (),
    **fields: Any,
) -> Cluster:
    """A cluster with these storage objects."""
    objects = {
        "claims": {each.key: each for each in claims},
        "volumes": {each.name: each for each in volumes},
        "storage_classes": {each.name: each for each in classes},
        "csi_nodes": {each.name: each for each in csi_nodes},
    }
    return Cluster(objects=objects, **fields)


def test_a_pod_whose_claim_is_missing_waits() -> None:
    waiting = mounting("gone")
    done = storing().provision(waiting)
    assert done.new == ()
    assert "gone does not exist" in done.plan.unplaced[0].reason


def test_a_claim_of_the_empty_class_waits_for_its_binding() -> None:
    """Better than Karpenter v0.27, which launches a node: kube-scheduler holds the pod until a volume is bound."""
    waiting = mounting("data")
    done = storing([claim("data", storage_class_name="")]).provision(waiting)
    assert done.new == ()
    assert "not bound yet" in done.plan.unplaced[0].reason
    bound = storing([claim("data", storage_class_name="", volume_name="pv")], [volume("pv")])
    assert bound.provision(waiting).placed(waiting)


def test_a_missing_claim_does_not_block_other_pods() -> None:
    good = pending_pod()
    bad = mounting("gone")
    assert storing().provision(bad, good).left == {bad.name}


def test_a_missing_storage_class_does_not_block_other_pods() -> None:
    good = pending_pod()
    bad = mounting("data")
    done = storing([claim("data", storage_class_name="gone")]).provision(bad, good)
    assert done.left == {bad.name}
    assert "StorageClass gone" in done.plan.unplaced[0].reason


def test_a_missing_volume_does_not_block_other_pods() -> None:
    good = pending_pod()
    bad = mounting("data")
    done = storing([claim("data", volume_name="gone")]).provision(bad, good)
    assert done.left == {bad.name}


def test_zones_of_the_storage_class_and_of_the_pod_meet() -> None:
    """The one zone in both."""
    cluster = storing([claim("data", storage_class_name="sc")], classes=[storage_class("sc", ZONE_1, ZONE_3)])
    waiting = mounting("data", required_node_affinity=terms(zones(ZONE_2, ZONE_3)))
    assert cluster.provision(waiting).home(waiting) == ZONE_3


def test_zones_of_the_storage_class_and_of_the_pod_may_be_disjoint() -> None:
    cluster = storing([claim("data", storage_class_name="sc")], classes=[storage_class("sc", ZONE_1)])
    assert cluster.provision(mounting("data", required_node_affinity=terms(zones(ZONE_2, ZONE_3)))).new == ()


def test_the_zone_of_a_bound_volume_is_the_pod_s() -> None:
    waiting = mounting("data")
    cluster = storing([claim("data", volume_name="pv")], [volume("pv", ZONE_3)])
    assert cluster.provision(waiting).home(waiting) == ZONE_3


def test_a_bound_volume_outside_the_provisioner_s_zones_waits() -> None:
    pool = provisioner(requirements=zones(ZONE_1, ZONE_2))
    cluster = storing([claim("data", volume_name="pv")], [volume("pv", ZONE_3)], provisioners=[pool])
    assert cluster.provision(mounting("data")).new == ()


def test_a_volume_s_zone_holds_with_every_or_term() -> None:
    """Relaxing to the second term does not lose the zone."""
    either = terms([requirement("example.com/label", "In", "unsupported")], [requirement(keys.OS, "In", "linux")])
    waiting = mounting("data", required_node_affinity=either)
    cluster = storing([claim("data", volume_name="pv")], [volume("pv", ZONE_3)])
    assert cluster.provision(waiting).home(waiting) == ZONE_3


ROOMY = (fake_type("roomy", cpu="1024", memory="1024Gi", pods=2000),)


def test_attachments_beyond_the_limit_of_a_node_open_another() -> None:
    """Ten attachments a node; six pods of two volumes each need a second."""
    names = [f"claim-{number}" for number in range(12)]
    late = storage_class("sc")
    standing = state_node(node=node(name="n", zone=ZONE_1, allocatable={"cpu": "1024", "pods": 2000}))
    cluster = storing(
        [claim(name, storage_class_name="sc") for name in names],
        classes=[late],
        csi_nodes=[CSINode("n", FrozenMap({EBS: 10}))],
        catalog=ROOMY,
    )
    cluster.add(standing)
    pods = [mounting(names[2 * n], names[2 * n + 1], requests={"cpu": "10m"}) for n in range(6)]
    done = cluster.provision(*pods)
    assert done.left == set()
    assert [len(each.pods) for each in done.plan.existing] == [5]
    assert len(done.new) == 1


def test_one_claim_that_a_hundred_pods_share_is_one_attachment() -> None:
    standing = state_node(node=node(name="n", zone=ZONE_1, allocatable={"cpu": "1024", "pods": 2000}))
    cluster = storing(
        [claim("shared", volume_name="pv")],
        [volume("pv", ZONE_1)],
        csi_nodes=[CSINode("n", FrozenMap({EBS: 10}))],
        catalog=ROOMY,
    )
    cluster.add(standing)
    done = cluster.provision(*(mounting("shared", requests={"cpu": "10m"}) for _ in range(100)))
    assert done.new == ()
    assert [len(each.pods) for each in done.plan.existing] == [100]


@pytest.mark.parametrize("driver", [EBS, "", "kubernetes.io/aws-ebs"], ids=["S-V3-csi", "S-V4-nfs", "in-tree"])
def test_volumes_made_by_hand_are_as_good_as_dynamic_ones(driver: str) -> None:
    """S-V3 (a volume without a class), S-V4 (NFS, which no driver attaches), and an in-tree one."""
    standing = state_node(node=node(name="n", zone=ZONE_1, allocatable={"cpu": "1024", "pods": 2000}))
    cluster = storing(
        [claim("data", storage_class_name="", volume_name="pv")],
        [volume("pv", driver=driver)],
        csi_nodes=[CSINode("n", FrozenMap({EBS: 10}))],
        catalog=ROOMY,
    )
    cluster.add(standing)
    done = cluster.provision(*(mounting("data", requests={"cpu": "10m"}) for _ in range(5)))
    assert done.new == ()
    assert done.left == set()


def ephemeral(storage: str | None, **fields: Any) -> Pod:
    """A pod with a generic ephemeral volume of a class (None: the default class)."""
    waiting = pending_pod(**fields)
    return replace(waiting, volumes=(PodVolume("scratch", f"{waiting.name}-scratch", True, storage),))


def limited_to_one(*classes: StorageClass) -> Cluster:
    """One node that can attach one EBS volume."""
    cluster = storing(classes=classes, csi_nodes=[CSINode("n", FrozenMap({EBS: 1}))], catalog=ROOMY)
    cluster.add(state_node(node=node(name="n", zone=ZONE_1, allocatable={"cpu": "1024", "pods": 2000})))
    return cluster


def test_ephemeral_volumes_of_a_named_class_count_as_attachments() -> None:
    done = limited_to_one(storage_class("sc")).provision(*(ephemeral("sc", requests={"cpu": "10m"}) for _ in range(2)))
    assert [len(each.pods) for each in done.plan.existing] == [1]
    assert len(done.new) == 1


def test_ephemeral_volumes_without_a_class_are_the_default_one_s() -> None:
    classes = [storage_class("sc", default=True), storage_class("other", provisioner="other.csi")]
    done = limited_to_one(*classes).provision(*(ephemeral(None, requests={"cpu": "10m"}) for _ in range(2)))
    assert [len(each.pods) for each in done.plan.existing] == [1]
    assert len(done.new) == 1


def test_the_newest_of_two_default_classes_is_the_default() -> None:
    """The older one's driver has no limit."""
    old = storage_class("old", default=True, created=1.0, provisioner="other.csi")
    new = storage_class("new", default=True, created=2.0)
    done = limited_to_one(old, new).provision(*(ephemeral(None, requests={"cpu": "10m"}) for _ in range(2)))
    assert [len(each.pods) for each in done.plan.existing] == [1]


def test_an_ephemeral_volume_of_a_missing_class_waits() -> None:
    waiting = ephemeral("gone")
    assert storing().provision(waiting).left == {waiting.name}


def test_a_zone_that_stands_in_a_volume_s_labels_alone_counts() -> None:
    """Karpenter v0.27 gets this wrong: kube-scheduler's VolumeZone reads the label."""
    labelled = volume("pv", labels=FrozenMap({keys.ZONE: ZONE_2}))
    waiting = mounting("data")
    assert storing([claim("data", volume_name="pv")], [labelled]).provision(waiting).home(waiting) == ZONE_2


def test_a_label_may_list_several_zones() -> None:
    """VolumeZone: `a__b` is a regional volume."""
    labelled = volume("pv", labels=FrozenMap({keys.ZONE: f"{ZONE_2}__{ZONE_3}"}))
    waiting = mounting("data", node_selector={keys.ZONE: ZONE_3})
    other = mounting("data", node_selector={keys.ZONE: ZONE_1})
    done = storing([claim("data", volume_name="pv")], [labelled]).provision(waiting, other)
    assert done.left == {other.name}


def by_hand(name: str, zone: str) -> PersistentVolume:
    return volume(name, zone, storage_class_name="hand", phase="Available", driver="")


HAND = StorageClass("hand", "kubernetes.io/no-provisioner", LATE)


def test_unbound_volumes_made_by_hand_bring_their_zones() -> None:
    """Karpenter v0.27 gets this wrong: with no-provisioner and late binding, only these volumes' zones will do."""
    names = ("one", "two")
    cluster = storing(
        [claim(name, storage_class_name="hand") for name in names],
        [by_hand("pv-1", ZONE_2), by_hand("pv-2", ZONE_3)],
        [HAND],
    )
    pods = [mounting(name) for name in names]
    done = cluster.provision(*pods)
    assert sorted(done.home(each) for each in pods) == [ZONE_2, ZONE_3]
    third = mounting("one", node_selector={keys.ZONE: ZONE_1})
    assert cluster.provision(third).left == {third.name}


def test_a_claim_finds_no_volume_when_all_made_by_hand_are_taken() -> None:
    """Two claims, one volume: one pod waits."""
    cluster = storing(
        [claim("one", storage_class_name="hand"), claim("two", storage_class_name="hand")],
        [by_hand("pv-1", ZONE_2)],
        [HAND],
    )
    assert len(cluster.provision(mounting("one"), mounting("two")).left) == 1


def test_a_local_volume_binds_its_pod_to_its_host() -> None:
    """Unlike Karpenter v0.27, which launches a node for it: only the volume's host will do."""
    host = terms([requirement(keys.HOSTNAME, "In", "n")])
    local = PersistentVolume("pv", node_affinity=host, local=True)
    cluster = storing([claim("data", volume_name="pv")], [local])
    waiting = mounting("data")
    assert cluster.provision(waiting).new == ()
    cluster.add(state_node(node=node(name="n", zone=ZONE_1)))
    assert cluster.provision(waiting).plan.existing[0].node == "n"


def test_any_term_of_a_bound_volume_s_affinity_will_do() -> None:
    """Karpenter v0.27 reads the first term alone."""
    regional = PersistentVolume("pv", node_affinity=terms(zones(ZONE_1), zones(ZONE_3)), driver=EBS)
    waiting = mounting("data", node_selector={keys.ZONE: ZONE_3})
    assert storing([claim("data", volume_name="pv")], [regional]).provision(waiting).home(waiting) == ZONE_3


def test_any_allowed_topology_of_a_class_will_do() -> None:
    """Karpenter v0.27 reads the first entry alone."""
    late = storage_class("sc", allowed_topologies=terms(zones(ZONE_1), zones(ZONE_2)))
    waiting = mounting("data", node_selector={keys.ZONE: ZONE_2})
    assert storing([claim("data", storage_class_name="sc")], classes=[late]).provision(waiting).placed(waiting)


def test_an_unbound_claim_that_binds_at_once_is_waited_for() -> None:
    """Karpenter v0.27 never reads the binding mode, and may launch a node in a zone where the volume will not be."""
    now = storage_class("sc", binding_mode="Immediate")
    waiting = mounting("data")
    assert storing([claim("data", storage_class_name="sc")], classes=[now]).provision(waiting).left == {waiting.name}


def test_two_volumes_in_different_zones_cannot_be_mounted_together() -> None:
    """Each volume's zone must hold."""
    cluster = storing(
        [claim("one", volume_name="pv-1"), claim("two", volume_name="pv-2")],
        [volume("pv-1", ZONE_1), volume("pv-2", ZONE_2)],
    )
    waiting = mounting("one", "two")
    assert cluster.provision(waiting).left == {waiting.name}


def test_ephemeral_volumes_follow_their_class_s_zones() -> None:
    """Karpenter v0.27 leaves ephemeral volumes out of zone topology."""
    late = storage_class("sc", ZONE_3)
    waiting = ephemeral("sc")
    assert storing(classes=[late]).provision(waiting).home(waiting) == ZONE_3


def test_volumes_of_running_pods_hold_their_attachments() -> None:
    """Bound pods and candidates count together, each volume once."""
    cluster = limited_to_one(storage_class("sc", ZONE_1))
    held = replace(running_pod(node="n", requests={"cpu": "10m"}), volumes=(PodVolume("a", "held"),))
    cluster.objects["claims"] = {("default", "held"): claim("held", volume_name="pv")}
    cluster.objects["volumes"] = {"pv": volume("pv", ZONE_1)}
    cluster.change("n", pods=(held,))
    another, again = ephemeral("sc", requests={"cpu": "10m"}), mounting("held", requests={"cpu": "10m"})
    done = cluster.provision(another, again)
    assert [(each.node, each.pods) for each in done.plan.existing] == [("n", (again.key,))]
    assert done.only.pods == (another.key,)


def test_new_nodes_hold_no_more_attachments_than_their_type_can() -> None:
    """Karpenter v0.27 never checks limits on planned nodes; ours are learned from the CSINodes of standing ones."""
    cluster = limited_to_one(storage_class("sc"))
    kind = ROOMY[0].name
    cluster.add(state_node(node=node(name="n", zone=ZONE_1, instance_type=kind, allocatable={"cpu": "0", "pods": 0})))
    done = cluster.provision(*(ephemeral("sc", requests={"cpu": "10m"}) for _ in range(3)))
    assert [len(planned.pods) for planned in done.new] == [1, 1, 1]


def test_volumes_spread_over_zones_stay_with_their_zone() -> None:
    """Beside plain pods: each pod where its volume is."""
    cluster = storing(
        [claim(f"c-{zone}", volume_name=f"pv-{zone}") for zone in ZONES],
        [volume(f"pv-{zone}", zone) for zone in ZONES],
    )
    pods = {zone: mounting(f"c-{zone}") for zone in ZONES}
    done = cluster.provision(*pods.values(), *pending_pods(3))
    assert {zone: done.home(each) for zone, each in pods.items()} == {zone: zone for zone in ZONES}


def one_each(limit: int, *held: str) -> Cluster:
    """A node whose pods hold some claims and which can attach so many; new nodes can attach one. Claims a, b, c, d."""
    names = ("a", "b", "c", "d")
    cluster = storing(
        [claim(name, volume_name=f"pv-{name}") for name in names],
        [volume(f"pv-{name}") for name in names],
        csi_nodes=[CSINode("n", FrozenMap({EBS: limit})), CSINode("full", FrozenMap({EBS: 1}))],
        catalog=ROOMY,
    )
    running = [
        replace(running_pod(node="n", requests={"cpu": "10m"}), volumes=(PodVolume("data", name),)) for name in held
    ]
    roomy: dict[str, Quantity] = {"cpu": "1024", "memory": "1024Gi", "pods": 2000}
    cluster.add(state_node(node=node(name="n", zone=ZONE_1, allocatable=roomy), pods=running))
    none: dict[str, Quantity] = {"cpu": "0", "memory": "0", "pods": 0}
    cluster.add(state_node(node=node(name="full", zone=ZONE_1, instance_type=ROOMY[0].name, allocatable=none)))
    return cluster


def test_a_shared_claim_takes_an_attachment_only_where_its_pods_are() -> None:
    """Three claims of two pods each, and nodes that attach one volume: a node for each claim, and none left out."""
    pods = [mounting(name, requests={"cpu": "10m"}) for name in ("a", "a", "b", "b", "c", "c", "d")]
    done = one_each(1).provision(*pods)
    assert done.left == set()
    (standing,) = done.plan.existing
    assert sorted([len(standing.pods), *(len(each.pods) for each in done.new)]) == [1, 2, 2, 2]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_pods_that_share_a_claim_stay_off_nodes_that_can_attach_no_more(limit: int) -> None:
    """Also where a node holds more than its limit already."""
    done = one_each(limit, "a", "b").provision(*(mounting("c", requests={"cpu": "10m"}) for _ in range(3)))
    assert done.plan.existing == ()
    assert [len(each.pods) for each in done.new] == [3]


@pytest.mark.parametrize("limit", [1, 2])
def test_pods_join_a_full_node_that_has_their_shared_claim_attached(limit: int) -> None:
    """kube-scheduler looks at what a pod would add, which is nothing, even above the limit."""
    done = one_each(limit, "a", "b").provision(*(mounting("a", requests={"cpu": "10m"}) for _ in range(3)))
    assert done.new == ()
    assert [len(each.pods) for each in done.plan.existing] == [3]


def test_shared_and_own_claims_count_together() -> None:
    """Room for two on a node alone: the pod with two claims of its own goes there, those that share one to another."""
    sharing = [mounting("a", requests={"cpu": "10m"}) for _ in range(2)]
    done = one_each(2).provision(*sharing, mounting("b", "c", requests={"cpu": "10m"}))
    assert done.left == set()
    assert [len(each.pods) for each in done.plan.existing] == [1]
    assert [len(each.pods) for each in done.new] == [2]
