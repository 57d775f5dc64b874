"""Pulumi.yaml and the reference page say what the program reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
import yaml

from components.config.keys import key_fields, plain
from components.config.reference import page, project_file
from components.config.schema import StackConfig
from tests.components.stacks import ROOT, STACKS, raw_config

REMEDY = "run: uv run python scripts/stack_reference.py"


def test_the_project_file_is_the_one_that_the_declarations_make() -> None:
    assert (ROOT / "Pulumi.yaml").read_text() == project_file(), REMEDY


def test_the_reference_page_is_the_one_that_the_declarations_make() -> None:
    assert (ROOT / "docs/reference/stack-config.md").read_text() == page(), REMEDY


def test_the_project_follows_pulumis_conventions() -> None:
    project = yaml.safe_load(project_file())
    assert project["runtime"]["options"]["toolchain"] == "uv"
    assert project["stackConfigDir"] == "stacks"
    assert "config" not in project, "the engine would refuse one type at a time, before we say all that is wrong"


@pytest.mark.parametrize("name", STACKS)
def test_stack_files_use_keys_that_are_declared(name: str) -> None:
    ours = {key.removeprefix("nodeless:") for key in raw_config(name) if key.startswith("nodeless:")}
    assert ours <= {each.name for each in key_fields(StackConfig)}


def _docs(cls: Any) -> Iterator[tuple[str, str]]:
    for each in key_fields(cls):
        yield each.name, each.rule.doc
        hint = plain(each.hint)
        member = get_args(hint)[0] if get_origin(hint) is tuple else hint
        if dataclasses.is_dataclass(member):
            yield from _docs(member)


def test_every_key_has_a_description_that_is_a_sentence_and_a_row_in_the_page() -> None:
    text = page()
    for name, doc in _docs(StackConfig):
        assert doc[0].isupper() or doc[0] == "`" or doc.startswith("kube-proxy"), name
        assert doc.endswith("."), name
        assert name in text
