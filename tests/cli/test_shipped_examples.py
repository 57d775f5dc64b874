"""Every stack, example and manifest of the guides: `check` finds nothing wrong, `simulate` places its workloads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from controller.cli.check.check_cluster import ClusterCheck
from controller.cli.check.findings import Level
from controller.cli.inputs.files import read_files
from controller.cli.inputs.scenario import cluster_of
from controller.cli.inputs.stack_file import stack_objects
from controller.core.api.strict import Report
from controller.kube.client import KubeClient
from tests.cli.conftest import Run, Write, answer, container, deployment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
TEMPLATE = str(EXAMPLES / "awsnodetemplate.yaml")
FLEETS: dict[str, tuple[str, ...]] = {
    **{path.name: (str(path),) for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))},
    **{path.name: (TEMPLATE, str(path)) for path in sorted(EXAMPLES.glob("provisioner-*.yaml"))},
}
GUIDES = ("first-provisioner.md", "gpu.md")


def fleet(name: str, write: Write) -> tuple[str, ...]:
    """The files of an example; the objects that a guide shows as manifests become one."""
    if name not in GUIDES:
        return FLEETS[name]
    blocks = re.findall(r"^```yaml\n(apiVersion.*?)^```", (ROOT / "docs/guides" / name).read_text(), re.M | re.S)
    return (write(*(document for block in blocks for document in yaml.safe_load_all(block))),)


def gpu_workload() -> dict[str, Any]:
    """Two pods with a GPU each, which tolerate the GPU Provisioner's taint."""
    trainer = deployment("trainer", 2, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    trainer["spec"]["template"]["spec"]["containers"] = [container("2", "8Gi", **{"nvidia.com/gpu": "1"})]
    trainer["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    return trainer


class Untouched:
    """A cluster whose controller has written no condition yet."""

    def list(self, *_: object) -> tuple[()]:
        return ()


@pytest.mark.parametrize("name", [*FLEETS, *GUIDES])
def test_check_finds_nothing_wrong_and_nodes_are_of_al2023(name: str, write: Write) -> None:
    report = Report()
    located = read_files(fleet(name, write), report)
    if name.startswith("Pulumi."):
        located = tuple(stack_objects(located[0], report))
    cluster, _ = cluster_of(located)
    assert not report.problems
    snapshot = cluster.snapshot()
    findings = [*ClusterCheck(cast("KubeClient", Untouched()), snapshot, "karpenter", 0.0).objects()]
    assert findings
    assert [each for each in findings if each.level is not Level.OK] == []
    for template in snapshot.node_templates.values():
        assert template.ami_family == "AL2023"


@pytest.mark.parametrize("name", [*FLEETS, *GUIDES])
def test_simulate_places_its_workloads(name: str, run: Run, write: Write) -> None:
    if name == "gpu.md":
        workload: tuple[str, ...] = (write(gpu_workload(), name="gpu.yaml"), "--region", "ap-northeast-2")
    elif name.startswith("Pulumi."):
        more = (write(gpu_workload(), name="gpu.yaml"),) if "prod" in name else ()
        workload = (str(ROOT / "stacks/workloads/fleet.yaml"), *more)
    else:
        workload = (str(EXAMPLES / "inflate.yaml"), "--replicas", "default/inflate=5")
    result = run("simulate", *fleet(name, write), *workload, "--budget", "0", "-o", "json")
    assert result.exit_code == 0, result.output
    report = answer(result)
    pods = {pod for node in report["nodes"] for pod in node["pods"]}
    assert pods
    if name.startswith("Pulumi."):
        assert all(node["zone"].startswith("ap-northeast-2") for node in report["nodes"])
    if name in ("gpu.md", "Pulumi.prod.yaml"):
        assert {"shop/trainer-0", "shop/trainer-1"} <= pods
        types = {node["instanceType"] for node in report["nodes"] if node["provisioner"] == "gpu"}
        assert types
        assert all(each.split(".")[0] in ("g4dn", "g5", "g6") for each in types)
