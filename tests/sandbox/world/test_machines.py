"""Kubelets and the cloud controller: what happens to Nodes and pods as machines come and go."""

from __future__ import annotations

from sandbox.world.resources import CSI_NODES, EVENTS, NODES, PODS, VOLUME_ATTACHMENTS, Obj
from tests.sandbox.world.harness import Cluster, node_is_ready


def _pod_phase(kube: Cluster, name: str) -> str:
    pod = kube.get(PODS, name)
    return "gone" if pod is None else str(pod["status"].get("phase"))


def test_a_machine_registers_itself_and_is_initialized_by_the_cloud(kube: Cluster) -> None:
    """Labels and taints of the user data, providerID, the cloud's labels; the uninitialized taint is gone."""
    name = kube.machine(taints="dedicated=gpu:NoSchedule", zone="ap-northeast-2b")
    node = kube.eventually(lambda: _without_startup_taints(kube.node(name)))
    labels = node["metadata"]["labels"]
    assert labels["pool"] == kube.namespace
    assert labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
    assert labels["topology.kubernetes.io/zone"] == "ap-northeast-2b"
    assert labels["kubernetes.io/arch"] == "amd64"
    assert node["spec"]["providerID"].startswith("aws:///ap-northeast-2b/i-")
    assert node["spec"]["taints"] == [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["cpu"] == "3920m"
    assert node["status"]["allocatable"]["pods"] == "58"


def _without_startup_taints(node: Obj | None) -> Obj | None:
    startup = {"node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/not-ready"}
    if node is None or startup & {taint["key"] for taint in node["spec"].get("taints") or ()}:
        return None
    return node


def test_a_node_that_exists_keeps_its_labels_taints_and_finalizers(kube: Cluster) -> None:
    """A kubelet that finds its Node corrects its default labels only; those of its command line are not applied."""
    instance = kube.cloud.launch(labels="from=kubelet", taints="from=kubelet:NoSchedule")
    name = instance.private_dns_name
    kube.call("POST", "/api/v1/nodes", {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "finalizers": ["example.com/keep"], "labels": {"made-by": "controller"}},
        "spec": {"providerID": instance.provider_id, "taints": [{"key": "start", "effect": "NoExecute"}]},
    })  # fmt: skip
    node = kube.ready_node(name)
    assert node["metadata"]["finalizers"] == ["example.com/keep"]
    assert node["metadata"]["labels"]["made-by"] == "controller"
    assert "from" not in node["metadata"]["labels"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
    assert node["spec"]["taints"] == [{"key": "start", "effect": "NoExecute"}]
    kube.patch(NODES, name, {"metadata": {"finalizers": None}})


def test_a_node_made_anew_gets_its_status_back(kube: Cluster) -> None:
    """Someone deletes the Node of a living machine and makes it again: the kubelet posts its status once more."""
    name = kube.machine()
    kube.delete(NODES, name)
    kube.eventually(lambda: kube.node(name) is None)
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"made": "again"}}}
    kube.call("POST", "/api/v1/nodes", body)
    node = kube.ready_node(name)
    assert node["metadata"]["labels"]["made"] == "again"
    assert node["status"]["allocatable"]["cpu"] == "3920m"


def test_the_volume_limit_of_a_machine_is_known(kube: Cluster) -> None:
    """Its CSINode lists the EBS driver with 26 volumes (Nitro: 28 attachments less root and first interface)."""
    name = kube.machine()
    (driver,) = kube.eventually(lambda: (kube.get(CSI_NODES, name) or {}).get("spec", {}).get("drivers"))
    assert (driver["name"], driver["allocatable"]["count"]) == ("ebs.csi.aws.com", 26)


def test_what_is_to_be_attached_is_attached(kube: Cluster) -> None:
    """The driver answers the attach-detach controller, for its own volumes alone."""
    for name, attacher in (("ours", "ebs.csi.aws.com"), ("theirs", "efs.csi.aws.com")):
        spec = {"attacher": attacher, "nodeName": "n", "source": {"persistentVolumeName": "v"}}
        kube.create(VOLUME_ATTACHMENTS, name, spec)
    kube.eventually(lambda: (kube.get(VOLUME_ATTACHMENTS, "ours") or {}).get("status", {}).get("attached"))
    assert not (kube.get(VOLUME_ATTACHMENTS, "theirs") or {}).get("status", {}).get("attached")


