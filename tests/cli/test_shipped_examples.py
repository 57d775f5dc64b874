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
STACKS = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
FLEETS: dict[str, tuple[str, ...]] = {
    **{path.name: (str(path),) for path in STACKS},
    **{path.name: (TEMPLATE, str(path)) for path in sorted(EXAMPLES.glob("provisioner-*.yaml"))},
}
GUIDES = tuple(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "\nkind: Provisioner\n" in path.read_text()
)
"""Every page that shows a Provisioner as a manifest."""
GPU_GUIDE = "docs/guides/gpu.md"
WORKLOADS = ("inflate.yaml", "zones.yaml", "placeholders.yaml")


def fleet(name: str, write: Write) -> tuple[str, ...]:
    """The files of an example; what a page shows as manifests becomes one, beside the template if it shows none."""
    if name not in GUIDES:
        return FLEETS[name]
    blocks = re.findall(r"^```yaml\n(apiVersion.*?)^```", (ROOT / name).read_text(), re.M | re.S)
    documents = [document for block in blocks for document in yaml.safe_load_all(block)]
    more = () if any(each["kind"] == "AWSNodeTemplate" for each in documents) else (TEMPLATE,)
    return (*more, write(*documents))


def gpu_workload() -> dict[str, Any]:
    """Two pods with a GPU each, which tolerate the GPU Provisioner's taint."""
    trainer = deployment("trainer", 2, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    trainer["spec"]["template"]["spec"]["containers"] = [container("2", "8Gi", **{"nvidia.com/gpu": "1"})]
    trainer["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    return trainer


@pytest.fixture
def few_types() -> None:
    """All types, as users have them."""


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
    if name == GPU_GUIDE:
        workload: tuple[str, ...] = (write(gpu_workload(), name="gpu.yaml"), "--region", "ap-northeast-2")
    elif name == "Pulumi.zones.yaml":
        workload = (str(EXAMPLES / "zones.yaml"),)
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
    if name == "Pulumi.zones.yaml":
        kept = {each["service"]: each["kept"] for each in report["services"]}
        assert kept == {"default/web": True, "default/web-close": True}
    if name in (GPU_GUIDE, "Pulumi.prod.yaml"):
        assert {"shop/trainer-0", "shop/trainer-1"} <= pods
        types = {node["instanceType"] for node in report["nodes"] if node["provisioner"] == "gpu"}
        assert types
        assert all(each.split(".")[0] in ("g4dn", "g5", "g6") for each in types)


def test_the_pages_with_provisioners_are_found() -> None:
    assert {GPU_GUIDE, "docs/guides/first-provisioner.md", "docs/guides/spot.md", "docs/guides/zones.md"} <= set(GUIDES)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_example_of_a_workload_is_placed(name: str, run: Run) -> None:
    replicas = ("--replicas", "default/inflate=5") if name == "inflate.yaml" else ()
    nodes = (TEMPLATE, str(EXAMPLES / "provisioner-categories.yaml"))
    result = run("simulate", *nodes, str(EXAMPLES / name), *replicas, "--budget", "0", "-o", "json")
    assert result.exit_code == 0, result.output
    assert any(node["pods"] for node in answer(result)["nodes"])


def test_no_example_is_left_out() -> None:
    fleets = [Path(file).name for files in FLEETS.values() for file in files]
    assert {path.name for path in EXAMPLES.iterdir()} == {*WORKLOADS, *fleets} - {each.name for each in STACKS}
