"""`nodeless help`: the documentation's pages in a terminal, from the checkout or from the wheel."""

from __future__ import annotations

import re
import tomllib

import pytest

from controller.cli.help import pages
from controller.cli.main import VERBS
from tests.cli.conftest import Run
from tests.components.stacks import ROOT


def test_every_page_for_users_is_a_topic_and_every_command_of_the_list_has_one(run: Run) -> None:
    listed = run("help", env={"COLUMNS": "200"}).stdout
    topics = pages.topics()
    assert set(VERBS) - {"help"} <= set(topics)
    folders = [*("commands", "guides", "reference"), ""]
    files = [path.stem for folder in folders for path in (ROOT / "docs" / folder).glob("*.md") if path.stem != "README"]
    assert sorted(files) == sorted(topics), "two pages of one name would be one topic"
    assert all(topics.values())
    for name, title in topics.items():
        assert re.search(rf"^{re.escape(name)} +{re.escape(title)}", listed, re.MULTILINE), name


def test_the_wheel_carries_every_page() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["sources"] == {"docs": "controller/docs"}
    packed = {path for path in wheel["only-include"] if path.startswith("docs/")}
    alone = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if path.stem != "README"}
    assert packed == {"docs/commands", "docs/guides", "docs/reference"} | alone


@pytest.mark.parametrize("columns", ["60", "100"])
def test_a_page_fits_the_terminal_and_leads_to_no_file(run: Run, columns: str) -> None:
    shown = run("help", "simulate", env={"COLUMNS": columns}).stdout
    assert "which nodes a workload would get" in " ".join(shown.split()).lower()
    assert max(map(len, shown.splitlines())) <= int(columns)
    assert not re.search(r"\.md|\.svg|!\[", shown)


def test_a_section_is_found_by_a_part_of_its_heading(run: Run) -> None:
    shown = run("help", "runbooks", "podswait").stdout
    assert shown.startswith("NodelessPodsWait")
    assert "NodelessNobodyLeads" not in shown


def test_a_wrong_topic_or_section_is_told_with_the_nearest(run: Run) -> None:
    wrong = run("help", "explian")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "explian: is no topic; did you mean 'explain'?" in wrong.stderr
    section = run("help", "runbooks", "NodelessPodWaits")
    assert section.exit_code == 2
    assert "did you mean 'NodelessPodsWait'?" in section.stderr
