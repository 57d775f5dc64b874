"""One workload of each scheduling feature, all waiting at once: kube-scheduler binds each pod to its planned node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.cluster import Cluster, condition, labels
from e2e.placement import REFUSED, Verdict, bound_to
from e2e.scenario import Scenario, scenario, zone_of
from e2e.workloads import affinity, claim, daemon_set, deployment, mounts, spread, stateful_set
from sandbox.world.resources import NODES, PODS, PVCS, PVS, Obj

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FAR_ZONE = "ap-northeast-2c"
"""Not the one that a plan would take by itself."""
TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}
BOOT = {"key": "example.com/booting", "effect": "NoSchedule"}
ANY = [
    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r", "g"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
]
"""More than the defaults, which have no GPUs and one architecture."""
ALL = {"nodes": "of-features"}
"""What every pod selects, so that nothing is planned before the Provisioners are there: then all is one plan."""
PAIR = {"nodes": "of-a-pair"}
"""Of pods that must be together: where others may take the room beside the first one, the second waits for ever."""


@pytest.fixture(scope="module")
def features(cluster: Cluster) -> Iterator[Scenario]:
    """Everything is applied before the first node comes."""
    with scenario(cluster, "features") as started:
        tolerated = {"operator": "Exists", "key": "team"}
        cluster.apply(_storage_class(), _volume("features-old", FAR_ZONE, "features", "old"))
        started.deploy(
            daemon_set("agent", cpu="300m"),  # on every node
            deployment("zones", 3, topologySpreadConstraints=[spread("zones", ZONE)], nodeSelector=ALL),
            deployment("apart", 3, cpu="100m", affinity=affinity("podAntiAffinity", "apart", HOST), nodeSelector=ALL),
            deployment("cache", 1, requests={"memory": "3Gi"}, nodeSelector=PAIR),
            deployment("near", 2, affinity=affinity("podAffinity", "cache", HOST), nodeSelector=PAIR),
            claim("new"),
            deployment("new-volume", 1, **mounts("new"), nodeSelector=ALL),
            claim("old", storage_class="", volume="features-old"),
            stateful_set("old-volume", 1, **mounts("old"), nodeSelector=ALL),
            deployment("gpu", 1, requests={"nvidia.com/gpu": "1"}, nodeSelector=ALL),
            deployment("team", 2, tolerations=[tolerated], nodeSelector={**ALL, "team": "a"}),
            deployment("boot", 1, nodeSelector={**ALL, "boots": "slowly"}),
            deployment("picky", 1, affinity=_memory_optimized_arm(), nodeSelector=ALL),
        )
        cluster.until(lambda: len(_unschedulable(started)) == 16, "every pod but the daemons waits")
        started.provisioner(requirements=ANY, labels=ALL)
        started.provisioner("features-pair", labels=PAIR)
        started.provisioner("features-team", taints=[TEAM], labels={**ALL, "team": "a"}, weight=40)
        started.provisioner("features-boot", startupTaints=[BOOT], labels={**ALL, "boots": "slowly"}, weight=40)
        cluster.until(lambda: len(started.placements()) == 16, "every pod but the daemons is nominated")
        yield started


def test_spread_over_zones(features: Scenario) -> None:
    counts = Counter(zone_of(node) for node in nodes_of(features, "zones", 3))
    assert len(counts) == 3


def test_anti_affinity_keeps_pods_apart(features: Scenario) -> None:
    assert len({node["metadata"]["name"] for node in nodes_of(features, "apart", 3)}) == 3


def test_affinity_brings_pods_together(features: Scenario) -> None:
    (home,) = nodes_of(features, "cache", 1)
    assert {node["metadata"]["name"] for node in nodes_of(features, "near", 2)} == {home["metadata"]["name"]}


def test_a_volume_that_is_there_decides_the_zone(features: Scenario) -> None:
    (node,) = nodes_of(features, "old-volume", 1)
    assert zone_of(node) == FAR_ZONE


def test_a_new_volume_is_made_where_the_pod_goes(features: Scenario) -> None:
    (node,) = nodes_of(features, "new-volume", 1)
    bound = features.cluster.get(PVCS, "new", features.namespace)
    assert bound is not None
    volume = features.cluster.get(PVS, bound["spec"]["volumeName"])
    assert volume is not None
    assert zone_of(node) in str(volume["spec"]["nodeAffinity"])


def test_gpus(features: Scenario) -> None:
    (node,) = nodes_of(features, "gpu", 1)
    assert int(node["status"]["allocatable"]["nvidia.com/gpu"]) >= 1


def test_taints_keep_the_others_out(features: Scenario) -> None:
    homes = {node["metadata"]["name"] for node in nodes_of(features, "team", 2)}
    (provisioner,) = {labels(node)["karpenter.sh/provisioner-name"] for node in nodes_of(features, "team", 2)}
    assert provisioner == "features-team"
    guests = [pod for pod in features.cluster.pods(features.namespace) if bound_to(pod) in homes]
    assert {labels(pod)["app"] for pod in guests} == {"team"}


def test_startup_taints_hold_pods_until_they_are_taken_off(features: Scenario) -> None:
    """The node is there and Ready, is not initialized, and no second one is made; then the pod is bound."""
    cluster = features.cluster
    (node,) = cluster.until(lambda: cluster.nodes("features-boot"), "its node is made")
    cluster.until(lambda: _is_ready(cluster.nodes("features-boot")[0]), "its node is Ready")
    (pod,) = cluster.pods(features.namespace, "boot")
    assert not bound_to(pod)
    cluster.kubectl("taint", "node", node["metadata"]["name"], f"{BOOT['key']}-")
    (home,) = nodes_of(features, "boot", 1)
    assert home["metadata"]["name"] == node["metadata"]["name"]
    initialized = "karpenter.sh/initialized"
    cluster.until(lambda: labels(cluster.nodes("features-boot")[0]).get(initialized) == "true", "it is initialized")


def test_node_affinity(features: Scenario) -> None:
    (node,) = nodes_of(features, "picky", 1)
    assert labels(node)["karpenter.k8s.aws/instance-category"] == "r"
    assert labels(node)["kubernetes.io/arch"] == "arm64"


def test_every_node_has_room_for_its_daemons(features: Scenario) -> None:
    """The DaemonSet's pods run beside what the nodes were made for; a tainted node has none."""
    cluster = features.cluster
    homes = {n["metadata"]["name"] for n in cluster.nodes() if n["spec"].get("taints") in (None, [])}
    cluster.until(lambda: _agents(features) >= homes, "an agent runs on every node")
    assert not _agents(features) & {n["metadata"]["name"] for n in cluster.nodes("features-team")}


