"""Workload controllers, ours and (with a real control plane) the real ones: the same behaviour seen through the API."""

from __future__ import annotations

from typing import Any

from sandbox.world.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    REPLICA_SETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Obj,
)
from tests.sandbox.world.harness import Cluster


def _workload(kube: Cluster, labels: dict[str, str], **fields: Any) -> Obj:
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": kube.pod_spec()},
        **fields,
    }


def _running(kube: Cluster, selector: str) -> list[Obj]:
    pods = kube.list(PODS, selector)
    return [
        pod for pod in pods
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]  # fmt: skip


def _status(kube: Cluster, resource: Any, name: str) -> Obj:
    status: Obj = (kube.get(resource, name) or {}).get("status") or {}
    return status


def test_inflate_up_and_down(kube: Cluster) -> None:
    """0 → 3 → 1 → 0 replicas: pods, the ReplicaSet's owner chain, and the Deployment's status follow."""
    kube.machine()
    kube.create(DEPLOYMENTS, "inflate", _workload(kube, {"app": "inflate"}, replicas=0))
    for replicas in (3, 1, 0):
        kube.patch(DEPLOYMENTS, "inflate", {"spec": {"replicas": replicas}})
        kube.eventually(lambda n=replicas: len(_running(kube, "app=inflate")) == n)  # type: ignore[misc]
        kube.eventually(lambda n=replicas: _status(kube, DEPLOYMENTS, "inflate").get("availableReplicas", 0) == n)  # type: ignore[misc]
    status = _status(kube, DEPLOYMENTS, "inflate")
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"Available": "True", "Progressing": "True"}
    (replica_set,) = kube.list(REPLICA_SETS)
    assert replica_set["metadata"]["ownerReferences"][0]["name"] == "inflate"
    assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


def test_scale_down_takes_the_cheap_and_the_unscheduled_first(kube: Cluster) -> None:
    """A pod without node goes before all others, then the one with the lowest pod-deletion-cost."""
    kube.machine()
    spec = _workload(kube, {"app": "web"}, replicas=2)
    kube.create(REPLICA_SETS, "web", spec)
    kube.eventually(lambda: len(_running(kube, "app=web")) == 2)
    cheap, dear = (pod["metadata"]["name"] for pod in _running(kube, "app=web"))
    kube.patch(PODS, cheap, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})
    kube.patch(
        REPLICA_SETS, "web", {"spec": {"template": {"spec": {"nodeSelector": {"pool": "nowhere"}}}, "replicas": 3}}
    )
    kube.eventually(lambda: len(kube.list(PODS, "app=web")) == 3)
    kube.patch(REPLICA_SETS, "web", {"spec": {"replicas": 2}})
    kube.eventually(lambda: {p["metadata"]["name"] for p in kube.list(PODS, "app=web")} == {cheap, dear})
    kube.patch(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
    kube.eventually(lambda: {p["metadata"]["name"] for p in kube.list(PODS, "app=web")} == {dear})


def test_a_deleted_pod_of_a_replica_set_comes_back(kube: Cluster) -> None:
    """The number is kept."""
    kube.machine()
    kube.create(DEPLOYMENTS, "web", _workload(kube, {"app": "web"}, replicas=2))
    kube.eventually(lambda: len(_running(kube, "app=web")) == 2)
    lost = _running(kube, "app=web")[0]["metadata"]["name"]
    kube.delete(PODS, lost)
    kube.eventually(lambda: len(_running(kube, "app=web")) == 2 and kube.get(PODS, lost) is None)


def test_rolling_update_replaces_all_pods(kube: Cluster) -> None:
    """A new template makes a second ReplicaSet; the old one ends with none; the revision counts up."""
    kube.machine()
    kube.create(DEPLOYMENTS, "web", _workload(kube, {"app": "web"}, replicas=4))
    kube.eventually(lambda: _status(kube, DEPLOYMENTS, "web").get("availableReplicas") == 4)
    old = {pod["metadata"]["name"] for pod in kube.list(PODS, "app=web")}
    kube.patch(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}})
    kube.eventually(lambda: len(kube.list(REPLICA_SETS)) == 2)
    kube.eventually(lambda: _status(kube, DEPLOYMENTS, "web").get("updatedReplicas") == 4)
    kube.eventually(
        lambda: (
            len(_running(kube, "app=web")) == 4
            and not old & {pod["metadata"]["name"] for pod in kube.list(PODS, "app=web")}
        )
    )
    deployment = kube.get(DEPLOYMENTS, "web") or {}
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    kube.eventually(lambda: sorted(s["spec"]["replicas"] for s in kube.list(REPLICA_SETS)) == [0, 4])


