"""A new version of the controller takes over from an old one in the middle of its work, and is taken back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster import Cluster
from e2e.earlier import COMMIT, earlier_sources
from e2e.scenario import Scenario
from e2e.workloads import deployment
from sandbox.environment import NAMESPACE
from sandbox.world.resources import NODES, Obj, Resource

CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap", namespaced=True)
COMMAND = "karpenter.sh/deprovisioning-command"
LEADER_SECONDS = 60.0
SETTINGS = "karpenter-global-settings"
SETTINGS_TABLE = "controller/core/api/settings/settings_table.py"


def test_an_upgrade_and_its_rollback_with_pods_pending_and_a_removal_half_done(world: Scenario, tmp_path: Path) -> None:
    """old, new, old: pods run, the removal that one began ends, no other node leaves."""
    sources = earlier_sources(tmp_path)
    if sources is None:
        pytest.skip(f"this clone has no commit {COMMIT}: a full one is needed")
    cluster = world.cluster
    fours = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]}
    world.provisioner(requirements=[fours])  # a pod of 3 CPUs fills a node
    late = {"key": "late", "effect": "NoSchedule"}  # pods that wait do not take the room of a replacement
    world.provisioner("late", labels={"pool": "late"}, taints=[late])
    settings = cluster.get(CONFIG_MAPS, SETTINGS, NAMESPACE)
    assert settings is not None
    try:
        _roll_out(cluster, sources, settings)
        for number, version in enumerate((None, sources)):
            steady, moved = f"steady-{number}", f"moved-{number}"
            world.deploy(deployment(steady, 1, cpu="3"), deployment(moved, 1, cpu="3"))
            staying, leaving = (_node_of(world, app) for app in (steady, moved))
            kept = {node["metadata"]["uid"] for node in cluster.nodes()} - {leaving["metadata"]["uid"]}
            cluster.kubectl("annotate", "node", _name(leaving), "karpenter.sh/voluntary-disruption=expired")
            cluster.until(partial(_on_record, cluster, leaving), "the removal has begun")
            there_only: Obj = {"nodeSelector": {"pool": "late"}, "tolerations": [{**late, "operator": "Exists"}]}
            waits = deployment(f"pending-{number}", 3, **there_only)
            world.deploy(waits)
            _roll_out(cluster, version, settings)
            world.running(f"pending-{number}", 3)
            cluster.until(partial(cluster.has_left, leaving), "the removal has ended")
            world.running(moved, 1)
            there = {node["metadata"]["uid"] for node in cluster.nodes()}
            assert kept <= there, "no node leaves because the controller is another"
            assert staying["metadata"]["uid"] in there
            assert not [node for node in cluster.nodes() if _on_record(cluster, node)], "no command is left over"
            cluster.until(lambda: len(cluster.instances()) == len(cluster.nodes()), "every instance is a node")
    finally:
        _roll_out(cluster, None, settings)


def _roll_out(cluster: Cluster, sources: Path | None, settings: Obj) -> None:
    """Replace both replicas, with the settings of their stack, and wait until they lead or stand by.

    The earlier controller does not start with keys that it does not know; its own stack did not write them.
    """
    known = "" if sources is None else (sources / SETTINGS_TABLE).read_text()
    data = {key: value if sources is None or f'"{key}"' in known else None for key, value in settings["data"].items()}
    patch = json.dumps({"data": data})
    cluster.kubectl("patch", "configmap", SETTINGS, "--namespace", NAMESPACE, "--type=merge", "--patch", patch)
    logged = cluster.replicas.mark()
    cluster.replicas.roll_out(sources)
    cluster.until(lambda: _ready(cluster, logged), "one of the new replicas leads, the other stands by", LEADER_SECONDS)


def _ready(cluster: Cluster, logged: dict[str, int]) -> bool:
    """Both have read their settings: the next ones may be written."""
    said = {message: {line["replica"] for line in cluster.replicas.lines(logged) if line["message"] == message}
            for message in ("Acts", "Standing by: another process leads")}  # fmt: skip
    acts, stands_by = said.values()
    return bool(acts) and len(acts | stands_by) == len(cluster.replicas.by_name)


def _node_of(world: Scenario, app: str) -> Obj:
    (pod,) = world.running(app, 1)
    node = world.cluster.get(NODES, pod["spec"]["nodeName"])
    assert node is not None
    return node


def _name(node: Obj) -> str:
    return str(node["metadata"]["name"])


def _on_record(cluster: Cluster, node: Obj) -> bool:
    """Whether the node is gone or has a command on record."""
    there = cluster.get(NODES, _name(node))
    return there is None or cluster.has_left(node) or COMMAND in (there["metadata"].get("annotations") or {})
