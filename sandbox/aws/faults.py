"""Bad days by script: calls that fail, stall or lose their answer, and capacity pools that run out.

Rules are values that a scenario posts to /sandbox/faults; they match by service and action and expire by count or time.
"""

from __future__ import annotations

import fnmatch
import itertools
import threading
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sandbox.aws.clock import Now
from sandbox.aws.market.market import Pool
from sandbox.aws.wire import AwsError

_MESSAGES = {
    "RequestLimitExceeded": (503, "Request limit exceeded."),
    "ThrottlingException": (400, "Rate exceeded"),
    "RequestExpired": (400, "Request has expired."),
    "ExpiredToken": (403, "The security token included in the request is expired"),
    "ExpiredTokenException": (403, "The security token included in the request is expired"),
    "UnauthorizedOperation": (
        403,
        "You are not authorized to perform this operation. User is not authorized to perform: {permission} "
        "because no identity-based policy allows the {permission} action",
    ),
    "AccessDenied": (403, "User is not authorized to perform: {permission} because no identity-based policy allows it"),
    "AccessDeniedException": (
        400,
        "User is not authorized to perform: {permission} because no identity-based policy allows it",
    ),
    "InternalError": (500, "An internal error has occurred"),
    "ServiceUnavailable": (503, "The service is unavailable. Please try again shortly."),
    "Unavailable": (503, "The service is unavailable. Please try again shortly."),
}


MACHINES_KEY = "kubelets"
"""The access key that the sandbox's own machines sign with: faults are for the controller, not for them."""


class ScenarioError(ValueError):
    """A scenario's rule that makes no sense; says which field and why."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule. With a code the call fails, with `drop` the connection closes without an answer, else it is slow."""

    service: str = "*"
    """Signing name (ec2, ssm, pricing, ...), wildcards allowed."""
    action: str = "*"
    accessKey: str = "*"  # noqa: N815  (the keys as scenarios write them)
    """Only calls signed with this key: expired credentials, say."""
    code: str = ""
    message: str = ""
    status: int = 0
    """HTTP status; 0: the usual one of the code."""
    delaySeconds: float = 0.0  # noqa: N815
    """Real seconds that the answer waits."""
    drop: bool = False
    after: bool = False
    """The call is carried out first, then fails: the answer is lost, the deed is done."""
    half: bool = False
    """TerminateInstances carries out the first half of its ids only, and says no more."""
    skip: int = 0
    """How many matching calls pass before the rule starts."""
    times: int = 0
    """How many calls it hits; 0: no limit."""
    startSeconds: float = 0.0  # noqa: N815
    """Sandbox seconds from now until it starts."""
    forSeconds: float = 0.0  # noqa: N815
    """Sandbox seconds that it lasts; 0: for ever."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A pool (wildcards allowed) that gives no capacity, or no more than `capacity` instances."""

    instanceType: str = "*"  # noqa: N815
    zone: str = "*"
    capacityType: str = "*"  # noqa: N815
    capacity: int = 0
    code: str = "InsufficientInstanceCapacity"
    message: str = ""
    forSeconds: float = 0.0  # noqa: N815


@dataclass(slots=True)
class _Armed:
    id: int
    fault: Fault
    since: float
    seen: int = 0
    hits: int = 0


@dataclass(slots=True)
class _Short:
    id: int
    shortage: Shortage
    since: float
    given: int = field(default=0)


