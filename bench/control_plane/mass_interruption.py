"""A mass interruption on a real control plane: as many spot warnings as rebalance recommendations, all at once.

Kubernetes' own processes are the real ones; EC2, SQS and the kubelets are the sandbox's. What is measured is how long
after the last message has arrived the queue is empty, the warned nodes are cordoned, and their instances are going.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3

from bench.control_plane.scale import NAMESPACE, POD_CPU
from e2e.cluster import Cluster
from e2e.installation import installed
from e2e.scenario import provisioner
from e2e.workloads import deployment
from sandbox.world.resources import Obj

NODE_CPUS = "2"
WAIT_SECONDS = 1_800.0
GOING = ("shutting-down", "terminated")
HEAD = """# A mass interruption

`python -m bench interruption`: EC2 warns of the end of half of a cluster's spot instances and recommends to rebalance
the other half, all at once. etcd, kube-apiserver, kube-scheduler and kube-controller-manager are the real ones, EC2,
SQS and the kubelets the sandbox's, all on one machine. EC2 takes a spot instance two minutes after its warning: that is
how long a drain may take. Seconds count from the arrival of the last message.

"""


@dataclass(frozen=True, slots=True)
class InterruptionRun:
    """Seconds from the arrival of the last message, but for `sent_seconds`, which it took to send them."""

    nodes: int
    sent_seconds: float
    empty_seconds: float
    """Until the queue was empty."""
    cordoned_seconds: float
    """Until every warned node was cordoned, which begins its drain."""
    going_seconds: float
    """Until every warned node was drained and its instance was going."""
    load: float
    """The machine's load average over 5 minutes, at the end."""

    def table(self) -> str:
        """The figures as a table."""
        rows = [
            ("nodes warned, nodes at risk", f"{self.nodes:,}, {self.nodes:,}"),
            ("sending the messages, s", f"{self.sent_seconds:.1f}"),
            ("queue empty, s", f"{self.empty_seconds:.1f}"),
            ("every warned node cordoned, s", f"{self.cordoned_seconds:.1f}"),
            ("every warned node drained, its instance going, s", f"{self.going_seconds:.1f}"),
            ("load of the machine, 5 min", f"{self.load:.1f}"),
        ]
        return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]) + "\n"


def run(nodes: int) -> InterruptionRun:
    """Fill twice as many spot nodes, warn one half and recommend to rebalance the other. Raises AssertionError."""
    folder = Path(tempfile.mkdtemp(prefix="nodeless-interruption-"))
    with installed(folder, ("karpenter-0",), client_qps=2_000) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, _provisioner())
        web = deployment("web", 2 * nodes, cpu=POD_CPU)
        cluster.apply({**web, "metadata": {**web["metadata"], "namespace": NAMESPACE}})
        cluster.until(lambda: _all_run(cluster, 2 * nodes), "every pod runs", WAIT_SECONDS, every_seconds=2.0)
        instances = sorted(each["instanceId"] for each in cluster.instances())
        return _measured(cluster, instances[:nodes], instances[nodes : 2 * nodes])


def _provisioner() -> Obj:
    wanted = [
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [NODE_CPUS]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
    ]
    return provisioner("scale", {"providerRef": {"name": "default"}, "weight": 50, "requirements": wanted})


def _all_run(cluster: Cluster, pods: int) -> bool:
    running = [pod for pod in cluster.pods(NAMESPACE) if pod["status"].get("phase") == "Running"]
    return len(running) == pods


def _measured(cluster: Cluster, warned: list[str], at_risk: list[str]) -> InterruptionRun:
    environment = cluster.environment
    aws = environment.aws_environment
    sqs = boto3.client(
        "sqs",
        endpoint_url=environment.aws_endpoint,
        region_name=environment.settings.region,
        aws_access_key_id=aws["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws["AWS_SECRET_ACCESS_KEY"],
    )
    url = sqs.list_queues()["QueueUrls"][0]
    began = time.monotonic()
    for kind, instances in (("rebalance", at_risk), ("spot", warned)):
        for instance in instances:
            environment.ask_aws("POST", "interrupt", {"instanceId": instance, "kind": kind})
    arrived = time.monotonic()

    def empty() -> bool:
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        waiting = (answer["ApproximateNumberOfMessages"], answer["ApproximateNumberOfMessagesNotVisible"])
        return not any(map(int, waiting))

    def cordoned() -> bool:
        open_nodes = {_instance(node) for node in cluster.nodes("scale") if not node["spec"].get("unschedulable")}
        return not open_nodes & set(warned)

    def going() -> bool:
        states = {each["instanceId"]: each["state"] for each in environment.instances()}
        return all(states.get(instance, "terminated") in GOING for instance in warned)

    def until(ask: Callable[[], bool], what: str) -> float:
        cluster.until(ask, what, WAIT_SECONDS, every_seconds=0.5)
        return time.monotonic() - arrived

    return InterruptionRun(
        nodes=len(warned),
        sent_seconds=arrived - began,
        empty_seconds=until(empty, "the queue is empty"),
        cordoned_seconds=until(cordoned, "every warned node is cordoned"),
        going_seconds=until(going, "every warned instance is going"),
        load=os.getloadavg()[1],
    )


def _instance(node: Obj) -> str:
    return str(node["spec"]["providerID"]).rpartition("/")[2]
