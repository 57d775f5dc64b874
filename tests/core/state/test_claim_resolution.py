"""Pods with claims of devices (DRA): what they count as, where they may go, and why some get no node."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.labels import HOSTNAME, INITIALIZED, INSTANCE_FAMILY, INSTANCE_TYPE, PROVISIONER_NAME, ZONE
from controller.core.machines.registration import not_initialized_because
from controller.core.provisioning.plan import SchedulingPlan
from controller.core.provisioning.problem import build
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from tests.core.provisioning.plans import solved
from tests.core.state.changes import added, deleted, listed, modified, take
from tests.core.state.changes import at as versioned
from tests.factories import ZONES, instance_type, metadata, node_object, pod_object, provisioner, provisioner_object

GPU, DEVICE_CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
TYPES = (
    instance_type(name="m5.xlarge", cpu="4", memory="16Gi", price=0.2),
    instance_type(name="g5.xlarge", cpu="4", memory="16Gi", price=1.0, extended={GPU: 1}),
    instance_type(name="g5.12xlarge", cpu="48", memory="192Gi", price=5.6, extended={GPU: 4}),
)
Document = dict[str, Any]


def cluster(**classes: str) -> Cluster:
    made = Cluster(device_classes={DEVICE_CLASS: GPU, **classes})
    made.set_instance_types("default", {each.name: each for each in TYPES})
    families = {"key": INSTANCE_FAMILY, "operator": "In", "values": ["g5", "m5"]}
    take(made, added(provisioner_object(spec={"requirements": [families]})))
    return made


def exactly(name: str = "gpu", **fields: Any) -> Document:
    return {"name": name, "exactly": {"deviceClassName": DEVICE_CLASS, **fields}}


def devices(*requests: Document, **fields: Any) -> Document:
    return {"devices": {"requests": list(requests), **fields}}


def template(*requests: Document, name: str = "gpus", **fields: Any) -> Document:
    spec = {"spec": devices(*requests, **fields)}
    meta = metadata(name=name, namespace="default")
    return {"kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}


def claim(name: str, *requests: Document, on: str = "", count: int = 1, version: int = 1) -> Document:
    """A ResourceClaim; with `on`, this many devices of that node are allocated to its first request."""
    wanted = requests or (exactly(),)
    result = {"request": wanted[0]["name"], "driver": DEVICE_CLASS, "pool": on, "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    allocation = {"devices": {"results": [result] * count}, "nodeSelector": selector}
    status = {"allocation": allocation} if on else {}
    meta = metadata(name=name, namespace="default", resourceVersion=str(version))
    return {"kind": "ResourceClaim", "metadata": meta, "spec": devices(*wanted), "status": status}


def pod(name: str, *, node: str = "", made: str = "", cpu: str = "1", **reference: str) -> Document:
    """It waits, or runs on `node`. `made`: the claim that was made of its template."""
    source = {"name": "gpu", **(reference or {"resourceClaimTemplateName": "gpus"})}
    spec = {"resourceClaims": [source], **({"nodeName": node} if node else {})}
    status: Document = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": made}]} if made else {}
    running = {"phase": "Running", "conditions": []} if node else {}
    return pod_object(name=name, requests={"cpu": cpu}, spec=spec, status={**status, **running})


def slices(node: str, count: int, *, generation: int = 1, broken: int = 0, name: str = "") -> Document:
    listed_devices = [
        {"name": f"gpu-{i}", **({"taints": [{"key": "ill"}]} if i < broken else {})} for i in range(count)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DEVICE_CLASS, "nodeName": node, "pool": pool, "devices": listed_devices}
    return {"kind": "ResourceSlice", "metadata": metadata(name=name or f"{node}-{generation}"), "spec": spec}


def gpu_node(name: str, kind: str = "g5.12xlarge", *, initialized: bool = True) -> Document:
    """A node whose driver publishes slices: its allocatable lacks the extended resource."""
    room = {"cpu": "48", "memory": "192Gi", "pods": "29"}
    labels = {PROVISIONER_NAME: "default", INSTANCE_TYPE: kind, HOSTNAME: name, ZONE: ZONES[0]}
    if initialized:
        labels[INITIALIZED] = "true"
    return node_object(name=name, labels=labels, status={"capacity": room, "allocatable": room})


def plan(snapshot: Snapshot, without: frozenset[str] = frozenset()) -> SchedulingPlan:
    """The plan that passes the audit."""
    return solved(build(snapshot, {"default": TYPES}, without_nodes=without))


def placed(planned: SchedulingPlan) -> dict[str, set[str]]:
    """Names of pods by node, or by the type of their new node."""
    on = {each.node: {name for _, name in each.pods} for each in planned.existing}
    for each in planned.new_nodes:
        on.setdefault(each.offering.instance_type, set()).update(name for _, name in each.pods)
    return on


def why(snapshot: Snapshot) -> str:
    (left,) = plan(snapshot).unplaced
    return left.reason


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (exactly(), {"g5.xlarge": 1}),
        (exactly(count=3), {"g5.12xlarge": 3}),
        ({"name": "gpu", "deviceClassName": DEVICE_CLASS, "count": 2}, {"g5.12xlarge": 2}),
        (
            {"name": "gpu", "firstAvailable": [{"name": "tpu", "deviceClassName": "tpu.google.com"},
                                               {"name": "two", "deviceClassName": DEVICE_CLASS, "count": 2}]},
            {"g5.12xlarge": 2},
        ),
    ],
    ids=["one", "count", "v1beta1", "firstAvailable"],
)  # fmt: skip
def test_a_pod_gets_a_node_with_the_devices_that_its_template_asks_for(
    request_: Document, expected: dict[str, int]
) -> None:
    snapshot = take(cluster(), added(template(request_), pod("p")))
    (planned,) = plan(snapshot).new_nodes
    got = snapshot.pods["default", "p"].spec.requests[GPU]
    assert {planned.offering.instance_type: got} == expected


def test_claims_of_many_pods_are_packed_as_devices() -> None:
    snapshot = take(cluster(), added(template(exactly()), *(pod(f"p{i}") for i in range(8))))
    planned = plan(snapshot)
    assert planned.unplaced == ()
    assert sum(4 if each.offering.instance_type == "g5.12xlarge" else 1 for each in planned.new_nodes) >= 8


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (template({"name": "r", "exactly": {"deviceClassName": "tpu.google.com"}}),
         ("DeviceClass tpu.google.com", "request r of ResourceClaimTemplate default/gpus", "setting deviceClasses")),
        (template(exactly(selectors=[{"cel": {"expression": "true"}}])), ("gpu of", "default/gpus has selectors")),
        (template(exactly(allocationMode="All")), ("allocationMode All",)),
        (template(exactly(adminAccess=True)), ("adminAccess",)),
        (template(exactly(capacity={"requests": {"memory": "10Gi"}})), ("capacity",)),
        (template({"name": "r"}), ("no deviceClassName",)),
        (template(exactly(count=2), constraints=[{"matchAttribute": "x"}]), ("constraints",)),
        (template(exactly(), name="another"), ("ResourceClaimTemplate default/gpus is not known",)),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_counted_is_refused_with_the_reason(asked: Document, words: tuple[str, ...]) -> None:
    reason = why(take(cluster(), added(asked, pod("p"))))
    assert reason.startswith("the pod cannot be served: spec.resourceClaims[gpu]: ")
    assert [word for word in words if word not in reason] == []


def test_what_is_refused_is_served_once_it_can_be_counted() -> None:
    changing = cluster()
    assert "is not known" in why(take(changing, added(pod("p"))))
    asked = template(exactly(), constraints=[{"matchAttribute": "x"}])
    assert placed(plan(take(changing, added(asked)))) == {"g5.xlarge": {"p"}}, "one device breaks no constraint"
    assert "is not known" in why(take(changing, deleted(asked)))


def test_devices_of_slices_are_room_less_what_is_allocated() -> None:
    """Three of four devices: one by a pod that runs, one by a claim whose pod is not bound yet, one broken."""
    standing = cluster()
    take(standing, added(gpu_node("n"), slices("n", 9, generation=1), slices("n", 4, generation=2, broken=1)))
    take(standing, added(template(exactly()), claim("r-gpu", on="n"), claim("w-gpu", on="n")))
    snapshot = take(standing, added(pod("r", node="n", made="r-gpu"), pod("w", made="w-gpu"), pod("p"), pod("q")))
    on = placed(plan(snapshot))
    assert on["n"] - {"p", "q"} == {"w"}, "its claim is allocated there"
    assert len(on["n"]) == 2, "one device is free"
    assert len(on["g5.xlarge"]) == 1
    released = take(standing, deleted(claim("r-gpu", on="n"), pod("r", node="n", made="r-gpu")))
    assert placed(plan(released)) == {"n": {"w", "p", "q"}}


def test_a_driver_that_publishes_parts_of_devices_gives_no_more_than_the_type_has() -> None:
    snapshot = take(
        cluster(), added(gpu_node("n"), slices("n", 32), template(exactly()), *(pod(f"p{i}") for i in range(5)))
    )
    on = placed(plan(snapshot))
    assert [len(on["n"]), len(on["g5.xlarge"])] == [4, 1]


@pytest.mark.parametrize("named", [True, False], ids=["driver of the class", "class of another driver"])
def test_a_node_is_initialized_when_its_driver_has_published_its_devices(named: bool) -> None:
    """Its allocatable never has the extended resource."""
    expected, starting = TYPES[2].capacity, cluster()
    expression = f"device.driver == '{DEVICE_CLASS if named else 'other.example.com'}' && device.attributes['x'].y"
    selectors = [{"cel": {"expression": expression}}]
    known = {"kind": "DeviceClass", "metadata": metadata(name=DEVICE_CLASS), "spec": {"selectors": selectors}}
    early = take(starting, added(known, gpu_node("n", initialized=False)))
    because = not_initialized_because(early.nodes["n"].node, provisioner(), expected)
    assert because == f"{GPU} not allocatable yet"
    late = take(starting, added(slices("n", 4)))
    assert late.version > early.version
    assert (not_initialized_because(late.nodes["n"].node, provisioner(), expected) == "") is named
    gone = take(starting, listed("ResourceSlice"))
    assert not_initialized_because(gone.nodes["n"].node, provisioner(), expected) == because


def test_pods_of_a_claim_that_is_allocated_go_to_its_node_alone() -> None:
    standing = cluster()
    take(standing, added(gpu_node("n"), gpu_node("m"), slices("n", 4), slices("m", 4), claim("c", on="n")))
    of_claim = {"resourceClaimName": "c"}
    snapshot = take(standing, added(pod("p", **of_claim), pod("q", cpu="47", **of_claim)))
    assert placed(plan(snapshot)) == {"n": {"p", "q"}}
    assert snapshot.nodes["n"].allocatable[GPU] == 3, "the claim's device is counted once, and before they are bound"
    cordoned = versioned(gpu_node("n"), 2)
    cordoned["spec"]["unschedulable"] = True
    full = plan(take(standing, modified(cordoned)))
    assert full.existing == ()
    assert full.new_nodes == (), "none serves what is on another node"
    assert len(full.unplaced) == 2


def test_pods_that_share_a_claim_share_a_node_and_its_devices_once() -> None:
    """Although a node without devices has room for those that do not bear the claim."""
    sharing, of_claim = cluster(), {"resourceClaimName": "c"}
    take(sharing, added(claim("c", exactly(count=2)), gpu_node("plain", "m5.xlarge")))
    new = plan(take(sharing, added(*(pod(f"p{i}", **of_claim) for i in range(3)))))
    assert placed(new) == {"g5.12xlarge": {"p0", "p1", "p2"}}
    take(sharing, added(gpu_node("n"), slices("n", 4), gpu_node("m"), slices("m", 4)))
    take(sharing, modified(claim("c", exactly(count=2), on="n", count=2, version=2)))
    bound = [versioned(pod(f"p{i}", node="n", **of_claim), 2) for i in range(3)]
    snapshot = take(sharing, modified(*bound), added(pod("late", **of_claim)))
    room = snapshot.nodes["n"]
    assert room.allocatable[GPU] - sum(each.spec.requests.get(GPU, 0) for each in room.pods) == 2
    assert placed(plan(snapshot)) == {"n": {"late"}}
    without_late = take(sharing, deleted(pod("late", **of_claim)))
    moved = plan(without_late, frozenset({"n"}))
    assert placed(moved) == {"m": {"p0", "p1", "p2"}}, "together, with their devices"


def test_a_running_pod_is_moved_by_its_template_and_not_where_it_cannot_be_counted() -> None:
    standing = cluster()
    take(standing, added(gpu_node("n"), slices("n", 4), template(exactly()), claim("c", on="n")))
    take(standing, added(template(exactly(selectors=[{"cel": {}}]), name="odd"), claim("d", on="n")))
    odd = {"resourceClaimTemplateName": "odd"}
    snapshot = take(standing, added(pod("p", node="n", made="c"), pod("q", node="n", made="d", **odd)))
    room = snapshot.nodes["n"]
    assert [each.spec.requests.get(GPU) for each in room.pods] == [1, 1], "it uses a device all the same"
    moved = plan(snapshot, frozenset({"n"}))
    assert placed(moved) == {"g5.xlarge": {"p"}}
    assert "has selectors" in moved.unplaced[0].reason


def test_snapshots_share_the_pods_that_did_not_change() -> None:
    """Replicas are one object to the planner, and a heartbeat wakes nobody."""
    standing = cluster()
    before = take(standing, added(template(exactly()), pod("p"), pod("q")))
    p, q = (before.pods["default", name] for name in "pq")
    assert p.spec is q.spec
    after = take(standing, added(pod("r"), node_object(name="n")))
    assert after.pods["default", "p"] is p
    assert {each.key for each in after.unbound} == {("default", name) for name in "pqr"}
