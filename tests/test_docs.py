"""What the documents show is true: examples are accepted, links lead somewhere, keys exist, pages are current."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config.addons import OverprovisioningConfig
from components.config.load import parse
from components.config.reference import page
from components.documents.addons import overprovisioning_objects
from controller.core.api.v1alpha5 import V1ALPHA5

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
LATER = {"do-not-disrupt"}
"""Names of a later Karpenter, as the page on conversion has them."""
PACKAGES = ("bench", "components", "controller", "e2e", "sandbox", "scripts", "tests")
MODULES = [str(path.relative_to(ROOT)) for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def blocks() -> list[Any]:
    """Every YAML block of every page that is an object of ours or a piece of a stack file; not workflows."""
    return [
        pytest.param(document, id=f"{path.relative_to(ROOT)}-{index}-{kind(document)}")
        for path in PAGES
        for index, text in enumerate(BLOCK.findall(path.read_text()))
        for document in yaml.safe_load_all(text)
        if "jobs" not in document
    ]


def kind(document: Any) -> str:
    return document.get("kind", "stack") if isinstance(document, dict) else "other"


@pytest.mark.parametrize("document", blocks())
def test_an_example_is_accepted_by_the_rules_of_its_kind(document: dict[str, Any]) -> None:
    if document.get("kind") == "Provisioner":
        V1ALPHA5.pool.parse(document)
    elif document.get("kind") == "AWSNodeTemplate":
        V1ALPHA5.node_template.parse(document)
    else:
        keys = {name.removeprefix("nodeless:"): value for name, value in document.items()}
        assert all(name.startswith("nodeless:") for name in document), "neither a manifest of ours nor stack keys"
        parse({"cluster": {"name": "myeks"}, "controller": {"image": "registry.example/nodeless:1"}, **keys}, ROOT)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path: Path) -> None:
    for target in LINK.findall(path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    pages = {path.resolve() for path in PAGES if ROOT / "docs" in path.parents} - {index.resolve()}
    assert pages <= linked


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_placeholders_as_manifests_are_what_the_stack_makes_of_the_guides_keys() -> None:
    (block,) = BLOCK.findall((ROOT / "docs/guides/overprovisioning.md").read_text())
    config = OverprovisioningConfig(**yaml.safe_load(block)["nodeless:addons"]["overprovisioning"])
    shown = list(yaml.safe_load_all((ROOT / "docs/examples/placeholders.yaml").read_text()))
    assert shown == list(overprovisioning_objects(config, "default").values())


def test_words_that_pages_quote_are_the_products_own() -> None:
    """Annotations, metrics, settings, reasons of events, alerts, commands of make and files are there."""
    code = "\n".join(path.read_text() for part in ("controller", "components", "crds") for path in texts(ROOT / part))
    made = (ROOT / "Makefile").read_text()
    code += (ROOT / "dashboards/alerts.yaml").read_text()
    for path in PAGES:
        text = path.read_text()
        quoted = {
            *re.findall(r"karpenter(?:\.k8s\.aws|\.sh)/([a-z0-9-]+)", text),
            *re.findall(r"`((?:nodeless|karpenter)_[a-z_]+)`", text),
            *re.findall(r"`((?:aws|featureGates)\.[A-Za-z]+)`", text),
            *re.findall(r"`([A-Z][a-z]+[A-Z][A-Za-z]+)`", text),
        }
        assert {word for word in quoted if word not in code} <= LATER, path
        commands = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
        assert all(f"\n{word}:" in made for word in re.findall(r"[`\n]make ([a-z0-9-]+)", commands)), path
        for file in re.findall(
            r"(?:scripts|tests|bench|controller|sandbox|dashboards)/[\w./-]+\.(?:py|yaml|json)", text
        ):
            assert (ROOT / file).exists(), f"{path}: {file}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_that_a_page_names_is_there(path: Path) -> None:
    """By its dotted name, such as `controller.aws.launch`, or by the end of its path, as the glossary has them."""
    text = path.read_text()
    keys = page().partition("\n## controller\n")[2].partition("\n## ")[0]
    for name in re.findall(r"`((?:controller|sandbox|components|bench|e2e)(?:\.[a-z_0-9]+)+)`", text):
        place, stack_key = ROOT / name.replace(".", "/"), f"| `{name.removeprefix('controller.')}`"
        assert place.is_dir() or place.with_suffix(".py").is_file() or stack_key in keys, name
    for name in re.findall(r"`([\w/]+\.py)`", text):
        assert any(f"/{module}".endswith(f"/{name}") for module in MODULES), name


def texts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in (".py", ".yaml")]


def test_every_stack_key_that_pages_name_is_a_key_of_the_stack() -> None:
    sections = {part.partition("\n")[0]: part for part in page().split("\n## ")[1:]}
    named = [
        (path, section, member)
        for path in PAGES
        if path.parent.name != "adr"
        for section, member in re.findall(r"`([a-z][A-Za-z]+)\.([a-z][A-Za-z]+)(?:[:`])", path.read_text())
        if section in sections and member not in ("yaml", "py")
    ]
    assert len(named) > 50
    for path, section, member in named:
        assert f"`{member}" in sections[section], f"{path}: {section}.{member}"


def test_the_reference_of_kinds_and_settings_is_current() -> None:
    for name, text in runpy.run_path(str(ROOT / "scripts/api_reference.py"))["pages"]().items():
        remedy = "run: uv run python scripts/api_reference.py"
        assert (ROOT / "docs/reference" / name).read_text() == text, remedy


def test_every_test_that_the_walk_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs/captures/README.md").read_text())
    assert len(named) > 40
    assert [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []
