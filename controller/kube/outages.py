"""Outages of watches: failures of one sort are one, however many watches it affects; refusals are one per kind."""

from __future__ import annotations

from controller.errors import GoneError, KubeError, TooManyRequestsError, UnavailableError
from controller.kube.refusals import SilentStreamError
from controller.runtime.clock import Clock
from controller.runtime.failure_log import FailureLog, Words

_WORDS = {
    "server": Words("API server does not answer", "API server answers again", "warning"),
    "silent": Words("Watch fell silent, connecting anew", "Watch speaks again", "warning"),
    "expired": Words("Watch history expired, listing anew", "Listed anew after expired watch history", "info"),
    "refused": Words("API server refuses to list or watch", "API server lists and watches again", "warning"),
}


class Outages:
    """Shared by the watchers of one client. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._failures = FailureLog(clock, "kube", "kinds")

    def begin(self, kind: str, error: KubeError) -> None:
        sort = _sort(error)
        self._failures.failed(kind, f"{sort}/{kind}" if sort == "refused" else sort, _WORDS[sort], error, kind=kind)

    def end(self, kind: str, *, silent: bool = True) -> None:
        """Record that a kind's watch works. An outage ends when every watch that it affects works.

        `silent` False: the watch is connected but has received nothing yet, which does not end a `silent` outage.
        """
        self._failures.recovered(kind, but=() if silent else ("silent",))

    def current(self) -> tuple[str, ...]:
        """The current outages, sorted: their sort, for refusals with the kind after a slash."""
        return tuple(sorted(map(str, self._failures.current())))


def _sort(error: KubeError) -> str:
    if isinstance(error, SilentStreamError):
        return "silent"
    if isinstance(error, GoneError):
        return "expired"
    if isinstance(error, UnavailableError | TooManyRequestsError):
        return "server"
    return "refused"
