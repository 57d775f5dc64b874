"""What a burst of identical launches costs in API calls, against the sandbox: the numbers of docs/adr/0005.

uv run python scripts/launch_burst.py [--nodes 1000] [--workers 300] [--shapes 1] [--short 0] [--alone]
"""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import click
import structlog

from controller.aws.api.clients import make_clients
from controller.aws.provider import AWSProvider
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import LaunchRequest, PricedOffering
from controller.runtime.clock import SystemClock
from controller.settings import Settings
from sandbox.aws import AwsSettings, Delays, serve
from sandbox.aws.faults import Shortage

CLUSTER = "burst"
TYPES = ("c6i.large", "c5.large", "m5.large")


@click.command(help=__doc__)
@click.option("--nodes", default=1000, show_default=True)
@click.option("--workers", default=300, show_default=True, help="launches at a time, as the controller's")
@click.option("--shapes", default=1, show_default=True, help="requests that differ; those of one are merged")
@click.option("--short", default=0, show_default=True, help="the cheapest spot type gives so many instances, then none")
@click.option("--alone", is_flag=True, help="a call for each launch, as without merging")
def main(nodes: int, workers: int, shapes: int, short: int, alone: bool) -> None:
    """Launch, and count, also the calls that the account's token bucket would have refused."""
    with serve(AwsSettings(cluster=CLUSTER, delays=Delays(pending_seconds=0))) as aws:
        os.environ.update(aws.environment())
        settings = Settings(CLUSTER, default_instance_profile=f"KarpenterNodeInstanceProfile-{CLUSTER}")
        quiet = structlog.wrap_logger(None, processors=[_drop])
        provider = AWSProvider(settings, make_clients(), SystemClock(), quiet)
        requests = [_request(provider, index, alone, index * shapes // nodes) for index in range(nodes)]
        if short:
            name = requests[0].offerings[0].instance_type
            aws.faults.add_shortage(Shortage(instanceType=name, capacityType="spot", capacity=short))
        aws.calls.clear()
        began, cpu = time.monotonic(), time.process_time()
        with ThreadPoolExecutor(workers) as pool:
            made = {instance.id for instance in pool.map(provider.create, requests)}
        spent = time.monotonic() - began, time.process_time() - cpu
        click.echo(f"{len(made)} instances for {nodes} launches; {spent[0]:.1f} s, {spent[1]:.1f} s of CPU")
        size, per_second = settings.create_fleet_bucket or (nodes * 8, 1.0)
        refused = beyond([call.at for call in aws.calls.calls("CreateFleet")], size, per_second)
        click.echo(f"{refused} CreateFleet calls beyond a bucket of {size} requests and {per_second:g} a second")
        counts: Counter[str] = Counter(aws.calls.counts())
        for action, count in counts.most_common():
            click.echo(f"{count:6} {action}")


def beyond(times: list[float], size: int, per_second: float) -> int:
    """How many calls at these times (seconds) a token bucket that is full at first refuses."""
    tokens, before, refused = float(size), min(times, default=0.0), 0
    for at in sorted(times):
        tokens, before = min(float(size), tokens + (at - before) * per_second), at
        refused += tokens < 1.0
        tokens -= tokens >= 1.0
    return refused


def _request(provider: AWSProvider, index: int, alone: bool, shape: int) -> LaunchRequest:
    discovery = FrozenMap({"karpenter.sh/discovery": CLUSTER})
    template = AWSNodeTemplate(name="default", subnet_selector=discovery, security_group_selector=discovery)
    provisioner = Provisioner(name=f"shape-{shape}")
    types = {item.name: item for item in provider.instance_types(provisioner, template) if item.name in TYPES}
    offered = (
        PricedOffering(each.price, item.name, each.zone, each.capacity_type)
        for item in types.values()
        for each in item.offerings
        if each.available
    )
    return LaunchRequest(f"burst-{index}", provisioner, template, tuple(sorted(offered)), types, on_record=alone)


def _drop(_logger: object, _method: str, _event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    raise structlog.DropEvent


if __name__ == "__main__":
    main()
