"""Starting while others are not there yet: what does not answer is waited for, and that is said once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from controller.errors import CloudError, KubeError, NotFoundError, Problem, ValidationError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS
from controller.operator.options import version_of
from controller.runtime.clock import Clock
from controller.runtime.loops import BackoffTimes
from controller.settings import CONFIG_MAP, Settings

T = TypeVar("T")

SETTINGS_POLL_SECONDS = 0.5
"""The peer's interval while the ConfigMap does not exist."""

_log = structlog.get_logger("startup")


def wait_for_settings(kube: KubeClient, namespace: str, clock: Clock, stop: threading.Event) -> Settings | None:
    """The settings once their ConfigMap exists; None when `stop` comes first. Raises ValidationError."""
    said = False
    while not stop.is_set():
        found = until_it_works(lambda: _config_map(kube, namespace), "Kubernetes", clock, stop)
        if found:
            return Settings.parse(found[0])
        if found is not None and not said:
            _log.warning("Waits for the settings", config_map=f"{namespace}/{CONFIG_MAP}")
            said = True
        clock.wait(stop, SETTINGS_POLL_SECONDS)
    return None


def refuse_old_kubernetes(kube: KubeClient, least: str, clock: Clock, stop: threading.Event) -> None:
    """Wait for the API server, and raise ValidationError when it is older than `least`."""
    found = until_it_works(kube.version, "Kubernetes", clock, stop)
    if found is None:
        return
    version = str(found.get("gitVersion", ""))
    try:
        old = version_of(version) < version_of(least)
    except ValueError as error:
        _log.warning("Version of the API server is not known; going on", because=str(error))
        return
    if old:
        message = f"the API server is {version}, and {least} is the least"
        problem = Problem("KUBERNETES_MIN_VERSION", message, "upgrade the cluster, or set a lower version")
        raise ValidationError("Options", [problem])


def _config_map(kube: KubeClient, namespace: str) -> Sequence[dict[str, str]]:
    """Its data in a list of one; an empty list when there is no such ConfigMap."""
    try:
        return [kube.get(CONFIG_MAPS, CONFIG_MAP, namespace).get("data") or {}]
    except NotFoundError:
        return []


def until_it_works(
    ask: Callable[[], T], what: str, clock: Clock, stop: threading.Event, backoff: BackoffTimes | None = None
) -> T | None:
    """Ask until there is an answer; None when `stop` is set before. An outage is said once, and its end."""
    backoff = backoff or BackoffTimes(0.5, 10.0)
    failures, said = 0, ""
    while not stop.is_set():
        try:
            answer = ask()
        except (KubeError, CloudError) as error:
            failures += 1
            if (kind := type(error).__name__) != said:
                _log.warning("No answer as it should be; trying again", of=what, error=f"{kind}: {error}")
                said = kind
            clock.wait(stop, backoff.delay_seconds(failures))
        else:
            if failures:
                _log.info("Answers again", of=what, failures=failures)
            return answer
    return None
