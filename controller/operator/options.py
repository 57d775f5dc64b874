"""The process's own options: flags and environment, by Karpenter v0.27's names and with its defaults.

Where the peer takes a value that it cannot read for its default, in silence, we refuse it with a remedy; and a variable
of the peer's that has no effect here is told, with what does it instead. Nothing here reads the environment: mappings
come in, frozen values go out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.core.api.strict import Report, did_you_mean
from controller.errors import ValidationError
from controller.settings import boolean, integer, positive, read_key

_WITHOUT_EFFECT: Final = {
    "METRICS_PROMETHEUS_PORT": "all metrics are on METRICS_PORT",
    "PROFILING_PORT": "with ENABLE_PROFILING, /debug/stacks is on METRICS_PORT",
}
"""The peer reads these too, by the library that it is built on."""


@dataclass(frozen=True, slots=True)
class Options:
    """Flags and environment of the process; a flag wins over the environment."""

    system_namespace: str
    """SYSTEM_NAMESPACE, required: where the ConfigMaps, the Lease and the certificate's Secret are."""
    karpenter_service: str = ""
    """KARPENTER_SERVICE, --karpenter-service: the webhook's Service; its certificate is in the Secret SERVICE-cert."""
    disable_webhook: bool = False
    """DISABLE_WEBHOOK, --disable-webhook: serve no admission webhooks."""
    webhook_port: int = 8443
    """WEBHOOK_PORT, --webhook-port."""
    metrics_port: int = 8080
    """METRICS_PORT, --metrics-port: /metrics; 0 is a free one."""
    health_probe_port: int = 8081
    """HEALTH_PROBE_PORT, --health-probe-port: /healthz and /readyz; 0 is a free one."""
    kube_client_qps: int = 200
    """KUBE_CLIENT_QPS, --kube-client-qps: requests a second to the API server, on average."""
    kube_client_burst: int = 300
    """KUBE_CLIENT_BURST, --kube-client-burst: requests at once."""
    enable_profiling: bool = False
    """ENABLE_PROFILING, --enable-profiling: serve /debug/stacks on the metrics port."""
    leader_elect: bool = True
    """LEADER_ELECT, --leader-elect: act only while holding the Lease `karpenter-leader-election`."""
    memory_limit_bytes: int = -1
    """MEMORY_LIMIT, --memory-limit: the container's limit in bytes; from 90 % of it on, garbage is collected at once,
    and that it is near is said. -1: unknown."""
    kubernetes_min_version: str = "1.21"
    """KUBERNETES_MIN_VERSION: an older API server is refused at the start; 1.21 is the first with `policy/v1`, by which
    pods are evicted."""
    config_logging_name: str = "config-logging"
    """CONFIG_LOGGING_NAME: the ConfigMap of log levels."""
    pod_name: str = ""
    """POD_NAME: the identity in the Lease and the logs."""

    @classmethod
    def parse(cls, environment: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Options:
        """From the environment and flags (by name, without dashes in front). Other variables are not looked at.

        Raises ValidationError with all problems: a value that cannot be read never becomes the default in silence.
        """
        report = Report()
        given = dict(flags or {})
        known = {_flag(variable) for variable, _ in _OPTIONS.values()}
        for flag in given:
            if flag not in known:
                report.add(f"--{flag}", "unknown flag", did_you_mean(flag, known))
        values: dict[str, Any] = {}
        for name, (variable, read) in _OPTIONS.items():
            flag = _flag(variable)
            place, text = (f"--{flag}", given[flag]) if flag in given else (variable, environment.get(variable, ""))
            if text != "" and (value := read_key(report, place, text, read)) is not None:
                values[name] = value
        if "system_namespace" not in values:
            report.add("SYSTEM_NAMESPACE", "is missing", "set it to the namespace that the controller runs in")
        if report.problems:
            raise ValidationError("Options", report.problems)
        return cls(**values)


def _flag(variable: str) -> str:
    return variable.lower().replace("_", "-")


def _port(text: str) -> int:
    number = integer(text)
    if not 0 <= number <= 65_535:
        raise ValueError(f"{text!r} is not a port: write a number from 0 to 65535")
    return number


def version_of(text: str) -> tuple[int, ...]:
    """Major, minor and patch of a version such as v1.27.3-eks-a5565ad. Raises ValueError."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?![\d.])", text)
    if found is None:
        raise ValueError(f"{text!r} is not a version: write 1.27, say")
    return tuple(int(part or 0) for part in found.groups())


def without_effect(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of the peer's that are set, and do nothing here: what does instead."""
    return {name: why for name, why in _WITHOUT_EFFECT.items() if name in environment}


def _version(text: str) -> str:
    version_of(text)
    return text


_OPTIONS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "system_namespace": ("SYSTEM_NAMESPACE", str),
    "karpenter_service": ("KARPENTER_SERVICE", str),
    "disable_webhook": ("DISABLE_WEBHOOK", boolean),
    "webhook_port": ("WEBHOOK_PORT", _port),
    "metrics_port": ("METRICS_PORT", _port),
    "health_probe_port": ("HEALTH_PROBE_PORT", _port),
    "kube_client_qps": ("KUBE_CLIENT_QPS", positive),
    "kube_client_burst": ("KUBE_CLIENT_BURST", positive),
    "enable_profiling": ("ENABLE_PROFILING", boolean),
    "leader_elect": ("LEADER_ELECT", boolean),
    "memory_limit_bytes": ("MEMORY_LIMIT", integer),
    "kubernetes_min_version": ("KUBERNETES_MIN_VERSION", _version),
    "config_logging_name": ("CONFIG_LOGGING_NAME", str),
    "pod_name": ("POD_NAME", str),
}
"""Environment variable and reader of each field; the flag is the variable in lower case with dashes."""
