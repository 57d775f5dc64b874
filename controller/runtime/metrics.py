"""What is measured: every metric's name, labels and meaning, and the seam by which the shell tells of it.

Names, labels and buckets of `karpenter_*` and `controller_runtime_*` are Karpenter v0.27's, so that public dashboards
work; as there, counters carry no `_total`. `nodeless_*` are ours. Where the peer's meaning is a mistake we differ:
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
"""Upper bounds in seconds, the peer's."""
DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Prometheus' own, which the peer leaves in place where it says nothing."""
SIZES: Final = (
    *(1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0, 150.0, 175.0),
    *(200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0, 900.0, 1000.0),
)
"""Of batches, the peer's."""
QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)
"""Of summaries, over the last ten minutes."""

NODE_KEYS: Final = tuple(sorted(WELL_KNOWN))
"""Labels of nodes that become labels of their series, as in the peer: the well-known ones."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `buckets` are upper bounds, for histograms."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class Recorder(Protocol):
    """Takes what the shell measures; thread-safe, never raises for a value, never waits."""

    def count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        """Add to a counter. `labels` are the values, in the order of the metric's."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """One observation of a histogram or a summary."""

    def replace(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        """All values of a gauge there are, by label values: what is not among them is gone."""


class Silent:
    """A recorder that takes nothing in."""

    def count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        """See Recorder."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See Recorder."""

    def replace(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        """See Recorder."""


SILENT: Final[Recorder] = Silent()


def label_name(key: str) -> str:
    """A node label's name as a label of a series: the part after the slash, with underscores."""
    return key.rpartition("/")[2].replace("-", "_").replace(".", "_")


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", text, labels)


def _histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = DURATIONS) -> Metric:
    return Metric(name, "histogram", text, labels, buckets)


def _summary(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "summary", text, labels)


EVALUATION_DURATION = _histogram(
    "karpenter_deprovisioning_evaluation_duration_seconds", "How long a method looked for nodes to remove.", "method"
)
REPLACEMENT_INITIALIZED = _histogram(
    "karpenter_deprovisioning_replacement_node_initialized_seconds",
    "From the record of a command to all of its replacements being initialized.",
)
ACTIONS_PERFORMED = _counter(
    "karpenter_deprovisioning_actions_performed",
    "Deprovisioning commands begun. action: METHOD/delete or METHOD/replace.",
    *("action", "deprovisioner"),
)
ELIGIBLE_MACHINES = _gauge(
    "karpenter_deprovisioning_eligible_machines", "Nodes that a method would remove if it could.", "deprovisioner"
)
NODES_CREATED = _counter(
    "karpenter_nodes_created", "Nodes launched. reason: provisioning or METHOD/replace.", "reason", "provisioner"
)
NODES_TERMINATED = _counter(
    "karpenter_nodes_terminated",
    "Nodes whose removal we began. reason: METHOD/delete, METHOD/replace or interruption.",
    *("reason", "provisioner"),
)
TERMINATION_TIME = _summary(
    "karpenter_nodes_termination_time_seconds", "From a node's deletion to its finalizer's removal.", "provisioner"
)

_NODE_LABELS = (
    *("resource_type", "node_name", "provisioner", "phase"),
    *(label_name(key) for key in NODE_KEYS),
)
NODES_ALLOCATABLE = _gauge(
    "karpenter_nodes_allocatable", "What nodes have for pods. CPU in cores, memory in bytes.", *_NODE_LABELS
)
NODES_POD_REQUESTS = _gauge(
    "karpenter_nodes_total_pod_requests", "Requests of pods on the node, DaemonSets' left out.", *_NODE_LABELS
)
NODES_POD_LIMITS = _gauge(
    "karpenter_nodes_total_pod_limits", "Limits of pods on the node, DaemonSets' left out.", *_NODE_LABELS
)
NODES_DAEMON_REQUESTS = _gauge(
    "karpenter_nodes_total_daemon_requests", "Requests of DaemonSets' pods on the node.", *_NODE_LABELS
)
NODES_DAEMON_LIMITS = _gauge(
    "karpenter_nodes_total_daemon_limits", "Limits of DaemonSets' pods on the node.", *_NODE_LABELS
)
NODES_OVERHEAD = _gauge("karpenter_nodes_system_overhead", "Capacity less allocatable.", *_NODE_LABELS)

PODS_STATE = _gauge(
    "karpenter_pods_state",
    "1 for every pod. owner: the path of its first owner; N/A where the node is not known.",
    *("name", "namespace", "owner", "node", "provisioner", "zone", "arch", "capacity_type", "instance_type", "phase"),
)
PODS_STARTUP_TIME = _summary(
    "karpenter_pods_startup_time_seconds", "From a pod's creation to its being ready; pods that were seen pending."
)
PROVISIONER_LIMIT = _gauge("karpenter_provisioner_limit", "spec.limits.resources.", "resource_type", "provisioner")
PROVISIONER_USAGE = _gauge(
    "karpenter_provisioner_usage", "Capacity of the Provisioner's nodes.", "resource_type", "provisioner"
)
PROVISIONER_USAGE_PCT = _gauge(
    "karpenter_provisioner_usage_pct", "Usage in percent of the limit.", "resource_type", "provisioner"
)
SCHEDULING_DURATION = _histogram(
    "karpenter_provisioner_scheduling_duration_seconds", "How long the solver took for a batch of pending pods."
)
CONSISTENCY_CHECKS: Final = (
    *("FailedInit", "Termination", "NodeShape"),  # the peer's
    *("FailedRegistration", "InstanceGone", "LeakedInstance"),
)
CONSISTENCY_ERRORS = _counter(
    "karpenter_consistency_errors",
    f"Nodes found not to be what they should be. check: {', '.join(CONSISTENCY_CHECKS)}.",
    "check",
)
CLOUD_DURATION = _histogram(
    "karpenter_cloudprovider_duration_seconds",
    "How long the cloud provider's methods took.",
    *("controller", "method", "provider"),
    buckets=DEFAULT_BUCKETS,
)
CLOUD_ERRORS = _counter(
    "nodeless_cloudprovider_errors",
    "Calls of the cloud provider that failed, by the error's kind.",
    *("controller", "method", "error"),
)
BATCH_TIME = _histogram(
    "karpenter_cloudprovider_batcher_batch_time_seconds", "How long a batch of calls was open.", "batcher"
)
BATCH_SIZE = _histogram(
    "karpenter_cloudprovider_batcher_batch_size", "Calls that one batch merged.", "batcher", buckets=SIZES
)
INTERRUPTION_RECEIVED = _counter(
    "karpenter_interruption_received_messages", "Messages taken from the queue.", "message_type"
)
INTERRUPTION_DELETED = _counter("karpenter_interruption_deleted_messages", "Messages handled and deleted.")
INTERRUPTION_LATENCY = _histogram(
    "karpenter_interruption_message_latency_time_seconds", "From AWS's event to the message being handled."
)
INTERRUPTION_ACTIONS = _counter(
    "karpenter_interruption_actions_performed",
    "What messages brought about, once a node. action_type: CordonAndDrain or NoAction.",
    "action_type",
)

RECONCILE_TOTAL = _counter(
    "controller_runtime_reconcile_total", "Passes of a loop. result: success or error.", "controller", "result"
)
RECONCILE_ERRORS = _counter("controller_runtime_reconcile_errors_total", "Passes that failed.", "controller")
RECONCILE_TIME = _histogram("controller_runtime_reconcile_time_seconds", "How long a pass took.", "controller")
MOST_WORKERS = _gauge(
    "controller_runtime_max_concurrent_reconciles", "Passes that the loop may make at once: one.", "controller"
)
ACTIVE_WORKERS = _gauge("controller_runtime_active_workers", "1 while the loop runs in this process.", "controller")
REST_REQUESTS = _counter(
    "rest_client_requests_total",
    "Requests to the API server. code: the status, or <error> without an answer.",
    *("code", "method", "host"),
)
LEADER = _gauge("leader_election_master_status", "1 while this process leads, else 0.", "name")

FLEET_PRICE = _gauge(
    "nodeless_fleet_price_per_hour",
    "$ an hour of our nodes, at the prices that we decide by.",
    *("provisioner", "capacity_type", "zone"),
)
FLEET_NODES = _gauge(
    "nodeless_fleet_nodes",
    "Our nodes. state: starting, initialized, leaving.",
    *("provisioner", "capacity_type", "zone", "state"),
)
FLEET_UNPRICED = _gauge("nodeless_fleet_unpriced_nodes", "Our nodes whose price nobody knows.")
FRESH_PACK_PRICE = _gauge(
    "nodeless_fresh_pack_price_per_hour", "$ an hour of nodes for the same pods, were all packed anew."
)
FRESH_PACK_RATIO = _gauge("nodeless_fleet_price_over_fresh_pack", "What the fleet costs, as a multiple of that.")
BOUND_PRICE = _gauge("nodeless_lower_bound_price_per_hour", "$ an hour that no packing of the same pods undercuts.")
BOUND_RATIO = _gauge("nodeless_fleet_price_over_lower_bound", "What the fleet costs, as a multiple of that.")
COMPARISON_AGE = _gauge("nodeless_price_comparison_age_seconds", "Since fresh pack and lower bound were worked out.")
COMPARISON_TIME = _histogram("nodeless_price_comparison_duration_seconds", "How long working them out took.")
UNAVAILABLE_OFFERINGS = _gauge(
    "nodeless_unavailable_offerings",
    "Offerings that are not planned because EC2 had no capacity for them a while ago.",
    *("capacity_type", "zone"),
)
DECISIONS = _counter(
    "nodeless_decisions", "Launches, skips and removals. method: what decided.", "kind", "method", "provisioner"
)
GUARD_REFUSALS = _counter(
    "nodeless_guard_refusals",
    "Launches that a limit forbade. guard: provisioner-price, cluster-price, cluster-resources, launch-rate.",
    *("guard", "provisioner"),
)
HEADROOM_UNITS = _gauge(
    "nodeless_headroom_units",
    "Units of room that a Provisioner is to keep free. state: wanted, or kept on nodes that there are.",
    *("provisioner", "state"),
)
QUEUE_LENGTH = _gauge(
    "nodeless_queue_length", "What waits: pods for a node, nodes to come up, nodes to end, commands.", "queue"
)
QUEUE_AGE = _gauge("nodeless_queue_oldest_age_seconds", "How long the oldest of a queue has waited.", "queue")
CONFIGURATION_REFUSED = _gauge(
    "nodeless_configuration_refused",
    "1 while a ConfigMap breaks a rule, so that what it said before holds.",
    "config_map",
)
DROPPED_SERIES = _gauge(
    "nodeless_metrics_dropped_series", "Series left out of this page because a metric has too many.", "metric"
)

ALL: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Every metric of ours. Those of the process itself (process_*, python_*) come from Prometheus' client."""
