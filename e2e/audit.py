"""What the controller asked of the API server, by the API server's own audit log."""

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
    """One answered request. `resource` has the subresource after a slash."""

    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    why: str
    """The refusal's words, where it is one."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name}: {self.code} {self.why}".rstrip()


class AuditLog:
    """Reads the file where it was left off; a watch counts when it is answered, not again when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """The end of what is written now, in bytes."""
        return self._path.stat().st_size if self._path.exists() else 0

    def since(self, mark: int) -> list[Request]:
        """Every request that was answered after a mark."""
        with self._path.open("rb") as file:
            file.seek(mark)
            return list(_requests(line for line in file if line.endswith(b"\n")))


def _requests(lines: Iterable[bytes]) -> Iterator[Request]:
    for line in lines:
        event = json.loads(line)
        code = int(event.get("responseStatus", {}).get("code", 0))
        answered = "ResponseStarted" if event["verb"] == "watch" and code == 200 else "ResponseComplete"
        if event["stage"] == answered:
            found = event.get("objectRef") or {}
            resource = "/".join(filter(None, (found.get("resource", event["requestURI"]), found.get("subresource"))))
            why = event["responseStatus"].get("message", "")
            yield Request(event["verb"], resource, found.get("namespace", ""), found.get("name", ""), code, why)


def refused(requests: Iterable[Request], code: int = 403) -> list[Request]:
    """Those with that answer."""
    return [request for request in requests if request.code == code]


def never_granted(requests: Iterable[Request], ever: Callable[[], Iterable[Request]]) -> list[Request]:
    """Those that were forbidden, and the like of which was allowed at no time of the log (`ever`, read only if need
    be): an API server that has just started forbids for a moment what its roles allow, until it has read them."""
    if not (forbidden := refused(requests)):
        return []
    granted = {(each.verb, each.resource) for each in ever() if each.code < 400}
    return [each for each in forbidden if (each.verb, each.resource) not in granted]


def tally(requests: Iterable[Request]) -> Counter[str]:
    """How many of each verb and resource."""
    return Counter(f"{request.verb} {request.resource}" for request in requests)
