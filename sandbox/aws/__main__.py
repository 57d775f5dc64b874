"""`python -m sandbox.aws`: a sandbox AWS that runs until it is interrupted.

It prints the variables that point an SDK at it and, last, the line "sandbox AWS ready at URL ...".
"""

from __future__ import annotations

import signal
import threading
import time

import click


@click.command()
@click.option("--port", default=0, show_default="a free one", help="Port on 127.0.0.1.")
@click.option("--region", default="ap-northeast-2", show_default=True)
@click.option(
    "--cluster", default="demo", show_default=True, help="Name of the EKS cluster that the account is filled for."
)
@click.option("--kubernetes-version", default="1.34", show_default=True)
@click.option("--seed", default=42, show_default=True, help="Ids, prices and pool depths follow from it.")
@click.option("--speed", default=1.0, show_default=True, help="How many times as fast as real time its clock runs.")
@click.option("--empty", is_flag=True, help="Don't fill the account.")
@click.option("--cluster-only", is_flag=True, help="Fill it with a network and a cluster: a stack makes the rest.")
def main(
    port: int,
    region: str,
    cluster: str,
    kubernetes_version: str,
    seed: int,
    speed: float,
    empty: bool,
    cluster_only: bool,
) -> None:
    """Run an AWS on this machine: EC2, EKS, IAM, SSM, SQS, EventBridge, STS and the price list."""
    began = time.monotonic()
    from sandbox import service_models
    from sandbox.aws.clock import compressed
    from sandbox.aws.server import serve
    from sandbox.aws.world import AwsSettings

    service_models.read_once()
    settings = AwsSettings(region=region, cluster=cluster, kubernetes_version=kubernetes_version, seed=seed)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with serve(settings, port=port, now=compressed(speed), seed=not empty, installed=not cluster_only) as aws:
        for name, value in aws.environment().items():
            click.echo(f"export {name}={value}")
        seconds = time.monotonic() - began
        click.echo(f"sandbox AWS ready at {aws.endpoint} ({region}, cluster {cluster}) after {seconds:.1f} s")
        stop.wait()


if __name__ == "__main__":
    main()
