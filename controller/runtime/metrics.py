"""Every metric's name, labels and help, and the Recorder that takes measurements.

Names, labels and buckets of `karpenter_*` and `controller_runtime_*` are Karpenter v0.27's, so that public dashboards
work; as there, counters have no `_total`. `nodeless_*` are ours. Two differ from Karpenter v0.27 on purpose:
`eligible_machines` falls back to 0 and has a label for the method, and evaluation durations contain no waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from controller.core.api.labels import WELL_KNOWN

Kind = Literal["counter", "gauge", "histogram", "summary"]

DURATIONS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5),
    *(1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
"""Upper bounds in seconds, Karpenter v0.27's."""
DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Prometheus' own, which Karpenter v0.27 uses for some metrics."""
SIZES: Final = (
    *(1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0, 150.0, 175.0),
    *(200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0, 900.0, 1000.0),
)
"""Upper bounds of batch sizes, Karpenter v0.27's."""
QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)
"""Of summaries, over the last ten minutes."""

NODE_KEYS: Final = tuple(sorted(WELL_KNOWN))
"""Node labels that become labels of the node's series, as in Karpenter v0.27: the well-known ones."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `buckets` are upper bounds, for histograms."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class Recorder(Protocol):
    """Records metrics. Thread-safe; never raises for a value, never blocks."""

    def count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        """Add to a counter. `labels` are the values, in the order of the metric's."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add an observation to a histogram or a summary."""

    def replace(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        """Set all values of a gauge, by label values; series that are not among them are removed."""


class Silent:
    """A recorder that ignores everything."""

    def count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        """See Recorder."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See Recorder."""

    def replace(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        """See Recorder."""


SILENT: Final[Recorder] = Silent()


def label_name(key: str) -> str:
    """Return the series label for a node label: the part after the slash, with underscores."""
    return key.rpartition("/")[2].replace("-", "_").replace(".", "_")


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", text, labels)


def _histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = DURATIONS) -> Metric:
    return Metric(name, "histogram", text, labels, buckets)


def _summary(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "summary", text, labels)


# One row: name, help, labels.
# fmt: off
EVALUATION_DURATION = _histogram("karpenter_deprovisioning_evaluation_duration_seconds",
    "Duration of a search for nodes to remove.", "method")
REPLACEMENT_INITIALIZED = _histogram("karpenter_deprovisioning_replacement_node_initialized_seconds",
    "From the record of a command to all of its replacements being initialized.")
SEARCH_SECONDS = _counter("nodeless_search_seconds",
    "Processor time of searches for nodes to consolidate; its rate stays at or below 0.1, a tenth of one core.")
ACTIONS_PERFORMED = _counter("karpenter_deprovisioning_actions_performed",
    "Deprovisioning commands begun. action: METHOD/delete or METHOD/replace.", "action", "deprovisioner")
ELIGIBLE_MACHINES = _gauge("karpenter_deprovisioning_eligible_machines",
    "Nodes that a method would remove if allowed.", "deprovisioner")
NODES_CREATED = _counter("karpenter_nodes_created",
    "Nodes launched. reason: provisioning or METHOD/replace.", "reason", "provisioner")
NODES_TERMINATED = _counter("karpenter_nodes_terminated",
    "Nodes whose removal began. reason: METHOD/delete, METHOD/replace or interruption.", "reason", "provisioner")
TERMINATION_TIME = _summary("karpenter_nodes_termination_time_seconds",
    "From a node's deletion to its finalizer's removal.", "provisioner")

_NODE_LABELS = (
    *("resource_type", "node_name", "provisioner", "phase"),
    *(label_name(key) for key in NODE_KEYS),
)
NODES_ALLOCATABLE = _gauge("karpenter_nodes_allocatable",
    "Allocatable resources of nodes. CPU in cores, memory in bytes.", *_NODE_LABELS)
NODES_POD_REQUESTS = _gauge("karpenter_nodes_total_pod_requests",
    "Requests of pods on the node, without DaemonSet pods.", *_NODE_LABELS)
NODES_POD_LIMITS = _gauge("karpenter_nodes_total_pod_limits",
    "Limits of pods on the node, without DaemonSet pods.", *_NODE_LABELS)
NODES_DAEMON_REQUESTS = _gauge("karpenter_nodes_total_daemon_requests",
    "Requests of DaemonSet pods on the node.", *_NODE_LABELS)
NODES_DAEMON_LIMITS = _gauge("karpenter_nodes_total_daemon_limits",
    "Limits of DaemonSet pods on the node.", *_NODE_LABELS)
NODES_OVERHEAD = _gauge("karpenter_nodes_system_overhead", "Capacity minus allocatable.", *_NODE_LABELS)

PODS_STATE = _gauge("karpenter_pods_state",
    "1 for every pod. owner: the path of its first owner. N/A: the node is not known.", "name", "namespace", "owner",
    "node", "provisioner", "zone", "arch", "capacity_type", "instance_type", "phase")
PODS_STARTUP_TIME = _summary("karpenter_pods_startup_time_seconds",
    "From a pod's creation to its readiness; pods that were seen pending.")
PROVISIONER_LIMIT = _gauge("karpenter_provisioner_limit", "spec.limits.resources.", "resource_type", "provisioner")
PROVISIONER_USAGE = _gauge("karpenter_provisioner_usage",
    "Total capacity of the Provisioner's nodes.", "resource_type", "provisioner")
PROVISIONER_USAGE_PCT = _gauge("karpenter_provisioner_usage_pct",
    "Usage as a percentage of the limit.", "resource_type", "provisioner")
SCHEDULING_DURATION = _histogram("karpenter_provisioner_scheduling_duration_seconds",
    "Duration of the solver for a batch of pending pods.")
CONSISTENCY_CHECKS: Final = (
    *("FailedInit", "Termination", "NodeShape"),  # Karpenter v0.27's
    *("FailedRegistration", "InstanceGone", "LeakedInstance", "LostTag", "RefusedRemoval"),
)
CONSISTENCY_ERRORS = _counter("karpenter_consistency_errors",
    f"Nodes that failed a consistency check. check: {', '.join(CONSISTENCY_CHECKS)}.", "check")
CLOUD_DURATION = _histogram("karpenter_cloudprovider_duration_seconds",
    "Duration of the cloud provider's methods.", "controller", "method", "provider", buckets=DEFAULT_BUCKETS)
CLOUD_ERRORS = _counter("nodeless_cloudprovider_errors",
    "Failed calls of the cloud provider, by type of error.", "controller", "method", "error")
BATCH_TIME = _histogram("karpenter_cloudprovider_batcher_batch_time_seconds",
    "How long a batch collected calls.", "batcher")
BATCH_SIZE = _histogram("karpenter_cloudprovider_batcher_batch_size",
    "Calls merged into one batch.", "batcher", buckets=SIZES)
INTERRUPTION_RECEIVED = _counter("karpenter_interruption_received_messages",
    "Messages received from the queue.", "message_type")
INTERRUPTION_DELETED = _counter("karpenter_interruption_deleted_messages", "Messages handled and deleted.")
INTERRUPTION_LATENCY = _histogram("karpenter_interruption_message_latency_time_seconds",
    "From the event in AWS to the end of the message's handling.")
INTERRUPTION_ACTIONS = _counter("karpenter_interruption_actions_performed",
    "Actions on nodes for messages. action_type: CordonAndDrain or NoAction.", "action_type")

RECONCILE_TOTAL = _counter("controller_runtime_reconcile_total",
    "Passes of a loop. result: success or error.", "controller", "result")
RECONCILE_ERRORS = _counter("controller_runtime_reconcile_errors_total", "Passes that failed.", "controller")
RECONCILE_TIME = _histogram("controller_runtime_reconcile_time_seconds", "Duration of a pass.", "controller")
MOST_WORKERS = _gauge("controller_runtime_max_concurrent_reconciles",
    "Concurrent passes of a loop: always one.", "controller")
ACTIVE_WORKERS = _gauge("controller_runtime_active_workers", "1 while the loop runs in this process.", "controller")
REST_REQUESTS = _counter("rest_client_requests_total",
    "Requests to the API server. code: the status, or <error> without an answer.", "code", "method", "host")
LEADER = _gauge("leader_election_master_status", "1 while this process leads, else 0.", "name")

FLEET_PRICE = _gauge("nodeless_fleet_price_per_hour",
    "$ an hour of NodeLess' nodes, at the prices that decisions use.", "provisioner", "capacity_type", "zone")
FLEET_NODES = _gauge("nodeless_fleet_nodes",
    "NodeLess' nodes. state: starting, initialized, leaving.", "provisioner", "capacity_type", "zone", "state")
FLEET_UNPRICED = _gauge("nodeless_fleet_unpriced_nodes", "NodeLess' nodes without a known price.")
FRESH_PACK_PRICE = _gauge("nodeless_fresh_pack_price_per_hour", "$ an hour of a new plan for all pods, on new nodes.")
FRESH_PACK_RATIO = _gauge("nodeless_fleet_price_over_fresh_pack", "Price of the fleet over that of the fresh pack.")
BOUND_PRICE = _gauge("nodeless_lower_bound_price_per_hour", "$ an hour below which no plan for the same pods can cost.")
BOUND_RATIO = _gauge("nodeless_fleet_price_over_lower_bound", "Price of the fleet over the lower bound.")
COMPARISON_AGE = _gauge("nodeless_price_comparison_age_seconds", "Since fresh pack and lower bound were computed.")
COMPARISON_TIME = _histogram("nodeless_price_comparison_duration_seconds", "Duration of computing the two.")
UNAVAILABLE_OFFERINGS = _gauge("nodeless_unavailable_offerings",
    "Offerings left out of plans: EC2 recently had no capacity for them, or their zone no free addresses.",
    "capacity_type", "zone")
SUBNET_FREE_ADDRESSES = _gauge("nodeless_subnet_free_addresses",
    "Free addresses of the subnets that node templates select, by EC2.", "subnet", "zone")
ZONE_LEFT = _gauge("nodeless_zone_left",
    "1 while a zonal shift (ARC) leaves the zone: no node is launched there.", "zone")
DECISIONS = _counter("nodeless_decisions",
    "Launches, skips and removals. method: what decided.", "kind", "method", "provisioner")
GUARD_REFUSALS = _counter("nodeless_guard_refusals",
    "Launches that a limit forbade. guard: provisioner-price, cluster-price, cluster-resources, launch-rate.", "guard",
    "provisioner")
PLANNED_AHEAD = _counter("nodeless_pods_planned_ahead",
    "Pods that were planned for before kube-scheduler had tried them. outcome: launched (on a new node), or "
    "taken-back (before the launch, since none of the node's pods waited any more).", "outcome")
PLAN_AUDIT_VIOLATIONS = _counter("nodeless_plan_audit_violations",
    "Rules that a plan broke when it was audited before its launches. method: what planned. result: violation, or "
    "audit-failed where the audit itself failed.", "method", "result")
UNHEALTHY_NODES = _gauge("nodeless_unhealthy_nodes",
    "Initialized nodes with a failing condition: Ready, or one of the node monitoring agent.", "provisioner",
    "condition")
REPAIR_BLOCKED = _gauge("nodeless_node_repair_blocked",
    "1 while unhealthy nodes of a Provisioner are not replaced, since over 20 % of its nodes or of the cluster's are "
    "unhealthy at once.", "provisioner")
HEADROOM_UNITS = _gauge("nodeless_headroom_units",
    "Units of headroom of a Provisioner. state: wanted, or kept on existing nodes.", "provisioner", "state")
QUEUE_LENGTH = _gauge("nodeless_queue_length",
    "Length of a queue: pending pods, starting nodes, leaving nodes, commands.", "queue")
QUEUE_AGE = _gauge("nodeless_queue_oldest_age_seconds", "Age of the oldest entry of a queue.", "queue")
DELETION_COSTS_WRITTEN = _counter("nodeless_pod_deletion_costs_written",
    "Pods on which a deletion cost was written, or taken off. action: write or remove.", "action")
CLUSTER_NOT_PROVEN = _gauge("nodeless_cluster_not_proven",
    "1 while nothing is removed, because it is not proven that the leader looks at its own cluster. standing: "
    "doubted, or disproved, where nothing is launched either.", "standing")
LEADER_WAITING = _gauge("nodeless_leader_waiting",
    "1 while the leader waits before it acts. wait: cluster (its own, not proven yet), adoption (of instances that an "
    "earlier process launched), launches (whose Node is not there yet).", "wait")
CONFIGURATION_REFUSED = _gauge("nodeless_configuration_refused",
    "1 while a ConfigMap breaks a rule and its last good content holds.", "config_map")
UNREADABLE_RECORDS = _counter("nodeless_unreadable_records",
    "Records of this or another controller that cannot be read. record: the annotation's key, or the ConfigMap's name.",
    "record")
DROPPED_SERIES = _gauge("nodeless_metrics_dropped_series",
    "Series left out of this page because a metric has too many.", "metric")

# fmt: on

ALL: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Every metric but those of the process (process_*, python_*), which come from Prometheus' client."""
