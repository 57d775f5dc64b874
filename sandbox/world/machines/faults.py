"""Machines that misbehave on request: `--fail never-join`, `--fail
slow=60:node.kubernetes.io/instance-type=m5.large`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.world.machines.instances import Instance

NEVER_JOIN, NEVER_READY, SLOW, NO_DEVICES = "never-join", "never-ready", "slow", "no-devices"
FAULT_TAG = "sandbox/fail"
"""An instance that bears this tag fails in the way of its value (a launch template can set it)."""
FIELDS = ("type", "zone", "capacity-type", "id")


@dataclass(frozen=True, slots=True)
class MachineFault:
    """`kind` happens to instances whose fields equal `match`; at most to the first `count` of them (0: all)."""

    kind: str
    seconds: float = 0.0
    match: Mapping[str, str] | None = None
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> MachineFault:
        """From `KIND[=SECONDS][:FIELD=VALUE,...]`; fields are type, zone, capacity-type, id and count.

        Raises:
            ValueError: unknown kind or field, or a number that is none.
        """
        head, _, conditions = text.partition(":")
        kind, _, amount = head.partition("=")
        if kind not in (NEVER_JOIN, NEVER_READY, SLOW, NO_DEVICES):
            raise ValueError(f"--fail {text!r}: kind {kind!r} is none of never-join, never-ready, slow, no-devices")
        match = dict[str, str]()
        for condition in filter(None, conditions.split(",")):
            key, _, value = condition.partition("=")
            match[key] = value
        count = int(match.pop("count", "0"))
        unknown = sorted(set(match) - set(FIELDS))
        if unknown:
            raise ValueError(f"--fail {text!r}: unknown field {unknown[0]!r}; known are {', '.join(FIELDS)}, count")
        return cls(kind, float(amount or 0), match, count)

    def applies(self, instance: Instance) -> bool:
        """Whether every field asked for is equal."""
        facts = dict(
            zip(FIELDS, (instance.instance_type, instance.zone, instance.capacity_type, instance.instance_id),
                strict=True)
        )  # fmt: skip
        return all(facts[key] == value for key, value in (self.match or {}).items())


class FaultPlan:
    """Decides, once per instance, what goes wrong with it."""

    def __init__(self, faults: tuple[MachineFault, ...] = ()) -> None:
        self._faults = faults
        self._hits: dict[MachineFault | int, int] = {}
        self._decided: dict[str, tuple[MachineFault, ...]] = {}

    def of(self, instance: Instance) -> tuple[MachineFault, ...]:
        """The faults of an instance; the same ones whenever asked."""
        decided = self._decided.get(instance.instance_id)
        if decided is None:
            decided = self._decided[instance.instance_id] = tuple(self._choose(instance))
        return decided

    def _choose(self, instance: Instance) -> list[MachineFault]:
        chosen = []
        if tag := instance.tags.get(FAULT_TAG):
            chosen.append(MachineFault.parse(tag))
        for index, fault in enumerate(self._faults):
            if fault.applies(instance) and (not fault.count or self._hits.get(index, 0) < fault.count):
                self._hits[index] = self._hits.get(index, 0) + 1
                chosen.append(fault)
        return chosen

    def has(self, instance: Instance, kind: str) -> bool:
        """Whether the instance has a fault of that kind."""
        return any(fault.kind == kind for fault in self.of(instance))

    def extra_seconds(self, instance: Instance) -> float:
        """How much later than others it boots."""
        return sum(fault.seconds for fault in self.of(instance) if fault.kind == SLOW)
