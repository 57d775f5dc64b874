"""`python -m sandbox`: the demo, or a sandbox cluster that stays up."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import click
from rich.console import Console
from rich.status import Status

from sandbox.demo.story import DemoFailedError, Story, connected, install
from sandbox.environment import Environment, EnvironmentSettings, start
from sandbox.processes import ProcessFailedError
from sandbox.realkube import AssetsMissingError
from sandbox.world.client import ApiError

LOG_WIDTH = 180
"""Columns where the output is no terminal."""

STARTING = "Starting AWS and a Kubernetes control plane ({kube}): about ten seconds…"
DEPLOYING = "Deploying the stack by its Pulumi program, which starts the controller: about ten seconds…"

KUBE = click.option(
    "--kube",
    type=click.Choice(["embedded", "real"]),
    default="embedded",
    show_default=True,
    help="The sandbox's own API server, or the control plane that KUBEBUILDER_ASSETS names.",
)
STATE = click.option("--state", type=click.Path(path_type=Path), help="State folder. [default: a new temporary one]")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The whole world of NodeLess on one machine: no AWS account, no cluster, no Docker."""


@main.command()
@KUBE
@STATE
def demo(kube: str, state: Path | None) -> None:
    """Pending pods become nodes, and empty nodes go. Exit code 0 when all of it came true."""
    console = _console()
    began = time.monotonic()
    folder = state or Path(tempfile.mkdtemp(prefix="nodeless-"))
    settings = EnvironmentSettings(folder, kube)
    console.print(STARTING.format(kube=kube))
    try:
        with console.status("Starting…") as status, start(settings) as environment:
            console.print(f"AWS         {environment.aws_endpoint}")
            console.print(f"Kubernetes  {kube}; look in with  [bold]export KUBECONFIG={environment.kubeconfig}[/]")
            console.print("            then  [bold]kubectl get nodes,pods,provisioners[/]")
            console.print(f"Logs        {folder}/*.log")
            console.print(DEPLOYING)
            asyncio.run(_tell(environment, console, status))
    except (AssetsMissingError, ProcessFailedError, DemoFailedError, TimeoutError, ApiError) as error:
        console.print(f"\n[bold red]The demo failed:[/] {error}\nLogs are in {folder}", soft_wrap=True)
        _show_controller_log(console, folder)
        sys.exit(1)
    console.print(f"[bold green]All of it came true[/] in {time.monotonic() - began:.0f} s.")
    if state is None:
        shutil.rmtree(folder)


def _console() -> Console:
    """A terminal has its own width; a log file or a CI page has room enough for whole node names and messages."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else LOG_WIDTH)


async def _tell(environment: Environment, console: Console, status: Status) -> None:
    async with connected(environment) as client:
        made = await install(client, environment)
        console.print(f"Stack       {made} resources of stacks/Pulumi.local.yaml, by the Pulumi program itself")
        controller = environment.children["controller"]
        console.print(f"Controller  pid {controller.process.pid}, its own process")
        story = Story(environment, client, console, status)
        await story.run()
        status.update("Stopping the controller…")
        code = controller.stop(30)
        status.stop()
        if code != 0:
            raise DemoFailedError(f"the controller ended with code {code} on SIGTERM:\n{controller.tail()}")
        story.show(console)


def _show_controller_log(console: Console, folder: Path) -> None:
    log = folder / "controller.log"
    if log.exists():
        console.print("\nThe controller's last words:", *log.read_text().splitlines()[-15:], sep="\n", markup=False)


@main.command()
@KUBE
@STATE
def up(kube: str, state: Path | None) -> None:
    """A sandbox cluster with the controller in it, until Ctrl-C. Progress goes to standard error: it can be piped."""
    console = _console()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    settings = EnvironmentSettings(state or Path(tempfile.mkdtemp(prefix="nodeless-")), kube)
    progress = Console(stderr=True, highlight=False)
    progress.print(STARTING.format(kube=kube))
    try:
        with start(settings) as environment:
            progress.print(DEPLOYING)
            asyncio.run(_install(environment))
            console.print(f"export KUBECONFIG={environment.kubeconfig}", soft_wrap=True)
            for name, value in environment.aws_environment.items():
                console.print(f"export {name}={value}", soft_wrap=True)
            ports = environment.ports()
            console.print(
                f"Metrics and decisions: http://127.0.0.1:{ports['metrics']}/metrics, /decisions; "
                f"probes: http://127.0.0.1:{ports['health-probe']}/healthz, /readyz",
                soft_wrap=True,
            )
            console.print(
                f"Logs in {settings.folder}. Try: kubectl scale deployment inflate --replicas 5. Ctrl-C ends it.",
                soft_wrap=True,
            )
            while not stop.wait(1.0):
                environment.check()
    except (AssetsMissingError, ProcessFailedError, ApiError) as error:
        console.print(f"[bold red]The sandbox failed:[/] {error}\nLogs are in {settings.folder}", soft_wrap=True)
        sys.exit(1)
    if state is None:
        shutil.rmtree(settings.folder)


async def _install(environment: Environment) -> None:
    async with connected(environment) as client:
        await install(client, environment)


if __name__ == "__main__":
    main()
