"""The benchmark's table: problems solved in processes of their own, beside Karpenter 1.14 and another solver."""

from __future__ import annotations

import gzip
import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.generate import DEPLOYMENTS, FIELD_NODES, FIELD_PODS, FIELD_POOLS, deployments, field
from bench.problems import arrange, decode, posed
from bench.report import COLUMNS, KarpenterFigures, Line, growth, lines, markdown
from controller.core.api.parse import parse_pod
from controller.core.provisioning import SolveOptions, solve
from tests.core.provisioning.plans import judged


def written(folder: Path, name: str, document: object) -> Path:
    path = folder / f"{name}.json.gz"
    path.write_bytes(gzip.compress(orjson.dumps(document), 1))
    return path


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """One small problem, solved beside another solver that says what it took; and its file is what that one got."""
    folder = tmp_path_factory.mktemp("problems")
    path = written(folder, "tiny-100", deployments(100, 1))
    other = folder / "other.py"
    other.write_text("import json, sys; print(json.dumps({'seconds': 0.25 if sys.argv[1].endswith('gz') else 9}))")
    results = {"tiny-100": {"peer": {"seconds_min": 10.0, "price_median": 1.0, "nodes": 7, "not_placed": 3}}}
    (line,) = lines(folder, results, 0.0, f"{sys.executable} {other}")
    assert path.exists()
    return line


def test_figures_of_karpenter_are_read_as_the_shared_results_have_them() -> None:
    first = {"price_median": 10.0, "nodes": 4, "not_placed": 300, "seconds_min": 2.0}
    assert KarpenterFigures.of({"lower_bound_price": 6.4, "peer": first}) == KarpenterFigures(10.0, 2.0, 4, 300)
    of_all = {"price": 16.0, "nodes": 9, "rounds": 3}
    assert KarpenterFigures.of({"peer": first, "peer_all_rounds": of_all}) == KarpenterFigures(10.0, 2.0, 4, 300, 16.0)
    assert KarpenterFigures.of({"lower_bound_price": 6.4}) is None


@pytest.mark.parametrize("command", ["all", "prices"])
def test_the_former_name_of_the_option_for_karpenters_figures_still_works_and_no_help_shows_it(
    command: str, tmp_path: Path
) -> None:
    results = tmp_path / "peer-results.json"
    results.write_text("{}")
    for option in ("--karpenter", "--peer"):
        answer = CliRunner().invoke(main, [command, str(tmp_path), option, str(results), "--into", str(tmp_path / "x")])
        assert answer.exit_code == 0, answer.output
    assert "peer" not in CliRunner().invoke(main, [command, "--help"]).output


def test_another_solver_is_timed_on_the_same_file(tried: Line) -> None:
    assert tried.other_seconds == 0.25
    assert tried.cells()[-1] == "0.250"


def test_a_line_has_a_cell_for_each_column_and_says_how_much_faster_than_karpenter(tried: Line) -> None:
    cells = dict(zip([*COLUMNS, "against s"], tried.cells(), strict=True))
    assert cells["problem"] == "tiny-100"
    assert float(cells["× Karpenter"]) == pytest.approx(10.0 / tried.ours["cpuSeconds"], rel=0.1)
    assert float(cells["MB"]) > 10
    assert tried.ours["solveSeconds"] < tried.ours["cpuSeconds"]
    assert tried.ours["pods"] == 100


def test_the_table_for_documents_has_every_line_and_the_growth(tried: Line) -> None:
    larger = Line(
        "tiny-1000", {**tried.ours, "pods": 1000, "cpuSeconds": 4 * tried.ours["cpuSeconds"]}, other_seconds=1.0
    )
    text = markdown([tried, larger], other=True)
    rows = [row for row in text.splitlines() if row.startswith("| ")]
    assert [row.split("|")[1].strip() for row in rows] == ["problem", "---", "tiny-100", "tiny-1000"]
    assert list(growth([tried, larger])) == ["tiny: 10 × the pods take 4.0 × the time, 1.0 × without reading them"]


def test_the_field_case_is_what_it_says() -> None:
    """The smallest EC2 catalog counts 700 types in three zones and two capacity types."""
    document = field(1)
    waiting = [pod for pod in document["pods"] if "nodeName" not in pod["spec"]]
    sizes = len(waiting), len(document["nodes"]), len(document["nodePools"])
    assert sizes == (FIELD_PODS, FIELD_NODES, FIELD_POOLS)
    assert len(document["instanceTypes"]) >= 700
    assert all(len(kind["offerings"]) == 6 for kind in document["instanceTypes"])


def test_a_small_field_is_planned_soundly_and_whole() -> None:
    problem = posed(*arrange(decode(field(1, pods_waiting=240, nodes_standing=40))))
    plan = solve(problem, SolveOptions(budget_seconds=0.0))
    judged(plan, problem)
    assert plan.unplaced == ()
    assert plan.new_nodes
    assert plan.existing


def test_pods_read_together_are_planned_as_pods_read_alone() -> None:
    """Whatever their order."""
    document = deployments(300, 1)
    problem, options = posed(*arrange(decode(document))), SolveOptions(budget_seconds=0.0)
    alone = tuple(map(parse_pod, reversed(document["pods"])))
    assert solve(problem, options) == solve(replace(problem, pending=alone), options)


def test_deployments_have_equal_replicas_and_the_seed_decides() -> None:
    problem = posed(*arrange(decode(deployments(300, 1))))
    assert len({pod.spec for pod in problem.pending}) <= DEPLOYMENTS
    assert {len([p for p in problem.pending if p.labels["app"] == f"app-{n:03}"]) for n in range(DEPLOYMENTS)} == {3}
    assert deployments(300, 1) == deployments(300, 1) != deployments(300, 2)
