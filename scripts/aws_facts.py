"""Write the shipped tables from facts that AWS published: prices, limits of interfaces, network bandwidths.

    uv run python -m scripts.aws_facts FACTS

FACTS is a folder with three files, gzipped JSON: `on-demand-prices` ({region: {generated, source, prices: {type:
$/hour}}}), `vpc-limits` ({type: {ipv4PerInterface, trunking, branchInterfaces, defaultNetworkCard, networkCards}}) and
`network-bandwidth-megabits` ({type: megabits/s}). Run it after `aws_data.py instance-types`.

Prices of a region with facts are the facts'. Elsewhere those of the sandbox's list (the public list of 2022 to 2025)
are known, as far as that list is right about the same type in us-east-1; all others are us-east-1's at the ratio of the
type's family (scripts/region_prices.py), marked estimated, as are types of us-east-1 that the facts lack. The sandbox's
list is corrected by the same prices.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import click

from controller.aws.catalog.shipped_tables import (
    BASE_REGION,
    BRANCH_INTERFACES_FILE,
    PRICES_FILE,
    TYPES_FILE,
    prices_of,
)
from sandbox.aws.market.prices import OUTPUT as SANDBOX_LIST
from sandbox.aws.market.prices import estimate
from scripts.aws_data import DATA, write_table
from scripts.lacking_types import LACKING
from scripts.region_prices import believable, scaled

PUBLIC_LIST = "AWS's public price list (2022 to 2025, by apache-libcloud), where it agrees with us-east-1's of today"
NO_LIST = "no price is known: us-east-1's at the ratios of the nearest regions"
ASSUMED_TYPES = "not known: the types that most other regions sell, in three zones"

Table = dict[str, Any]


@click.command(help=__doc__)
@click.argument("facts", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--folder", default=DATA, type=click.Path(file_okay=False, path_type=Path), help="where the tables are")
@click.option("--sandbox-list", default=SANDBOX_LIST, type=click.Path(dir_okay=False, path_type=Path))
def main(facts: Path, folder: Path, sandbox_list: Path) -> None:
    """Write the tables."""
    published, limits = _read(facts / "on-demand-prices.json.gz"), _read(facts / "vpc-limits.json.gz")
    types = _read(folder / TYPES_FILE)
    listed = _read(sandbox_list)
    types = corrected_types(types, limits, _read(facts / "network-bandwidth-megabits.json.gz"))
    types = with_every_region(types, boto3.Session().get_available_regions("ec2"))
    prices = price_table(published, listed, types)
    write_table(folder / TYPES_FILE, types)
    write_table(folder / PRICES_FILE, prices)
    write_table(sandbox_list, sandbox_prices(listed, prices))
    write_table(folder / BRANCH_INTERFACES_FILE, branch_table(limits, published[BASE_REGION]["generated"]))
    for region, entry in prices.items():
        click.echo(f"{region}: {len(entry['prices'])} prices are known; {entry['source']}")


def price_table(published: Table, listed: Table, types: Table) -> Table:
    """The shipped table of prices: by region what is known, and ratios to us-east-1's or estimates for the rest."""
    base = published[BASE_REGION]["prices"]
    listed_base = _known(listed, BASE_REGION)
    # GovCloud's own are left out of the ratios of commercial regions, and China's are in another currency.
    known = {
        region: believable(_known(listed, region), listed_base, base)
        for region in listed["prices"]
        if region not in published
    }
    regions = [name for name in types["regions"] if name not in published]
    unpriced = sorted(types["types"].keys() - base)
    guessed = estimate(base, unpriced, {name: _described(types["types"][name]) for name in types["types"]})
    table: Table = {
        region: {
            "generated": entry["generated"][:10],
            "source": entry["source"],
            "prices": entry["prices"],
            "estimated": guessed if region == BASE_REGION else {},
        }
        for region, entry in published.items()
    }
    day = published[BASE_REGION]["generated"][:10]
    for region, made in scaled(known, {**guessed, **base}, regions).items():
        source = PUBLIC_LIST if made.known else NO_LIST
        common = Counter(made.ratios.values()).most_common(1)[0][0]
        ratios = {family: ratio for family, ratio in made.ratios.items() if ratio != common}
        table[region] = {
            "generated": day,
            "source": source,
            "prices": dict(made.known),
            "ratios": {"": common, **ratios},
        }
    return dict(sorted(table.items()))


