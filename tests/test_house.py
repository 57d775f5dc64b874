"""Structure of the code base: few modules a folder, unique names, and no reference that resolves nowhere."""

from __future__ import annotations

import re
import runpy
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("house")  # one worker reads the files
ROOT = Path(__file__).parents[1]
PACKAGES = ("bench", "components", "controller", "e2e", "sandbox", "scripts", "tests")
MOST_MODULES_A_FOLDER = 20
MOST_LOOSE_MODULES = 4
MOST_TEST_LINES = 500
PARALLEL = frozenset({"__init__", "command", "events"})
"""Basenames that rooms alike may share: a verb's `command.py`, a reconciler's `events.py`."""
UNRESOLVABLE = {
    r"\bthe peer\b|\bpeer's\b|\bpeers'": 'write out "Karpenter v0.27" or "Karpenter 1.14"',
    r"\bsheet \d": "name the public source of the rule",
    r"\b(?:rules?|checklist|ids?) [A-Z]{1,2}\d+\b|\(R\d+(?: to R\d+|, R\d+)*\)": "say the rule in words",
}
"""What no reader can look up, as a pattern, and what to write instead."""


def python_files(*packages: str) -> Iterator[Path]:
    """The modules of these packages, and nothing that a run left behind."""
    for package in packages:
        yield from (path for path in sorted((ROOT / package).rglob("*.py")) if "__pycache__" not in path.parts)


@cache
def prose() -> Mapping[str, str]:
    """Text of everything that people read, by path: modules, pages, workflows and the files at the top."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    readable = (".py", ".md", ".yaml", ".yml", ".toml", ".json", ".go")
    paths = [ROOT / name for name in listed.splitlines()]
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for path in paths
        if path.suffix in readable and path.name != "uv.lock" and path != Path(__file__) and path.exists()
    }


def test_a_folder_holds_few_modules() -> None:
    modules = Counter(path.parent for path in python_files(*PACKAGES) if path.stem != "__init__")
    crowded = {str(folder.relative_to(ROOT)): n for folder, n in modules.items() if n > MOST_MODULES_A_FOLDER}
    assert not crowded, f"more than {MOST_MODULES_A_FOLDER} modules; make rooms whose names tell what is inside"


def test_few_modules_of_the_controller_stand_outside_a_room() -> None:
    loose = [path.name for path in (ROOT / "controller").glob("*.py")]
    assert len(loose) <= MOST_LOOSE_MODULES, loose


def test_a_module_of_the_controller_is_found_by_its_name_alone() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in python_files("controller"):
        if path.stem not in PARALLEL:
            places[path.stem].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def test_a_test_file_is_short_enough_to_read() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in python_files("tests", "e2e")}
    assert not {name: lines for name, lines in lengths.items() if lines > MOST_TEST_LINES}


@pytest.mark.parametrize("pattern", UNRESOLVABLE)
def test_no_reference_resolves_nowhere(pattern: str) -> None:
    places = [
        f"{path}:{number}: {line.strip()}"
        for path, text in prose().items()
        if re.search(pattern, text)
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not places, UNRESOLVABLE[pattern]


def test_every_invariant_that_is_cited_stands_in_the_architecture() -> None:
    invariants = (ROOT / "ARCHITECTURE.md").read_text().partition("## Invariants")[2]
    listed = {int(number) for number in re.findall(r"^(\d+)\. ", invariants, re.MULTILINE)}
    assert listed
    cited = {
        f"{path}: invariant {number}"
        for path, text in prose().items()
        for number in re.findall(r"\binvariants? (\d+)\b", text)
        if int(number) not in listed
    }
    assert not cited


def test_the_architecture_shows_the_import_graph_as_it_is() -> None:
    drawn = runpy.run_path(str(ROOT / "scripts" / "architecture.py"))
    page = (ROOT / "ARCHITECTURE.md").read_text()
    remedy = "uv run python scripts/architecture.py writes it anew"
    assert drawn["page"](page) == page, remedy
    for path, content in drawn["pictures"]().items():
        assert path.read_text() == content, remedy
