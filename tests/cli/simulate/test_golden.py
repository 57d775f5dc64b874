"""What people see of simulate, view, explain and check is as it was looked at: a change shows in a golden file."""

from __future__ import annotations

import pytest

from tests.cli.golden_files import GOLDEN, pages


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", sorted(each.name for each in GOLDEN.iterdir()))
def test_a_page_is_as_it_was_looked_at(drawn: dict[str, str], name: str) -> None:
    """`uv run python -m tests.cli.golden_files` writes them anew."""
    assert drawn[name] == (GOLDEN / name).read_text()


def test_every_page_has_its_file(drawn: dict[str, str]) -> None:
    assert set(drawn) == {each.name for each in GOLDEN.iterdir()}
