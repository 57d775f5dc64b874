"""Decisions as records: what was launched, skipped or removed, on which inputs, why, and what it does to the price."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, CloudInstance
from controller.core.decisions.launch_outcome import LaunchOutcome
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.problem import pod_key
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.untrusted_json import number, whole

Kind = Literal["launch", "skip", "remove"]
KINDS: Final = ("launch", "skip", "remove")
MOST_PODS = 10
"""Names of pods that a decision keeps; `pod_count` has them all."""
MOST_REASON = 1000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision. Prices are $ an hour of our nodes before and after it, without those that an earlier decision
    removes; None: not known."""

    kind: Kind
    """launch: a node was launched. skip: a pod was left pending, or a launch or removal that was begun did not come
    about. remove: a node's removal was begun."""
    method: str
    """What decided: provisioning, emptiness, expiration, drift, consolidation, interruption, garbagecollection."""
    subject: str
    """KIND/NAME or KIND/NAMESPACE/NAME: Node/ip-10-0-0-1.ec2.internal, Pod/default/web-1."""
    reason: str
    provisioner: str = ""
    inputs: str = ""
    """Digest of what it was decided on (see `digest` and `standing`): equal digests, equal inputs."""
    price_before: float | None = None
    price_after: float | None = None
    pods: tuple[str, ...] = ()
    """NAMESPACE/NAME of pods that it is about, the first few."""
    pod_count: int = 0
    action: str = ""
    """For a launch: `replace` where a command launched it. For a removal: `delete` or `replace`."""
    details: FrozenMap[str, str] = EMPTY
    """Further facts: instance_type, zone, capacity_type, instance, planned, command."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A decision on record. `at` and `last_at` are Unix seconds; one that is made again counts up `times`."""

    number: int
    """Counts up, across processes; nothing else has it."""
    at: float
    decision: Decision
    times: int = 1
    last_at: float = 0.0
    unknown: FrozenMap[str, Any] = field(default=EMPTY, hash=False)
    """Members that another version of the controller added."""

    def document(self) -> dict[str, Any]:
        """Return the entry for JSON, without empty members."""
        repeated = {"times": self.times, "lastAt": self.last_at} if self.times > 1 else {}
        own = {key: write(getattr(self.decision, name)) for key, (name, _, write) in _MEMBERS.items()}
        known: dict[str, Any] = {"number": self.number, "at": self.at, **own, **repeated}
        return {**self.unknown, **{key: value for key, value in known.items() if value not in (None, "", [], {})}}


def _price(value: Any) -> float | None:
    return None if value is None else number(value)


def _written_price(price: float | None) -> float | None:
    return None if price is None else round(price, 5)


