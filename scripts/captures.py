"""Makes docs/captures/*.svg: what the commands really print, against a sandbox that this script starts and ends.

    uv run python scripts/captures.py

Takes about two minutes: the sandbox deploys the stack, the workloads of stacks/workloads get their nodes, then each
command runs once, and what it prints in colour becomes a picture.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console
from rich.text import Text

from controller.cli.cluster.cluster_view import ClusterLocation
from controller.cli.cluster.decision_log import decisions
from controller.cli.cluster.live_view import watch_cluster
from controller.cli.inputs.objects import read_cluster
from controller.cli.inputs.scenario import cluster_of
from controller.cli.view.command import LiveReader
from controller.cli.view.screen import Page
from controller.cli.view.screen_state import ScreenState
from controller.core.provisioning.problem import provisionable
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import DAEMON_SETS, DEPLOYMENTS, NAMESPACES, PODS

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "docs" / "captures"
WORKLOADS = ROOT / "stacks" / "workloads" / "fleet.yaml"
COLUMNS = 140
LINES = 34
DEADLINE_SECONDS = 240.0
RESOURCES = {"Deployment": DEPLOYMENTS, "DaemonSet": DAEMON_SETS}


def main() -> None:
    """Start the sandbox, fill it, run the commands."""
    CAPTURES.mkdir(parents=True, exist_ok=True)
    stack = ("stacks/Pulumi.prod.yaml", "stacks/workloads")
    capture("simulate", "simulate", *stack)
    capture("compare", "simulate", *stack, "--compare", "stacks/Pulumi.dev.yaml")
    with tempfile.TemporaryDirectory() as folder, sandbox(Path(folder)) as environment:
        kube = KubeClient(connect(environment["KUBECONFIG"]))
        node = fill(kube)
        capture_live_view(environment["KUBECONFIG"])
        capture("explain-pod", "explain", "pod", "stuck", environment=environment)
        capture("explain-node", "explain", "node", node, environment=environment)
        capture("check", "check", environment=environment)


@contextmanager
def sandbox(folder: Path) -> Iterator[dict[str, str]]:
    """The variables that point at a sandbox cluster with the controller in it."""
    command = [sys.executable, "-m", "sandbox", "up", "--state", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        exports = takewhile(lambda line: line.startswith("export "), process.stdout)
        pairs = (each.removeprefix("export ").strip().partition("=") for each in exports)
        yield {name: value for name, _, value in pairs}
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def fill(kube: KubeClient) -> str:
    """Workloads, and a pod that no Provisioner can place; waits until the others have nodes, and those are on record.

    Returns a node of ours.
    """
    for document in yaml.safe_load_all(WORKLOADS.read_text()):
        resource = RESOURCES.get(document["kind"])
        if resource is not None:
            namespace = document["metadata"]["namespace"]
            if namespace not in {each["metadata"]["name"] for each in kube.list(NAMESPACES)}:
                kube.create(NAMESPACES, {"metadata": {"name": namespace}})
            kube.create(resource, document, namespace)
    container = {"name": "c", "image": "registry.k8s.io/pause", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    kube.create(PODS, {"metadata": {"name": "stuck"}, "spec": {"containers": [container]}}, "default")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        cluster, _ = cluster_of([each for each in read_cluster(kube).located if each.kind != "ConfigMap"])
        snapshot = cluster.snapshot()
        waiting = [pod.name for pod in snapshot.pods.values() if provisionable(pod, snapshot)]
        ours = [node.name for node in snapshot.nodes.values() if node.initialized and node.pods]
        on_record = any(each.decision.kind == "launch" for each in decisions(kube))
        if waiting == ["stuck"] and ours and len(ours) == len(snapshot.nodes) and on_record:
            return ours[0]
        time.sleep(1)
    raise SystemExit("the workloads did not get their nodes in time")


def capture_live_view(kubeconfig: str) -> None:
    """Draw the page that `nodeless view` shows on a terminal of COLUMNS × LINES."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with watch_cluster(ClusterLocation(kubeconfig)) as cluster:
        console.print(Page(LiveReader(cluster).read(), ScreenState(), LINES, keys=True))
    save("view", console, "nodeless view")


def capture(name: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    """Run `nodeless ARGUMENTS` and draw what it prints."""
    colours: dict[str, Any] = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "controller.cli.main", *arguments]
    environment = {**os.environ, **colours, **(environment or {})}
    completed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(completed.stdout.rstrip()))
    save(name, console, f"nodeless {' '.join(arguments)}")
    click.echo(f"exit code {completed.returncode}")


def save(name: str, console: Console, title: str) -> None:
    """Write what the console recorded as NAME.svg."""
    path = CAPTURES / f"{name}.svg"
    drawn = console.export_svg(title=title)
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))  # no fonts from the network
    click.echo(str(path.relative_to(ROOT)))


if __name__ == "__main__":
    main()
