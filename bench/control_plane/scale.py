"""Scale on a real control plane: pods that all wait at once, the nodes made for them, and kube-scheduler's bindings.

Kubernetes' own processes are the real ones; EC2 and the kubelets are the sandbox's. When things happened is read from
what the cluster itself recorded (creation, PodScheduled, Ready: whole seconds), so that looking on costs nothing; only
the controller's memory and processor time are sampled, from /proc.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.control_plane.processor_time import ProcessorTime, process_seconds
from components.documents.rbac import rbac
from e2e.audit import tally
from e2e.cluster import Cluster, condition
from e2e.installation import installed
from e2e.scenario import provisioner
from e2e.workloads import deployment
from sandbox.environment import NAMESPACE as CONTROLLER_NAMESPACE
from sandbox.world.resources import DEPLOYMENTS, PODS, Obj

NODE_CPUS = "16"
PODS_PER_NODE = 10
POD_CPU = "1500m"
"""Ten of them fill a node of 16 vCPUs."""
CLIENT_QPS = 300
"""Of kube-scheduler and of kube-controller-manager each."""
JOIN_SECONDS = READY_SECONDS = 4.0
"""With a second until the instance runs: nine from launch to Ready."""
WAIT_SECONDS = 3_600.0
SAMPLE_SECONDS = 1.0
NAMESPACE = "scale"


@dataclass(frozen=True, slots=True)
class Usage:
    """The controller's process at a moment: seconds since pods were asked for, bytes, seconds of processor time."""

    at: float
    rss_bytes: int
    processor_seconds: float


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """Seconds since the first pod was created, one for each pod or node, in order."""

    created: tuple[float, ...]
    bound: tuple[float, ...]
    waited: tuple[float, ...]
    """From each pod's creation to its binding."""
    launched: tuple[float, ...]
    """When EC2 launched each instance."""
    known: tuple[float, ...]
    """When each Node was created, by the controller or by its kubelet."""
    ready: tuple[float, ...]
    usage: tuple[Usage, ...]
    calls: Counter[str]
    """The controller's requests to the API server, by verb and resource, until the last pod was bound."""
    spent: ProcessorTime
    """From the first pod to the last binding."""
    load: float
    """The machine's load average over 5 minutes, at the end: others may be at work on it."""

    @property
    def calls_per_node(self) -> float:
        """All requests over the nodes that were made."""
        return self.calls.total() / len(self.launched)

    @property
    def rss_bytes(self) -> int:
        """The most."""
        return max(each.rss_bytes for each in self.usage)

    @property
    def processor_seconds(self) -> float:
        """User and system time from the first pod to the last binding."""
        return self.usage[-1].processor_seconds - self.usage[0].processor_seconds


def run(
    nodes: int, *, scheduler_alone: bool = False, ahead_of_owners: bool = False
) -> tuple[ScaleRun, ScaleRun | None]:
    """Ask for as many pods as fill `nodes`, and wait until the last is bound. Raises AssertionError after an hour.

    With `scheduler_alone` then once more on the nodes that are there, without the controller: the second run is the
    least that kube-scheduler needs, beside as many kubelets. Nothing is launched in it. `ahead_of_owners`: with the
    setting planAheadOwners.
    """
    with scale_cluster() as cluster:
        if ahead_of_owners:
            _plan_ahead_of_owners(cluster)
        mark, began = cluster.audit.mark(), time.time()
        (replica,) = cluster.replicas.by_name.values()
        with sampled(replica.child.process.pid) as usage:
            spent = _ask_and_wait(cluster, nodes)
        measured = _read(cluster, usage, tally(cluster.audit.since(mark)), began, spent)
        if not scheduler_alone:
            return measured, None
        cluster.replicas.take_away(replica.name)
        remove_pods(cluster)
        return measured, replace(once_more(cluster, nodes), launched=(), known=(), ready=())


@contextmanager
def scale_cluster() -> Iterator[Cluster]:
    """Yield a control plane with one replica of the controller, the namespace of the pods, and a Provisioner."""
    with (
        tempfile.TemporaryDirectory(prefix="nodeless-scale-") as folder,
        installed(Path(folder), ("karpenter-0",), CLIENT_QPS, (JOIN_SECONDS, READY_SECONDS)) as cluster,
    ):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, _provisioner())
        yield cluster


def once_more(cluster: Cluster, nodes: int) -> ScaleRun:
    """Ask for the pods and wait until all are bound; the controller, if there is one, is not looked at."""
    began = time.time()
    spent = _ask_and_wait(cluster, nodes)
    return _read(cluster, [], Counter(), began, spent)


