"""Live a day: the controller's loops, composed as in the process, on a cluster and an EC2 in memory."""

from __future__ import annotations

import gc
import random
import statistics
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.life.binder import Binder
from bench.life.day import Day, Phase, pool
from bench.life.memory_cloud import Machine, MemoryCloud, counted
from bench.life.memory_kube import Document, MemoryKube
from bench.life.virtual_time import VirtualClock, VirtualTime
from bench.life.workloads import Workloads
from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.zones.balance import Load, ZoneBalance
from controller.kube.resources import AWS_NODE_TEMPLATES, CLUSTER_STATE, PROVISIONERS
from controller.operator.composition import Edges, Operator, OperatorTimes
from controller.runtime.executors import INLINE
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger

BEGINS_AT = 1_800_000_000.0
"""Unix seconds of the day's first."""
WATCH_SECONDS = 0.02
SAMPLE_SECONDS = 3.0
CLUSTER_NAME = "day"


@dataclass(frozen=True, slots=True)
class PhaseLived:
    """$ of the phase; $ an hour and machines at its end, with what they are; waits in seconds (None: nobody waited)."""

    phase: Phase
    dollars: float
    price_at_end: float
    machines_at_end: int
    types_at_end: Mapping[str, int]
    evictions: int
    wait_p50: float | None
    wait_max: float | None
    last_pending_after: float
    """Seconds of the phase until no pod waited; its length where pods waited at its end."""


@dataclass(frozen=True, slots=True)
class Lived:
    """What a day came to."""

    day: Day
    phases: tuple[PhaseLived, ...]
    dollars: float
    launched: int
    most_machines: int
    left_at_end: int
    wait_p50: float
    wait_max: float
    never_bound: int
    evictions: int
    refused_evictions: int
    pods_moved: int
    """Pods that ended although nobody scaled them down."""
    processor_seconds: float
    requests: int
    by_step: Mapping[str, int] = field(default_factory=dict)
    timeline: tuple[tuple[float, int, float, int], ...] = ()
    """(second, machines, $ an hour, pods that wait), every few seconds."""
    zone_shares: tuple[float, ...] = ()
    """Of the fullest zone in the machines' CPU, as often, wherever there are so many that zone balance counts."""


def live(
    day: Day,
    *,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    provisioner: Mapping[str, str] | None = None,
    times: OperatorTimes | None = None,
) -> Lived:
    """Live the day. `seed`: of kube-scheduler's draws among equal nodes, and of how long nodes take to become Ready.

    `provisioner`: its annotations.
    """
    return _Life(day, seed, settings or {}, provisioner or {}, times).lived()


