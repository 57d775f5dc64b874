"""The command: help, version, and refusals that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog
from click.testing import CliRunner

import controller
from controller.cli.main import main


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets up logging for its process; this one goes on to other tests."""
    yield
    structlog.reset_defaults()


def test_version() -> None:
    assert CliRunner().invoke(main, ["version"]).output == f"nodeless {controller.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["run", "-h"]])
def test_help_needs_nothing(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_every_bad_option_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SYSTEM_NAMESPACE", raising=False)
    result = CliRunner().invoke(main, ["run", "--kube-client-qps", "many", "--leader-elect", "perhaps"])
    assert result.exit_code == 2
    assert "--kube-client-qps" in result.output
    assert "--leader-elect" in result.output
    assert "SYSTEM_NAMESPACE: is missing" in result.output


def test_without_any_kubernetes_configuration_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SYSTEM_NAMESPACE": "karpenter", "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(main, ["run", "--kubeconfig", "/nowhere/kubeconfig"])
    assert result.exit_code != 0
    assert "/nowhere/kubeconfig" in result.output


def test_a_variable_that_does_nothing_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICS_PROMETHEUS_PORT", "9090")
    result = CliRunner().invoke(main, ["run", "--kubeconfig", "/nowhere/kubeconfig", "--log-format", "json"])
    told = json.loads(result.output.splitlines()[0])
    assert (told["level"], told["message"]) == ("WARNING", "Variable has no effect")
    assert told["variable"] == "METRICS_PROMETHEUS_PORT"
