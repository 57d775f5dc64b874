"""The composition root: make the cluster state and every loop, start them and stop them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum

import structlog

from controller.cloud.catalogs import CATALOG_WORKERS, Catalogs
from controller.cloud.drift_checks import DriftChecks
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, CloudProvider
from controller.core.deprovisioning.consolidation import Consolidation
from controller.core.deprovisioning.drift import Drift
from controller.core.deprovisioning.emptiness import Emptiness
from controller.core.deprovisioning.expiration import Expiration
from controller.core.deprovisioning.method import Method
from controller.core.deprovisioning.rebalance.approved_removal import ApprovedRebalance
from controller.core.deprovisioning.repair import Repair, RepairPolicy
from controller.core.deprovisioning.zones.zone_moves import ZoneMoves
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.events import EventRecorder
from controller.kube.informers import Informers
from controller.kube.lease import LEASE_NAME, LeaseOptions
from controller.kube.resources import CLUSTER_STATE, Resource
from controller.machines.launcher import Launcher
from controller.machines.removals import Removals
from controller.operator.configuration import ConfigurationTimes
from controller.reconcilers.bookkeeping.decision_store import DecisionsReconciler
from controller.reconcilers.bookkeeping.fleet_observation import ObservationReconciler
from controller.reconcilers.bookkeeping.memory_store import MemoryReconciler
from controller.reconcilers.bookkeeping.price_store import PricesReconciler
from controller.reconcilers.bookkeeping.refresh_reconciler import RefreshReconciler
from controller.reconcilers.context import LiveSettings, ReconcilerContext
from controller.reconcilers.deprovisioning.deletion_cost_reconciler import DeletionCostReconciler
from controller.reconcilers.deprovisioning.deprovisioning_reconciler import (
    DeprovisioningReconciler,
    DeprovisioningTimes,
)
from controller.reconcilers.deprovisioning.emptiness_reconciler import EmptinessReconciler
from controller.reconcilers.deprovisioning.executor import CommandExecutor, CommandTimes
from controller.reconcilers.deprovisioning.repair_reconciler import RepairReconciler
from controller.reconcilers.nodes.cluster_check_reconciler import ClusterCheckReconciler
from controller.reconcilers.nodes.consistency_reconciler import ConsistencyReconciler
from controller.reconcilers.nodes.disk_pressure_reconciler import DiskPressureReconciler
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageCollectionReconciler, GarbageTimes
from controller.reconcilers.nodes.interruption_reconciler import InterruptionReconciler
from controller.reconcilers.nodes.opening_reconciler import OpeningReconciler
from controller.reconcilers.nodes.registration_reconciler import RegistrationReconciler
from controller.reconcilers.nodes.termination_reconciler import TerminationReconciler, TerminationTimes
from controller.reconcilers.provisioning.provisioning_reconciler import ProvisioningReconciler
from controller.reconcilers.status.advice_reconciler import AdviceReconciler
from controller.reconcilers.status.conditions_reconciler import ConditionsReconciler
from controller.reconcilers.status.counter_reconciler import CounterReconciler
from controller.reconcilers.status.node_template_reconciler import NodeTemplatesReconciler
from controller.reconcilers.status.pod_network_reconciler import PodNetworkReconciler
from controller.runtime import metrics
from controller.runtime.clock import Clock
from controller.runtime.executors import Executors, ThreadExecutors
from controller.runtime.loops import NO_REST, BackoffTimes, Loop, Reconciler, Rest
from controller.runtime.waits import Waits
from controller.runtime.workers import Run, Worker
from controller.settings import Settings
from controller.telemetry.cluster_series import ClusterSeries
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.health import Health
from controller.telemetry.measured_cloud import measured_cloud
from controller.webhook.serving import WebhookTimes

LAUNCH_POLL_SECONDS = 0.05

_log = structlog.get_logger("operator")


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """Durations that are not settings, in one value, so that tests and simulations can compress them."""

    termination: TerminationTimes = field(default_factory=TerminationTimes)
    garbage: GarbageTimes = field(default_factory=GarbageTimes)
    commands: CommandTimes = field(default_factory=CommandTimes)
    deprovisioning: DeprovisioningTimes = field(default_factory=DeprovisioningTimes)
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    backoff: BackoffTimes = field(default_factory=BackoffTimes)
    webhook: WebhookTimes = field(default_factory=WebhookTimes)
    configuration: ConfigurationTimes = field(default_factory=ConfigurationTimes)
    settle_seconds: float = 0.05
    """Least time between two passes of a loop that pods wait for; ten times as long for the others."""
    stop_seconds: float = 20.0
    """Wait for running passes at the end. Kubernetes allows 30 s by default, for lease and events too."""


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of an operator. With other `clock`, `executors` and `run`, one thread drives it in virtual time."""

    kube: KubeClient
    cloud: CloudProvider
    clock: Clock
    ledger: Ledger
    stop: threading.Event
    executors: Executors = field(default_factory=ThreadExecutors)
    run: Run = Worker.start


