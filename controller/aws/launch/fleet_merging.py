"""Merge equal CreateFleet requests at about the same time into one call, and distribute its instances to the callers.

EC2 throttles CreateFleet by calls: a burst of a thousand nodes must not be a thousand calls. Window and size are
Karpenter v0.27's. Instances are distributed in the order of the tokens. Callers that get none receive all errors of
the fleet, and ask again for the offerings that remain.

Every call is safe to repeat: a launch that was not merged sends its own client token, a merged call a token derived
from its members' and this process. A merged call whose answer was lost is repeated unchanged before its members launch
anything else. docs/adr/0005-createfleet-is-merged.md says what that means for the next leader.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from cachetools import LRUCache

from controller.aws.api.aws_errors import transient
from controller.aws.api.batcher import Batcher, Window
from controller.aws.launch.create_fleet import FleetAnswer, FleetRequest
from controller.errors import CloudError, CloudThrottledError
from controller.runtime.clock import Clock

FLEET_WINDOW = Window(idle_seconds=0.035, max_seconds=1.0, max_items=1000)
MAX_REQUESTS = 100
"""Distinct requests with an open batch."""
MAX_LOST = 10_000

Create = Callable[[FleetRequest, str, str, int], FleetAnswer]
"""(request, launch token for the tags, client token, instances) → the fleet's answer."""


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """One launch within a call."""

    launch_token: str
    client_token: str


class _Call:
    """One merged call; made once, and repeated by its members if its answer was lost."""

    def __init__(self, request: FleetRequest, token: str, asks: tuple[Ask, ...]) -> None:
        self._request = request
        self._token = token
        self._lock = threading.Lock()
        self._answer: FleetAnswer | None = None
        self.asks = asks

    def make(self, create: Create) -> dict[Ask, FleetAnswer]:
        with self._lock:
            if self._answer is None:
                self._answer = create(self._request, self._token[:32], self._token, len(self.asks))
            return dict(zip(self.asks, deal(self._answer, len(self.asks)), strict=True))


class FleetMerger:
    """Safe for many threads."""

    def __init__(self, clock: Clock, create: Create, window: Window, admit: Callable[[], None]) -> None:
        """`create` makes the call; it raises CloudErrors, which reach every caller. `admit` waits until a call may be
        made; launches still join the one that waits, so that the fewer calls are allowed the more each launches."""
        self._clock = clock
        self._create = create
        self._window = window
        self._admit = admit
        self._process = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._open: LRUCache[FleetRequest, Batcher[Ask, FleetAnswer]] = LRUCache(MAX_REQUESTS)
        self._lost: LRUCache[Ask, _Call] = LRUCache(MAX_LOST)

    def launch(self, request: FleetRequest, ask: Ask) -> FleetAnswer:
        """Launch at most one instance for the caller, in one call with equal requests. Raises CloudErrors."""
        with self._lock:
            lost = self._lost.get(ask)
            batcher = self._open.get(request)
            if batcher is None:
                batcher = Batcher(self._clock, self._window, lambda asks: self._call(request, asks), admit=self._admit)
                self._open[request] = batcher
        return batcher.call(ask) if lost is None else self._again(lost, ask)

    def launch_alone(self, request: FleetRequest, ask: Ask) -> FleetAnswer:
        """Launch in a call of its own, so that the instance has the launch token as a tag. Raises CloudErrors."""
        return self._admitted(request, ask.launch_token, ask.client_token, 1)

    def _call(self, request: FleetRequest, asks: list[Ask]) -> dict[Ask, FleetAnswer | CloudError]:
        if len(asks) == 1:
            return {asks[0]: self._create(request, asks[0].launch_token, asks[0].client_token, 1)}
        ordered = tuple(sorted(asks))
        members = "\n".join([self._process, str(hash(request)), *(ask.client_token for ask in ordered)])
        call = _Call(request, hashlib.sha256(members.encode()).hexdigest(), ordered)
        try:
            return {**call.make(self._create)}
        except CloudError as error:
            if _may_have_worked(error):
                with self._lock:
                    self._lost.update(dict.fromkeys(ordered, call))
            raise

    def _again(self, call: _Call, ask: Ask) -> FleetAnswer:
        """Repeat a call whose answer was lost, until it is answered or refused."""
        try:
            answer = call.make(self._admitted)[ask]
        except CloudError as error:
            if not transient(error):
                self._forget(ask)
            raise
        self._forget(ask)
        return answer

    def _admitted(self, request: FleetRequest, launch_token: str, token: str, instances: int) -> FleetAnswer:
        self._admit()
        return self._create(request, launch_token, token, instances)

    def _forget(self, ask: Ask) -> None:
        with self._lock:
            self._lost.pop(ask, None)


def _may_have_worked(error: CloudError) -> bool:
    """Return whether EC2 may have launched nevertheless: not if it throttled or refused the call."""
    return transient(error) and not isinstance(error, CloudThrottledError)


def deal(answer: FleetAnswer, callers: int) -> list[FleetAnswer]:
    """Return the answer for each caller: one instance each while there are some left, and every error."""
    ids = sorted(answer.instance_ids)
    shares = [(one,) for one in ids[:callers]] + [()] * max(0, callers - len(ids))
    return [replace(answer, instance_ids=share, given=len(ids)) for share in shares]
