"""Structured logs on standard output: a constant message that begins with a capital, and fields.

JSON lines in a cluster, a console format at a terminal. Modules ask structlog for a logger by the name of their part
(`structlog.get_logger("provisioning")`), which becomes the field `logger`. The JSON keys are Karpenter v0.27's: time,
level, logger, message.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, TextIO

import structlog
from cachetools import LRUCache

from controller.core.api.pod import PodKey
from controller.errors import Problem, ValidationError
from controller.runtime.clock import Clock, SystemClock
from controller.telemetry.log_levels import LEVELS

Format = Literal["auto", "json", "console"]

REPEAT_SECONDS = 60.0
_MAX_REMEMBERED = 8192
MOST_LOGGED_PODS = 200
"""Pod names per line, which must stay below 16 KiB: container runtimes split longer ones."""
_METHOD_LEVELS = {**LEVELS, "exception": logging.ERROR, "critical": logging.CRITICAL, "fatal": logging.CRITICAL}


class _Threshold:
    """Drop lines below the level, which may change while the process runs."""

    def __init__(self) -> None:
        self.level = logging.INFO
        self.by_name: Mapping[str, int] = {}

    def __call__(self, logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        level = self.by_name.get(getattr(logger, "name", ""), self.level) if self.by_name else self.level
        if _METHOD_LEVELS.get(method, logging.CRITICAL) < level:
            raise structlog.DropEvent
        return event


_threshold = _Threshold()


class _Logger(structlog.PrintLogger):
    """Write whole lines; `name` is what the logger was requested by."""

    def __init__(self, stream: TextIO, name: str) -> None:
        super().__init__(stream)
        self.name = name


def configure(
    level: str = "info", style: Format = "auto", stream: TextIO | None = None, clock: Clock | None = None
) -> None:
    """Set up logging for the process; `auto` is console on a terminal and JSON elsewhere. Repeated lines are dropped.

    Raises ValidationError for a level that does not exist.
    """
    set_level(level)
    out = stream or sys.stdout
    console = style == "console" or (style == "auto" and out.isatty())
    structlog.configure(
        processors=[
            _threshold,
            structlog.contextvars.merge_contextvars,
            _WithoutRepeats(clock or SystemClock()),
            _name,
            *(_console(out) if console else _json()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *names: _Logger(out, str(names[0]) if names else ""),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge(logging.WARNING))


class _Bridge(logging.Handler):
    """Write warnings and errors that libraries log by the standard library in our format."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        say = log.error if record.levelno >= logging.ERROR else log.warning
        say(record.getMessage(), exc_info=record.exc_info or None)


def set_level(level: str) -> None:
    """Change the level of all loggers. Raises ValidationError for an unknown level; the old one stays."""
    if level.lower() not in LEVELS:
        problem = Problem("level", f"{level!r} is no log level", f"use one of {', '.join(LEVELS)}")
        raise ValidationError("logging", [problem])
    _threshold.level = LEVELS[level.lower()]
    _threshold.by_name = {}


def set_levels(levels: Mapping[str, str]) -> None:
    """Set levels by a logger's name, "" for all others. Raises ValidationError for unknown ones; the old ones stay."""
    unknown = [(name, level) for name, level in levels.items() if level.lower() not in LEVELS]
    if unknown:
        remedy = f"use one of {', '.join(LEVELS)}"
        raise ValidationError(
            "logging", [Problem(name, f"{level!r} is no log level", remedy) for name, level in unknown]
        )
    thresholds = {name: LEVELS[level.lower()] for name, level in levels.items()}
    _threshold.level = thresholds.pop("", _threshold.level)
    _threshold.by_name = thresholds


class _WithoutRepeats:
    """Pass an identical line (message and fields) once in REPEAT_SECONDS; the next one has the count in `repeats`."""

    def __init__(self, clock: Clock) -> None:
        self._repeats = Repeats(REPEAT_SECONDS, clock)

    def __call__(self, logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if method == "debug":
            return event  # every line at level debug
        trace = sys.exc_info()[1] if event.get("exc_info") is True else None
        times = self._repeats.admit((getattr(logger, "name", ""), method, repr(trace), repr(sorted(event.items()))))
        if not times:
            raise structlog.DropEvent
        if times > 1:
            event["repeats"] = times
        return event


class Repeats:
    """Admit each key once in `seconds`.

    >>> if times := repeats.admit(("throttled", zone)):
    ...     log.warning("Throttled", zone=zone, times=times)
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._admitted: LRUCache[Hashable, tuple[float, int]] = LRUCache(_MAX_REMEMBERED)

    def admit(self, key: Hashable) -> int:
        """Return how many lines this one stands for: itself and those dropped since the last; 0 to drop the line."""
        now = self._clock.monotonic()
        with self._lock:
            admitted_at, dropped = self._admitted.get(key, (None, 0))
            if admitted_at is not None and now - admitted_at < self._seconds:
                self._admitted[key] = (admitted_at, dropped + 1)
                return 0
            self._admitted[key] = (now, 0)
            return dropped + 1


def pod_names(keys: Sequence[PodKey]) -> list[str]:
    """Return NAMESPACE/NAME of the first MOST_LOGGED_PODS, for a field `pods`; the field `pod_count` counts all."""
    return ["/".join(key) for key in keys[:MOST_LOGGED_PODS]]


def _name(logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if logger.name:
        event["logger"] = logger.name
    return event


def _json() -> list[structlog.typing.Processor]:
    return [
        structlog.processors.add_log_level,
        _capital_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(default=str),
    ]


def _console(out: TextIO) -> list[structlog.typing.Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=out.isatty(),
            pad_event_to=36,
            exception_formatter=structlog.dev.plain_traceback,  # the default prints local variables: tokens, user data
        ),
    ]


def _capital_level(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    event["level"] = str(event["level"]).upper()
    return event
