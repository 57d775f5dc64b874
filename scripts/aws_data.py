"""Write the shipped tables in controller/aws/data from AWS's own answers. Run it before a release.

    uv run python scripts/aws_data.py prices [--region us-east-1 ...] [--source TEXT]
    uv run python scripts/aws_data.py instance-types [--region us-east-1 ...] [--source TEXT]
    uv run python scripts/aws_data.py branch-interfaces LIMITS_GO

`prices` asks the Pricing API, `instance-types` EC2 (credentials and endpoints as boto3 finds them), region by region.
`branch-interfaces` reads the file pkg/aws/vpc/limits.go of github.com/aws/amazon-vpc-resource-controller-k8s, where AWS
publishes the limits that no API tells.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import click
import msgspec

from controller.aws.api.clients import pricing_region
from controller.aws.catalog.instance_catalog import InstanceTypeCatalog
from controller.aws.catalog.learned_memory import LearnedMemory
from controller.aws.catalog.price_book import Pricing
from controller.aws.catalog.shipped_tables import (
    BRANCH_INTERFACES_FILE,
    PRICES_FILE,
    TYPES_FILE,
    ShippedTypes,
)
from controller.errors import CloudError

DATA = Path(__file__).parent.parent / "controller" / "aws" / "data"
REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-northeast-2",
           "ap-southeast-1", "ap-south-1")  # fmt: skip
_TYPE = re.compile(r'^\t"(?P<name>[a-z0-9.-]+)": \{$(?P<body>.*?)^\t\},$', re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"This file was generated at (?P<date>\S+)")


@click.group(help=__doc__)
@click.option("--folder", default=DATA, type=click.Path(file_okay=False, path_type=Path), help="where the tables are")
@click.pass_context
def main(context: click.Context, folder: Path) -> None:
    """The commands."""
    context.obj = folder


folder_of = click.make_pass_decorator(Path)


@main.command()
@click.option("--region", "regions", multiple=True, default=REGIONS, help="a region to ask for (repeat); others stay")
@click.option("--source", default="AWS Price List Query API", help="what the table says of the origin")
@folder_of
def prices(folder: Path, regions: tuple[str, ...], source: str) -> None:
    """On-demand prices by region and instance type. Regions that are not asked for keep what they have."""
    file = folder / PRICES_FILE
    table: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes())) if file.exists() else {}
    today = dt.datetime.now(dt.UTC).date().isoformat()
    for region in regions:
        priced = _region_prices(region)
        table[region] = {"generated": today, "source": source, "prices": priced}
        click.echo(f"{region}: {len(priced)} prices, {today}")
    write_table(file, dict(sorted(table.items())))


@main.command("instance-types")
@click.option("--region", "regions", multiple=True, default=REGIONS, help="a region to ask for (repeat); others stay")
@click.option("--source", default="EC2 DescribeInstanceTypes", help="what the table says of the origin")
@folder_of
def instance_types(folder: Path, regions: tuple[str, ...], source: str) -> None:
    """Instance types and the zones that sell them. Regions that are not asked for keep what they have."""
    file = folder / TYPES_FILE
    table: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes())) if file.exists() else {}
    today = dt.datetime.now(dt.UTC).date().isoformat()
    for region in regions:
        session = boto3.Session(region_name=region)
        catalog = InstanceTypeCatalog(session.client("ec2"), region, LearnedMemory())
        with _failing(region):
            catalog.refresh()
        if catalog.sold is None:
            raise click.ClickException(f"EC2 lists no instance types in {region}")
        read = ShippedTypes(region, today, source, catalog.sold.types, catalog.sold.zones)
        table = pack_types(table, read)
        click.echo(f"{region}: {len(catalog.sold.types)} instance types, {today}")
    write_table(file, table)


@main.command("branch-interfaces")
@click.argument("limits_go", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@folder_of
def branch_interfaces(folder: Path, limits_go: Path) -> None:
    """Branch network interfaces by instance type."""
    text = limits_go.read_text()
    interfaces = {}
    for match in _TYPE.finditer(text):
        limit = re.search(r"BranchInterface:\s+(\d+)", match["body"])
        if limit and int(limit[1]) and re.search(r"IsTrunkingCompatible:\s+true", match["body"]):
            interfaces[match["name"]] = int(limit[1])
    generated = _GENERATED.search(text)
    if not interfaces or not generated:
        raise click.ClickException(f"{limits_go} has no limits in the form that is known; adapt this script")
    document = {
        "generated": generated["date"],
        "source": "amazon-vpc-resource-controller-k8s, pkg/aws/vpc/limits.go",
        "branchInterfaces": dict(sorted(interfaces.items())),
    }
    write_table(folder / BRANCH_INTERFACES_FILE, document)
    click.echo(f"{BRANCH_INTERFACES_FILE}: {len(interfaces)} instance types, {generated['date']}")


@contextmanager
def _failing(region: str) -> Iterator[None]:
    """Turn a CloudError into the command's error: what failed, in which region, and that the table is unchanged."""
    try:
        yield
    except CloudError as error:
        raise click.ClickException(f"{region}: {error}; nothing was written") from error


def _region_prices(region: str) -> dict[str, float]:
    session = boto3.Session(region_name=region)
    pricing = session.client("pricing", region_name=pricing_region(region))
    reader = Pricing(session.client("ec2"), pricing, region, {}, time.time)
    with _failing(region):
        reader.refresh_on_demand()
    return dict(sorted(reader.prices.on_demand.items()))


def write_table(file: Path, document: dict[str, Any]) -> None:
    """Write bytes that depend on the content alone, so that an unchanged answer is no change to commit."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


def pack_types(table: Mapping[str, Any], read: ShippedTypes) -> dict[str, Any]:
    """Return the table of instance types with one region replaced by what was `read`."""
    zones = {
        name: [zone.removeprefix(read.region) for zone in sorted(places)]
        for name, places in sorted(read.zones.items())
        if name in read.types
    }
    entry = {"generated": read.generated, "source": read.source, "zones": zones}
    regions = dict(sorted({**table.get("regions", {}), read.region: entry}.items()))
    types = {**table.get("types", {}), **{name: msgspec.to_builtins(info) for name, info in read.types.items()}}
    sold = {name for region in regions.values() for name in region["zones"]}
    return {"types": {name: info for name, info in sorted(types.items()) if name in sold}, "regions": regions}


if __name__ == "__main__":
    main()