def test_daemons_run_where_they_may(kube: Cluster) -> None:
    """One pod a matching node, also on a cordoned one; none beyond an untolerated taint; new nodes get theirs."""
    first = kube.machine()
    kube.machine(taints="dedicated=x:NoSchedule")
    kube.patch(NODES, first, {"spec": {"unschedulable": True}})
    kube.create(DAEMON_SETS, "agent", _workload(kube, {"app": "agent"}))
    kube.eventually(lambda: [p["spec"]["nodeName"] for p in _running(kube, "app=agent")] == [first])
    second = kube.machine()
    kube.eventually(lambda: {p["spec"]["nodeName"] for p in _running(kube, "app=agent")} == {first, second})
    kube.eventually(lambda: _status(kube, DAEMON_SETS, "agent").get("numberAvailable") == 2)
    assert _status(kube, DAEMON_SETS, "agent")["desiredNumberScheduled"] == 2
    pod = kube.list(PODS, "app=agent")[0]
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["key"] == "metadata.name"
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"} in (
        pod["spec"]["tolerations"]
    )


def test_stateful_pods_keep_their_names_and_volumes(kube: Cluster) -> None:
    """Ordered names, one claim each, bound to a volume in the zone of the pod's node; scale-down takes the last."""
    kube.machine(zone="ap-northeast-2c")
    name = f"fast-{kube.namespace}"
    kube.create(STORAGE_CLASSES, name, None, provisioner="ebs.csi.aws.com", volumeBindingMode="WaitForFirstConsumer")
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "3Gi"}},
        },
    }
    spec = _workload(kube, {"app": "db"}, replicas=2, serviceName="db", volumeClaimTemplates=[template])
    kube.create(STATEFUL_SETS, "db", spec)
    kube.eventually(lambda: {p["metadata"]["name"] for p in _running(kube, "app=db")} == {"db-0", "db-1"})
    claim = kube.get(PVCS, "data-db-1") or {}
    assert claim["status"]["phase"] == "Bound"
    volume = kube.get(PVS, claim["spec"]["volumeName"]) or {}
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["ap-northeast-2c"]
    assert kube.cloud.volumes[volume["spec"]["csi"]["volumeHandle"]] == "ap-northeast-2c"
    kube.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    kube.eventually(lambda: [p["metadata"]["name"] for p in kube.list(PODS, "app=db")] == ["db-0"])
    assert kube.get(PVCS, "data-db-1") is not None


def test_a_job_runs_to_completion(kube: Cluster) -> None:
    """completions 3, two at a time; pods end Succeeded and lose the tracking finalizer."""
    kube.machine()
    spec = {"completions": 3, "parallelism": 2, "template": {"spec": kube.pod_spec(restartPolicy="Never")}}
    kube.create(JOBS, "sum", spec)
    kube.eventually(lambda: _status(kube, JOBS, "sum").get("completionTime"))
    status = _status(kube, JOBS, "sum")
    assert status["succeeded"] == 3
    assert {c["type"] for c in status["conditions"] if c["status"] == "True"} >= {"Complete"}
    pods = kube.list(PODS, "job-name=sum")
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3
    kube.eventually(lambda: not any(pod["metadata"].get("finalizers") for pod in kube.list(PODS, "job-name=sum")))


def test_pods_of_a_deleted_job_lose_the_tracking_finalizer_and_go(kube: Cluster) -> None:
    kube.machine()
    kube.create(
        JOBS, "gone", {"parallelism": 2, "completions": 2, "template": {"spec": kube.pod_spec(restartPolicy="Never")}}
    )
    kube.eventually(lambda: len(kube.list(PODS, "job-name=gone")) == 2)
    kube.delete(JOBS, "gone")
    kube.eventually(lambda: not kube.list(PODS, "job-name=gone"))


