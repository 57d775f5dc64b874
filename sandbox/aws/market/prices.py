"""Makes data/prices.json.gz, the sandbox's on-demand price list: `uv run python -m sandbox.aws.market.prices`.

Source: `pricing.json` of the PyPI package apache-libcloud (Apache-2.0), which its maintainers generate from AWS's
public price list. Its releases differ: 3.5.0 (March 2022) is right nearly everywhere but old; later ones know newer
types yet hold zeros and dedicated-host prices. So: 3.5.0 first, then the newest release whose price agrees with the
family's usual price per size unit. Types that no release prices are estimated and listed as such: the predecessor's
price plus 5 % a generation (on types whose price is known: median error 5 %, nine tenths below 22 %), else a log-linear
fit (on families left out of it: 8 % and 32 %; GPU types are the worst).
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

RELEASES = ("3.5.0", "3.9.1", "3.8.0", "3.6.1")
"""Order of trust."""
GENERATION_STEP = 1.05
OUTPUT = Path(__file__).parents[1] / "data" / "prices.json.gz"

_READ = """
import json, os, libcloud
path = os.path.join(os.path.dirname(libcloud.__file__), "data", "pricing.json")
data = json.load(open(path))
print(json.dumps({"updated": data["updated"], "linux": data["compute"]["ec2_linux"]}))
"""
_FAMILY = re.compile(r"([a-z]+?)(\d+)([a-z0-9-]*)\.(.+)")
_SUFFIXES = "abdeginsz"
_FIRST_NITRO = 5
_ACCELERATED = {"g", "gr", "p", "inf", "trn", "dl", "vt", "f"}
"""Their prices don't follow a generation's step."""
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
    by_fit = _fit({name: price for name, price in known.items() if name in types}, unknown, types)
    guesses = {}
    for name in unknown:
        price = _predecessor_price(name, known) or by_fit.get(name)
        if price is not None:
            guesses[name] = round(price, 5)
    return guesses


def _predecessor_price(name: str, known: Mapping[str, float]) -> float | None:
    """The same series and size, up to four generations back; none for accelerators and for what precedes nitro."""
    letters, generation, suffix, size = _parts(name)
    if letters in _ACCELERATED:
        return None
    for back in range(1, min(4, generation - _FIRST_NITRO) + 1):
        price = known.get(f"{letters}{generation - back}{suffix}.{size}")
        if price is not None:
            return price * GENERATION_STEP**back
    return None


def _fit(known: Mapping[str, float], unknown: list[str], types: TypeData) -> dict[str, float]:
    """Ridge regression of log price on sizes, generation, series letters and suffix letters."""
    names = [name for name in unknown if name in types]
    series = sorted({_parts(name)[0] for name in [*known, *names]})
    matrix = np.array([_features(name, types[name], series) for name in known])
    target = np.log(np.array(list(known.values())))
    penalty = np.eye(matrix.shape[1])
    penalty[:3, :3] *= 1e-6  # the constant, vCPUs and memory are always there
    weights = np.linalg.solve(matrix.T @ matrix + penalty, matrix.T @ target)
    return {name: float(np.exp(_features(name, types[name], series) @ weights)) for name in names}


def _features(name: str, entry: Mapping[str, Any], series: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    letters, generation, suffix, _ = _parts(name)
    gpus = entry.get("GpuInfo", {}).get("TotalGpuMemoryInMiB", 0)
    accelerators = sum(a.get("Count", 0) for a in entry.get("InferenceAcceleratorInfo", {}).get("Accelerators", []))
    neuron = entry.get("NeuronInfo", {}).get("TotalNeuronDeviceMemoryInMiB", 0)
    sizes = [
        1.0,
        np.log(entry["VCpuInfo"]["DefaultVCpus"]),
        np.log(entry["MemoryInfo"]["SizeInMiB"]),
        np.log1p(gpus + 16_384 * accelerators + neuron),
        np.log1p(entry.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        float(generation),
        float("flex" in suffix),
    ]
    options = suffix.replace("-flex", "")
    return np.array(sizes + [float(c in options) for c in _SUFFIXES] + [float(letters == one) for one in series])


def _parts(name: str) -> tuple[str, int, str, str]:
    """c6gd.2xlarge -> c, 6, gd, 2xlarge."""
    match = _FAMILY.fullmatch(name)
    return (match[1], int(match[2]), match[3], match[4]) if match else (name, 0, "", "")


if __name__ == "__main__":
    main()
