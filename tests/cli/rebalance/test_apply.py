"""`nodeless rebalance --apply`, `--status` and `--undo` on a cluster: what is written on nodes, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.core.deprovisioning.rebalance.approval import APPROVAL_ANNOTATION
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    PROVISIONERS,
)
from sandbox.apiserver import serve
from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, Run, answer, provisioner
from tests.cli.rebalance.test_rebalance_command import ALL
from tests.product_crds import product_crds

Nodeless = Callable[..., Any]


@pytest.fixture
def location(tmp_path: Path) -> Iterator[str]:
    """The kubeconfig of a cluster with three nodes of 4 CPU, a pod of 1 CPU on each."""
    path = tmp_path / "kubeconfig"
    with serve(kubeconfig=path):
        kube = KubeClient(connect(str(path)))
        for definition in product_crds():
            kube.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        owner = provisioner("default", M5_XLARGE)
        owner["metadata"]["annotations"] = ALL
        kube.create(AWS_NODE_TEMPLATES, TEMPLATE)
        kube.create(PROVISIONERS, owner)
        kube.create(NAMESPACES, {"metadata": {"name": "shop"}})
        for name in ("a", "b", "c"):
            made = node(name)
            kube.create(NODES, made)
            kube.patch(NODES, name, {"status": made["status"]}, subresource="status")
            add_pod(kube, f"on-{name}", name)
        yield str(path)


@pytest.fixture
def kube(location: str) -> KubeClient:
    return KubeClient(connect(location))


@pytest.fixture
def nodeless(run: Run, location: str) -> Nodeless:
    return lambda *arguments: run("rebalance", *arguments, "--kubeconfig", location)


@pytest.fixture
def plan(nodeless: Nodeless, tmp_path: Path) -> str:
    """The plan as a script keeps it, in a file: two nodes go."""
    path = tmp_path / "plan.json"
    path.write_text(nodeless("--plan", "-o", "json").stdout)
    return str(path)


def add_pod(kube: KubeClient, name: str, on: str) -> None:
    made = pod(name, "1", on)
    kube.create(PODS, made, "shop")
    kube.patch(PODS, name, {"status": made["status"]}, namespace="shop", subresource="status")


def going(plan: str) -> list[str]:
    steps = json.loads(Path(plan).read_text())["steps"]
    return sorted(each["node"] for step in steps for each in step["removes"])


def cordoned(kube: KubeClient) -> list[str]:
    return sorted(str(each["metadata"]["name"]) for each in kube.list(NODES) if each["spec"].get("unschedulable"))


def test_an_approved_plan_is_written_on_its_nodes_and_taken_back(
    run: Run, location: str, nodeless: Nodeless, kube: KubeClient, plan: str
) -> None:
    names = going(plan)
    assert len(names) == 2
    result = nodeless("--apply", plan)
    assert result.exit_code == 0, result.stderr
    assert "2 nodes in 1 step" in result.stdout
    assert cordoned(kube) == names
    (status,) = answer(nodeless("--status", "-o", "json"))["plans"]
    assert (status["nodes"], status["gone"], status["steps"]) == (2, 0, 1)
    assert [(each["node"], each["state"]) for each in status["left"]] == [(name, "waits") for name in names]
    assert "step 1 of 1: 2 nodes: waits" in nodeless("--status").stdout
    explained = run("explain", "node", names[0], "--kubeconfig", location).stdout
    assert "rebalance: goes by step 1 of 1 of the approved plan" in explained
    again = nodeless("--apply", plan)
    assert again.exit_code == 1
    assert "is under way" in again.stderr
    assert nodeless("--undo").stdout == "2 nodes given back\n"
    assert cordoned(kube) == []
    assert "2 nodes: stays: it was taken back" in nodeless("--status").stdout
    assert nodeless("--undo").stdout == "0 nodes given back\n"
    assert nodeless("--apply", plan).exit_code == 0, "what was taken back may be approved anew"


def test_a_plan_is_refused_as_a_whole_when_a_node_has_another_pod(
    nodeless: Nodeless, kube: KubeClient, plan: str
) -> None:
    add_pod(kube, "late", going(plan)[0])
    result = nodeless("--apply", plan)
    assert result.exit_code == 1
    assert f"node {going(plan)[0]} has other pods: shop/late" in result.stderr
    assert cordoned(kube) == []


def test_undo_leaves_the_cordon_of_a_node_that_was_cordoned_before_and_takes_off_what_cannot_be_read(
    nodeless: Nodeless, kube: KubeClient, plan: str
) -> None:
    first, second = going(plan)
    kube.patch(NODES, first, {"spec": {"unschedulable": True}})
    assert nodeless("--apply", plan).exit_code == 0
    kube.patch(NODES, second, {"metadata": {"annotations": {APPROVAL_ANNOTATION: "{"}}})
    nodeless("--undo")
    assert cordoned(kube) == [first]
    assert APPROVAL_ANNOTATION not in kube.get(NODES, second)["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "is not a JSON object"),
        ("{}", "is no plan"),
        ('{"version": 1}', "'steps'"),
        ('{"version": 2}', "later nodeless"),
        ('{"steps": [{"removes": [1]}], "version": 1}', "is no plan"),
        ('{"steps": [{"removes": [{"pods": []}], "savedPerHour": "1"}], "version": 1}', "is not a number"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(run: Run, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    result = run("rebalance", "--apply", str(path))
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_dump_is_not_rebalanced(run: Run) -> None:
    result = run("rebalance", "--undo", "--from", "dump.json")
    assert result.exit_code == 2
    assert "--from is a dump" in result.stderr