_MEMBERS: Final[Mapping[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    **{key: (key, str, str) for key in ("kind", "method", "action", "subject", "provisioner", "reason", "inputs")},
    "pricePerHourBefore": ("price_before", _price, _written_price),
    "pricePerHourAfter": ("price_after", _price, _written_price),
    "pods": ("pods", lambda names: tuple(map(str, names)), list),
    "podCount": ("pod_count", whole, lambda count: count or None),
    "details": ("details", lambda facts: FrozenMap({str(k): str(v) for k, v in dict(facts).items()}), dict),
}
"""Of a decision, by the member of the JSON: its field, and how the member is read and written."""
_OF_ENTRY: Final = ("number", "at", "times", "lastAt")


def entry_of(document: Mapping[str, Any]) -> Entry:
    """Parse what `document()` returned. Raises ValueError if it is no entry."""
    try:
        kind = document["kind"]
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
        given = {name: read(document[key]) for key, (name, read, _) in _MEMBERS.items() if key in document}
        decision = Decision(**{"reason": "", **given})
        at = number(document.get("at", 0.0))
        times, last_at = whole(document.get("times", 1)), number(document.get("lastAt", at))
        unknown = {name: value for name, value in document.items() if name not in _MEMBERS and name not in _OF_ENTRY}
        return Entry(whole(document["number"]), at, decision, times, last_at, FrozenMap(unknown))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no decision: {type(error).__name__}: {error}") from error


def replacement_launched(method: str, command: str, outcome: LaunchOutcome) -> Decision:
    """Return a node that a command launched in place of others; `command` in words."""
    return Decision(
        kind="launch",
        method=method,
        subject=f"Node/{outcome.node_name or outcome.instance_id}",
        reason=command,
        provisioner=outcome.provisioner,
        action="replace",
        details=launch_details(outcome),
    )


def launch_details(outcome: LaunchOutcome) -> FrozenMap[str, str]:
    """Return what was launched and its price, what was planned if that differs, and what the planned pods lack."""
    price, planned = outcome.price_per_hour, outcome.planned
    details = {
        "instance": outcome.instance_id,
        "instance_type": outcome.instance_type,
        "zone": outcome.zone,
        "capacity_type": outcome.capacity_type,
        "price_per_hour": "" if price is None else f"{price:.5f}",
        "planned_cost_per_hour": f"{planned.cost:.5f}",
        "planned_surplus_per_hour": f"{planned.surplus:.5f}" if planned.surplus > 0 else "",
        "pods_short_of": ", ".join(outcome.shortfall) if outcome.checked else "not known, since the type's size is not",
    }
    if not outcome.as_planned:
        details["planned"] = f"{planned.instance_type}/{planned.zone}/{planned.capacity_type}"
        details["planned_price_per_hour"] = f"{planned.price:.5f}"
    return FrozenMap({name: text for name, text in details.items() if text})


def node_details(node: StateNode) -> FrozenMap[str, str]:
    """Return instance, type, zone and capacity type of a node."""
    own = node.node
    place = {"instance_type": own.instance_type, "zone": own.zone, "capacity_type": own.capacity_type}
    details = {"instance": own.provider_id.rpartition("/")[2], **place}
    return FrozenMap({name: text for name, text in details.items() if text})


def instance_details(instance: CloudInstance) -> FrozenMap[str, str]:
    """Return instance, type, zone and capacity type of an instance."""
    place = {"zone": instance.zone, "capacity_type": instance.capacity_type}
    return FrozenMap(instance=instance.id, instance_type=instance.instance_type, **place)


def shortened(decision: Decision) -> Decision:
    """Return the decision with its reason and pods cut to what the ledger keeps."""
    count = max(decision.pod_count, len(decision.pods))
    reason = decision.reason
    if len(reason) > MOST_REASON:
        reason = reason[: MOST_REASON - 3] + "..."
    return replace(decision, reason=reason, pods=decision.pods[:MOST_PODS], pod_count=count)


def digest(problem: SchedulingProblem) -> str:
    """Return 16 hex digits of what a plan depends on: pods, nodes with pods, Provisioners, offerings, DaemonSets."""
    return _digest(problem.snapshot, problem.catalog, problem.pending, problem.nodes, problem.provisioners)


def state_digest(snapshot: Snapshot, catalog: Catalog) -> str:
    """Return the digest of a whole cluster, for decisions without a plan."""
    waiting = (pod for pod in snapshot.pods.values() if not pod.node_name)
    return _digest(snapshot, catalog, waiting, snapshot.nodes.values(), snapshot.provisioners.values())


def _digest(
    snapshot: Snapshot,
    catalog: Catalog,
    pods: Iterable[Pod],
    nodes: Iterable[StateNode],
    provisioners: Iterable[Provisioner],
) -> str:
    lines = [
        *(f"pod {pod.uid} {_amounts(pod.spec.requests)}" for pod in sorted(pods, key=pod_key)),
        *(f"node {node.node.uid} {','.join(pod.uid for pod in node.pods)}" for node in nodes),
        *(f"provisioner {each.uid} {each.generation}" for each in provisioners),
        *(f"template {each.uid} {each.generation}" for each in snapshot.node_templates.values()),
        *(f"daemons {each.uid} {_amounts(each.template.spec.requests)}" for each in snapshot.daemon_sets.values()),
        *_offerings(catalog),
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _amounts(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def _offerings(catalog: Catalog) -> Iterable[str]:
    for name in sorted(catalog):
        for entry in catalog[name]:
            offered = ";".join(f"{o.zone} {o.capacity_type} {o.price:g} {o.available:d}" for o in entry.offerings)
            yield f"type {name} {entry.name} {offered}"
