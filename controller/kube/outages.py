"""Says each outage once when it begins and once when it ends, however many watches suffer from it."""

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
    suffering: set[str] = field(default_factory=set)
    total: set[str] = field(default_factory=set)
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
        """A watcher failed. Trouble of one sort is one outage; a refusal is an outage of its kind alone."""
        sort = _sort(error)
        subject = f"{sort}/{kind}" if sort == "refused" else sort
        with self._lock:
            outage = self._outages.get(subject)
            first = outage is None
            if outage is None:
                outage = self._outages[subject] = _Outage(self._clock.monotonic())
            outage.suffering.add(kind)
            outage.total.add(kind)
            outage.failures += 1
        if first:
            say = _log.info if sort == "expired" else _log.warning
            say(_WORDS[sort].begins, kind=kind, error=str(error))

    def end(self, kind: str, *, silent: bool = True) -> None:
        """A watcher works. An outage ends when all that suffered from it work.

        `silent` False: it is connected, but nothing came yet, which proves nothing about silence.
        """
        if not self._outages:
            return
        over: list[tuple[str, _Outage]] = []
        with self._lock:
            for subject, outage in list(self._outages.items()):
                if subject == "silent" and not silent:
                    continue
                outage.suffering.discard(kind)
                if not outage.suffering:
                    over.append((subject, self._outages.pop(subject)))
        for subject, outage in over:
            seconds = round(self._clock.monotonic() - outage.begun, 1)
            words = _WORDS[subject.partition("/")[0]]
            _log.info(words.ends, after_seconds=seconds, failures=outage.failures, kinds=sorted(outage.total))

    def current(self) -> tuple[str, ...]:
        """The outages that last, sorted: for health pages."""
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
