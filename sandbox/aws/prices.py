"""Makes data/prices.json.gz, the sandbox's on-demand price list: `uv run python -m sandbox.aws.prices`.

Source: `pricing.json` of the PyPI package apache-libcloud (Apache-2.0), which its maintainers generate from AWS's
public price list. Its releases differ: 3.5.0 (March 2022) is right nearly everywhere but old; later ones know newer
types yet hold zeros and dedicated-host prices. So: 3.5.0 first, then the newest release whose price agrees with the
family's usual price per size unit. Types that no release prices are estimated and listed as such: the predecessor's
price plus 5 % a generation (median error 4 %), else a log-linear fit on vCPUs, memory, accelerators and local disks
(median error 13 %).
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

RELEASES = ("3.5.0", "3.9.1", "3.8.0", "3.6.1")
"""Order of trust."""
GENERATION_STEP = 1.05
OUTPUT = Path(__file__).parent / "data" / "prices.json.gz"

_READ = """
import json, os, libcloud
path = os.path.join(os.path.dirname(libcloud.__file__), "data", "pricing.json")
data = json.load(open(path))
print(json.dumps({"updated": data["updated"], "linux": data["compute"]["ec2_linux"]}))
"""
_FAMILY = re.compile(r"([a-z]+)(\d+)([a-z-]*)\.(.+)")
_UNITS = {"nano": 0.25, "micro": 0.5, "small": 1.0, "medium": 2.0, "large": 4.0, "xlarge": 8.0}

Table = Mapping[str, Mapping[str, float]]
"""Instance type -> region -> $/hour."""
TypeData = Mapping[str, Mapping[str, Any]]
"""Instance type -> its DescribeInstanceTypes entry."""


def main() -> None:
    """Write OUTPUT; prints how many prices are known and estimated."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

    tables: dict[str, Table] = {}
    updated: dict[str, int] = {}
    for release in RELEASES:
        document = _read_release(release)
        tables[release], updated[release] = document["linux"], int(document["updated"])
    offered = {region: {o["InstanceType"] for o in rows} for region, rows in INSTANCE_TYPE_OFFERINGS["region"].items()}
    prices: dict[str, dict[str, float]] = {}
    estimated: dict[str, list[str]] = {}
    for region in sorted(offered):
        known = clean(tables, region)
        if len(known) < 100:
            print(f"{region}: only {len(known)} prices known, left out", file=sys.stderr)
            continue
        guesses = estimate(known, sorted(offered[region] - set(known)), INSTANCE_TYPES)
        prices[region] = {name: price for name, price in sorted((known | guesses).items()) if name in offered[region]}
        estimated[region] = sorted(guesses)
    document = {
        "source": "apache-libcloud pricing.json, releases " + ", ".join(RELEASES),
        "updated": max(updated.values()),
        "prices": prices,
        "estimated": estimated,
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))
    total, guessed = sum(map(len, prices.values())), sum(map(len, estimated.values()))
    print(f"{OUTPUT.name}: {len(prices)} regions, {total} prices, {guessed} of them estimated")


def _read_release(release: str) -> dict[str, Any]:
    command = ["uv", "run", "--no-project", "--with", f"apache-libcloud=={release}", "python", "-c", _READ]
    document: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return document


def size_units(size: str) -> float | None:
    """AWS's normalised size: large 4, xlarge 8, 2xlarge 16; None for metal and others without one."""
    if size in _UNITS:
        return _UNITS[size]
    number = size.removesuffix("xlarge")
    return 8.0 * int(number) if size != number and number.isdigit() else None


def clean(tables: Mapping[str, Table], region: str) -> dict[str, float]:
    """The prices of one region that can be believed, by type; `tables` in order of trust."""
    trusted, *others = tables.values()
    usual = _usual_unit_prices(tables, region)
    prices: dict[str, float] = {}
    for name in sorted({name for table in tables.values() for name in table}):
        if "." not in name:
            continue
        if trusted.get(name, {}).get(region, 0) > 0:
            prices[name] = trusted[name][region]
            continue
        found = [table[name][region] for table in others if table.get(name, {}).get(region, 0) > 0]
        if not found:
            continue
        family, _, size = name.partition(".")
        units, usual_price = size_units(size), usual.get(family)
        if units is None or usual_price is None:
            prices[name] = found[0]
            continue
        agreeing = [price for price in found if abs(price / units / usual_price - 1) < 0.01]
        prices[name] = agreeing[0] if agreeing else round(usual_price * units, 6)
    return prices


def _usual_unit_prices(tables: Mapping[str, Table], region: str) -> dict[str, float]:
    """Family -> the price per size unit that most of its sizes share, where at least 3 votes and half of them do."""
    votes: dict[str, Counter[float]] = {}
    for table in tables.values():
        for name, regions in table.items():
            family, _, size = name.partition(".")
            units, price = size_units(size), regions.get(region, 0)
            if units is not None and price > 0:
                votes.setdefault(family, Counter())[float(f"{price / units:.3g}")] += 1
    winners = {family: counter.most_common(1)[0] for family, counter in votes.items()}
    return {f: unit for f, (unit, count) in winners.items() if count >= 3 and count * 2 >= votes[f].total()}


def estimate(known: Mapping[str, float], unknown: list[str], types: TypeData) -> dict[str, float]:
    """Prices for `unknown` types: by predecessor where there is one, else by the fit over the known ones."""
    features = {name: _features(types[name]) for name in [*known, *unknown] if name in types}
    fitted = [name for name in known if name in features]
    matrix = np.array([features[name] for name in fitted])
    target = np.log(np.array([known[name] for name in fitted]))
    weights, *_ = np.linalg.lstsq(matrix, target, rcond=None)
    guesses: dict[str, float] = {}
    for name in unknown:
        by_predecessor = next(_predecessor_prices(name, known), None)
        if by_predecessor is not None:
            guesses[name] = round(by_predecessor, 5)
        elif name in features:
            guesses[name] = round(float(np.exp(np.array(features[name]) @ weights)), 5)
    return guesses


def _predecessor_prices(name: str, known: Mapping[str, float]) -> Iterator[float]:
    match = _FAMILY.fullmatch(name)
    if match is None:
        return
    letters, generation, suffix, size = match.groups()
    for back in range(1, 5):
        price = known.get(f"{letters}{int(generation) - back}{suffix}.{size}")
        if price is not None:
            yield price * GENERATION_STEP**back


def _features(entry: Mapping[str, Any]) -> list[float]:
    """1, log vCPU, log MiB, log(1 + accelerator MiB), log(1 + local GB), arm64."""
    gpus = entry.get("GpuInfo", {}).get("TotalGpuMemoryInMiB", 0)
    accelerators = sum(a.get("Count", 0) for a in entry.get("InferenceAcceleratorInfo", {}).get("Accelerators", []))
    return [
        1.0,
        float(np.log(entry["VCpuInfo"]["DefaultVCpus"])),
        float(np.log(entry["MemoryInfo"]["SizeInMiB"])),
        float(np.log1p(gpus + 16_384 * accelerators)),
        float(np.log1p(entry.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0))),
        float("arm64" in entry["ProcessorInfo"]["SupportedArchitectures"]),
    ]


if __name__ == "__main__":
    main()
