"""The guides' Provisioners, unchanged, each with the pods that it is for; inflate 0 → 5 → 0."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import yaml

from e2e.cluster import labels
from e2e.placement import bound_to
from e2e.scenario import Scenario
from e2e.workloads import deployment
from sandbox.demo.story import EXAMPLES
from sandbox.world.resources import EVENTS, Obj

GPU = yaml.safe_load("""
requirements:
- {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
- {key: node.kubernetes.io/instance-type, operator: In, values: [p2.xlarge, p3.2xlarge, p3.8xlarge, p3.16xlarge]}
- {key: kubernetes.io/arch, operator: In, values: [nvidia, amd64]}
limits: {resources: {cpu: 1000, memory: 1000Gi, nvidia.com/gpu: 10}}
ttlSecondsAfterEmpty: 30
""")


def example(name: str) -> Obj:
    """The spec of one of docs/examples."""
    spec: Obj = yaml.safe_load((EXAMPLES / name).read_text())["spec"]
    return spec


def is_spot(node: Obj) -> bool:
    return labels(node)["karpenter.sh/capacity-type"] == "spot"


def is_category(node: Obj) -> bool:
    own = labels(node)
    return (
        own["karpenter.sh/capacity-type"] == "on-demand"
        and own["karpenter.k8s.aws/instance-category"] in "cmr"
        and int(own["karpenter.k8s.aws/instance-generation"]) > 2
    )


@pytest.mark.parametrize(
    ("spec", "as_asked"),
    [
        pytest.param(example("provisioner-spot.yaml"), is_spot, id="spot"),
        pytest.param(example("provisioner-categories.yaml"), is_category, id="categories"),
    ],
)
def test_guide(world: Scenario, spec: Obj, as_asked: Callable[[Obj], bool]) -> None:
    """Pods come up on nodes as the guide's Provisioner asks for them."""
    world.provisioner(**spec)
    world.deploy(deployment("app", 2))
    pods = world.running("app", 2)
    nodes = world.cluster.nodes(world.namespace)
    assert {bound_to(pod) for pod in pods} == {node["metadata"]["name"] for node in nodes}
    assert all(map(as_asked, nodes)), [labels(node) for node in nodes]


def test_guide_gpu(world: Scenario) -> None:
    """`nvidia` is no architecture and does no harm; EC2 has retired p2 and p3 here, and the pod is told so. With a type
    added that is on offer, the pod gets its GPU."""
    world.provisioner(**GPU)
    world.deploy(deployment("notebook", 1, requests={"nvidia.com/gpu": "1"}))
    told = "no instance type on offer meets node.kubernetes.io/instance-type In [p2.xlarge"
    world.cluster.until(lambda: told in str(world.cluster.all(EVENTS, world.namespace)), "the pod is told why it waits")
    more = copy.deepcopy(GPU)
    more["requirements"][1]["values"].append("g4dn.xlarge")
    world.provisioner(**more)
    world.running("notebook", 1)
    (node,) = world.cluster.nodes(world.namespace)
    assert is_spot(node)
    assert labels(node)["node.kubernetes.io/instance-type"] == "g4dn.xlarge"


def test_inflate_zero_five_zero(world: Scenario) -> None:
    """Nodes come for pods that wait, and go when they have stood empty; the Provisioner counts what it has."""
    world.provisioner(**example("provisioner-spot.yaml") | {"ttlSecondsAfterEmpty": 3})
    world.deploy(deployment("inflate", 0))
    cluster = world.cluster
    assert cluster.nodes(world.namespace) == []
    world.scale("deployment/inflate", 5)
    world.running("inflate", 5)
    nodes = cluster.nodes(world.namespace)
    assert len(cluster.instances()) == len(nodes)
    cluster.until(lambda: _initialized(cluster.nodes(world.namespace)), "the nodes are initialized")
    row = cluster.until(lambda: _row(cluster.kubectl("get", "provisioner", world.namespace, "--no-headers")), "the CPU")
    assert int(row) >= 5
    world.scale("deployment/inflate", 0)
    cluster.until(lambda: not cluster.nodes(world.namespace), "the empty nodes go")
    cluster.until(lambda: not cluster.instances(), "their instances are terminated")


def _initialized(nodes: list[Obj]) -> bool:
    return all(labels(node).get("karpenter.sh/initialized") == "true" for node in nodes)


def _row(line: str) -> str:
    """The CPU of a Provisioner's nodes, as `kubectl get` has it: the fourth column."""
    cells = line.split()
    return cells[3] if cells[3].isdigit() and int(cells[3]) > 0 else ""
