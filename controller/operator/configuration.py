"""Follow the ConfigMaps of settings and of log levels.

A live setting is applied at once. For the others the process exits after a while, to be restarted by its Deployment:
the leader later than the others, so that not all are down at the same time. Invalid settings are refused with every key
and remedy, in the log, in an event on the ConfigMap and in a metric, and the last valid settings stay in effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from controller.core.api.strict import Report
from controller.core.untrusted_json import UnreadableJsonError, read_json
from controller.errors import KubeError, NotFoundError, ValidationError
from controller.kube.client import KubeClient
from controller.kube.events import EventRecorder, ObjectRef
from controller.kube.resources import CONFIG_MAPS
from controller.operator.options import Options
from controller.runtime.clock import Clock
from controller.runtime.metrics import CONFIGURATION_REFUSED, SILENT, Recorder
from controller.runtime.workers import periodic
from controller.settings import CONFIG_MAP, Settings
from controller.telemetry.log_levels import LEVELS
from controller.telemetry.structured_logging import set_levels

LEVEL_PREFIX: Final = "loglevel."
EVERYTHING: Final = "controller"
"""The component name for all others."""
ZAP_CONFIG: Final = "zap-logger-config"
"""Karpenter v0.27's key for a JSON document, whose `level` may change while the process runs."""

REFUSED: Final = "Configuration refused; the last good one holds"

_log = structlog.get_logger("configuration")


@dataclass(frozen=True, slots=True)
class ConfigurationTimes:
    """`look_seconds`: between two reads. `restart_seconds`: how long settings that need a restart must be unchanged;
    twice that for the leader."""

    look_seconds: float = 10.0
    restart_seconds: float = 60.0


def log_levels(data: Mapping[str, str], otherwise: str) -> dict[str, str]:
    """Log level by component from `config-logging`; "" stands for all others.

    `loglevel.COMPONENT` names a logger of ours (`webhook`, `provisioning`, …), `loglevel.controller` all others.
    Raises ValidationError with all problems.
    """
    report = Report()
    levels = {"": _zap_level(report, data[ZAP_CONFIG]) or otherwise if data.get(ZAP_CONFIG) else otherwise}
    for key, level in data.items():
        if key.startswith(LEVEL_PREFIX):
            component = key.removeprefix(LEVEL_PREFIX)
            _check(report, key, level)
            levels["" if component == EVERYTHING else component] = level
    if report.problems:
        raise ValidationError("ConfigMap of log levels", report.problems)
    return levels


def _zap_level(report: Report, text: str) -> str:
    try:
        document = read_json(text)
        level = document.get("level", "") if isinstance(document, dict) else None
    except UnreadableJsonError:
        level = None
    if not isinstance(level, str):
        report.add(ZAP_CONFIG, "is not JSON of an object with a level", 'write {"level": "info"}')
        return ""
    if level:
        _check(report, f"{ZAP_CONFIG}.level", level)
    return level


def _check(report: Report, path: str, level: str) -> None:
    if level.lower() not in LEVELS:
        report.add(path, f"{level!r} is no log level", f"use one of {', '.join(LEVELS)}")


