"""Read the API server's audit log: what the controller asked for, and what was refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

USER = "system:serviceaccount:karpenter:karpenter"
"""The controller's, as the stack declares it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One answered request. `resource` is `RESOURCE` or `RESOURCE/SUBRESOURCE`."""

    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    why: str
    """The message of a refusal, else empty."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name}: {self.code} {self.why}".rstrip()


class AuditLog:
    """Read the log from a mark on. A watch counts once, when it is answered, not again when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """Return the current size of the log in bytes."""
        return self._path.stat().st_size if self._path.exists() else 0

    def since(self, mark: int) -> list[Request]:
        """Return every request that was answered after a mark."""
        with self._path.open("rb") as file:
            file.seek(mark)
            return list(_requests(line for line in file if line.endswith(b"\n")))


def _requests(lines: Iterable[bytes]) -> Iterator[Request]:
    for line in lines:
        event = json.loads(line)
        code = int(event.get("responseStatus", {}).get("code", 0))
        answered = "ResponseStarted" if event["verb"] == "watch" and code == 200 else "ResponseComplete"
        if event["stage"] == answered:
            reference = event.get("objectRef") or {}
            resource = "/".join(
                filter(None, (reference.get("resource", event["requestURI"]), reference.get("subresource")))
            )
            why = event["responseStatus"].get("message", "")
            yield Request(event["verb"], resource, reference.get("namespace", ""), reference.get("name", ""), code, why)


def refused(requests: Iterable[Request], code: int = 403) -> list[Request]:
    """Return the requests that were answered with this HTTP status code."""
    return [request for request in requests if request.code == code]


def never_granted(requests: Iterable[Request], ever: Callable[[], Iterable[Request]]) -> list[Request]:
    """Return the forbidden requests whose verb and resource were never allowed in the whole log.

    `ever` reads the whole log; it is called only when something was forbidden. What was allowed at some time is left
    out: an API server that has just started refuses requests until it has loaded its roles.
    """
    if not (forbidden := refused(requests)):
        return []
    granted = {(each.verb, each.resource) for each in ever() if each.code < 400}
    return [each for each in forbidden if (each.verb, each.resource) not in granted]


def tally(requests: Iterable[Request]) -> Counter[str]:
    """Count requests by verb and resource."""
    return Counter(f"{request.verb} {request.resource}" for request in requests)
