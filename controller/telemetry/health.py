"""What the probes ask: does everything move (/healthz), and may others count on this process (/readyz).

A check answers with what is wrong, or with nothing. The page lists every check, as Kubernetes' own components do, so
that `kubectl describe pod` and a curl tell which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.telemetry.http_server import Page

Check = Callable[[], str]
"""Empty when all is well, else what is wrong."""


class Health:
    """Checks by name. They may be added while the probes already ask; one that raises counts as failed."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def add_live(self, name: str, check: Check) -> None:
        """A check whose failure is mended by a restart alone."""
        self._live = {**self._live, name: check}

    def add_ready(self, name: str, check: Check) -> None:
        """A check whose failure will pass, or is another's to mend; the same name again replaces it."""
        self._ready = {**self._ready, name: check}

    def healthz(self, _query: Mapping[str, str]) -> Page:
        """200 when every live check passes, else 500."""
        return _page("healthz", self._live)

    def readyz(self, _query: Mapping[str, str]) -> Page:
        """200 when every ready check passes, else 500."""
        return _page("readyz", self._ready)


def _page(what: str, checks: Mapping[str, Check]) -> Page:
    found = {"ping": "", **{name: _result(check) for name, check in checks.items()}}
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in found.items()]
    failed = any(found.values())
    lines.append(f"{what} check {'failed' if failed else 'passed'}")
    return Page(("\n".join(lines) + "\n").encode(), status=500 if failed else 200)


def _result(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that cannot tell is a check that fails, and says why
        return f"{type(error).__name__}: {error}"
