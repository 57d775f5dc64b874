"""Syntax trees of the program's sources, for tests that hold documents, roles and names against the code."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READS_SOURCES = pytest.mark.xdist_group("sources")
"""Of all workers one parses the sources: the one that runs the tests with this mark."""


@cache
def syntax_trees(package: str) -> Mapping[Path, ast.Module]:
    """Each module of a package at the top of the repository, by its absolute path, sorted."""
    return {path: ast.parse(path.read_text(), str(path)) for path in sorted((ROOT / package).rglob("*.py"))}
