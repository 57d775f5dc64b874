"""The auditor on attach limits: what a plan adds, on standing nodes and on new ones."""

from __future__ import annotations

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import PodKey, PodVolume
from controller.core.api.workloads import CSINode, PersistentVolume, PersistentVolumeClaim
from controller.core.provisioning.plan import ExistingPlacement, SchedulingPlan, UnplacedPod
from tests import factories as make
from tests.core.audit.test_audit import broken, new_nodes, planned


def test_a_node_above_its_limit_takes_pods_that_add_no_volume() -> None:
    ebs = ("kubernetes.io/aws-ebs", "ebs.csi.aws.com")
    volumes = {f"pv{i}": PersistentVolume(f"pv{i}", driver=ebs[i % 2]) for i in range(3)}
    claims = {("default", f"c{i}"): PersistentVolumeClaim("default", f"c{i}", f"pv{i}") for i in range(3)}
    volumes_of = [(PodVolume("v", f"c{i}"),) for i in range(3)]
    small = {"cpu": "10m"}
    running = [make.running_pod(node="n", requests=small, pod_fields={"volumes": v}) for v in volumes_of[:2]]
    pods = [make.pending_pod(requests=small, pod_fields={"volumes": v}) for v in volumes_of[::2]]
    problem = make.problem(
        pending=pods,
        nodes=[make.state_node(node=make.node(name="n"), pods=running)],
        volumes=FrozenMap(volumes),
        claims=FrozenMap(claims),
        csi_nodes=FrozenMap({"n": CSINode("n", FrozenMap({"ebs.csi.aws.com": 1}))}),
    )

    def onto(*keys: PodKey) -> SchedulingPlan:
        left = tuple(UnplacedPod(pod.key, "no room") for pod in pods if pod.key not in keys)
        return SchedulingPlan(existing=(ExistingPlacement("n", keys, "room"),), unplaced=left)

    assert broken(onto(pods[0].key), problem) == ""
    assert "3 volumes of ebs.csi.aws.com, of which it can attach 1" in broken(onto(*(p.key for p in pods)), problem)


def test_a_new_node_attaches_no_more_than_the_standing_ones_of_its_type() -> None:
    claims = {("default", f"c{i}"): PersistentVolumeClaim("default", f"c{i}", f"pv{i}") for i in range(2)}
    volumes = {f"pv{i}": PersistentVolume(f"pv{i}", driver="ebs.csi.aws.com") for i in range(2)}
    pods = [make.pending_pod(pod_fields={"volumes": (PodVolume("v", f"c{i}"),)}) for i in range(2)]
    problem = make.problem(
        pending=pods,
        nodes=[make.state_node(node=make.node(name="n", instance_type="m5.xlarge"))],
        volumes=FrozenMap(volumes),
        claims=FrozenMap(claims),
        csi_nodes=FrozenMap({"n": CSINode("n", FrozenMap({"ebs.csi.aws.com": 1}))}),
    )
    assert broken(new_nodes(*(planned([pod]) for pod in pods)), problem) == ""
    assert "as m5.xlarge: 2 volumes of ebs.csi.aws.com" in broken(new_nodes(planned(pods)), problem)
