"""The log of requests, and a hold on writes: crash tests stop a client between any two of its API calls.

`GET /sandbox/calls?after=N` gives the requests since number N. `POST /sandbox/faults` with

    {"kind": "hold-writes", "after": 3, "when": "before", "user_agent": "nodeless"}

lets three writes of that client pass and leaves the fourth without an answer: `before` it is done, or `after`.
`DELETE /sandbox/faults` answers what is held and forgets the hold.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from sandbox.apiserver.errors import bad_request

_KEPT = 20_000
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was answered."""

    number: int
    method: str
    path: str
    code: int
    user_agent: str


@dataclass(slots=True)
class Hold:
    """Which write is held, and since when: `after` writes of clients whose User-Agent starts with `user_agent` pass."""

    after: int
    when: str
    user_agent: str
    seen: int = 0
    held: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Calls:
    """The requests of one server, and at most one hold."""

    log: deque[Call] = field(default_factory=lambda: deque(maxlen=_KEPT))
    total: int = 0
    hold: Hold | None = None

    def add(self, method: str, path: str, code: int, user_agent: str) -> None:
        """Notes a request that was answered."""
        self.total += 1
        self.log.append(Call(self.total, method, path, code, user_agent))

    def since(self, number: int) -> dict[str, Any]:
        """The requests after a number, how many there were in all, and how many are held now."""
        calls = [asdict(call) for call in self.log if call.number > number]
        return {"total": self.total, "held": self.hold.held if self.hold else 0, "calls": calls}

    def set_hold(self, fault: dict[str, Any]) -> None:
        """Takes up a hold; an earlier one is released. Raises 400 on wrong values."""
        when = fault.get("when", "before")
        if when not in ("before", "after") or not isinstance(fault.get("after"), int):
            raise bad_request(f"fault {fault}: `after` is a number of writes, `when` is before or after")
        self.release()
        self.hold = Hold(fault["after"], when, str(fault.get("user_agent", "")))

    def release(self) -> None:
        """Lets go what is held."""
        if self.hold is not None:
            self.hold.released.set()
        self.hold = None

    def counts(self, method: str, user_agent: str) -> Hold | None:
        """The hold that catches this request, or None."""
        hold = self.hold
        if hold is None or method not in _WRITES or not user_agent.startswith(hold.user_agent):
            return None
        hold.seen += 1
        return hold if hold.seen > hold.after else None


async def wait_at(hold: Hold | None, when: str) -> None:
    """Waits while a hold is on this side of the request."""
    if hold is None or hold.when != when:
        return
    hold.held += 1
    try:
        await hold.released.wait()
    finally:
        hold.held -= 1
