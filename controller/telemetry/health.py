"""Liveness (/healthz) and readiness (/readyz): named checks, listed on a page as Kubernetes' own components do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.core.api.frozen import EMPTY
from controller.telemetry.http_server import Page

Check = Callable[[], str]
"""Returns the problem; empty when there is none."""


class Health:
    """Checks by name. They may be added while probes are served; a check that raises has failed."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._notes: dict[str, Check] = {}

    def add_live(self, name: str, check: Check) -> None:
        """Add a check whose failure requires a restart."""
        self._live = {**self._live, name: check}

    def add_ready(self, name: str, check: Check) -> None:
        """Add or replace a check that may recover without a restart."""
        self._ready = {**self._ready, name: check}

    def add_note(self, name: str, note: Check) -> None:
        """Add a line to the page of readiness that never fails it: what the process holds back, empty for nothing.

        A pod that is not ready would take the admission webhook out of service.
        """
        self._notes = {**self._notes, name: note}

    def healthz(self, _query: Mapping[str, str]) -> Page:
        """Return 200 when every live check passes, else 500."""
        return _page("healthz", self._live)

    def readyz(self, _query: Mapping[str, str]) -> Page:
        """Return 200 when every ready check passes, else 500."""
        return _page("readyz", self._ready, self._notes)


def _page(what: str, checks: Mapping[str, Check], notes: Mapping[str, Check] = EMPTY) -> Page:
    results = {"ping": "", **{name: _result(check) for name, check in checks.items()}}
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in results.items()]
    notices = {name: _result(note) for name, note in notes.items()}
    lines += [f"[+]{name} ok{': ' if notice else ''}{notice}" for name, notice in notices.items()]
    failed = any(results.values())
    lines.append(f"{what} check {'failed' if failed else 'passed'}")
    return Page(("\n".join(lines) + "\n").encode(), status=500 if failed else 200)


def _result(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - the check has failed; the page shows the error
        return f"{type(error).__name__}: {error}"
