"""Topology hints: kube-controller-manager's own, on nodes that were launched for pods spread over zones."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial

from click.testing import CliRunner

from controller.cli.main import main
from e2e.cluster import Cluster, is_running
from e2e.placement import bound_to
from e2e.scenario import Scenario, provisioner, zone_of
from e2e.workloads import budget, deployment, spread
from sandbox.world.resources import EVENTS, NODES, Obj, Resource

ENDPOINT_SLICES = Resource("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", namespaced=True)
KEPT = "gets hints: its traffic stays in its zones"
ZONE, ONE_ZONE = "topology.kubernetes.io/zone", "ap-northeast-2a"
CPUS = "karpenter.k8s.aws/instance-cpu"


def test_hints_come_with_even_zones_and_go_with_one_that_has_most_of_the_cpu(world: Scenario) -> None:
    """`nodeless explain service` says at each step what kube-controller-manager does."""
    cluster = world.cluster
    world.provisioner(requirements=[{"key": CPUS, "operator": "In", "values": ["4"]}], labels={"nodes": "even"})
    evenly = {"topologySpreadConstraints": [spread("web", ZONE)], "nodeSelector": {"nodes": "even"}}
    world.deploy(deployment("web", 8, cpu="1500m", **evenly), _service("web"))
    pods = world.running("web", 8)
    assert Counter(_zone(cluster, pod) for pod in pods) == dict.fromkeys({_zone(cluster, pod) for pod in pods}, 2)
    cluster.until(partial(_hinted_for_own_zone, world, 8), "every endpoint has a hint for its own zone")
    cluster.until(lambda: "TopologyAwareHintsEnabled" in _reasons(world), "its event says so")
    assert _explained(world)["verdict"] == KEPT

    large = [{"key": CPUS, "operator": "In", "values": ["48"]}, {"key": ZONE, "operator": "In", "values": [ONE_ZONE]}]
    world.provisioner("large", requirements=large, labels={"nodes": "large"}, ttlSecondsAfterEmpty=1)
    world.deploy(deployment("batch", 1, cpu="30", nodeSelector={"nodes": "large"}))
    world.running("batch", 1)
    cluster.until(lambda: not any(_hints(world)), "no endpoint has a hint")
    explained = _explained(world)
    assert explained["verdict"].startswith("gets no hints: Unable to allocate minimum required endpoints to each zone")
    assert explained["reasons"]["whatWouldHelp"][0].startswith("run ")

    world.scale("deployment/batch", 0)
    cluster.until(lambda: not cluster.nodes("large"), "the empty node is gone")
    assert "kubectl annotate service" in _explained(world)["reasons"]["whatWouldHelp"][0]
    cluster.kubectl("annotate", "service", "web", "--namespace", world.namespace, "looked-at=now")
    cluster.until(partial(_hinted_for_own_zone, world, 8), "every endpoint has its hint again")


def test_nodes_that_were_pulled_into_one_zone_are_moved_until_the_aim_is_met_and_hints_come(world: Scenario) -> None:
    """One node after the other, while a PodDisruptionBudget lets one pod go at a time."""
    cluster, zones = world.cluster, [f"{ONE_ZONE[:-1]}{letter}" for letter in "abc"]
    _balanced(world, zones, {"karpenter.sh/zone-max-share": "1"})
    pods = deployment("web", 12, cpu="1500m", nodeSelector={"nodes": "pulled"})
    world.deploy(pods, budget("web", maxUnavailable=1), _service("web"))
    assert len({_zone(cluster, pod) for pod in world.running("web", 12)}) == 1, "on demand costs the same in all zones"
    assert _explained(world)["verdict"] != KEPT

    budgets = {"karpenter.sh/disruption-budgets": '[{"nodes": "100%"}]', "karpenter.sh/zone-premium": "0.5"}
    often = {"karpenter.sh/zone-max-share": "0.67", "karpenter.sh/zone-move-interval": "1s"}
    _balanced(world, zones, {**budgets, **often})
    cluster.until(partial(_aim_met, world), "of six nodes no more than four stand in a zone", 240.0)
    assert {event["reason"] for event in cluster.all(EVENTS, "default")} >= {"DeprovisioningLaunching"}
    world.running("web", 12)
    cluster.kubectl("annotate", "service", "web", "--namespace", world.namespace, "looked-at=now")
    cluster.until(partial(_hinted_for_own_zone, world, 12), "every endpoint has a hint for its own zone")
    assert _explained(world)["verdict"] == KEPT


def _balanced(world: Scenario, zones: list[str], annotations: dict[str, str]) -> None:
    """Apply the scenario's Provisioner with these annotations."""
    requirements = [{"key": CPUS, "operator": "In", "values": ["4"]}, {"key": ZONE, "operator": "In", "values": zones}]
    spec = {"requirements": requirements, "labels": {"nodes": "pulled"}, "consolidation": {"enabled": True}}
    asked = provisioner(world.namespace, {"providerRef": {"name": "default"}, "weight": 50, **spec})
    asked["metadata"]["annotations"] = annotations
    world.cluster.apply(asked)


def _aim_met(world: Scenario) -> bool:
    """Whether two moves are done. Raises AssertionError once fewer pods are Ready than the budget asks for."""
    assert sum(map(is_running, world.cluster.pods(world.namespace, "web"))) >= 11
    nodes = Counter(map(zone_of, world.cluster.nodes(world.namespace)))
    return (len(nodes), nodes.total(), max(nodes.values())) == (3, 6, 4)


def _service(name: str) -> Obj:
    annotations = {"service.kubernetes.io/topology-mode": "Auto"}
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


def _zone(cluster: Cluster, pod: Obj) -> str:
    node = cluster.get(NODES, bound_to(pod))
    assert node is not None
    return zone_of(node)


def _endpoints(world: Scenario) -> list[Obj]:
    slices = world.cluster.all(ENDPOINT_SLICES, world.namespace, labelSelector="kubernetes.io/service-name=web")
    return [endpoint for each in slices for endpoint in each["endpoints"]]


def _hints(world: Scenario) -> list[list[str]]:
    """The zones that each endpoint is hinted for."""
    return [[zone["name"] for zone in each.get("hints", {}).get("forZones", [])] for each in _endpoints(world)]


def _hinted_for_own_zone(world: Scenario, count: int) -> bool:
    own = [[each["zone"]] for each in _endpoints(world)]
    return len(own) == count and _hints(world) == own


def _reasons(world: Scenario) -> set[str]:
    events = world.cluster.all(EVENTS, world.namespace, fieldSelector="involvedObject.kind=Service")
    return {each["reason"] for each in events}


def _explained(world: Scenario) -> Obj:
    asked = ["explain", "service", f"{world.namespace}/web", "--kubeconfig", str(world.cluster.plane.kubeconfig)]
    done = CliRunner().invoke(main, [*asked, "-o", "json"], catch_exceptions=False)
    explained: Obj = json.loads(done.stdout)
    return explained