class Runs(Enum):
    """When a loop runs, and how soon a change wakes it."""

    STANDBY = "on every replica, so that a new leader has the results ready"
    LEADING = "on the leader"
    PODS_WAIT = "on the leader, woken ten times as soon as the others: pods wait for it"
    POLLING = "on the leader, without a pause: it waits in its own call"


RESTS = {
    Runs.STANDBY: Rest(100.0, most_seconds=5.0),
    Runs.LEADING: Rest(100.0, most_seconds=5.0),
    Runs.PODS_WAIT: Rest(9.0, most_seconds=0.5),
    Runs.POLLING: NO_REST,
}
"""Rests between passes, so that launches and watches get most of the process's time in a burst."""


class Operator:
    """The cluster state and the loops of one process."""

    def __init__(
        self,
        settings: Settings,
        edges: Edges,
        *,
        namespace: str = "",
        times: OperatorTimes | None = None,
        more_kinds: tuple[Resource, ...] = (),
    ) -> None:
        """Learned memory and the ledger are stored in ConfigMaps of `namespace`; without one, they are not stored.

        `more_kinds`: kinds that are watched too: those of DRA, and owners of pods.
        """
        self._edges, self._times = edges, times or OperatorTimes()
        self._recorder, self._clock = edges.ledger.recorder, edges.clock
        self._series, self._leads = ClusterSeries(), False
        watched = (*CLUSTER_STATE, *more_kinds)
        cluster = Cluster(
            [resource.kind for resource in watched],
            initialization_seconds=settings.initialization_deadline_seconds,
            device_classes=settings.device_classes,
        )
        self.informers = Informers(edges.kube, cluster, edges.clock, watched, run=edges.run)
        self.events = EventRecorder(edges.kube, edges.clock, run=edges.run)
        cloud = measured_cloud(edges.cloud, self._recorder, edges.clock)
        edges.ledger.look = self._look
        removals = Removals(
            kube=edges.kube, cloud=cloud, clock=edges.clock, recorder=self._recorder, cluster_arn=settings.cluster_arn
        )
        self._context = context = ReconcilerContext(
            settings=LiveSettings(settings),
            kube=edges.kube,
            informers=self.informers,
            events=self.events,
            cloud=cloud,
            catalogs=Catalogs(cloud, edges.executors.executor("catalog", CATALOG_WORKERS)),
            launcher=Launcher(
                kube=edges.kube, informers=self.informers, cloud=cloud, removals=removals, clock=edges.clock
            ),
            removals=removals,
            clock=edges.clock,
            ledger=edges.ledger,
            waits=Waits(edges.clock, self._recorder),
            executors=edges.executors,
            stop=edges.stop,
            adopted=threading.Event(),
            planned=threading.Event(),
            namespace=namespace,
        )
        self._garbage = GarbageCollectionReconciler(context, self._times.garbage)
        self._decisions = DecisionsReconciler(context)
        loops = [(runs, self._loop(reconciler, runs)) for reconciler, runs in self._reconcilers(settings)]
        self._standing = [loop for runs, loop in loops if runs is Runs.STANDBY]
        self._acting = [loop for runs, loop in loops if runs is not Runs.STANDBY]

    def _reconcilers(self, settings: Settings) -> Iterator[tuple[Reconciler, Runs]]:
        """Yield every loop, what it needs beside the context, and when it runs."""
        context, times = self._context, self._times
        emptiness, methods = Emptiness(), self._methods(settings)
        repair = Repair(RepairPolicy(settings.node_repair, settings.node_repair_after_seconds))
        executor = CommandExecutor(context, (*methods, emptiness, repair), times.commands)
        yield RefreshReconciler(context), Runs.STANDBY
        yield ProvisioningReconciler(context), Runs.PODS_WAIT
        yield RegistrationReconciler(context), Runs.PODS_WAIT
        yield OpeningReconciler(context), Runs.PODS_WAIT
        yield TerminationReconciler(context, times.termination), Runs.PODS_WAIT
        yield DeprovisioningReconciler(context, methods, executor, times.deprovisioning), Runs.LEADING
        yield EmptinessReconciler(context, emptiness, executor), Runs.LEADING
        yield RepairReconciler(context, repair, executor), Runs.LEADING
        yield DeletionCostReconciler(context), Runs.LEADING
        yield ClusterCheckReconciler(context), Runs.PODS_WAIT
        yield self._garbage, Runs.LEADING
        yield ConsistencyReconciler(context), Runs.LEADING
        yield DiskPressureReconciler(context), Runs.LEADING
        if settings.interruption_queue_name:
            yield InterruptionReconciler(context), Runs.POLLING
        yield ConditionsReconciler(context), Runs.LEADING
        yield NodeTemplatesReconciler(context), Runs.LEADING
        yield PodNetworkReconciler(context), Runs.LEADING
        yield CounterReconciler(context), Runs.LEADING
        yield AdviceReconciler(context), Runs.LEADING
        yield ObservationReconciler(context), Runs.LEADING
        if context.namespace:
            yield MemoryReconciler(context), Runs.LEADING
            yield PricesReconciler(context), Runs.LEADING
            yield self._decisions, Runs.LEADING

    def _methods(self, settings: Settings) -> list[Method]:
        """Return the methods of removal, in the order in which they are asked."""
        drift = [Drift(DriftChecks(self._context.cloud, self._clock))] if settings.drift_enabled else []
        zones, consolidation = ZoneMoves(), Consolidation(self._times.deprovisioning.consolidation)
        return [Expiration(), *drift, ApprovedRebalance(), consolidation, zones]

    def _loop(self, reconciler: Reconciler, runs: Runs) -> Loop:
        urgent = runs in (Runs.PODS_WAIT, Runs.POLLING)
        return Loop(
            reconciler,
            self.informers,
            self._clock,
            self._edges.stop,
            settle_seconds=self._times.settle_seconds * (1 if urgent else 10),
            rest=RESTS[runs],
            backoff=self._times.backoff,
            recorder=self._recorder,
        )

    def checks(self, health: Health) -> None:
        """Add the probes' checks: every loop makes progress, and the caches are synced."""
        health.live["cluster-state"] = lambda: self.informers.stuck
        for loop in (*self._standing, *self._acting):
            health.live[loop.name] = loop.stuck
        health.ready["caches"] = self._unsynced
        health.notes["leader"] = self._waiting
        health.notes["removals"] = self._held

    def _unsynced(self) -> str:
        return "" if self.informers.snapshot().synced else "not every watch has delivered its first list yet"

    def _waiting(self) -> str:
        waits = self._context.waits.text()
        return f"waits before it acts: {waits}" if waits else ""

    def _held(self) -> str:
        because = self._context.removals.refusal() if self._leads else ""
        return f"nothing is removed: {because}" if because else ""

    def tune(self, settings: Settings) -> None:
        """Apply these settings from each loop's next pass on. Only live ones may differ (settings.LIVE)."""
        self._context.settings.current = settings

    def watch(self) -> None:
        """Start the watches and the loops that also run on standby."""
        self._recorder.replace(metrics.LEADER, {(LEASE_NAME,): 0})
        self.informers.start()
        for loop in self._standing:
            loop.start(self._edges.run)

    def leads(self) -> bool:
        """Return whether this process leads."""
        return self._leads

    def start_leading(self, *, after_crash: bool = False) -> None:
        """Start all loops. `after_crash`: an earlier process may have launched what EC2 does not list yet."""
        if after_crash:
            self._garbage.wait_until_visible()
        self._recorder.replace(metrics.LEADER, {(LEASE_NAME,): 1})
        loops: dict[tuple[str, ...], float] = {(loop.name,): 1.0 for loop in (*self._standing, *self._acting)}
        self._recorder.replace(metrics.ACTIVE_WORKERS, loops)
        self._recorder.replace(metrics.MOST_WORKERS, loops)
        for check in metrics.CONSISTENCY_CHECKS:  # an alert sees an increase only from an existing series
            self._recorder.count(metrics.CONSISTENCY_ERRORS, check, amount=0.0)
        self._leads = True
        self.events.start()
        for loop in self._acting:
            loop.start(self._edges.run)

    def _look(self) -> tuple[Snapshot, Catalog]:
        snapshot = self.informers.snapshot()
        return snapshot, self._context.catalogs.view(snapshot).types

    def provisioners(self) -> Collection[Provisioner]:
        """Return the valid Provisioners of the cluster; none before the first list."""
        return self.informers.snapshot().provisioners.values()

    def cluster_series(self) -> bytes:
        """Render series about nodes, pods and Provisioners, on the leader alone: with replicas, sums would double."""
        return self._series.render(self.informers.snapshot()) if self._leads else b""

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Stop everything after `stop` was set; return False when a pass or a launch did not end in time.

        `timeout_seconds`: how long to wait for them; None: `OperatorTimes.stop_seconds`.
        """
        timeout = self._times.stop_seconds if timeout_seconds is None else timeout_seconds
        deadline = self._clock.monotonic() + timeout
        self.informers.wake()
        ended = [loop.join(deadline - self._clock.monotonic()) for loop in (*self._acting, *self._standing)]
        while self._context.launcher.under_way() and self._clock.monotonic() < deadline:
            self._clock.wait(threading.Event(), LAUNCH_POLL_SECONDS)
        ended.append(not self._context.launcher.under_way())
        self._edges.executors.close()
        self._flush_decisions()
        self.events.stop()
        self.informers.stop()
        return all(ended)

    def unsettled(self) -> str:
        """Return why a successor must wait before it launches; empty when all launches are on record. See Launcher."""
        return self._context.launcher.unsettled()

    def _flush_decisions(self) -> None:
        try:
            self._decisions.flush()
        except KubeError as error:
            _log.warning("The last decisions are not on record in the cluster; the log has them", error=str(error))
