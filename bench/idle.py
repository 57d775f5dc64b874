"""What an idle controller costs: nodes and pods that stay, the changes that a cluster makes anyway, and a lost watch.

The cluster state and the loops that read all of it run in this process, without an API server and without a cloud, so
that the figures are the controller's own. Kubelets report their nodes every five minutes; a few pods come and go.
"""

from __future__ import annotations

import gc
import resource
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import orjson

from controller.core.decisions.queues import queues
from controller.core.machines.disk_pressure import with_learned_storage
from controller.core.provisioning.planned_ahead import untried
from controller.core.provisioning.problem import waiting
from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.runtime.clock import SystemClock
from controller.runtime.cluster_state import ClusterState

HEARTBEAT_SECONDS = 300.0
"""Between two reports of a kubelet that has nothing new to say (nodeStatusReportFrequency)."""
POD_CHANGES_A_SECOND = 10.0
PASS_SECONDS, MEASURE_SECONDS = 0.05, 15.0
"""Between two passes of the loops that pods wait for, and between two observations of the fleet."""
PAGE = 500
"""Objects a page of a list, as the controller asks for them."""


@dataclass(frozen=True, slots=True)
class Idle:
    """`share`: of one core, for the changes of a second and the passes that they cause. `relist_seconds`: to read and
    apply a list of all pods after a lost watch, of which other threads wait `stall_seconds` at a stretch at most."""

    nodes: int
    pods: int
    rss_mib: float
    share: float
    relist_seconds: float
    stall_seconds: float

    def table(self) -> str:
        """For people."""
        return (
            f"{self.nodes:,} nodes, {self.pods:,} pods: {self.rss_mib:,.0f} MiB, {self.share:.1%} of a core; "
            f"relist of all pods {self.relist_seconds:.2f} s of processor time, {self.stall_seconds:.2f} s at a stretch"
        )


def measure(nodes: int, pods: int) -> Idle:
    """Fill a cluster state, let it idle, and relist."""
    state = ClusterState(Cluster(("Node", "Pod")), SystemClock())
    state.take(Change("Node", ChangeType.REPLACED, tuple(_node(number) for number in range(nodes)), "1"))
    pages = [orjson.dumps(list(page)) for page in _pages(_pod(number, nodes) for number in range(pods))]
    state.take(Change("Pod", ChangeType.REPLACED, tuple(_decoded(pages)), "1"))
    gc.collect()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    relist, stall = _relist(state, pages)
    share = _share(state, nodes, pods)
    return Idle(nodes, pods, rss, share, relist, stall)


def _share(state: ClusterState, nodes: int, pods: int, seconds: int = 20) -> float:
    """Processor time for each second of the changes of an idle cluster, and the passes that they wake."""
    changes = list(_changes(nodes, pods, int(seconds * POD_CHANGES_A_SECOND)))
    stop = threading.Event()
    state.start()
    looks = threading.Thread(target=_look_on, args=(state, stop))
    looks.start()
    began, processor = time.monotonic(), time.process_time()
    for number, together in enumerate(changes, start=1):
        for change in together:
            state.take(change)
        time.sleep(max(0.0, began + number / POD_CHANGES_A_SECOND - time.monotonic()))
    share = (time.process_time() - processor) / (time.monotonic() - began)
    stop.set()
    looks.join()
    state.stop()
    return share


def _changes(nodes: int, pods: int, count: int) -> Iterator[list[Change]]:
    """So many changes of a pod, each with the reports of kubelets that come meanwhile."""
    for number in range(count):
        documents = [_node((number * 31 + each) % nodes) for each in range(_reports(nodes))]
        together = [Change("Node", ChangeType.MODIFIED, (document,)) for document in documents]
        documents.append(_pod((number * 7) % pods, nodes))
        documents[-1]["metadata"]["annotations"] = {"n": str(number)}
        for document in documents:
            document["metadata"]["resourceVersion"] = str(1_000_000 + number)
        yield [*together, Change("Pod", ChangeType.MODIFIED, (documents[-1],))]


def _reports(nodes: int) -> int:
    return round(nodes / HEARTBEAT_SECONDS / POD_CHANGES_A_SECOND)


def _look_on(state: ClusterState, stop: threading.Event) -> None:
    """What provisioning and the observation of the fleet look at, as often as changes and their clocks let them."""
    version, measured_at = 0, 0.0
    while not stop.is_set():
        snapshot = state.wait_for_change(version, stop, 1.0)
        version = snapshot.version
        staged = with_learned_storage(snapshot)
        assert not list(waiting(staged))
        assert not untried(staged).ahead
        if time.monotonic() - measured_at > MEASURE_SECONDS:
            measured_at = time.monotonic()
            queues(snapshot, time.time())
        stop.wait(PASS_SECONDS)


def _relist(state: ClusterState, pages: list[bytes]) -> tuple[float, float]:
    """Decode page by page, then apply: processor seconds, and the longest of these steps."""
    steps: list[float] = []

    def timed(step: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = step()
        steps.append(time.process_time() - began)
        return result

    documents = [document for page in pages for document in timed(partial(orjson.loads, page))]
    timed(lambda: state.take(Change("Pod", ChangeType.REPLACED, tuple(documents), "2")))
    return sum(steps), max(steps)


def _decoded(pages: list[bytes]) -> Iterator[dict[str, Any]]:
    for page in pages:
        yield from orjson.loads(page)


def _pages(documents: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while page := list(islice(documents, PAGE)):
        yield page


def _node(number: int) -> dict[str, Any]:
    room = {"cpu": "16", "memory": "64Gi", "pods": "234"}
    labels = {
        "karpenter.sh/provisioner-name": "default",
        "karpenter.sh/initialized": "true",
        "kubernetes.io/hostname": f"node-{number}",
        "node.kubernetes.io/instance-type": "m5.4xlarge",
        "topology.kubernetes.io/zone": f"eu-west-1{'abc'[number % 3]}",
    }
    return {
        "metadata": {"name": f"node-{number}", "uid": f"node-{number}", "resourceVersion": "1", "labels": labels},
        "spec": {"providerID": f"aws:///eu-west-1a/i-{number:017x}"},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(number: int, nodes: int) -> dict[str, Any]:
    app = f"app-{number % 500}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return {
        "metadata": {
            "name": f"{app}-{number}",
            "namespace": "default",
            "uid": f"pod-{number}",
            "resourceVersion": "1",
            "labels": {"app": app},
            "ownerReferences": [owner],
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {
            "nodeName": f"node-{number % nodes}",
            "containers": [{"name": "main", "image": "registry.example/app:1", "resources": resources}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
