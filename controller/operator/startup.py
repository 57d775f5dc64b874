"""Wait at start-up for the API server, the settings and AWS, and log that once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import structlog

from controller.core.api.settings.settings_table import SETTINGS
from controller.errors import CloudError, ForbiddenError, KubeError, NotFoundError, Problem, ValidationError
from controller.kube.client import KubeClient
from controller.kube.config_maps import read_config_map
from controller.kube.resources import POD_OWNERS, Resource
from controller.kube.served_devices import served_devices
from controller.operator.options import version_of
from controller.runtime.clock import Clock
from controller.runtime.loops import BackoffTimes
from controller.settings import CONFIG_MAP, Settings

T = TypeVar("T")

SETTINGS_POLL_SECONDS = 0.5
"""Between two reads of the ConfigMap, as in Karpenter v0.27."""
NO_OBJECT = "metadata.name=-"
"""Selects nothing: the list fails if the kind is missing or may not be listed."""

_log = structlog.get_logger("startup")


def wait_for_settings(kube: KubeClient, namespace: str, clock: Clock, stop: threading.Event) -> Settings | None:
    """Wait for the settings' ConfigMap and parse it; None when `stop` is set before. Raises ValidationError.

    Keys that this version does not know do not keep it from starting: a later version's stack may have written them,
    before the controller was rolled back. They are ignored, and reported as long as they stand there
    (`operator.configuration`).
    """
    logged = False
    while not stop.is_set():
        document = wait_for_answer(lambda: read_config_map(kube, namespace, CONFIG_MAP), "Kubernetes", clock, stop)
        if document:
            return _parsed(document.get("data") or {}, f"{namespace}/{CONFIG_MAP}")
        if document is not None and not logged:
            _log.warning("Waits for the settings", config_map=f"{namespace}/{CONFIG_MAP}")
            logged = True
        clock.wait(stop, SETTINGS_POLL_SECONDS)
    return None


def _parsed(data: Mapping[str, str], config_map: str) -> Settings:
    try:
        return Settings.parse(data)
    except ValidationError:
        known = {key: value for key, value in data.items() if key in SETTINGS}
        try:
            settings = Settings.parse(known)
        except ValidationError:
            settings = None
        if settings is None:
            raise  # with the unknown keys, so that all problems are reported at once
    text = "Settings that this version does not know are ignored"
    _log.warning(text, config_map=config_map, keys=sorted(data.keys() - known.keys()))
    return settings


def refuse_old_kubernetes(kube: KubeClient, least: str, clock: Clock, stop: threading.Event) -> None:
    """Wait for the API server, and raise ValidationError when it is older than `least`."""
    answer = wait_for_answer(kube.version, "Kubernetes", clock, stop)
    if answer is None:
        return
    version = str(answer.get("gitVersion", ""))
    try:
        old = version_of(version) < version_of(least)
    except ValueError as error:
        _log.warning("Version of the API server is not known; going on", because=str(error))
        return
    if old:
        message = f"the API server is {version}, and {least} is the least"
        problem = Problem("KUBERNETES_MIN_VERSION", message, "upgrade the cluster, or set a lower version")
        raise ValidationError("Options", [problem])


def device_kinds(kube: KubeClient) -> tuple[Resource, ...]:
    """Return the kinds of DRA to watch: all, or none if one is missing or may not be listed.

    A watch that never gets its first list would keep the controller from acting. Raises KubeError if the server does
    not respond.
    """
    return _listable(kube, served_devices(kube), "Resource claims are not read: pods that have some get no node")


def owner_kinds(kube: KubeClient, settings: Settings) -> tuple[Resource, ...]:
    """Return the kinds to watch for the setting `planAheadOwners`: all, or none if one may not be listed.

    Raises KubeError if the server does not respond.
    """
    kinds = POD_OWNERS if settings.plan_ahead_owners else ()
    return _listable(kube, kinds, "Pods to come are not planned for: planAheadOwners needs rights")


def _listable(kube: KubeClient, kinds: tuple[Resource, ...], warning: str) -> tuple[Resource, ...]:
    """These kinds; none, and a warning, when one is missing or may not be listed."""
    try:
        for resource in kinds:
            kube.list(resource, field_selector=NO_OBJECT)
    except (ForbiddenError, NotFoundError) as error:
        _log.warning(warning, error=str(error))
        return ()
    return kinds


def wait_for_answer(
    ask: Callable[[], T], what: str, clock: Clock, stop: threading.Event, backoff: BackoffTimes | None = None
) -> T | None:
    """Call `ask` until it raises no KubeError or CloudError; None when `stop` is set before.

    A failure is logged once for each kind of error, and the recovery once.
    """
    backoff = backoff or BackoffTimes(0.5, 10.0)
    failures, logged = 0, ""
    while not stop.is_set():
        try:
            answer = ask()
        except (KubeError, CloudError) as error:
            failures += 1
            if (kind := type(error).__name__) != logged:
                _log.warning("No usable answer; trying again", of=what, error=f"{kind}: {error}")
                logged = kind
            clock.wait(stop, backoff.delay_seconds(failures))
        else:
            if failures:
                _log.info("Answers again", of=what, failures=failures)
            return answer
    return None
