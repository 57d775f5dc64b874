"""`python -m sandbox.world`: kubelets, scheduler and controllers as one process beside an API server and an EC2."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

import click

from sandbox.world.client import Connection
from sandbox.world.machines.cloudcontroller import GONE_GRACE_SECONDS
from sandbox.world.machines.faults import MachineFault
from sandbox.world.machines.instances import SandboxCloud
from sandbox.world.machines.kubelet import BootTimes
from sandbox.world.machines.podworker import PodTimes
from sandbox.world.world import PARTS, WorldSettings, run


def _faults(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[MachineFault, ...]:
    try:
        return tuple(map(MachineFault.parse, texts))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option("--kubeconfig", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--ec2-endpoint", default="", help="URL of the sandbox's EC2; without it there are no machines.")
@click.option("--region", envvar="AWS_REGION", default="ap-northeast-2", show_default=True)
@click.option("--cluster", default="", help="Only instances tagged kubernetes.io/cluster/NAME.")
@click.option("--only", "parts", multiple=True, type=click.Choice(PARTS), help="Run only these parts; may be repeated.")
@click.option("--join-delay", default=8.0, show_default=True, help="Seconds from running to registered.")
@click.option("--ready-delay", default=2.0, show_default=True, help="Seconds from registered to Ready.")
@click.option("--device-delay", default=5.0, show_default=True, help="Seconds from Ready to GPUs offered.")
@click.option("--pull-delay", default=1.0, show_default=True, help="Seconds from bound to running.")
@click.option(
    "--gone-grace", default=GONE_GRACE_SECONDS, show_default=True, help="Seconds a Node outlives its instance."
)
@click.option("--keep-gone-nodes", is_flag=True, help="Never delete the Node of an instance that is gone.")
@click.option("--time-scale", default=1.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
              help="How many times as fast as real time all these delays pass.")  # fmt: skip
@click.option("--poll", "poll_seconds", default=1.0, show_default=True, help="Seconds between two looks at EC2.")
@click.option(
    "--fail",
    "faults",
    multiple=True,
    callback=_faults,
    help="never-join, never-ready, no-devices, slow=SECONDS; then :type=,zone=,capacity-type=,count=",
)
@click.option("--verbose", is_flag=True, help="Log refusals and retries too.")
def main(
    kubeconfig: Path,
    ec2_endpoint: str,
    region: str,
    cluster: str,
    parts: tuple[str, ...],
    join_delay: float,
    ready_delay: float,
    device_delay: float,
    pull_delay: float,
    gone_grace: float,
    keep_gone_nodes: bool,
    time_scale: float,
    poll_seconds: float,
    faults: tuple[MachineFault, ...],
    verbose: bool,
) -> None:
    """Everything in the sandbox cluster that is not an API. Prints `ready` once it works; ends on SIGINT or SIGTERM."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("sandbox").setLevel(level)
    settings = WorldSettings(
        cluster_name=cluster,
        parts=parts or PARTS,
        time_scale=time_scale,
        poll_seconds=poll_seconds,
        boot=BootTimes(join_delay, ready_delay, device_delay),
        pods=PodTimes(pull_seconds=pull_delay),
        faults=faults,
        gone_grace_seconds=None if keep_gone_nodes else gone_grace,
    )
    cloud = SandboxCloud(ec2_endpoint, region, cluster) if ec2_endpoint else None
    asyncio.run(_until_signal(Connection.from_kubeconfig(kubeconfig), cloud, settings))


async def _until_signal(connection: Connection, cloud: SandboxCloud | None, settings: WorldSettings) -> None:
    world = asyncio.ensure_future(run(connection, cloud, settings, lambda: print("ready", flush=True)))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, world.cancel)
    try:
        await world
    except asyncio.CancelledError:
        logging.getLogger("sandbox.world").debug("ended by a signal")


if __name__ == "__main__":
    main()