class Faults:
    """The rules in force. Thread-safe."""

    def __init__(self, now: Now) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._armed: list[_Armed] = []
        self._short: list[_Short] = []

    def add(self, fault: Fault) -> int:
        """Arm a rule; its id removes it again. Raises ScenarioError."""
        if not (fault.code or fault.drop or fault.half or fault.delaySeconds > 0):
            raise ScenarioError("a fault needs one of: code, drop, half, delaySeconds")
        if fault.half and fault.action != "TerminateInstances":
            raise ScenarioError("half: only TerminateInstances can be half carried out")
        with self._lock:
            armed = _Armed(next(self._ids), fault, self._now())
            self._armed.append(armed)
        return armed.id

    def add_shortage(self, shortage: Shortage) -> int:
        """Empty a pool; its id fills it again."""
        with self._lock:
            short = _Short(next(self._ids), shortage, self._now())
            self._short.append(short)
        return short.id

    def remove(self, rule_id: int) -> bool:
        """Remove one rule; False when there is none of this id."""
        with self._lock:
            before = len(self._armed) + len(self._short)
            self._armed = [a for a in self._armed if a.id != rule_id]
            self._short = [s for s in self._short if s.id != rule_id]
            return len(self._armed) + len(self._short) < before

    def clear(self) -> None:
        """All is well again."""
        with self._lock:
            self._armed, self._short = [], []

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """The rules with their ids and hit counts, for GET /sandbox/faults."""
        with self._lock:
            return {
                "faults": [{"id": a.id, "hits": a.hits, **asdict(a.fault)} for a in self._armed],
                "shortages": [{"id": s.id, "given": s.given, **asdict(s.shortage)} for s in self._short],
            }

    def for_call(self, service: str, action: str, access_key: str) -> Fault | None:
        """The first rule that hits this call; counts it. The machines' own calls are never hit."""
        if access_key == MACHINES_KEY:
            return None
        now = self._now()
        with self._lock:
            for armed in self._armed:
                if _hits(armed, (service, action, access_key), now):
                    armed.hits += 1
                    return armed.fault
        return None

    def shortage(self, pool: Pool) -> AwsError | None:
        """Why this pool can't give one more instance now, if it can't."""
        with self._lock:
            for short in self._matching(pool):
                if short.given >= short.shortage.capacity:
                    rule = short.shortage
                    return AwsError(rule.code, rule.message or _shortage_message(pool, rule.code))
        return None

    def taken(self, pool: Pool) -> None:
        """An instance was launched from the pool: count it against limited capacity."""
        with self._lock:
            for short in self._matching(pool):
                short.given += 1

    def _matching(self, pool: Pool) -> list[_Short]:
        now = self._now()
        return [s for s in self._short if _covers(s.shortage, pool) and _in_force(s.since, s.shortage.forSeconds, now)]


def error_of(fault: Fault, service: str, action: str) -> AwsError:
    """The error reply of a rule with a code. A refusal names the action, as AWS's do."""
    status, message = _MESSAGES.get(fault.code, (400, "A fault of the sandbox's scenario"))
    message = message.format(permission=f"{service}:{action}")
    return AwsError(fault.code, fault.message or message, fault.status or status)


def parse(kind: type[Any], document: Any) -> Any:
    """A Fault or Shortage from JSON; raises ScenarioError that names every unknown key and wrong type at once."""
    if not isinstance(document, dict):
        raise ScenarioError(f"expected an object, got {type(document).__name__}")
    defaults = {f.name: f.default for f in fields(kind)}
    problems = []
    for key, value in document.items():
        if key not in defaults:
            problems.append(f"{key}: unknown; known: {', '.join(defaults)}")
            continue
        wanted = type(defaults[key])
        accepted = (int, float) if wanted is float else (wanted,)
        if not isinstance(value, accepted) or (isinstance(value, bool) and wanted is not bool):
            problems.append(f"{key}: expected {wanted.__name__}, got {value!r}")
    if problems:
        raise ScenarioError("; ".join(problems))
    return kind(**document)


def _hits(armed: _Armed, call: tuple[str, str, str], now: float) -> bool:
    fault = armed.fault
    wanted = (fault.service, fault.action, fault.accessKey)
    if not all(fnmatch.fnmatchcase(value, pattern) for value, pattern in zip(call, wanted, strict=True)):
        return False
    if not _in_force(armed.since + fault.startSeconds, fault.forSeconds, now):
        return False
    if fault.times and armed.hits >= fault.times:
        return False
    armed.seen += 1
    return armed.seen > fault.skip


def _in_force(since: float, for_seconds: float, now: float) -> bool:
    return since <= now and (for_seconds <= 0 or now < since + for_seconds)


def _covers(shortage: Shortage, pool: Pool) -> bool:
    pairs = (
        (pool.instance_type, shortage.instanceType),
        (pool.zone, shortage.zone),
        (pool.capacity_type, shortage.capacityType),
    )
    return all(fnmatch.fnmatchcase(value, wanted) for value, wanted in pairs)


def _shortage_message(pool: Pool, code: str) -> str:
    match code:
        case "InsufficientInstanceCapacity" if pool.capacity_type == "spot":
            return "There is no Spot capacity available that matches your request."
        case "InsufficientInstanceCapacity":
            return (
                f"We currently do not have sufficient {pool.instance_type} capacity in the Availability Zone you "
                "requested "
                f"({pool.zone}). Our system will be working on provisioning additional capacity."
            )
        case "MaxSpotInstanceCountExceeded":
            return "Max spot instance count exceeded"
        case "VcpuLimitExceeded":
            return (
                "You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket "
                "that the specified instance type belongs to."
            )
        case _:
            return "The requested configuration is currently not supported."
