"""A whole world on this machine: an AWS, a Kubernetes API, and what lives in the cluster; the controller on request.

Each part is a process of its own with a log file in the state folder. The controller runs as it would in the cluster:
its own command, a kubeconfig, AWS by its SDK's environment variables; only the endpoints differ.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.processes import Child, Processes, ProcessFailedError
from sandbox.realkube import PlaneOptions, RealControlPlane, assets_folder, free_ports
from sandbox.stack_kube import CONTROLLER_DEPLOYED, Container, controller_container, write_controller_kubeconfig
from sandbox.world.client import ApiClient, Connection

CLUSTER = "nodeless-demo"
REGION = "ap-northeast-2"
NAMESPACE = "karpenter"
STACK_SECONDS = 90
"""Far more than the stack takes, on a slow machine too."""


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """`kube`: embedded or real. Machines boot faster here than in EC2: `join_delay_seconds` go from a running instance
    to its kubelet's first word, `ready_delay_seconds` from there to Ready."""

    folder: Path
    kube: str = "embedded"
    cluster: str = CLUSTER
    region: str = REGION
    join_delay_seconds: float = 2.0
    ready_delay_seconds: float = 1.0
    aws_port: int = 0
    """0: a free one."""
    plane: PlaneOptions = field(default_factory=PlaneOptions)
    """How a real control plane runs."""


