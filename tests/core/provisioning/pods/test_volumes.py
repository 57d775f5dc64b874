"""Volumes: VolumeBinding, VolumeZone and NodeVolumeLimits as kube-scheduler has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import NodeSelectorTerm, Pod, PodVolume
from controller.core.api.workloads import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.pods.volume_needs import matched
from tests.core.provisioning.plans import homes, in_zones, solved
from tests.examples import examples
from tests.factories import ZONES, node, pending_pod, problem, provisioner, requirement, running_pod, state_node

EBS = "ebs.csi.aws.com"
LATE = "WaitForFirstConsumer"


def claiming(*claims: str, name: str = "", **fields: Any) -> Pod:
    """A pending pod with these claims."""
    volumes = tuple(PodVolume(claim, claim) for claim in claims)
    return pending_pod(name=name, pod_fields={"volumes": volumes}, **fields)


def posed(
    pending: Iterable[Pod],
    *,
    claims: Iterable[PersistentVolumeClaim] = (),
    volumes: Iterable[PersistentVolume] = (),
    classes: Iterable[StorageClass] = (),
    csi_nodes: Iterable[CSINode] = (),
    **fields: Any,
) -> SchedulingProblem:
    objects: Mapping[str, Any] = {
        "claims": {claim.key: claim for claim in claims},
        "volumes": {volume.name: volume for volume in volumes},
        "storage_classes": {each.name: each for each in classes},
        "csi_nodes": {each.name: each for each in csi_nodes},
    }
    return problem(pending=pending, **objects, **fields)


def bound(claim: str, volume: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim("default", claim, volume_name=volume)


@pytest.mark.parametrize(
    ("claims", "volumes", "classes", "said"),
    [
        ([], [], [], "its PersistentVolumeClaim default/data does not exist"),
        ([bound("data", "gone")], [], [], "PersistentVolume gone of its claim default/data does not exist"),
        (
            [PersistentVolumeClaim("default", "data", storage_class_name="fast")],
            [],
            [],
            "the StorageClass fast of its claim default/data does not exist",
        ),
    ],
)
def test_what_cannot_be_resolved_keeps_its_pod_pending_and_no_other(
    claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume], classes: list[StorageClass], said: str
) -> None:
    plan = solved(posed([claiming("data", name="bad"), pending_pod()], claims=claims, volumes=volumes, classes=classes))
    assert [left.pod[1] for left in plan.unplaced] == ["bad"]
    assert said in plan.unplaced[0].reason
    assert len(plan.new_nodes) == 1


def test_any_term_of_a_bound_volume_will_do() -> None:
    volume = PersistentVolume("v", node_affinity=(*in_zones("nowhere"), *in_zones(ZONES[2])))
    pod = claiming("data")
    asked = posed([pod], claims=[bound("data", "v")], volumes=[volume])
    assert homes(solved(asked), asked)[pod.key] == ZONES[2]


@pytest.mark.parametrize("key", [keys.ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"])
def test_a_volume_whose_zone_stands_in_its_labels_alone_binds_its_pod(key: str) -> None:
    volume = PersistentVolume("v", labels=FrozenMap({key: ZONES[1]}))
    pod = claiming("data")
    asked = posed([pod], claims=[bound("data", "v")], volumes=[volume])
    assert homes(solved(asked), asked)[pod.key] == ZONES[1]


def test_a_volume_out_of_the_provisioner_s_zones_leaves_its_pod_pending() -> None:
    volume = PersistentVolume("v", node_affinity=in_zones(ZONES[2]))
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", ZONES[0])])
    plan = solved(posed([claiming("data")], claims=[bound("data", "v")], volumes=[volume], provisioners=[pool]))
    assert keys.ZONE in plan.unplaced[0].reason


def test_all_allowed_topologies_of_a_late_binding_class_are_open() -> None:
    late = StorageClass("late", EBS, LATE, allowed_topologies=(*in_zones(ZONES[0]), *in_zones(ZONES[2])))
    claim = PersistentVolumeClaim("default", "data", storage_class_name="late")
    pod = claiming("data", node_selector={keys.ZONE: ZONES[2]})
    asked = posed([pod], claims=[claim], classes=[late])
    assert homes(solved(asked), asked)[pod.key] == ZONES[2]
    refused = posed([claiming("data", node_selector={keys.ZONE: ZONES[1]})], claims=[claim], classes=[late])
    assert len(solved(refused).unplaced) == 1


def test_an_unbound_claim_that_binds_at_once_is_waited_for() -> None:
    """kube-scheduler refuses such a pod; its zone is not known before the volume is made."""
    claim = PersistentVolumeClaim("default", "data", storage_class_name="now")
    plan = solved(posed([claiming("data")], claims=[claim], classes=[StorageClass("now", EBS)]))
    assert "is not bound yet" in plan.unplaced[0].reason


def test_the_newest_default_class_serves_claims_without_one() -> None:
    old = StorageClass("old", EBS, LATE, allowed_topologies=in_zones(ZONES[0]), default=True, created=1.0)
    new = StorageClass("new", EBS, LATE, allowed_topologies=in_zones(ZONES[1]), default=True, created=2.0)
    pod = claiming("data")
    asked = posed([pod], claims=[PersistentVolumeClaim("default", "data")], classes=[old, new])
    assert homes(solved(asked), asked)[pod.key] == ZONES[1]


def test_a_static_volume_binds_late_claims_to_its_zone_each_once() -> None:
    pods = [claiming(f"c{n}", name=f"p{n}") for n in range(3)]
    asked = posed(pods, volumes=[static_volume(zone) for zone in ZONES[:2]], **static_claims(3))
    plan = solved(asked)
    assert set(homes(plan, asked).values()) == set(ZONES[:2])
    assert "no PersistentVolume of class manual that its pod could reach is free" in plan.unplaced[0].reason


def static_volume(zone: str, name: str = "", size: int = 10) -> PersistentVolume:
    return PersistentVolume(
        name or f"v{zone}",
        node_affinity=in_zones(zone),
        storage_class_name="manual",
        capacity_bytes=size,
        phase="Available",
    )


def static_claims(count: int) -> dict[str, Any]:
    """Claims c0, c1, ... of a class whose volumes are statically provisioned."""
    claims = [PersistentVolumeClaim("default", f"c{n}", storage_class_name="manual") for n in range(count)]
    return {"claims": claims, "classes": [StorageClass("manual", "kubernetes.io/no-provisioner", LATE)]}


def test_static_volumes_are_matched_so_that_most_pods_can_reach_theirs() -> None:
    """The first pod may go anywhere, the second where the first volume is alone: both are placed."""
    pods = [claiming("c0", name="p0"), claiming("c1", name="p1", node_selector={keys.ZONE: ZONES[0]})]
    asked = posed(pods, volumes=[static_volume(zone) for zone in ZONES[:2]], **static_claims(2))
    assert homes(solved(asked), asked) == {pods[0].key: ZONES[1], pods[1].key: ZONES[0]}


def test_static_volumes_out_of_reach_are_matched_last() -> None:
    volumes = [static_volume("nowhere", "a"), static_volume(ZONES[1], "b", size=20)]
    pool = provisioner(requirements=[requirement(keys.ZONE, "In", *ZONES)])
    asked = posed([claiming("c0")], volumes=volumes, provisioners=[pool], **static_claims(1))
    assert list(homes(solved(asked), asked).values()) == [ZONES[1]]


def test_a_claim_that_two_pods_share_gets_one_static_volume() -> None:
    asked = posed([claiming("c0"), claiming("c0")], volumes=[static_volume(ZONES[1])], **static_claims(1))
    assert list(homes(solved(asked), asked).values()) == [ZONES[1], ZONES[1]]


def most(suitable: list[list[str]], taken: frozenset[str] = frozenset()) -> int:
    """The size of a maximum matching, by exhaustive search."""
    if not suitable:
        return 0
    first, *rest = suitable
    return max(most(rest, taken), *(1 + most(rest, taken | {v}) for v in first if v not in taken), 0)


@examples(60)
@given(st.lists(st.lists(st.sampled_from("vwxyz"), unique=True), max_size=6))
def test_the_matching_of_claims_to_static_volumes_is_a_maximum(suitable: list[list[str]]) -> None:
    asked = {("default", f"c{number}"): names for number, names in enumerate(suitable)}
    matching = matched(asked)
    assert len(matching) == len(set(matching.values())) == most(suitable)
    assert all(volume in asked[claim] for claim, volume in matching.items())


def test_a_local_volume_binds_its_pod_to_its_host() -> None:
    there = NodeSelectorTerm((requirement(keys.HOSTNAME, "In", "n"),))
    local = PersistentVolume("v", node_affinity=(there,), local=True)
    nodes = [state_node(node=node(name="m")), state_node(node=node(name="n"))]
    plan = solved(posed([claiming("data")], claims=[bound("data", "v")], volumes=[local], nodes=nodes))
    assert [placement.node for placement in plan.existing] == ["n"]
    gone = solved(posed([claiming("data")], claims=[bound("data", "v")], volumes=[local]))
    assert gone.new_nodes == ()


def test_a_volume_s_zone_holds_at_every_or_term_and_every_preference() -> None:
    volume = PersistentVolume("v", node_affinity=in_zones(ZONES[2]))
    terms = (*in_zones("nowhere"), NodeSelectorTerm((requirement(keys.ARCH, "In", "amd64"),)))
    pod = claiming("data", required_node_affinity=terms)
    asked = posed([pod], claims=[bound("data", "v")], volumes=[volume])
    assert homes(solved(asked), asked)[pod.key] == ZONES[2]


def late_claims(count: int) -> list[PersistentVolumeClaim]:
    return [PersistentVolumeClaim("default", f"c{n}", storage_class_name="late") for n in range(count)]


def test_attachments_count_against_the_csi_limit_of_an_existing_node() -> None:
    """Ten attachments, six pods of two volumes: five stay, the sixth gets a node."""
    pods = [claiming(f"c{2 * n}", f"c{2 * n + 1}", requests={"cpu": "100m"}) for n in range(6)]
    plan = solved(
        posed(
            pods,
            claims=late_claims(12),
            classes=[StorageClass("late", EBS, LATE)],
            nodes=[state_node(node=node(name="n"))],
            csi_nodes=[CSINode("n", FrozenMap({EBS: 10}))],
        )
    )
    assert [len(placement.pods) for placement in plan.existing] == [5]
    assert len(plan.new_nodes) == 1


def test_attachments_count_on_new_nodes_as_on_existing_ones_of_their_type() -> None:
    full = state_node(node=node(name="n", instance_type="m5.large", allocatable={"cpu": "0", "pods": 0}))
    pool = provisioner(requirements=[requirement(keys.INSTANCE_TYPE, "In", "m5.large")])
    pods = [claiming(f"c{2 * n}", f"c{2 * n + 1}", requests={"cpu": "10m"}) for n in range(6)]
    plan = solved(
        posed(
            pods,
            claims=late_claims(12),
            classes=[StorageClass("late", EBS, LATE)],
            nodes=[full],
            csi_nodes=[CSINode("n", FrozenMap({EBS: 4}))],
            provisioners=[pool],
        )
    )
    assert [len(planned.pods) for planned in plan.new_nodes] == [2, 2, 2]


def test_a_claim_that_many_pods_share_is_attached_once() -> None:
    pods = [claiming("c0", requests={"cpu": "10m"}) for _ in range(20)]
    plan = solved(
        posed(
            pods,
            claims=late_claims(1),
            classes=[StorageClass("late", EBS, LATE)],
            nodes=[state_node(node=node(name="n"))],
            csi_nodes=[CSINode("n", FrozenMap({EBS: 10}))],
        )
    )
    assert [len(placement.pods) for placement in plan.existing] == [20]


def test_volumes_of_running_pods_hold_attachments() -> None:
    running = running_pod(node="n", requests={"cpu": "10m"}, pod_fields={"volumes": (PodVolume("d", "used"),)})
    claims = [*late_claims(1), PersistentVolumeClaim("default", "used", storage_class_name="late")]
    plan = solved(
        posed(
            [claiming("c0")],
            claims=claims,
            classes=[StorageClass("late", "kubernetes.io/aws-ebs", LATE)],
            nodes=[state_node(node=node(name="n"), pods=[running])],
            csi_nodes=[CSINode("n", FrozenMap({EBS: 1}))],
        )
    )
    assert plan.existing == ()


def test_ephemeral_volumes_count_by_their_template_s_class() -> None:
    volumes = (PodVolume("scratch", "p-scratch", ephemeral=True, storage_class_name="late"),)
    late = StorageClass("late", EBS, LATE, allowed_topologies=in_zones(ZONES[1]))
    pod = pending_pod(name="p", pod_fields={"volumes": volumes})
    asked = posed([pod], classes=[late])
    assert homes(solved(asked), asked)[pod.key] == ZONES[1]
    assert len(solved(posed([pod])).unplaced) == 1