def sandbox_prices(listed: Table, prices: Table) -> Table:
    """The sandbox's list with the prices of the shipped table, for the types that it has."""
    made: Table = {**listed, "prices": {}, "estimated": {}}
    for region, before in listed["prices"].items():
        shipped = prices_of(region, prices)
        made["prices"][region] = {name: shipped.prices.get(name, price) for name, price in before.items()}
        made["estimated"][region] = [name for name in before if name in shipped.estimated or name not in shipped.prices]
    return made


def corrected_types(types: Table, limits: Table, bandwidths: Table) -> Table:
    """The table of types with the facts' interfaces and bandwidths, and with types that EC2's copy lacks."""
    made = {name: dict(info) for name, info in types["types"].items()}
    zones = types["regions"][BASE_REGION]["zones"]
    everywhere = sorted({zone for places in zones.values() for zone in places})
    for name, info in LACKING.items():
        made.setdefault(name, {"bandwidth_mbps": None, **info})
        zones.setdefault(name, everywhere)
    for name, info in made.items():
        if limit := limits.get(name):
            cards = {card["index"]: card["interfaces"] for card in limit["networkCards"]}
            info["max_interfaces"] = cards[limit["defaultNetworkCard"]]
            info["ipv4_per_interface"] = limit["ipv4PerInterface"]
        info["bandwidth_mbps"] = bandwidths.get(name, info["bandwidth_mbps"])
    types["regions"][BASE_REGION]["zones"] = dict(sorted(zones.items()))
    return {**types, "types": dict(sorted(made.items()))}


def with_every_region(types: Table, commercial: list[str]) -> Table:
    """The table of types with an assumption for each commercial region that it does not know."""
    known = {name: entry for name, entry in types["regions"].items() if entry["source"] != ASSUMED_TYPES}
    sold = Counter(name for entry in known.values() for name in entry["zones"])
    usual = {name: ["a", "b", "c"] for name, count in sorted(sold.items()) if 2 * count > len(known)}
    latest = max(entry["generated"] for entry in known.values())
    assumed = {
        region: {"generated": latest, "source": ASSUMED_TYPES, "zones": usual}
        for region in commercial
        if region not in known
    }
    return {**types, "regions": dict(sorted({**known, **assumed}.items()))}


def branch_table(limits: Table, day: str) -> Table:
    """The shipped table of branch interfaces: of types that trunk."""
    trunking = {name: one["branchInterfaces"] for name, one in limits.items() if one["trunking"]}
    return {
        "generated": day,
        "source": "amazon-vpc-resource-controller-k8s, pkg/aws/vpc/limits.go",
        "branchInterfaces": {name: count for name, count in sorted(trunking.items()) if count},
    }


def _known(listed: Table, region: str) -> dict[str, float]:
    estimated = set(listed["estimated"][region])
    return {name: price for name, price in listed["prices"][region].items() if name not in estimated}


def _described(info: Table) -> Table:
    """A type's row in the form of EC2's DescribeInstanceTypes, as far as an estimate reads it."""
    gpus, devices = info["gpus"], info["accelerators"]
    memory = sum(gpu["count"] * gpu["memory_mib"] for gpu in gpus)
    neuron = sum(device["count"] * device["memory_mib"] for device in devices)
    return {
        "VCpuInfo": {"DefaultVCpus": info["vcpus"]},
        "MemoryInfo": {"SizeInMiB": info["memory_mib"]},
        "GpuInfo": {"TotalGpuMemoryInMiB": memory},
        "NeuronInfo": {"TotalNeuronDeviceMemoryInMiB": neuron},
        "InstanceStorageInfo": {"TotalSizeInGB": info["local_nvme_gb"] or 0},
    }


def _read(file: Path) -> Table:
    document: Table = json.loads(gzip.decompress(file.read_bytes()))
    return document


if __name__ == "__main__":
    main()
