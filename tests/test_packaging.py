"""What the wheel says it is."""

from __future__ import annotations

import tomllib
from importlib import import_module

from tests.test_docs import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_command_is_a_kubectl_plugin_too_and_the_package_has_types() -> None:
    assert set(PROJECT["scripts"]) == {"nodeless", "kubectl-nodeless"}
    for target in PROJECT["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "controller/py.typed").exists()


def test_the_version_is_one() -> None:
    assert PROJECT["version"] == import_module("controller").__version__
