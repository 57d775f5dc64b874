"""The process's own options: flags and environment, by Karpenter v0.27's names and with its defaults.

Where v0.27 silently replaces an unreadable value by the default, it is refused here with a remedy; a variable of
v0.27's that has no effect here is reported, with what to use instead. Nothing here reads the environment: mappings in,
frozen values out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from controller.core.api.settings.readers import Reader, boolean, integer, positive
from controller.core.api.strict import Report, did_you_mean
from controller.errors import ValidationError

_WITHOUT_EFFECT: Final = {
    "METRICS_PROMETHEUS_PORT": "all metrics are on METRICS_PORT",
    "PROFILING_PORT": "with ENABLE_PROFILING, /debug/stacks is on METRICS_PORT",
}
"""Variables that v0.27 reads through the library that it is built on."""


@dataclass(frozen=True, slots=True)
class Option:
    """One environment variable; the flag of the same name is in lower case with dashes."""

    variable: str
    read: Reader
    doc: str
    has_flag: bool = True
    """`nodeless run` takes it as a flag too."""

    @property
    def flag(self) -> str:
        """The flag, without leading dashes."""
        return self.variable.lower().replace("_", "-")


def _option(variable: str, read: Reader, default: Any, *, doc: str, flag: bool = True) -> Any:
    return field(default=default, metadata={"option": Option(variable, read, doc, flag)})


def _port(text: str) -> int:
    number = integer(text)
    if not 0 <= number <= 65_535:
        raise ValueError(f"{text!r} is not a port: write a number from 0 to 65535")
    return number


def _version(text: str) -> str:
    version_of(text)
    return text


def version_of(text: str) -> tuple[int, ...]:
    """Major, minor and patch of a version such as v1.27.3-eks-a5565ad. Raises ValueError."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?![\d.])", text)
    if match is None:
        raise ValueError(f"{text!r} is not a version: write 1.27, say")
    return tuple(int(part or 0) for part in match.groups())


@dataclass(frozen=True, slots=True)
class Options:
    """Flags and environment of the process; a flag wins over the environment."""

    # fmt: off
    system_namespace: str = field(metadata={"option": Option("SYSTEM_NAMESPACE", str,
        "Namespace of the ConfigMaps, the Lease and the certificate's Secret.", has_flag=False)})
    karpenter_service: str = _option("KARPENTER_SERVICE", str, "",
        doc="The webhook's Service; its certificate is in the Secret SERVICE-cert.")
    disable_webhook: bool = _option("DISABLE_WEBHOOK", boolean, False, doc="Serve no admission webhooks.")
    webhook_port: int = _option("WEBHOOK_PORT", _port, 8443, doc="Port of the admission webhooks.")
    metrics_port: int = _option("METRICS_PORT", _port, 8080, doc="Port of /metrics; 0: a free one.")
    health_probe_port: int = _option("HEALTH_PROBE_PORT", _port, 8081,
        doc="Port of /healthz and /readyz; 0: a free one.")
    kube_client_qps: int = _option("KUBE_CLIENT_QPS", positive, 200,
        doc="Requests a second to the API server, on average.")
    kube_client_burst: int = _option("KUBE_CLIENT_BURST", positive, 300, doc="Requests to the API server at once.")
    enable_profiling: bool = _option("ENABLE_PROFILING", boolean, False,
        doc="Serve /debug/stacks on the metrics port.")
    leader_elect: bool = _option("LEADER_ELECT", boolean, True,
        doc="Act only while holding the Lease `karpenter-leader-election`.")
    memory_limit_bytes: int = _option("MEMORY_LIMIT", integer, -1,
        doc="The container's memory limit in bytes; from 90 % of it on, garbage is collected at once and a warning is "
            "logged. -1: unknown.")
    kubernetes_min_version: str = _option("KUBERNETES_MIN_VERSION", _version, "1.21", flag=False,
        doc="An older API server is refused at the start; 1.21 is the first with `policy/v1`, for evictions.")
    config_logging_name: str = _option("CONFIG_LOGGING_NAME", str, "config-logging", flag=False,
        doc="ConfigMap of log levels.")
    pod_name: str = _option("POD_NAME", str, "", flag=False, doc="Identity in the Lease and the logs.")
    decisions_token: str = _option("DECISIONS_TOKEN", str, "", flag=False,
        doc="Who sends it (`Authorization: Bearer`) sees /decisions and /debug/stacks; empty: only those on loopback "
            "do, as with `kubectl port-forward`. Take it from a Secret.")
    # fmt: on

    @classmethod
    def parse(cls, environment: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Options:
        """Parse the environment and flags (by name, without leading dashes). Other variables are ignored.

        Raises ValidationError with all problems: an unreadable value is never replaced by the default.
        """
        report = Report()
        given = dict(flags or {})
        options: dict[str, Option] = {each.name: each.metadata["option"] for each in fields(cls)}
        known = {option.flag for option in options.values()}
        for flag in given:
            if flag not in known:
                report.add(f"--{flag}", "unknown flag", did_you_mean(flag, known))
        values: dict[str, Any] = {}
        for name, option in options.items():
            place, text = option.variable, environment.get(option.variable, "")
            if option.flag in given:
                place, text = f"--{option.flag}", given[option.flag]
            if text != "" and (value := report.read(place, text, option.read)) is not None:
                values[name] = value
        if "system_namespace" not in values:
            report.add("SYSTEM_NAMESPACE", "is missing", "set it to the namespace that the controller runs in")
        if report.problems:
            raise ValidationError("Options", report.problems)
        return cls(**values)


def without_effect(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of Karpenter v0.27 that are set but have no effect here, and what to use instead."""
    return {name: why for name, why in _WITHOUT_EFFECT.items() if name in environment}
