"""What happened in a day on a real control plane, and the figures of it, in the members that Karpenter's files have."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.life.day import Day, Object, Phase
from bench.life.memory_cloud import Machine, counted
from e2e.audit import Request

EVICTION = "pods/eviction"
REFUSED = 429


class DayRecord:
    """Takes what is seen, with its time (Unix seconds). The day begins at `began`."""

    def __init__(self, day: Day) -> None:
        self.day, self.began = day, 0.0
        self._prices = {
            (kind.name, offering.zone, offering.capacity_type): offering.price
            for kind in day.types
            for offering in kind.offerings
        }
        self.machines: dict[str, Machine] = {}
        """By instance id."""
        self._created: dict[str, float] = {}
        """When pods that wait were created, by uid."""
        self._known: set[str] = set()
        self._bound: list[tuple[float, float]] = []
        """(when, seconds of waiting) of each binding."""
        self._timeline: list[tuple[float, int, float, int]] = []

    def saw_pod(self, at: float, uid: str, node: str, *, gone: bool) -> None:
        """A pod is new, is bound, or is gone."""
        if uid not in self._known and not gone:
            self._known.add(uid)
            self._created[uid] = at
        if gone:
            self._created.pop(uid, None)
        elif node and uid in self._created:
            self._bound.append((at, at - self._created.pop(uid)))

    def saw_machines(self, at: float, instances: Iterable[Mapping[str, Any]]) -> None:
        """These instances run or start, all others have ended. Raises KeyError for a type that the day has not."""
        present = {each["instanceId"]: each for each in instances}
        for key, each in present.items():
            if key not in self.machines:
                kind, capacity_type = each["instanceType"], each["capacityType"]
                price = self._prices[kind, each["zone"], capacity_type]
                self.machines[key] = Machine(key, f"{kind}/{capacity_type}", price, each["launchedAt"])
        for key, machine in self.machines.items():
            if machine.ended_at is None and key not in present:
                machine.ended_at = at

    def sample(self, at: float) -> None:
        """Note how things stand."""
        running = self._running(at)
        price = sum(machine.price for machine in running)
        self._timeline.append((at - self.began, len(running), price, len(self._created)))

    def _running(self, at: float) -> list[Machine]:
        return [m for m in self.machines.values() if m.launched_at <= at and (m.ended_at is None or m.ended_at > at)]

    def figures(self, requests: Sequence[Request], processor_seconds: float, rss_bytes: int) -> Object:
        """The figures of the whole day, once it is over. `requests`: those of the controller."""
        end, waits = self.began + self.day.ends_at, [seconds for _, seconds in self._bound]
        evictions = Counter(each.code for each in requests if each.resource == EVICTION)
        return {
            "dollars_machines": sum(each.dollars(self.began, end) for each in self.machines.values()),
            "wait_p50": statistics.median(waits) if waits else 0.0,
            "wait_max": max(waits, default=0.0),
            "never_bound": len(self._created),
            "evictions_accepted": sum(count for code, count in evictions.items() if 200 <= code < 300),
            "evictions_refused_429": evictions[REFUSED],
            "pods_lost_beyond_scaling_down": len(self._known) - _asked_for(self.day.phases),
            "launched": len(self.machines),
            "left_at_end": len(self._running(end)),
            "cpu_s": processor_seconds,
            "rss_max_mib": rss_bytes / 2**20,
            "api_requests": len(requests),
            "phases": [self._phase(*each) for each in zip(self.day.phases, self.day.ends(), strict=True)],
            "timeline": self._timeline,
        }

    def _phase(self, phase: Phase, ends: float) -> Object:
        since, until = self.began + phase.at, self.began + ends
        running, waits = self._running(until), [seconds for at, seconds in self._bound if since <= at < until]
        return {
            "phase": phase.name,
            "at": phase.at,
            "pods": phase.pods,
            "dollars": sum(each.dollars(since, until) for each in self.machines.values()),
            "price_at_end": sum(each.price for each in running),
            "machines_at_end": len(running),
            "wait_p50": statistics.median(waits) if waits else None,
            "wait_max": max(waits, default=None),
            "types_at_end": counted(running),
        }


def _asked_for(phases: Iterable[Phase]) -> int:
    """How many pods would be made if none ended unasked."""
    asked, there = 0, Counter[str]()
    for phase in phases:
        asked += sum(max(0, count - there[name]) for name, count in phase.replicas.items())
        there = Counter(phase.replicas)
    return asked
