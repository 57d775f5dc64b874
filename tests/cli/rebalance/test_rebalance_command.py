"""`nodeless rebalance --plan`: the plan for a dump, as people and scripts read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, Run, Write, answer, provisioner

ALL = {"karpenter.sh/disruption-budgets": '[{"nodes": "100%"}]'}


@pytest.fixture
def dump(write: Write) -> str:
    """Three nodes of 4 CPU with a pod of 1 CPU each, one of which must not be evicted."""
    owner = provisioner("default", M5_XLARGE)
    owner["metadata"]["annotations"] = ALL
    held: dict[str, Any] = pod("held", "1", on="c.ec2.internal")
    held["metadata"]["annotations"] = {"karpenter.sh/do-not-evict": "true"}
    nodes = [node(name) for name in ("a", "b", "c.ec2.internal")]
    for each in nodes:
        each["metadata"]["labels"]["karpenter.sh/initialized"] = "true"
    objects = [TEMPLATE, owner, *nodes, pod("one", "1", on="a"), pod("<two>", "1", on="b"), held]
    return write({"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": objects})


def test_scripts_read_every_node_and_pod(run: Run, dump: str) -> None:
    plan = answer(run("rebalance", "--plan", "--from", dump, "-o", "json"))
    (step,) = plan["steps"]
    assert [each["node"] for each in step["removes"]] == ["a", "b"]
    assert sorted((each["pod"], each["from"], each["to"]) for each in step["moves"]) == [
        ("shop/<two>", "b", "c.ec2.internal"),
        ("shop/one", "a", "c.ec2.internal"),
    ]
    assert step["launches"] == step["waitsForPodDisruptionBudgets"] == []
    assert plan["costPerHourAfter"] == pytest.approx(plan["costPerHourBefore"] / 3, abs=1e-5)
    assert plan["stays"] == [
        {"node": "c.ec2.internal", "reason": "pod shop/held has annotation karpenter.sh/do-not-evict"},
    ]


def test_people_read_it_in_80_columns(run: Run, dump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = run("rebalance", "--plan", "--from", dump).stdout
    assert said.startswith("1 step, 2 pods moved: saves $0.")
    assert "Each step leaves every pod on a node: you may stop after any of them." in said
    assert "1 node must stay:\n  c: pod shop/held has annotation" in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_page_has_every_move_and_names_are_escaped(run: Run, dump: str, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert run("rebalance", "--plan", "--from", dump, "--html", str(page)).exit_code == 0
    text = page.read_text()
    assert "shop/&lt;two&gt;" in text
    assert "<two>" not in text
    assert "default-src 'none'" in text


def test_where_the_fleet_is_near_enough_there_is_nothing_to_do(run: Run, dump: str) -> None:
    plan = answer(run("rebalance", "--plan", "--within", "1000", "--from", dump, "-o", "json"))
    assert (plan["steps"], plan["podsMoved"], plan["savedPerMonth"]) == ([], 0, 0)
    said = run("rebalance", "--plan", "--within", "1000", "--from", dump).stdout
    assert said.startswith("Nothing to do: $")
    assert "no cheaper fleet" not in said, "none was looked for"


def test_a_fleet_far_above_the_bound_without_a_cheaper_one_is_said_to_have_none(run: Run, write: Write) -> None:
    """One small pod on the only type of node: a share of one would be cheaper."""
    objects = [TEMPLATE, provisioner("default", M5_XLARGE), node("a"), pod("small", "100m", on="a")]
    dump = write({"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": objects})
    said = " ".join(run("rebalance", "--plan", "--from", dump).stdout.split())
    assert said.startswith("Nothing to do: $")
    assert "above the lower bound, and no cheaper fleet was found" in said


def test_a_cluster_without_nodes_has_nothing_to_do(run: Run, write: Write) -> None:
    assert run("rebalance", "--plan", "--from", write(TEMPLATE)).stdout == "Nothing to do: no node is a Provisioner's\n"


def test_a_plan_that_cannot_be_read_is_misuse(run: Run) -> None:
    result = run("rebalance", "--apply", "/nowhere/plan.json")
    assert result.exit_code == 2
    assert "/nowhere/plan.json: cannot be read: No such file or directory; give what `nodeless" in result.stderr


def test_the_word_plan_is_asked_for(run: Run, dump: str) -> None:
    result = run("rebalance", "--from", dump)
    assert result.exit_code == 2
    assert "--plan" in result.stderr