class _Life:
    def __init__(
        self,
        day: Day,
        seed: int,
        settings: Mapping[str, Any],
        annotations: Mapping[str, str],
        times: OperatorTimes | None,
    ) -> None:
        self.day, self.clock = day, VirtualClock(BEGINS_AT)
        self.time = VirtualTime(self.clock)
        self.kube = MemoryKube(self.clock)
        self.cloud = MemoryCloud(day.types, day.region, self.clock)
        self.workloads = Workloads(day, self.kube, self.time, random.Random(seed))
        Binder(self.kube, self.workloads, self.time, random.Random(seed))  # it listens
        self.cloud.launched = self.workloads.instance_launched
        self._changes: list[Change] = []
        self.kube.listeners.append(self._heard)
        edges = Edges(self.kube, self.cloud, self.clock, Ledger(self.clock), threading.Event(), INLINE, self.time.run)
        own = Settings(cluster_name=CLUSTER_NAME, cluster_arn=self.cloud.identity().cluster_arn, **settings)
        self.operator = Operator(own, edges, times=times)
        self._timeline: list[tuple[float, int, float, int]] = []
        self._zone_shares: list[float] = []
        self._pool(annotations)

    def _pool(self, annotations: Mapping[str, str]) -> None:
        """The node template and the Provisioner."""
        discovery = {"karpenter.sh/discovery": CLUSTER_NAME}
        template = {"subnetSelector": discovery, "securityGroupSelector": discovery}
        self.kube.put(AWS_NODE_TEMPLATES, {"metadata": {"name": "default"}, "spec": template})
        self.kube.put(PROVISIONERS, pool(annotations))

    # Watches

    def _heard(self, kind: str, change: str, document: Document) -> None:
        if kind not in WATCHED:
            return
        if not self._changes:
            self.time.at(self.clock.now() + WATCH_SECONDS, lambda: self.time.counted("watches", self._deliver))
        self._changes.append(Change(kind, ChangeType(change), (document,)))

    def _deliver(self) -> None:
        changes, self._changes = self._changes, []

        def apply(cluster: Cluster) -> None:
            for change in changes:
                cluster.apply(change)

        self.operator.informers.submit(apply)

    def _list(self) -> None:
        for resource in CLUSTER_STATE:
            listed = self.kube.list_all(resource)
            change = Change(resource.kind, ChangeType.REPLACED, listed.items, listed.resource_version)
            self.operator.informers.take(change)

    # The day

    def lived(self) -> Lived:
        """Live it to its end."""
        self.workloads.begin()
        self.operator.watch()
        self._list()
        self.operator.start_leading()
        self.time.until(BEGINS_AT + 5.0, self.operator.informers)  # the leader has proven its cluster and planned once
        gc.collect()
        began = self.clock.now()
        self._sample(began)
        phases = []
        for phase, end in zip(self.day.phases, self.day.ends(), strict=True):
            self.time.until(began + phase.at, self.operator.informers)
            self.workloads.scale(dict(phase.replicas))
            self.time.until(began + end, self.operator.informers)
            phases.append(self._phase(phase, began + phase.at, began + end))
        return self._day(phases, began)

    def _sample(self, began: float) -> None:
        running, waiting = self.cloud.running(), len(self.workloads.waiting())
        price = sum(machine.price for machine in running)
        self._timeline.append((self.clock.now() - began, len(running), price, waiting))
        if len(running) >= ZoneBalance().from_nodes:
            self._zone_shares.append(Load.of((machine.zone, machine.cpu) for machine in running).share)
        self.time.at(self.clock.now() + SAMPLE_SECONDS, lambda: self._sample(began))

    def _phase(self, phase: Phase, since: float, until: float) -> PhaseLived:
        running: list[Machine] = self.cloud.running()
        waits = [seconds for at, seconds in self.workloads.waits.bound if since <= at < until]
        began = since - phase.at
        waited = [at + began - since for at, _, _, pods in self._timeline if since <= at + began < until and pods]
        return PhaseLived(
            phase=phase,
            dollars=sum(machine.dollars(since, until) for machine in self.cloud.machines.values()),
            price_at_end=sum(machine.price for machine in running),
            machines_at_end=len(running),
            types_at_end=counted(running),
            evictions=sum(since <= at < until for at, _ in self.workloads.evictions),
            wait_p50=statistics.median(waits) if waits else None,
            wait_max=max(waits, default=None),
            last_pending_after=max(waited, default=0.0),
        )

    def _day(self, phases: list[PhaseLived], began: float) -> Lived:
        waits = [seconds for _, seconds in self.workloads.waits.bound]
        return Lived(
            day=self.day,
            phases=tuple(phases),
            dollars=sum(each.dollars(began, began + self.day.ends_at) for each in self.cloud.machines.values()),
            launched=len(self.cloud.machines),
            most_machines=max(machines for _, machines, _, _ in self._timeline),
            left_at_end=len(self.cloud.running()),
            wait_p50=statistics.median(waits) if waits else 0.0,
            wait_max=max(waits, default=0.0),
            never_bound=len(self.workloads.waiting()),
            evictions=len(self.workloads.evictions),
            refused_evictions=self.workloads.refused_evictions,
            pods_moved=self.workloads.lost,
            processor_seconds=self.time.processor_seconds,
            requests=self.kube.requests.total(),
            by_step=dict(self.time.by_step),
            timeline=tuple(self._timeline),
            zone_shares=tuple(self._zone_shares),
        )


WATCHED = frozenset(resource.kind for resource in CLUSTER_STATE)
