"""Headroom: room kept free for future pods, as units of a size or a share of use, always or at set times.

The annotation `karpenter.sh/headroom` on a Provisioner holds a JSON list. An entry has `cpu` and `memory` of a unit and
their `count`, or `percent` of what the pods on the Provisioner's nodes request; and optionally `schedule` (five cron
fields, UTC) with `duration`. A unit is planned for like a pending pod; real pods take its room as soon as
they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.core.api import quantity
from controller.core.api.disruption import Window, parse_window
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.pod import Pod, PodKey, PodSpec, Resources, Toleration
from controller.core.api.provisioner import Provisioner
from controller.core.machines.provisioner_limits import total
from controller.core.state.snapshot import Snapshot
from controller.core.untrusted_json import UnreadableJsonError, read_json

HEADROOM_ANNOTATION: Final = "karpenter.sh/headroom"
NAMESPACE: Final = "karpenter.sh"
"""Namespace of units; no namespace of the cluster can have a dot in its name."""
MOST_UNITS: Final = 500
EXAMPLE: Final = '[{"cpu": "2", "memory": "4Gi", "count": 3}] or [{"percent": 10}]'
_MEMBERS: Final = frozenset({"cpu", "memory", "count", "percent", "schedule", "duration"})


@dataclass(frozen=True, slots=True)
class Headroom:
    """One entry: `count` units of `unit`, or `percent` of use. `when` None: always."""

    unit: Resources
    count: int = 0
    percent: int = 0
    when: Window | None = None


def is_unit(key: PodKey) -> bool:
    """Return whether a pod is a unit of headroom."""
    return key[0] == NAMESPACE


def parse_headroom(text: str) -> tuple[Headroom, ...]:
    """Parse the annotation. Raises ValueError with every problem and what to write."""
    try:
        entries = read_json(text)
    except UnreadableJsonError:
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"is not a JSON list of objects: write {EXAMPLE}")
    parsed, problems = [], []
    for index, entry in enumerate(entries):
        try:
            parsed.append(_entry(entry))
        except ValueError as error:
            problems.append(f"[{index}] {error}")
    if problems:
        raise ValueError(f"{' | '.join(problems)}: write {EXAMPLE}, say")
    return tuple(parsed)


def headroom_pods(provisioner: Provisioner, snapshot: Snapshot, now: float) -> tuple[Pod, ...]:
    """Return the units that the Provisioner asks for at `now` (Unix seconds), MOST_UNITS at most. Raises ValueError."""
    if (text := provisioner.object_annotations.get(HEADROOM_ANNOTATION)) is None:
        return ()
    units: list[Pod] = []
    for index, entry in enumerate(parse_headroom(text)):
        if entry.when is None or entry.when.active(now):
            amounts = list(_units(entry, provisioner.name, snapshot))
            units += [_pod(provisioner.name, f"{index}-{n}", each, now) for n, each in enumerate(amounts)]
    return tuple(units[:MOST_UNITS])


def _units(entry: Headroom, provisioner: str, snapshot: Snapshot) -> Iterator[Resources]:
    if not entry.percent:
        yield from [entry.unit] * entry.count
        return
    nodes = snapshot.nodes_of(provisioner)
    used = total(pod.spec.requests for node in nodes for pod in node.pods if not pod.daemon)
    cpu = used.get("cpu", 0) * entry.percent // 100
    count = -(-cpu // 1000)  # units of one core at most, which fit wherever the pods do
    if count:
        memory = used.get("memory", 0) * entry.percent // 100
        yield from [FrozenMap({"cpu": -(-cpu // count), "memory": memory // count})] * count


def _pod(provisioner: str, name: str, amounts: Resources, now: float) -> Pod:
    """Make a unit's pod. Its uid contains the time, so that a launch for it never has the token of an earlier one."""
    spec = PodSpec(
        requests=FrozenMap({**{key: amount for key, amount in amounts.items() if amount}, "pods": 1}),
        node_selector=FrozenMap({PROVISIONER_NAME: provisioner}),
        tolerations=(Toleration(operator="Exists"),),
    )
    full = f"headroom-{provisioner}-{name}"
    return Pod(namespace=NAMESPACE, name=full, uid=f"{full}-{now:.0f}", spec=spec, created=now, unschedulable=True)


def _entry(entry: Mapping[str, Any]) -> Headroom:
    if unknown := sorted(set(entry) - _MEMBERS):
        raise ValueError(f"unknown member {', '.join(unknown)}; known are {', '.join(sorted(_MEMBERS))}")
    when = parse_window(entry)
    if "percent" in entry:
        if {"cpu", "memory", "count"} & set(entry):
            raise ValueError("has percent and a unit: write one of them")
        return Headroom(FrozenMap({}), percent=_number(entry, "percent", 1000), when=when)
    given = {name: str(entry[name]) for name in ("cpu", "memory") if name in entry}
    if not given:
        raise ValueError("has neither a unit nor percent")
    return Headroom(quantity.resources(given), _number({"count": 1, **entry}, "count", MOST_UNITS), when=when)


def _number(entry: Mapping[str, Any], name: str, most: int) -> int:
    value = entry[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ValueError(f"{name} is {value!r}, not an integer from 1 to {most}")
    return value
