"""Write the series about nodes, pods and Provisioners from one snapshot at each scrape.

A thousand nodes have tens of thousands of lines with thirty labels each. The text of a node's labels is cached while
the node does not change, and the lines are formatted here: Prometheus' client takes forty times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, PROVISIONER_NAME, ZONE
from controller.core.api.node import Node
from controller.core.api.pod import Pod, Resources
from controller.core.machines.provisioner_limits import total, usage
from controller.core.state.snapshot import Snapshot, StateNode
from controller.runtime import metrics
from controller.runtime.metrics import Metric

MOST_POD_SERIES = 20_000
"""Pods beyond this number have no series; nodeless_metrics_dropped_series counts them."""
UNKNOWN = "N/A"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class ClusterSeries:
    """Write the series of snapshots. Concurrent scrapes may repeat work, but give the same result."""

    def __init__(self) -> None:
        self._labels: dict[str, tuple[Node, bool, str]] = {}
        """By node name: the node and whether it was leaving, and the label text for them."""

    def render(self, snapshot: Snapshot) -> bytes:
        self._labels = {name: entry for name, entry in self._labels.items() if name in snapshot.nodes}
        dropped = max(0, len(snapshot.pods) - MOST_POD_SERIES)
        parts = [
            self._nodes(snapshot, metrics.NODES_ALLOCATABLE, lambda node: node.allocatable),
            self._nodes(snapshot, metrics.NODES_POD_REQUESTS, lambda node: _requests(node, daemons=False)),
            self._nodes(snapshot, metrics.NODES_POD_LIMITS, lambda node: _limits(node, daemons=False)),
            self._nodes(snapshot, metrics.NODES_DAEMON_REQUESTS, lambda node: _requests(node, daemons=True)),
            self._nodes(snapshot, metrics.NODES_DAEMON_LIMITS, lambda node: _limits(node, daemons=True)),
            self._nodes(snapshot, metrics.NODES_OVERHEAD, _overhead),
            _head(metrics.PODS_STATE),
            *_pods(snapshot),
            *_provisioners(snapshot),
            _head(metrics.DROPPED_SERIES),
            f'{metrics.DROPPED_SERIES.name}{{metric="{metrics.PODS_STATE.name}"}} {dropped}\n',
        ]
        return "".join(parts).encode()

    def _nodes(self, snapshot: Snapshot, metric: Metric, amounts: Callable[[StateNode], Resources]) -> str:
        lines = [_head(metric)]
        for node in snapshot.nodes.values():
            labels = self._node_labels(node)
            lines += [
                f'{metric.name}{{resource_type="{_text(resource)}",{labels}}} {_amount(resource, value)}\n'
                for resource, value in amounts(node).items()
            ]
        return "".join(lines)

    def _node_labels(self, node: StateNode) -> str:
        known = self._labels.get(node.name)
        if known is not None and known[0] is node.node and known[1] == node.leaving:
            return known[2]
        own = node.node.labels
        values = (node.name, node.provisioner_name, phase(node), *(own.get(key, UNKNOWN) for key in metrics.NODE_KEYS))
        text = _joined(metrics.NODES_ALLOCATABLE.labels[1:], values)
        self._labels[node.name] = (node.node, node.leaving, text)
        return text


def phase(node: StateNode) -> str:
    """Return Pending until initialized (other nodes: until Ready), Running, Terminated while it is deleted."""
    if node.leaving:
        return "Terminated"
    up = node.initialized if node.provisioner_name else node.node.ready
    return "Running" if up else "Pending"


def _requests(node: StateNode, *, daemons: bool) -> Resources:
    return total(pod.spec.requests for pod in node.pods if pod.daemon == daemons)


def _limits(node: StateNode, *, daemons: bool) -> Resources:
    return total(pod.limits for pod in node.pods if pod.daemon == daemons)


def _overhead(node: StateNode) -> Resources:
    return FrozenMap({name: amount - node.allocatable.get(name, 0) for name, amount in node.capacity.items()})


def _pods(snapshot: Snapshot) -> Iterator[str]:
    name = metrics.PODS_STATE.name
    for _, pod in zip(range(MOST_POD_SERIES), snapshot.pods.values(), strict=False):
        yield f"{name}{{{_joined(metrics.PODS_STATE.labels, _pod_values(pod, snapshot))}}} 1\n"


def _pod_values(pod: Pod, snapshot: Snapshot) -> tuple[str, ...]:
    node = snapshot.nodes.get(pod.node_name)
    own: Mapping[str, str] = EMPTY if node is None else node.node.labels
    where = tuple(own.get(key, UNKNOWN) for key in (PROVISIONER_NAME, ZONE, ARCH, CAPACITY_TYPE, INSTANCE_TYPE))
    return (pod.name, pod.namespace, _owner(pod), pod.node_name or UNKNOWN, *where, pod.phase)


def _owner(pod: Pod) -> str:
    """Return the path of the first owner, in Karpenter v0.27's form."""
    if not pod.owners:
        return ""
    owner = pod.owners[0]
    return f"/apis/{owner.api_version}/namespaces/{pod.namespace}/{owner.kind.lower()}s/{owner.name}"


def _provisioners(snapshot: Snapshot) -> Iterator[str]:
    used = {name: usage(snapshot, name) for name in snapshot.provisioners}
    limits = {name: each.limits or EMPTY for name, each in snapshot.provisioners.items()}
    yield from _amounts(metrics.PROVISIONER_LIMIT, limits)
    yield from _amounts(metrics.PROVISIONER_USAGE, used)
    yield _head(metrics.PROVISIONER_USAGE_PCT)
    for name, resources in limits.items():
        for resource, limit in resources.items():
            percent = 100 * used[name].get(resource, 0) // limit if limit else 100
            labels = _joined(metrics.PROVISIONER_USAGE_PCT.labels, (resource, name))
            yield f"{metrics.PROVISIONER_USAGE_PCT.name}{{{labels}}} {percent}\n"


def _amounts(metric: Metric, amounts: Mapping[str, Resources]) -> Iterator[str]:
    yield _head(metric)
    for name, resources in amounts.items():
        for resource, value in resources.items():
            yield f"{metric.name}{{{_joined(metric.labels, (resource, name))}}} {_amount(resource, value)}\n"


def _amount(resource: str, value: int) -> str:
    """Format CPU in cores (amounts are in millicores), everything else in its own unit."""
    return f"{value / 1000:g}" if resource == "cpu" else str(value)


def _joined(names: Iterable[str], values: Iterable[str]) -> str:
    return ",".join([f'{name}="{_text(value)}"' for name, value in zip(names, values, strict=True)])


def _text(value: str) -> str:
    return value.translate(_ESCAPES) if '"' in value or "\\" in value or "\n" in value else value


def _head(metric: Metric) -> str:
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
