"""What the documents show is true: examples are accepted, links lead somewhere, keys exist, pages are current."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config.load import parse
from components.config.reference import page
from controller.core.api.nodetemplate_rules import parse_node_template
from controller.core.api.provisioner_rules import parse_provisioner

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def blocks() -> list[Any]:
    """Every YAML block of every page that is an object of ours or a piece of a stack file."""
    return [
        pytest.param(document, id=f"{path.relative_to(ROOT)}-{index}-{kind(document)}")
        for path in PAGES
        for index, text in enumerate(BLOCK.findall(path.read_text()))
        for document in yaml.safe_load_all(text)
    ]


def kind(document: Any) -> str:
    return document.get("kind", "stack") if isinstance(document, dict) else "other"


@pytest.mark.parametrize("document", blocks())
def test_an_example_is_accepted_by_the_rules_of_its_kind(document: dict[str, Any]) -> None:
    if document.get("kind") == "Provisioner":
        parse_provisioner(document)
    elif document.get("kind") == "AWSNodeTemplate":
        parse_node_template(document)
    else:
        keys = {name.removeprefix("nodeless:"): value for name, value in document.items()}
        assert all(name.startswith("nodeless:") for name in document), "neither a manifest of ours nor stack keys"
        parse({"cluster": {"name": "myeks"}, "controller": {"image": "registry.example/nodeless:1"}, **keys}, ROOT)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path: Path) -> None:
    for target in LINK.findall(path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_key_of_the_guides_table_is_a_key_of_the_stack() -> None:
    reference = page()
    text = (ROOT / "docs/guides/by-hand.md").read_text()
    keys = {key for key in re.findall(r"`([a-z][A-Za-z]+\.[a-z][A-Za-z]+)`", text) if not key.endswith(".yaml")}
    assert len(keys) > 25
    for key in keys:
        section, member = key.split(".")
        assert f"`{member}`" in reference.split(f"\n## {section}\n")[1].split("\n## ")[0], key


def test_the_reference_of_kinds_and_settings_is_current() -> None:
    for name, text in runpy.run_path(str(ROOT / "scripts/api_reference.py"))["pages"]().items():
        remedy = "run: uv run python scripts/api_reference.py"
        assert (ROOT / "docs/reference" / name).read_text() == text, remedy
