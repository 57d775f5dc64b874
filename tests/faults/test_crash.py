"""Invariants 4, 5 and 8 under crashes: the process dies around every kind of write of a node's whole life.

The real controller process runs against the sandbox: API server, AWS, kubelets, scheduler and Deployments. It is
killed by SIGKILL around each kind of write, once before the write reaches the server and once (in the other test)
after it did, and started again at once. Pods that need three nodes get three, whatever happens: no instance is
launched twice, none is left behind, and nothing stays cordoned.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import yaml

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
from sandbox import apiserver, aws
from sandbox.aws import AwsSettings, Delays
from sandbox.processes import Processes
from tests.faults import controllerprocess
from tests.faults.crashproxy import CrashProxy, When
from tests.reconcilers.conftest import apply_crds

CLUSTER = "crash"
NAMESPACE = "karpenter"
REPLICAS = 3
DEADLINE_SECONDS = 90.0
STEPS = {
    "CreateLaunchTemplate",
    "CreateFleet",
    "POST nodes",
    "initialize",
    "stamp as empty",
    "DELETE nodes",
    "cordon",
    "eviction",
    "TerminateInstances",
    "finalizer",
}
"""Steps that every life has: if the process did not die around one, the test did not test it."""


@dataclass
class CrashWorld:
    """The sandbox, the proxy before it, and the controller that dies again and again."""

    kube: KubeClient
    aws: aws.Aws
    proxy: CrashProxy
    processes: Processes
    environment: dict[str, str]
    folder: Path
    controller: BaseProcess | None = None

    def start_kubelets(self) -> None:
        """From now on instances join."""
        start_world(self.processes, self.folder, "kubelets", self.aws, "--only", "kubelets")

    def start_controller(self) -> None:
        self.controller = controllerprocess.start(self.environment, self.log)
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
            found: list[dict[str, Any]] = json.load(answer)["instances"]
        return found

    def live(self) -> int:
        return sum(entry["state"] in ("pending", "running") for entry in self.instances())


@contextmanager
def crash_world(folder: Path, when: When, kills_per_step: int = 1, unseen_seconds: float = 0.0) -> Iterator[CrashWorld]:
    """Everything but the controller, with all delays compressed. Describe does not know new instances for a while."""
    delays = Delays(pending_seconds=0.3, shutting_down_seconds=0.3, unseen_seconds=unseen_seconds)
    with ExitStack() as stack:
        api = stack.enter_context(apiserver.serve(kubeconfig=folder / "kubeconfig"))
        cloud = stack.enter_context(aws.serve(AwsSettings(cluster=CLUSTER, delays=delays)))
        proxy = CrashProxy(when, kills_per_step)
        doors = stack.enter_context(proxy.serve({"kube": api.url, "aws": cloud.endpoint}))
        kube = KubeClient(connect(str(folder / "kubeconfig")))
        install(kube, cloud.endpoint)
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
        made = CrashWorld(kube, cloud, proxy, processes, environment, folder)
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


def install(kube: KubeClient, aws_endpoint: str) -> None:
    """CRDs, settings, a Provisioner of one type that holds one pod a node, and the Deployment."""
    apply_crds(kube)
    kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    data = {
        "aws.clusterName": CLUSTER,
        "aws.clusterEndpoint": "https://kubernetes.test",
        "aws.defaultInstanceProfile": f"KarpenterNodeInstanceProfile-{CLUSTER}",
        "batchIdleDuration": "100ms",
        "batchMaxDuration": "1s",
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
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}]
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


@pytest.mark.timeout(240)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_controller_that_dies_around_every_step_of_a_nodes_life_ends_right(tmp_path: Path, when: When) -> None:
    with crash_world(tmp_path, when) as world:
        world.scale(REPLICAS)
        world.until(lambda: len(world.nodes()) == REPLICAS, f"{REPLICAS} Nodes")
        world.start_kubelets()
        world.until(lambda: world.running() == REPLICAS, f"{REPLICAS} pods running")
        world.until(lambda: all(map(initialized, world.nodes())), "nodes initialized")
        assert len(world.instances()) == REPLICAS, f"launched twice; died around {world.proxy.kills}"

        victim = world.nodes()[0]["metadata"]["name"]
        world.kube.delete(NODES, victim)
        world.until(lambda: victim not in {node["metadata"]["name"] for node in world.nodes()}, "the deleted node gone")
        world.until(lambda: world.running() == REPLICAS, "the evicted pod running elsewhere")
        assert len(world.instances()) == REPLICAS + 1, f"one node for the evicted pod; died around {world.proxy.kills}"
        assert not any(node["spec"].get("unschedulable") for node in world.nodes()), "left cordoned"

        world.scale(0)
        world.until(lambda: not world.nodes(), "no node left")
        world.until(lambda: world.live() == 0, "no instance left")
        assert len(world.instances()) == REPLICAS + 1, "launched again when there was nothing to run"

        missing = STEPS - set(world.proxy.kills)
        assert not missing, f"never died around {missing}; there were {dict(world.proxy.writes)}"
        world.until(lambda: world.proxy.victim_pid is not None, "a last start")
        assert world.stop_controller() == 0, "SIGTERM ends it in peace"


@pytest.mark.timeout(120)
def test_a_launch_that_ec2_does_not_show_yet_is_not_repeated(tmp_path: Path) -> None:
    """EC2 is eventually consistent: the next process finds none by its tags, plans the same, and asks for the same."""
    with crash_world(tmp_path, "after", kills_per_step=2, unseen_seconds=4.0) as world:
        world.proxy.only = frozenset({"CreateFleet"})
        world.scale(REPLICAS)
        world.until(lambda: len(world.nodes()) == REPLICAS, f"{REPLICAS} Nodes")
        assert world.proxy.kills == ["CreateFleet", "CreateFleet"]
        world.start_kubelets()
        world.until(lambda: world.running() == REPLICAS, f"{REPLICAS} pods running")
        assert len(world.instances()) == REPLICAS


def initialized(node: dict[str, Any]) -> bool:
    return bool((node["metadata"].get("labels") or {}).get("karpenter.sh/initialized") == "true")
