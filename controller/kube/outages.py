"""Log each outage once at its onset and once at its recovery, however many watches it affects."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import structlog

from controller.errors import GoneError, KubeError, TooManyRequestsError, UnavailableError
from controller.kube.refusals import SilentStreamError
from controller.runtime.clock import Clock

_log = structlog.get_logger("kube")


@dataclass(slots=True)
class _Outage:
    begun: float
    failing: set[str] = field(default_factory=set)
    """Kinds whose watch fails now."""
    affected: set[str] = field(default_factory=set)
    """Kinds whose watch failed at any time of the outage."""
    failures: int = 0


@dataclass(frozen=True, slots=True)
class _Words:
    begins: str
    ends: str


_WORDS = {
    "server": _Words("API server does not answer", "API server answers again"),
    "silent": _Words("Watch fell silent, connecting anew", "Watch speaks again"),
    "expired": _Words("Watch history expired, listing anew", "Listed anew after expired watch history"),
    "refused": _Words("API server refuses to list or watch", "API server lists and watches again"),
}


class Outages:
    """Shared by the watchers of one client. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._outages: dict[str, _Outage] = {}

    def begin(self, kind: str, error: KubeError) -> None:
        """Record that a kind's watch failed. Failures of one sort are one outage; refusals are one outage per kind."""
        sort = _sort(error)
        subject = f"{sort}/{kind}" if sort == "refused" else sort
        with self._lock:
            outage = self._outages.get(subject)
            first = outage is None
            if outage is None:
                outage = self._outages[subject] = _Outage(self._clock.monotonic())
            outage.failing.add(kind)
            outage.affected.add(kind)
            outage.failures += 1
        if first:
            say = _log.info if sort == "expired" else _log.warning
            say(_WORDS[sort].begins, kind=kind, error=str(error))

    def end(self, kind: str, *, silent: bool = True) -> None:
        """Record that a kind's watch works. An outage ends when every watch that it affects works.

        `silent` False: the watch is connected but has received nothing yet, which does not end a `silent` outage.
        """
        if not self._outages:
            return
        ended: list[tuple[str, _Outage]] = []
        with self._lock:
            for subject, outage in list(self._outages.items()):
                if subject == "silent" and not silent:
                    continue
                outage.failing.discard(kind)
                if not outage.failing:
                    ended.append((subject, self._outages.pop(subject)))
        for subject, outage in ended:
            seconds = round(self._clock.monotonic() - outage.begun, 1)
            words = _WORDS[subject.partition("/")[0]]
            _log.info(words.ends, after_seconds=seconds, failures=outage.failures, kinds=sorted(outage.affected))

    def current(self) -> tuple[str, ...]:
        """The current outages, sorted."""
        with self._lock:
            return tuple(sorted(self._outages))


def _sort(error: KubeError) -> str:
    if isinstance(error, SilentStreamError):
        return "silent"
    if isinstance(error, GoneError):
        return "expired"
    if isinstance(error, UnavailableError | TooManyRequestsError):
        return "server"
    return "refused"