def test_a_job_that_fails_too_often_ends_failed(kube: Cluster) -> None:
    """backoffLimit 0: the first failure is the last."""
    kube.machine()
    template = {"metadata": {"annotations": {"sandbox/exit-code": "3"}}, "spec": kube.pod_spec(restartPolicy="Never")}
    kube.create(JOBS, "bad", {"backoffLimit": 0, "template": template})
    kube.eventually(lambda: any(c["type"] == "Failed" for c in _status(kube, JOBS, "bad").get("conditions", ())))
    assert _status(kube, JOBS, "bad")["failed"] == 1


def test_a_budget_says_how_many_pods_may_go(kube: Cluster) -> None:
    """disruptionsAllowed is what is healthy above minAvailable; the Eviction API decides by it."""
    kube.machine()
    kube.create(DEPLOYMENTS, "web", _workload(kube, {"app": "web"}, replicas=3))
    kube.create(PDBS, "web", {"minAvailable": "60%", "selector": {"matchLabels": {"app": "web"}}})
    kube.eventually(lambda: _status(kube, PDBS, "web").get("disruptionsAllowed") == 1)
    status = _status(kube, PDBS, "web")
    assert (status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]) == (3, 2, 3)
    kube.patch(PDBS, "web", {"spec": {"minAvailable": None, "maxUnavailable": 0}})
    kube.eventually(lambda: _status(kube, PDBS, "web").get("disruptionsAllowed") == 0)


def test_why_a_pod_waits_is_on_it_and_in_an_event(kube: Cluster) -> None:
    """Condition PodScheduled False, reason Unschedulable, and a FailedScheduling event with the same message."""
    kube.machine()
    kube.create(PODS, "wide", kube.pod_spec(nodeSelector={"pool": kube.namespace, "disk": "tape"}))
    condition = kube.eventually(lambda: _refusal(kube, "wide"))
    assert condition["reason"] == "Unschedulable"
    assert "node(s) didn't match Pod's node affinity/selector" in condition["message"]
    kube.eventually(lambda: any(event["reason"] == "FailedScheduling" for event in kube.list(EVENTS)))


def test_a_waiting_pod_goes_when_a_machine_comes(kube: Cluster) -> None:
    """Unschedulable first, bound and Running once a node has joined."""
    kube.create(PODS, "early", kube.pod_spec())
    kube.eventually(lambda: _refusal(kube, "early"))
    name = kube.machine()
    kube.eventually(lambda: _status(kube, PODS, "early").get("phase") == "Running")
    assert (kube.get(PODS, "early") or {})["spec"]["nodeName"] == name


def _refusal(kube: Cluster, name: str) -> Obj | None:
    for condition in _status(kube, PODS, name).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            refusal: Obj = condition
            return refusal
    return None


def test_a_noexecute_taint_evicts_what_does_not_tolerate_it(kube: Cluster) -> None:
    """Pods without the toleration go at once; those with it stay."""
    name = kube.machine()
    kube.create(PODS, "frail", kube.pod_spec())
    kube.create(PODS, "tough", kube.pod_spec(tolerations=[{"key": "storm", "operator": "Exists"}]))
    kube.eventually(lambda: all(_status(kube, PODS, pod).get("phase") == "Running" for pod in ("frail", "tough")))
    kube.patch(NODES, name, {"spec": {"taints": [{"key": "storm", "effect": "NoExecute"}]}})
    kube.eventually(lambda: kube.get(PODS, "frail") is None)
    assert kube.get(PODS, "tough") is not None
    kube.patch(NODES, name, {"spec": {"taints": None}})


def test_a_cordoned_node_is_tainted(kube: Cluster) -> None:
    """spec.unschedulable brings node.kubernetes.io/unschedulable, and its end takes it off."""
    name = kube.machine()
    key = "node.kubernetes.io/unschedulable"
    for cordoned in (True, False):
        kube.patch(NODES, name, {"spec": {"unschedulable": cordoned}})
        kube.eventually(lambda want=cordoned: (key in _taint_keys(kube.node(name))) == want)  # type: ignore[misc]


def _taint_keys(node: Obj | None) -> set[str]:
    return {taint["key"] for taint in (node or {})["spec"].get("taints") or ()}
