"""Flags and environment: Karpenter v0.27's names and defaults, all problems at once, nothing ignored in silence."""

from __future__ import annotations

import dataclasses

import pytest
from click.testing import CliRunner

from controller.cli.main import main
from controller.errors import ValidationError
from controller.operator.options import Options, version_of, without_effect

NAMESPACE = {"SYSTEM_NAMESPACE": "karpenter"}
WITH_FLAG = {
    "KARPENTER_SERVICE": ("karpenter_service", "", "web", "web"),
    "DISABLE_WEBHOOK": ("disable_webhook", False, "true", True),
    "WEBHOOK_PORT": ("webhook_port", 8443, "1", 1),
    "METRICS_PORT": ("metrics_port", 8080, "2", 2),
    "HEALTH_PROBE_PORT": ("health_probe_port", 8081, "3", 3),
    "KUBE_CLIENT_QPS": ("kube_client_qps", 200, "4", 4),
    "KUBE_CLIENT_BURST": ("kube_client_burst", 300, "5", 5),
    "ENABLE_PROFILING": ("enable_profiling", False, "true", True),
    "LEADER_ELECT": ("leader_elect", True, "false", False),
    "MEMORY_LIMIT": ("memory_limit_bytes", -1, "1073741824", 2**30),
}
"""What is read from flags and environment, by v0.27's names: field, default, a text and its meaning."""
WITHOUT_FLAG = {
    "KUBERNETES_MIN_VERSION": ("kubernetes_min_version", "1.21", "1.19.0-0", "1.19.0-0"),
    "CONFIG_LOGGING_NAME": ("config_logging_name", "config-logging", "levels", "levels"),
    "DECISIONS_TOKEN": ("decisions_token", "", "secret", "secret"),
    "POD_NAME": ("pod_name", "", "karpenter-0", "karpenter-0"),
}


@pytest.mark.parametrize("variable", [*WITH_FLAG, *WITHOUT_FLAG])
def test_each_option_of_karpenter_is_read_and_has_its_default(variable: str) -> None:
    field, default, text, value = {**WITH_FLAG, **WITHOUT_FLAG}[variable]
    assert getattr(Options.parse(NAMESPACE), field) == default
    assert getattr(Options.parse({**NAMESPACE, variable: text}), field) == value


@pytest.mark.parametrize("variable", WITH_FLAG)
def test_each_flag_is_in_the_help_with_variable_and_default(variable: str) -> None:
    field, default, text, value = WITH_FLAG[variable]
    flag = variable.lower().replace("_", "-")
    assert getattr(Options.parse(NAMESPACE, {flag: text}), field) == value
    said = " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())
    assert f"--{flag} " in said
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    assert f"[env: {variable}{', ' if shown else ''}{shown}]" in said


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options.parse(NAMESPACE).webhook_port = 1  # type: ignore[misc]


def test_variables_of_karpenter_without_effect_are_reported_with_what_to_use_instead() -> None:
    ignored = without_effect({**NAMESPACE, "METRICS_PROMETHEUS_PORT": "9090", "PROFILING_PORT": "8008", "PATH": "/bin"})
    assert set(ignored) == {"METRICS_PROMETHEUS_PORT", "PROFILING_PORT"}
    assert "METRICS_PORT" in ignored["METRICS_PROMETHEUS_PORT"]
    assert without_effect(NAMESPACE) == {}


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1.27.3-eks-a5565ad", (1, 27, 3)), ("1.21", (1, 21, 0)), ("v1.34.0+k3s1", (1, 34, 0)), ("1.19.0-0", (1, 19, 0))],
)
def test_versions_are_read(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


def test_a_flag_wins_over_the_environment() -> None:
    environment = {"SYSTEM_NAMESPACE": "x", "METRICS_PORT": "1", "LEADER_ELECT": "false", "PATH": "/bin"}
    options = Options.parse(environment, {"metrics-port": "2", "disable-webhook": "true"})
    assert (options.metrics_port, options.leader_elect, options.disable_webhook) == (2, False, True)


def test_an_unreadable_variable_is_refused_and_never_replaced_by_the_default() -> None:
    environment = {
        "METRICS_PORT": "x",
        "WEBHOOK_PORT": "70000",
        "KUBE_CLIENT_QPS": "0",
        "LEADER_ELECT": "maybe",
        "MEMORY_LIMIT": "1Gi",
        "KUBERNETES_MIN_VERSION": "new",
    }
    with pytest.raises(ValidationError) as caught:
        Options.parse(environment, {"metrics-prt": "1"})
    assert {problem.path for problem in caught.value.problems} == {*environment, "SYSTEM_NAMESPACE", "--metrics-prt"}
    assert "did you mean 'metrics-port'?" in str(caught.value)