def _plan_ahead_of_owners(cluster: Cluster) -> None:
    """Change the setting, with the rights that the stack gives along with it, and wait until the controller leads."""
    rights = rbac(CONTROLLER_NAMESPACE, owners=True)
    cluster.apply(rights["owners-cluster-role"], rights["owners-cluster-role-binding"])
    patch = '{"data": {"planAheadOwners": "true"}}'
    settings = ("configmap", "karpenter-global-settings", "--namespace", CONTROLLER_NAMESPACE)
    cluster.kubectl("patch", *settings, "--type=merge", "--patch", patch)
    logged = cluster.replicas.mark()
    cluster.replicas.roll_out(None)
    cluster.until(lambda: any(line["message"] == "Acts" for line in cluster.replicas.lines(logged)), "it leads", 60.0)


def _ask_and_wait(cluster: Cluster, nodes: int) -> ProcessorTime:
    """Ask for the pods and wait until all are bound; return the processor time meanwhile."""
    before = ProcessorTime.now()
    cluster.apply(*_workloads(nodes * PODS_PER_NODE))
    cluster.until(lambda: _all_bound(cluster, nodes), "all pods are bound", WAIT_SECONDS, every_seconds=2.0)
    return ProcessorTime.now().since(before)


def remove_pods(cluster: Cluster) -> None:
    """Delete the Deployments, and wait until no pod is left."""
    cluster.kubectl("delete", "deployments", "--all", "--namespace", NAMESPACE)
    cluster.until(lambda: not _some_pod(cluster), "the pods are gone", WAIT_SECONDS, every_seconds=2.0)


def _provisioner() -> Obj:
    wanted = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [NODE_CPUS]}]
    return provisioner("scale", {"providerRef": {"name": "default"}, "weight": 50, "requirements": wanted})


def _workloads(pods: int, most: int = 1_000) -> list[Obj]:
    """Deployments of at most a thousand pods."""
    sizes = [most] * (pods // most) + ([pods % most] if pods % most else [])
    deployments = [deployment(f"app-{number}", size, cpu=POD_CPU) for number, size in enumerate(sizes)]
    return [{**each, "metadata": {**each["metadata"], "namespace": NAMESPACE}} for each in deployments]


def _all_bound(cluster: Cluster, nodes: int) -> bool:
    """Two small lists, not ten thousand pods: the Deployments have made them all, and none is without a node."""
    made = sum(int(each["status"].get("replicas", 0)) for each in cluster.all(DEPLOYMENTS, NAMESPACE))
    return made == nodes * PODS_PER_NODE and not _some_pod(cluster, fieldSelector="spec.nodeName=")


def _some_pod(cluster: Cluster, **query: str) -> bool:
    return bool(cluster.http.get(PODS.path(NAMESPACE), limit=1, **query).ok()["items"])


def _read(
    cluster: Cluster, usage: Sequence[Usage], calls: Counter[str], began: float, spent: ProcessorTime
) -> ScaleRun:
    pods = [pod for pod in cluster.pods(NAMESPACE) if pod["status"]["phase"] != "Failed"]
    nodes = cluster.nodes("scale")
    made = [_seconds(pod["metadata"]["creationTimestamp"]) for pod in pods]
    bound = [_since(pod, "PodScheduled") for pod in pods]
    first = min(made)
    return ScaleRun(
        created=tuple(sorted(at - first for at in made)),
        bound=tuple(sorted(at - first for at in bound)),
        waited=tuple(sorted(there - here for here, there in zip(made, bound, strict=True))),
        launched=tuple(sorted(float(each["launchedAt"]) - first for each in cluster.instances())),
        known=tuple(sorted(_seconds(node["metadata"]["creationTimestamp"]) - first for node in nodes)),
        ready=tuple(sorted(_since(node, "Ready") - first for node in nodes if condition(node, "Ready") == "True")),
        usage=tuple(Usage(each.at + began - first, each.rss_bytes, each.processor_seconds) for each in usage),
        calls=calls,
        spent=spent,
        load=os.getloadavg()[1],
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _since(thing: Obj, kind: str) -> float:
    conditions: list[dict[str, Any]] = thing["status"]["conditions"]
    return next(_seconds(c["lastTransitionTime"]) for c in conditions if c["type"] == kind and c["status"] == "True")


@contextmanager
def sampled(pid: int) -> Iterator[list[Usage]]:
    """A process' memory and time, each second until the block ends."""
    samples: list[Usage] = [_usage(pid, 0.0)]
    stop, began = threading.Event(), time.monotonic()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            samples.append(_usage(pid, time.monotonic() - began))

    thread = threading.Thread(target=sample, name="usage", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
        samples.append(_usage(pid, time.monotonic() - began))


def _usage(pid: int, at: float) -> Usage:
    """See proc(5): resident pages are the second field of statm."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage(at, pages * os.sysconf("SC_PAGE_SIZE"), process_seconds(pid))