class Configuration:
    """Read both ConfigMaps periodically."""

    def __init__(
        self,
        kube: KubeClient,
        options: Options,
        level: str,
        clock: Clock,
        stop: threading.Event,
        *,
        times: ConfigurationTimes | None = None,
        recorder: Recorder = SILENT,
    ) -> None:
        """`level`: log level where the ConfigMap has none. `stop` is set for a restart."""
        self._kube = kube
        self._namespace, self._logging_name = options.system_namespace, options.config_logging_name
        self._level = level
        self._clock = clock
        self._stop = stop
        self._times = times or ConfigurationTimes()
        self._settings: Settings | None = None
        self._adopt: Callable[[Settings], None] = lambda _: None
        self._leads: Callable[[], bool] = lambda: False
        self._events: EventRecorder | None = None
        self._recorder = recorder
        self._refused: dict[str, bool] = {}
        self._uids: dict[str, str] = {}
        self._pending_restart: tuple[Settings, float] | None = None
        """Settings that need a restart, and since when they are in the ConfigMap (monotonic seconds)."""
        self._logged: dict[str, str] = {}
        self._levels: dict[str, str] | None = None

    def start(self) -> None:
        """Start to follow log levels, and settings once `follow` was called."""
        periodic("configuration", self.look, self._clock, self._stop).start()

    def follow(
        self,
        settings: Settings,
        adopt: Callable[[Settings], None],
        leads: Callable[[], bool],
        events: EventRecorder | None = None,
    ) -> None:
        """Follow changes of `settings`; their live part is passed to `adopt`. `leads`: whether this process leads; only
        the leader publishes an event about refused settings."""
        self._adopt, self._leads, self._events = adopt, leads, events
        self._settings = settings

    def look(self) -> float:
        """Read both ConfigMaps; return the seconds until the next read. A failure is logged once, and retried."""
        for name, take in ((self._logging_name, self._take_levels), (CONFIG_MAP, self._take_settings)):
            try:
                take(name)
            except NotFoundError:
                self._accept(name)  # no log levels are configured, or the ConfigMap is being replaced
            except ValidationError as error:
                self._refuse(name, [str(problem) for problem in error.problems])
            except KubeError as error:
                self._log_once(name, "Configuration cannot be read; the last one holds", error=str(error))
            else:
                self._accept(name)
        self._recorder.replace(CONFIGURATION_REFUSED, {(name,): float(bad) for name, bad in self._refused.items()})
        return self._times.look_seconds

    def _accept(self, name: str) -> None:
        self._refused[name] = False
        self._log_once(name, "")

    def _refuse(self, name: str, problems: Sequence[str]) -> None:
        self._refused[name] = True
        self._log_once(name, REFUSED, problems=problems)
        if self._events is not None and self._leads():
            ref = ObjectRef(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, name, self._uids.get(name, ""), self._namespace)
            message = f"{REFUSED}: {' | '.join(sorted(problems, key=len))}"  # the long ones may be cut
            self._events.publish(ref, "Warning", "ConfigurationRefused", message)

    def _log_once(self, name: str, message: str, **fields: object) -> None:
        text = f"{message} {fields}" if message else ""
        if message and self._logged.get(name) != text:
            _log.error(message, config_map=f"{self._namespace}/{name}", **fields)
        self._logged[name] = text

    def _data(self, name: str) -> dict[str, str]:
        document = self._kube.get(CONFIG_MAPS, name, self._namespace)
        self._uids[name] = document.get("metadata", {}).get("uid", "")
        return document.get("data") or {}

    def _take_levels(self, name: str) -> None:
        levels = log_levels(self._data(name), self._level)
        if levels != self._levels:
            set_levels(levels)
            self._levels = levels
            _log.info("Log levels are set", levels={key or EVERYTHING: level for key, level in levels.items()})

    def _take_settings(self, name: str) -> None:
        held = self._settings
        if held is None:
            return
        wanted = Settings.parse(self._data(name))
        updated = held.with_live_part_of(wanted)
        if updated != held:
            self._adopt(updated)
            self._settings = updated
            _log.info("Settings changed", keys=held.keys_that_differ(updated))
        self._restart_for(wanted, updated)

    def _restart_for(self, wanted: Settings, held: Settings) -> None:
        if wanted == held:
            if self._pending_restart is not None:
                _log.info("No restart follows: the settings are as before")
            self._pending_restart = None
            return
        now, keys = self._clock.monotonic(), held.keys_that_differ(wanted)
        delay_seconds = self._times.restart_seconds * (2 if self._leads() else 1)
        if self._pending_restart is None or self._pending_restart[0] != wanted:
            self._pending_restart = (wanted, now)
            _log.warning("Settings changed: a restart follows", keys=keys, after=delay_seconds)
        elif now - self._pending_restart[1] >= delay_seconds:
            _log.warning("Exits, to be restarted with the new settings", keys=keys)
            self._stop.set()
