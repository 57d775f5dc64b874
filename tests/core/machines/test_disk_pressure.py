"""The loop placed, disk pressure, evicted, placed is not gone on with, and a larger disk ends it by itself."""

from __future__ import annotations

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import OwnerReference, Pod
from controller.core.cloud import InstanceType
from controller.core.machines.disk_pressure import cure, with_learned_storage
from controller.core.provisioning.plan import SchedulingPlan
from controller.core.provisioning.problem import build
from controller.core.state.evictions import StorageLoop
from controller.core.state.snapshot import Snapshot
from tests import factories
from tests.core.provisioning.plans import solved

GIB = 2**30
OWNER = OwnerReference("apps/v1", "StatefulSet", "test", "uid-test")
LOOP = StorageLoop("default", OWNER, 2, "n1", "default", 17 * GIB, 0)


def snapshot(*pods: Pod) -> Snapshot:
    return factories.snapshot(
        pending=pods,
        provisioners=(factories.provisioner(),),
        node_templates=(factories.node_template(),),
        storage_loops=FrozenMap({OWNER.uid: LOOP}),
    )


def types(storage: str) -> tuple[InstanceType, ...]:
    return (factories.instance_type(name="m5.xlarge", cpu="4", memory="16Gi", extended={"ephemeral-storage": storage}),)


def plan(view: Snapshot, storage: str) -> SchedulingPlan:
    return solved(build(with_learned_storage(view), {"default": types(storage)}))


def test_no_node_of_the_size_that_was_too_small_is_planned_and_the_reason_names_the_resource() -> None:
    made = plan(snapshot(factories.pending_pod(owner=OWNER)), "17Gi")
    assert made.new_nodes == ()
    assert "ephemeral-storage" in made.unplaced[0].reason


def test_a_larger_disk_is_all_that_it_takes() -> None:
    assert len(plan(snapshot(factories.pending_pod(owner=OWNER)), "100Gi").new_nodes) == 1


def test_pods_of_others_are_planned_as_ever() -> None:
    other = factories.pending_pod(owner=factories.replica_set_owner())
    alone = factories.pending_pod()
    assert len(plan(snapshot(other, alone), "17Gi").new_nodes) == 1


def test_a_pod_with_another_request_than_the_evicted_ones_had_is_another_try() -> None:
    mended = factories.pending_pod(owner=OWNER, requests={"cpu": "1", "ephemeral-storage": "10Gi"})
    assert len(plan(snapshot(mended), "17Gi").new_nodes) == 1


def test_replicas_still_share_one_spec_so_that_they_are_one_class() -> None:
    pods = factories.pending_pods(3, owner=OWNER)
    view = with_learned_storage(snapshot(*pods))
    assert len({id(pod.spec) for pod in view.pods.values()}) == 1


def test_without_loops_the_snapshot_is_the_same_object() -> None:
    view = factories.snapshot(pending=(factories.pending_pod(owner=OWNER),))
    assert with_learned_storage(view) is view


def test_the_cure_names_owner_node_size_template_and_fields() -> None:
    text = cure(LOOP, snapshot())
    for part in ("StatefulSet default/test", "n1", "17Gi", "AWSNodeTemplate default", "volumeSize", "request"):
        assert part in text