def test_devices_appear_after_the_node_is_ready(kube: Cluster) -> None:
    """The device plugin registers later: capacity and allocatable then show the GPU."""
    name = kube.cloud.launch(instance_type="g4dn.xlarge").private_dns_name
    first = kube.eventually(lambda: n if "allocatable" in ((n := kube.node(name)) or {}).get("status", {}) else None)
    assert "nvidia.com/gpu" not in first["status"]["allocatable"]
    kube.eventually(lambda: (kube.node(name) or first)["status"]["allocatable"].get("nvidia.com/gpu") == "1")


def test_a_pod_runs_and_shows_what_kubectl_needs(kube: Cluster) -> None:
    """Pending → Running with Ready, addresses, startTime and container statuses; the kubelet's events."""
    kube.machine()
    kube.create(PODS, "web", kube.pod_spec())
    kube.eventually(lambda: _pod_phase(kube, "web") == "Running")
    status = (kube.get(PODS, "web") or {})["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["podIP"].startswith("100.")
    assert status["hostIP"].startswith("10.")
    assert status["startTime"]
    assert status["containerStatuses"][0]["ready"]
    assert "running" in status["containerStatuses"][0]["state"]
    reasons = {"Scheduled", "Pulling", "Pulled", "Created", "Started"}
    kube.eventually(lambda: reasons <= {event["reason"] for event in kube.list(EVENTS)})


def test_a_deleted_pod_gets_its_time_to_stop(kube: Cluster) -> None:
    """A bound pod with a grace period stays Terminating until its containers have ended, then goes."""
    kube.machine()
    spec = kube.pod_spec(terminationGracePeriodSeconds=30)
    kube.create(PODS, "slow", spec, metadata={"name": "slow", "annotations": {"sandbox/stop-seconds": "25"}})
    kube.eventually(lambda: _pod_phase(kube, "slow") == "Running")
    kube.delete(PODS, "slow")
    going = kube.get(PODS, "slow")
    assert going is not None
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    kube.eventually(lambda: _pod_phase(kube, "slow") == "gone")


def test_a_pod_without_grace_goes_at_once(kube: Cluster) -> None:
    """terminationGracePeriodSeconds 0: no Terminating phase."""
    kube.machine()
    kube.create(PODS, "quick", kube.pod_spec())
    kube.eventually(lambda: _pod_phase(kube, "quick") == "Running")
    kube.delete(PODS, "quick")
    assert kube.get(PODS, "quick") is None


def test_the_kubelet_refuses_what_does_not_fit(kube: Cluster) -> None:
    """A pod that was bound past the scheduler and asks too much fails with OutOfcpu."""
    name = kube.machine()
    spec = kube.pod_spec(nodeName=name)
    spec["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
    kube.create(PODS, "huge", spec)
    kube.eventually(lambda: _pod_phase(kube, "huge") == "Failed")
    assert (kube.get(PODS, "huge") or {})["status"]["reason"] == "OutOfcpu"


def test_a_terminated_machine_takes_its_kubelet_then_its_node_then_its_pods(kube: Cluster) -> None:
    """The Node is deleted by the cloud controller once EC2 no longer runs the instance; its pods go after it."""
    instance = kube.cloud.launch(labels=f"pool={kube.namespace}")
    kube.ready_node(instance.private_dns_name)
    kube.create(PODS, "orphan", kube.pod_spec())
    kube.eventually(lambda: _pod_phase(kube, "orphan") == "Running")
    kube.cloud.terminate(instance)
    kube.eventually(lambda: kube.node(instance.private_dns_name) is None)
    assert kube.get(PODS, "orphan") is not None
    if not kube.real:  # the real garbage collector takes its 40 s in real time
        kube.eventually(lambda: _pod_phase(kube, "orphan") == "gone")


def test_machines_fail_as_their_tag_says(kube: Cluster) -> None:
    """never-join leaves no Node; never-ready leaves one that is not Ready."""
    silent = kube.cloud.launch(tags={"sandbox/fail": "never-join"}).private_dns_name
    stuck = kube.cloud.launch(tags={"sandbox/fail": "never-ready"}).private_dns_name
    sound = kube.machine()
    kube.eventually(lambda: kube.node(stuck) is not None)
    assert kube.node(sound) is not None
    assert kube.node(silent) is None
    assert not node_is_ready(kube.node(stuck))
