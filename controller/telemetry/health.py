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
        self.live: dict[str, Check] = {}
        """Checks whose failure requires a restart."""
        self.ready: dict[str, Check] = {}
        """Checks that may recover without a restart."""
        self.notes: dict[str, Check] = {}
        """Lines on the page of readiness that never fail it, as a pod that is not ready would take the admission
        webhook out of service: what the process holds back, empty for nothing."""

    def healthz(self, _query: Mapping[str, str]) -> Page:
        """Return 200 when every live check passes, else 500."""
        return _page("healthz", self.live)

    def readyz(self, _query: Mapping[str, str]) -> Page:
        """Return 200 when every ready check passes, else 500."""
        return _page("readyz", self.ready, self.notes)


def _page(what: str, checks: Mapping[str, Check], notes: Mapping[str, Check] = EMPTY) -> Page:
    results = {"ping": "", **{name: _result(check) for name, check in dict(checks).items()}}
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in results.items()]
    notices = {name: _result(note) for name, note in dict(notes).items()}
    lines += [f"[+]{name} ok{': ' if notice else ''}{notice}" for name, notice in notices.items()]
    failed = any(results.values())
    lines.append(f"{what} check {'failed' if failed else 'passed'}")
    return Page(("\n".join(lines) + "\n").encode(), status=500 if failed else 200)


def _result(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - the check has failed; the page shows the error
        return f"{type(error).__name__}: {error}"