def test_kube_scheduler_found_room_where_the_plans_said(features: Scenario) -> None:
    """Each pod that a plan named is bound; where it went elsewhere, a fact says why, and it is printed."""
    for app, replicas in {"gpu": 1, "team": 2, "picky": 1, "zones": 3, "apart": 3, "near": 2}.items():
        features.running(app, replicas)
    placements = features.placements()
    print(*("", *filter(lambda each: each.verdict != Verdict.AS_PLANNED, placements)), sep="\n")
    assert not [str(placement) for placement in placements if placement.verdict in REFUSED]


def nodes_of(features: Scenario, app: str, replicas: int) -> list[Obj]:
    """The node of each of an app's pods, once they run."""
    homes = [bound_to(pod) for pod in features.running(app, replicas)]
    nodes = {node["metadata"]["name"]: node for node in features.cluster.all(NODES)}
    return [nodes[home] for home in homes]


def _unschedulable(features: Scenario) -> list[Obj]:
    pods = features.cluster.pods(features.namespace)
    return [pod for pod in pods if condition(pod, "PodScheduled") == "False"]


def _agents(features: Scenario) -> set[str]:
    pods = features.cluster.all(PODS, features.namespace, labelSelector="app=agent")
    return {bound_to(pod) for pod in pods if pod["status"].get("phase") == "Running"}


def _is_ready(node: Obj) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())


def _storage_class() -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _volume(name: str, zone: str, namespace: str, claimed_by: str) -> Obj:
    """A volume that was made long ago, in its zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "4Gi"},
            "claimRef": {"namespace": namespace, "name": claimed_by},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        },
    }


def _memory_optimized_arm() -> Obj:
    wanted = [
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["r"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
