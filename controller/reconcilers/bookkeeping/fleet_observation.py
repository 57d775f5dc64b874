"""Measure the fleet: its price, queue lengths, unavailable offerings, and its price relative to a fresh pack.

These are metrics only; no decision depends on them. The comparison solves for all pods of the cluster, so it is made at
most every COMPARE_SECONDS and takes at most SHARE_OF_TIME of one CPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from controller.cloud.catalogs import CatalogView
from controller.core.api.pod import Pod, PodKey
from controller.core.decisions.fleet_comparison import Comparison, compare
from controller.core.decisions.fleet_cost import fleet, owned
from controller.core.decisions.queues import Queue, queues
from controller.core.deprovisioning.records import recorded_commands
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.problem import provisionable
from controller.core.state.snapshot import Snapshot, StateNode
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime import metrics
from controller.telemetry.structured_logging import pod_names

MEASURE_SECONDS = 15.0
COMPARE_SECONDS = 300.0
SHARE_OF_TIME = 0.01
"""Share of one CPU that comparisons may take."""


class ObservationReconciler(ContextReconciler):
    """Observe pods that became ready in every pass, and measure the rest when it is due."""

    name = "observation"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._measure_at = self._compare_at = self._clock.monotonic()
        self._compared: tuple[int, float] | None = None
        """Version of the snapshot compared last, and when (monotonic seconds)."""
        self._pending: dict[str, float] = {}
        """Creation time (Unix seconds) of pods that were seen pending and are not ready yet, by uid."""
        self._awaited: dict[str, PodKey] = {}
        """Keys of pods that were seen waiting for a new node and do not run yet, by uid."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Measure what is due."""
        self._watch_pods(snapshot)
        self._log_running(snapshot)
        now = self._clock.monotonic()
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_SECONDS
            view = self._catalogs.view(snapshot)
            self._measure(snapshot, view)
            if now >= self._compare_at:
                self._compare(snapshot, view)
        return max(0.1, self._measure_at - self._clock.monotonic())

    def _watch_pods(self, snapshot: Snapshot) -> None:
        """Observe the start-up time of pods that were seen pending and are ready now."""
        now, still = self._clock.now(), {}
        for pod in snapshot.pods.values():
            if pod.phase == "Pending":
                still[pod.uid] = pod.created
            elif pod.uid in self._pending:
                if pod.ready:
                    self._recorder.observe(metrics.PODS_STARTUP_TIME, max(0.0, now - pod.created))
                elif not pod.terminal:
                    still[pod.uid] = pod.created
        self._pending = still

    def _log_running(self, snapshot: Snapshot) -> None:
        """Log pods that waited for a new node and are bound now, one line per node."""
        awaited = {pod.uid: pod.key for pod in snapshot.unbound if provisionable(pod, snapshot)}
        started: dict[str, list[Pod]] = defaultdict(list)
        for uid, key in self._awaited.items():
            pod = snapshot.pods.get(key)
            if pod is None or pod.uid != uid or uid in awaited:
                continue
            if pod.phase == "Pending":
                awaited[uid] = key
            elif pod.node_name:
                started[pod.node_name].append(pod)
        self._awaited, now = awaited, self._clock.now()
        for node, pods in sorted(started.items()):
            slowest = max(now - pod.created for pod in pods)
            keys = sorted(pod.key for pod in pods)
            self._log.info(
                "Pods run", node=node, pods=pod_names(keys), pod_count=len(keys), slowest_seconds=round(slowest, 1)
            )

    def _measure(self, snapshot: Snapshot, view: CatalogView) -> None:
        cost, nodes = fleet(snapshot, view.types), Counter[tuple[str, ...]]()
        prices: dict[tuple[str, ...], float] = defaultdict(float)
        for node in owned(snapshot):
            place = (node.provisioner_name, node.node.capacity_type, node.node.zone)
            nodes[(*place, _state(node))] += 1
            if node.name in cost.prices:
                prices[place] += cost.prices[node.name]
        self._recorder.replace(metrics.FLEET_PRICE, prices)
        self._recorder.replace(metrics.FLEET_NODES, nodes)
        self._recorder.replace(metrics.FLEET_UNPRICED, {(): len(cost.unpriced)})
        self._recorder.replace(metrics.UNAVAILABLE_OFFERINGS, _unavailable(view))
        now = self._clock.now()
        waiting = (*queues(snapshot, now), _commands(snapshot, now))
        self._recorder.replace(metrics.QUEUE_LENGTH, {(queue.name,): queue.length for queue in waiting})
        self._recorder.replace(metrics.QUEUE_AGE, {(queue.name,): queue.oldest_seconds for queue in waiting})
        if self._compared is not None:
            age = self._clock.monotonic() - self._compared[1]
            self._recorder.replace(metrics.COMPARISON_AGE, {(): age})

    def _compare(self, snapshot: Snapshot, view: CatalogView) -> None:
        began = self._clock.monotonic()
        if self._compared is None or self._compared[0] != snapshot.version:
            index = SnapshotIndex(snapshot, view.tables)
            self._report(compare(index, view.types, self._settings.current.solve_options(), view.problems))
            self._recorder.observe(metrics.COMPARISON_TIME, self._clock.monotonic() - began)
        self._compared = (snapshot.version, began)
        took = self._clock.monotonic() - began
        self._compare_at = began + max(COMPARE_SECONDS, took / SHARE_OF_TIME)

    def _report(self, comparison: Comparison) -> None:
        self._log.debug(
            "Compared the fleet's price",
            price_per_hour=round(comparison.fleet_price, 4),
            fresh_pack_per_hour=round(comparison.fresh_pack_price, 4),
            lower_bound_per_hour=round(comparison.bound_price, 4),
            nodes_kept=len(comparison.kept),
        )
        pairs = (
            (metrics.FRESH_PACK_PRICE, metrics.FRESH_PACK_RATIO, comparison.fresh_pack_price),
            (metrics.BOUND_PRICE, metrics.BOUND_RATIO, comparison.bound_price),
        )
        for price, ratio, amount in pairs:
            self._recorder.replace(price, {(): amount})
            self._recorder.replace(ratio, {(): comparison.fleet_price / amount} if amount > 0 else {})


def _state(node: StateNode) -> str:
    if node.leaving:
        return "leaving"
    return "initialized" if node.initialized else "starting"


def _unavailable(view: CatalogView) -> dict[tuple[str, ...], float]:
    """Count unavailable offerings by (capacity type, zone), each counted once however many Provisioners have it."""
    masked, places = set(), set()
    for types in view.types.values():
        for entry in types:
            for offering in entry.offerings:
                places.add((offering.capacity_type, offering.zone))
                if not offering.available:
                    masked.add((offering.capacity_type, offering.zone, entry.name))
    return {place: sum(each[:2] == place for each in masked) for place in sorted(places)}


def _commands(snapshot: Snapshot, now: float) -> Queue:
    started = [command.record.started_at for command in recorded_commands(snapshot)]
    return Queue("commands", len(started), max(0.0, now - min(started)) if started else 0.0)
