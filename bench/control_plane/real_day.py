"""Live a day on a real control plane: Kubernetes' own processes are the real ones, EC2 and the kubelets the sandbox's.

Figures and their meaning are those of the day in virtual time and of Karpenter's runs: a machine costs by the day's
prices from its launch until its end is asked for; waits are from a pod's creation until its binding, as a watch sees
them; evictions and requests are the controller's in the API server's audit log; processor time and memory are its own
process'.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.control_plane.day_record import DayRecord
from bench.control_plane.scale import JOIN_SECONDS, READY_SECONDS, sampled
from bench.life.day import Day, Object, Phase, pool
from controller.core.api import labels
from e2e.cluster import Cluster
from e2e.installation import installed
from e2e.scenario import STACKS_PROVISIONER
from sandbox.world.client import ApiClient, ApiError, Connection
from sandbox.world.informer import Informer
from sandbox.world.resources import DAEMON_SETS, DEPLOYMENTS, PODS, Obj

CLIENT_QPS = 200
SAMPLE_SECONDS = 1.0
BEFORE_SECONDS = 5.0


def run(day: Day) -> Object:
    """Live the day, which takes as long as it is; its figures.

    Raises AssertionError where the cluster does not come up, and KeyError for a machine of a type that the day has not.
    """
    with (
        tempfile.TemporaryDirectory(prefix="nodeless-day-") as folder,
        installed(Path(folder), ("karpenter-0",), CLIENT_QPS, (JOIN_SECONDS, READY_SECONDS)) as cluster,
    ):
        _prepare(cluster, day)
        record = DayRecord(day)
        (replica,) = cluster.replicas.by_name.values()
        mark = cluster.audit.mark()
        with sampled(replica.child.process.pid) as usage, _watched(cluster, day, record):
            time.sleep(BEFORE_SECONDS)
            record.began = time.time()
            for phase, ends in zip(day.phases, day.ends(), strict=True):
                _scale(cluster, day, phase)
                time.sleep(max(0.0, record.began + ends - time.time()))
        spent = usage[-1].processor_seconds - usage[0].processor_seconds
        return record.figures(cluster.audit.since(mark), spent, max(each.rss_bytes for each in usage))


def _prepare(cluster: Cluster, day: Day) -> None:
    """One Provisioner of the day's types and zones, and its objects; the Deployments have no replicas yet."""
    cluster.kubectl("delete", "provisioners.karpenter.sh", STACKS_PROVISIONER)
    own = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", **pool()}
    zones = {offering.zone for kind in day.types for offering in kind.offerings}
    for key, values in ((labels.INSTANCE_TYPE, {kind.name for kind in day.types}), (labels.ZONE, zones)):
        own["spec"]["requirements"].append({"key": key, "operator": "In", "values": sorted(values)})
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": day.namespace}}, own)
    still = ({**each, "spec": {**each["spec"], "replicas": 0}} for each in day.deployments)
    objects = (*day.daemon_sets, *day.budgets, *still)
    cluster.apply(*({**each, "metadata": {**each["metadata"], "namespace": day.namespace}} for each in objects))
    cluster.until(lambda: _daemons_known(cluster, day), "the DaemonSets are known to their controller")


def _daemons_known(cluster: Cluster, day: Day) -> bool:
    return all(each["status"].get("observedGeneration") for each in cluster.all(DAEMON_SETS, day.namespace))


def _scale(cluster: Cluster, day: Day, phase: Phase) -> None:
    for name, replicas in phase.replicas.items():
        cluster.http.patch(DEPLOYMENTS.path(day.namespace, name), {"spec": {"replicas": replicas}}).ok()


@contextmanager
def _watched(cluster: Cluster, day: Day, record: DayRecord) -> Iterator[None]:
    """Record pods as a watch tells of them, and machines each second, until the block ends."""
    stop = threading.Event()

    def pod_changed(old: Obj | None, new: Obj | None) -> None:
        pod = new or old or {}
        owners = pod["metadata"].get("ownerReferences") or ()
        if pod["metadata"]["namespace"] == day.namespace and any(each["kind"] == "ReplicaSet" for each in owners):
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            record.saw_pod(time.time(), uid, node, gone=new is None)

    async def watch() -> None:
        async with ApiClient(Connection.from_kubeconfig(cluster.plane.kubeconfig), "bench") as client:
            pods = Informer(client, PODS)
            pods.add_handler(pod_changed)
            task = asyncio.create_task(pods.run())
            while not stop.is_set():
                seen = await asyncio.to_thread(cluster.environment.ask_aws, "GET", "instances?state=pending,running")
                record.saw_machines(time.time(), seen["instances"])
                record.sample(time.time())
                await asyncio.sleep(SAMPLE_SECONDS)
            task.cancel()

    failures: list[BaseException] = []

    def watch_all() -> None:
        try:
            asyncio.run(watch())
        except (ApiError, OSError, KeyError) as error:
            failures.append(error)

    thread = threading.Thread(target=watch_all, name="day", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
