"""The sandbox (API, AWS, kubelets, scheduler, Deployments), a proxy before it, and `nodeless run` behind that."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import yaml

from controller.core.api.frozen import EMPTY
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    PROVISIONERS,
)
from controller.operator.composition import OperatorTimes
from sandbox import apiserver, aws
from sandbox.aws import AwsSettings, Delays
from sandbox.processes import Processes
from tests.faults import controllerprocess
from tests.faults.crashproxy import CrashProxy, When
from tests.reconcilers.conftest import apply_crds

CLUSTER = "crash"
TYPE = "m5.large"
"""The one type on sale: a controller that starts dozens of times reads little each time."""
NAMESPACE = "karpenter"
DEADLINE_SECONDS = 90.0


@dataclass
class CrashWorld:
    """The sandbox, the proxy before it, and the controller that dies again and again."""

    kube: KubeClient
    aws: aws.Aws
    proxy: CrashProxy
    processes: Processes
    environment: dict[str, str]
    folder: Path
    times: OperatorTimes = controllerprocess.TIMES
    controller: BaseProcess | None = None

    def start_kubelets(self) -> None:
        """From now on instances join."""
        start_world(self.processes, self.folder, "kubelets", self.aws, "--only", "kubelets")

    def start_controller(self) -> None:
        self.controller = controllerprocess.start(self.environment, self.log, self.times)
        self.proxy.victim_pid = self.controller.pid

    @property
    def log(self) -> Path:
        return self.folder / "controller.log"

    def stop_controller(self) -> int | None:
        """SIGTERM; its exit code."""
        assert self.controller is not None
        self.proxy.victim_pid = None
        self.controller.terminate()
        self.controller.join(30)
        return self.controller.exitcode

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, starting the controller again whenever it was killed."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come true; killed around {self.proxy.kills}"
            if self.controller is None or not self.controller.is_alive():
                code = None if self.controller is None else self.controller.exitcode
                assert code in (None, -signal.SIGKILL), f"ended by itself with {code}:\n{self.log.read_text()[-3000:]}"
                self.start_controller()
            time.sleep(0.1)

    def scale(self, replicas: int) -> None:
        self.kube.patch(DEPLOYMENTS, "inflate", {"spec": {"replicas": replicas}}, namespace="default")

    def nodes(self) -> list[dict[str, Any]]:
        return self.kube.list(NODES)

    def running(self) -> int:
        pods = self.kube.list(PODS, "default", label_selector="app=inflate")
        return sum(pod["status"].get("phase") == "Running" for pod in pods)

    def instances(self) -> list[dict[str, Any]]:
        """Every instance that was ever launched, with its state."""
        with urllib.request.urlopen(f"{self.aws.endpoint}/sandbox/instances") as answer:
            instances: list[dict[str, Any]] = json.load(answer)["instances"]
        return instances

    def interrupt(self, instance_id: str, kind: str) -> None:
        """Have AWS announce it: spot, rebalance, state-change or health."""
        body = json.dumps({"instanceId": instance_id, "kind": kind}).encode()
        urllib.request.urlopen(f"{self.aws.endpoint}/sandbox/interrupt", data=body).close()

    def live(self) -> int:
        return sum(entry["state"] in ("pending", "running") for entry in self.instances())


@contextmanager
def crash_world(
    folder: Path,
    *,
    deaths: Mapping[str, tuple[When, ...]] = EMPTY,
    unseen_seconds: float = 0.0,
    settings: Mapping[str, str] | None = None,
    capacity_type: str = "on-demand",
) -> Iterator[CrashWorld]:
    """Everything but the controller, with all delays compressed. Describe does not know new instances for a while.

    `deaths`: around which writes the controller is killed, by kind (CrashProxy). `settings` are keys of the ConfigMap;
    `capacity_type` is what the Provisioner asks for.
    """
    delays = Delays(pending_seconds=0.3, shutting_down_seconds=0.3, unseen_seconds=unseen_seconds)
    with ExitStack() as stack:
        api = stack.enter_context(apiserver.serve(kubeconfig=folder / "kubeconfig"))
        cloud = stack.enter_context(
            aws.serve(AwsSettings(cluster=CLUSTER, delays=delays, instance_types=frozenset({TYPE})))
        )
        proxy = CrashProxy(deaths)
        doors = stack.enter_context(proxy.serve({"kube": api.url, "aws": cloud.endpoint}))
        kube = KubeClient(connect(str(folder / "kubeconfig")))
        arn = cloud.client("eks").describe_cluster(name=CLUSTER)["cluster"]["arn"]
        install(kube, settings or {}, capacity_type, arn)
        proxied = yaml.safe_load((folder / "kubeconfig").read_text())
        proxied["clusters"][0]["cluster"]["server"] = doors["kube"]
        (folder / "proxied").write_text(yaml.safe_dump(proxied))
        processes = stack.enter_context(Processes(folder))
        inhabitants = ("--only", "scheduler", "--only", "controllers")
        start_world(processes, folder, "inhabitants", cloud, *inhabitants)
        environment = {
            **cloud.environment(),
            "AWS_ENDPOINT_URL": doors["aws"],
            "KUBECONFIG": str(folder / "proxied"),
            "SYSTEM_NAMESPACE": NAMESPACE,
            "METRICS_PORT": "0",
            "HEALTH_PROBE_PORT": "0",
            "POD_NAME": "karpenter-0",
        }
        garbage = replace(controllerprocess.TIMES.garbage, sight_seconds=1.25 * unseen_seconds)
        times = replace(controllerprocess.TIMES, garbage=garbage)
        made = CrashWorld(kube, cloud, proxy, processes, environment, folder, times)
        try:
            yield made
        finally:
            if made.controller is not None and made.controller.is_alive():
                made.controller.kill()


def start_world(processes: Processes, folder: Path, name: str, cloud: aws.Aws, *more: str) -> None:
    """Parts of what lives in the cluster, as a process."""
    times = ("--join-delay", "0.2", "--ready-delay", "0.1", "--pull-delay", "0.1", "--poll", "0.2")
    doors = ("--kubeconfig", str(folder / "kubeconfig"), "--ec2-endpoint", cloud.endpoint, "--cluster", CLUSTER)
    child = processes.start(name, ["sandbox.world", *doors, *times, *more], {**os.environ, **cloud.environment()})
    child.wait_for_line("ready")


def install(kube: KubeClient, settings: Mapping[str, str], capacity_type: str, arn: str) -> None:
    """CRDs, settings, a Provisioner of one type that holds one pod a node, and the Deployment."""
    apply_crds(kube)
    kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    data = {
        "aws.clusterName": CLUSTER,
        "aws.clusterArn": arn,
        "aws.clusterEndpoint": "https://kubernetes.test",
        "aws.defaultInstanceProfile": f"KarpenterNodeInstanceProfile-{CLUSTER}",
        "batchIdleDuration": "100ms",
        "batchMaxDuration": "1s",
        **settings,
    }
    kube.create(CONFIG_MAPS, {"metadata": {"name": "karpenter-global-settings"}, "data": data}, NAMESPACE)
    discovery = {"karpenter.sh/discovery": CLUSTER}
    kube.create(
        AWS_NODE_TEMPLATES,
        {
            "apiVersion": AWS_NODE_TEMPLATES.api_version,
            "kind": "AWSNodeTemplate",
            "metadata": {"name": "default"},
            "spec": {"subnetSelector": discovery, "securityGroupSelector": discovery},
        },
    )
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
    ]
    kube.create(
        PROVISIONERS,
        {
            "apiVersion": PROVISIONERS.api_version,
            "kind": "Provisioner",
            "metadata": {"name": "default"},
            "spec": {
                "providerRef": {"name": "default"},
                "requirements": requirements,
                "ttlSecondsAfterEmpty": 1,
            },
        },
    )
    container = {"name": "inflate", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "metadata": {"labels": {"app": "inflate"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "inflate"}}, "template": pod}
    kube.create(DEPLOYMENTS, {"metadata": {"name": "inflate", "namespace": "default"}, "spec": spec}, "default")


def initialized(node: dict[str, Any]) -> bool:
    return bool((node["metadata"].get("labels") or {}).get("karpenter.sh/initialized") == "true")