@dataclass(slots=True)
class Environment:
    """What runs, and how to reach it."""

    settings: EnvironmentSettings
    processes: Processes
    kubeconfig: Path
    aws_endpoint: str
    aws_environment: dict[str, str]
    children: dict[str, Child] = field(default_factory=dict)
    plane: RealControlPlane | None = None
    """Where it is a real one."""
    controller_kubeconfig: Path | None = None
    """The controller's own, where the API server knows ServiceAccounts and their roles."""
    webhook_port: int = field(default_factory=lambda: free_ports(1)[0])
    """Where its webhook listens."""
    deployed: bool = False
    """Whether the stack was, and with it the controller."""

    def deploy_stack(
        self, stack: str = "local", run: Callable[[Container], object] | None = None, options: Sequence[str] = ()
    ) -> int:
        """Run the Pulumi program with stacks/Pulumi.STACK.yaml; returns how many resources it has made here.

        The first time the controller is started as soon as its Deployment is there, as Fargate would, by `run` or by
        `start_controller`: no Provisioner can be applied before its webhook answers. `options`: of `sandbox.stack`.
        Raises ProcessFailedError with what a process said that failed.
        """
        command = ["sandbox.stack", "--stack", stack, "--kubeconfig", str(self.kubeconfig), *options]
        child = self.processes.start(
            "stack", [*command, "--webhook-port", str(self.webhook_port)], self.aws_environment
        )
        if not self.deployed:
            child.wait_for_line(CONTROLLER_DEPLOYED, STACK_SECONDS)
            (run or self.start_controller)(asyncio.run(self._controller_container()))
            self.deployed = True
        try:
            code = child.process.wait(STACK_SECONDS)
        except subprocess.TimeoutExpired:
            raise ProcessFailedError(f"the stack was not deployed in {STACK_SECONDS} s:\n{child.tail()}") from None
        if code != 0:
            raise ProcessFailedError(f"the stack ended with code {code}:\n{child.tail()}")
        return sum(line.startswith(("aws:", "kubernetes:")) for line in child.log.read_text().splitlines())

    async def _controller_container(self) -> Container:
        async with ApiClient(Connection.from_kubeconfig(self.kubeconfig), "sandbox-environment") as client:
            if self.settings.kube == "real":  # the sandbox's own API server lets everybody do everything
                self.controller_kubeconfig = self.settings.folder / "controller.kubeconfig"
                await write_controller_kubeconfig(client, self.kubeconfig, self.controller_kubeconfig)
            return await controller_container(client)

    def start_controller(
        self, container: Container, name: str = "controller", pod_name: str = "", metrics_port: int = 0
    ) -> Child:
        """`nodeless` as its Deployment says, as its own process; returns at once.

        What the pod's surroundings would give it is this machine's: credentials, the API server's address, and ports
        that nobody else has; the webhook's is one for all replicas, as their Service has it. `pod_name` tells replicas
        apart; `metrics_port` is for who must know it beforehand (0: any).
        """
        command = [str(Path(sys.executable).with_name("nodeless")), *container.args]
        ports = {"METRICS_PORT": str(metrics_port), "HEALTH_PROBE_PORT": "0", "WEBHOOK_PORT": str(self.webhook_port)}
        env = {**container.environment, **ports, **self.aws_environment}
        env["KUBECONFIG"] = str(self.controller_kubeconfig or self.kubeconfig)
        if pod_name:
            env["POD_NAME"] = pod_name
        child = self.processes.start(name, command, env, python=False)
        self.children[name] = child
        return child

    def ports(self, name: str = "controller") -> dict[str, int]:
        """Where a controller serves, as its log says: `metrics`, `health-probe`."""
        lines = (json.loads(line) for line in self.children[name].log.read_text().splitlines() if line.startswith("{"))
        return {line["what"]: line["port"] for line in lines if line["message"] == "Serves"}

    def check(self) -> None:
        """Raises ProcessFailedError when a part has ended by itself."""
        for child in self.children.values():
            if not child.alive:
                raise ProcessFailedError(f"{child.name} ended with code {child.process.returncode}:\n{child.tail()}")

    def instances(self) -> list[dict[str, Any]]:
        """Every EC2 instance that is not forgotten, the terminated ones of the last hour too."""
        found: list[dict[str, Any]] = self.ask_aws("GET", "instances")["instances"]
        return found

    def ask_aws(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request to the sandbox AWS's own door, /sandbox/PATH."""
        request = urllib.request.Request(  # noqa: S310 - our own loopback endpoint
            f"{self.aws_endpoint}/sandbox/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def start(settings: EnvironmentSettings) -> Iterator[Environment]:
    """Start the AWS, the control plane and the cluster's inhabitants; end them all on the way out.

    Raises ProcessFailedError when a part does not come up.
    """
    shutil.rmtree(settings.folder, ignore_errors=True)
    with Processes(settings.folder) as processes:
        aws_command = ["sandbox.aws", "--port", str(settings.aws_port), "--region", settings.region, "--cluster-only"]
        aws = processes.start(
            "aws", [*aws_command, "--cluster", settings.cluster], {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}
        )
        plane = _start_control_plane(settings, processes)
        endpoint = aws.wait_for_line("sandbox AWS ready at ").split()[0]
        environment = Environment(
            settings, processes, plane.kubeconfig, endpoint, _exports(aws), {"aws": aws}, plane=plane.real
        )
        environment.ask_aws(
            "POST", "cluster", {"endpoint": plane.server, "certificateAuthorityData": plane.certificate_authority_data}
        )
        environment.children["world"] = _start_world(environment, only_kubelets=settings.kube == "real")
        yield environment


@dataclass(frozen=True, slots=True)
class _ControlPlane:
    server: str
    kubeconfig: Path
    certificate_authority_data: str
    real: RealControlPlane | None = None


def _start_control_plane(settings: EnvironmentSettings, processes: Processes) -> _ControlPlane:
    if settings.kube == "real":
        plane = RealControlPlane(assets_folder(), settings.folder, processes, settings.plane)
        plane.start(("kube-scheduler", "kube-controller-manager"))
        authority = base64.b64encode(plane.certificate.read_bytes()).decode()
        return _ControlPlane(plane.url, plane.kubeconfig, authority, plane)
    kubeconfig = settings.folder / "kubeconfig"
    child = processes.start("apiserver", ["sandbox.apiserver", "--port", "0", "--kubeconfig", str(kubeconfig)])
    return _ControlPlane(child.wait_for_line("ready ").split()[0], kubeconfig, "")


def _exports(aws: Child) -> dict[str, str]:
    lines = aws.log.read_text().splitlines()
    pairs = (line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
    return dict(tuple(pair) for pair in pairs)  # type: ignore[misc]


def _start_world(environment: Environment, *, only_kubelets: bool) -> Child:
    settings = environment.settings
    command = [
        *("sandbox.world", "--kubeconfig", str(environment.kubeconfig)),
        *("--ec2-endpoint", environment.aws_endpoint, "--join-delay", str(settings.join_delay_seconds)),
        *("--ready-delay", str(settings.ready_delay_seconds)),
        *(("--only", "kubelets") if only_kubelets else ()),
    ]
    world = environment.processes.start("world", command, environment.aws_environment)
    world.wait_for_line("ready")
    return world
