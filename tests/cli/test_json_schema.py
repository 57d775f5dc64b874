"""What the commands print with `-o json` is what docs/reference/output.schema.json says, in one case style."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from controller.core.deprovisioning.rebalance.approval import APPROVAL_ANNOTATION, Approval, write_approval
from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, Run, Write, answer, deployment, provisioner
from tests.components.stacks import ROOT

REFERENCE = runpy.run_path(str(ROOT / "scripts/output_reference.py"))
DEFINITIONS: dict[str, Any] = REFERENCE["DEFINITIONS"]
SPOT = ("karpenter.sh/capacity-type", "In", ["spot", "on-demand"])


def faults(name: str, document: Any) -> list[str]:
    """Where a document is not what the definition says."""
    validator = Draft202012Validator({**REFERENCE["schema"](), "$ref": f"#/$defs/{name}"})
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(document)]


@pytest.fixture
def dump(write: Write) -> str:
    """A node that may go and one that holds, a pod that waits and one that cannot."""
    owner = provisioner("default", M5_XLARGE, SPOT, limits={"resources": {"cpu": "100"}})
    owner["metadata"]["annotations"] = {"karpenter.sh/disruption-budgets": '[{"nodes": "100%"}]'}
    nodes = [node(name) for name in ("a", "b")]
    for each in nodes:
        each["metadata"]["labels"]["karpenter.sh/initialized"] = "true"
    approval = Approval("p", 0.0, 1, 1, 1, frozenset(), 0.1, 0.1, stopped="enough")
    nodes[1]["metadata"]["annotations"] = {APPROVAL_ANNOTATION: write_approval(approval)}
    objects = [TEMPLATE, owner, *nodes, pod("one", "1", on="a"), pod("two", "1", on="b"), pod("huge", "500")]
    return write(
        {"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": [*objects, pod("next", "3500m")]},
        name="dump.yaml",
    )


def documents(run: Run, write: Write, dump: str, kubeconfig: str) -> Iterator[tuple[str, Any]]:
    """The definition's name and a real document, for each command."""
    files = write(
        TEMPLATE, provisioner("default", M5_XLARGE, SPOT), deployment(replicas=7), deployment("huge", cpu="500")
    )
    before = write(TEMPLATE, provisioner("default", M5_XLARGE), name="before.yaml")
    for name, arguments in (
        ("simulation", ("simulate", files, "--gap", "--budget", "0")),
        ("simulation", ("simulate", dump, "--budget", "0")),
        ("comparison", ("simulate", files, "--compare", before, "--budget", "0")),
        ("rebalance", ("rebalance", "--plan", "--from", dump)),
        ("approvals", ("rebalance", "--status", "--from", dump)),
        ("explanation", ("explain", "pod", "shop/huge", "--from", dump)),
        ("explanation", ("explain", "node", "a", "--from", dump)),
        ("explanation", ("explain", "provisioner", "default", "--from", dump)),
        ("view", ("view", "--from", dump)),
        ("costs", ("cost", "--from", dump)),
        ("findings", ("check", "--kubeconfig", kubeconfig, "--skip-aws")),
    ):
        yield name, answer(run(*arguments, "-o", "json"))


def test_every_command_prints_what_the_schema_says(run: Run, write: Write, dump: str, kubeconfig: str) -> None:
    seen = set()
    for name, document in documents(run, write, dump, kubeconfig):
        assert faults(name, document) == []
        seen.add(name)
        if name == "simulation":
            assert document["nodes"], "a plan"
            assert document["unplaced"], "and a pod without a place"
        if name == "approvals":
            assert document["plans"][0]["left"]
        if name == "rebalance":
            assert document["steps"]
        if name == "explanation":
            assert all(
                re.fullmatch(r"[a-z][A-Za-z0-9]*", key) for part in ("facts", "reasons") for key in document[part]
            )
    assert seen == set(REFERENCE["COMMANDS"].values())


def test_members_are_in_camel_case_and_a_wrong_document_is_told() -> None:
    names = {name for each in DEFINITIONS.values() for name in each["properties"]}
    assert {name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name)} == set()
    assert faults("unplaced", {"pod": "a/b"}) == ["$: 'reason' is a required property"]
    assert faults("unplaced", {"pod": "a/b", "reason": "", "in_snake": 1})
    assert faults("summary", {"pods": "many"})


def test_the_reference_of_json_is_current() -> None:
    for name, text in (("output.md", REFERENCE["page"]()), ("output.schema.json", REFERENCE["schema_text"]())):
        assert (ROOT / "docs/reference" / name).read_text() == text, "run: uv run python scripts/output_reference.py"
