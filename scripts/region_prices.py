"""Prices of all regions from those of one: what is known, and what follows from a family's ratio between regions.

AWS prices a family of instance types in a region at one ratio to another region's, whatever the size: over the public
list's prices that is exact for nine of ten. Where no size of a family is known in a region, the ratio of its relatives
(the same letters and processor) is within 1 % for three of four families, within 9 % for nineteen of twenty.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median

SAME = 0.005
"""Two prices of one type are the same within this share."""

_FAMILY = re.compile(r"(?P<letters>[a-z]+?)(?:-[0-9a-z]+?)?[0-9]+(?P<options>[a-z-]*)")

Prices = Mapping[str, float]
"""$/hour by instance type."""


@dataclass(frozen=True, slots=True)
class RegionPrices:
    """A region's known prices, and the ratio of each family's prices to the base region's."""

    known: Prices
    ratios: Prices
    """By family."""


def believable(listed: Prices, listed_in_base: Prices, base: Prices) -> Prices:
    """The prices of a list of a region for those types whose price in the base region the same list has right.

    A list that is wrong or outdated about a type in one region is so in others.
    """
    right = {name for name, price in listed_in_base.items() if name in base and abs(price / base[name] - 1) <= SAME}
    return {name: price for name, price in listed.items() if name in right}


def scaled(known: Mapping[str, Prices], base: Prices, regions: Iterable[str]) -> dict[str, RegionPrices]:
    """Each region with the ratios of all families of the base region; `known` has the known prices by region.

    A family's ratio is the median of its known sizes, else of its relatives, else of its letters, else of the region;
    for a region without any known price, the median of its neighbours (the same first letters), else of all regions.
    """
    families = sorted({family_of(name) for name in base})
    by_region = {region: _known_ratios(prices, base) for region, prices in known.items()}
    made = {}
    for region in regions:
        own = by_region.get(region) or _of_neighbours(region, by_region)
        made[region] = RegionPrices(known.get(region, {}), {family: _ratio(family, own) for family in families})
    return made


def family_of(instance_type: str) -> str:
    """The part before the dot."""
    return instance_type.partition(".")[0]


def _known_ratios(prices: Prices, base: Prices) -> dict[str, float]:
    ratios = defaultdict(list)
    for name, price in prices.items():
        if name in base:
            ratios[family_of(name)].append(price / base[name])
    return {family: median(values) for family, values in ratios.items()}


def _of_neighbours(region: str, by_region: Mapping[str, Prices]) -> dict[str, float]:
    """Family -> median ratio over the regions that begin with the same letters, of all where there is none."""
    with_prices = {name for name, ratios in by_region.items() if ratios}
    near = {name for name in with_prices if name.split("-")[:2] == region.split("-")[:2]}
    near = near or {name for name in with_prices if name.split("-")[0] == region.split("-")[0]} or with_prices
    found = defaultdict(list)
    for name in sorted(near):
        for family, ratio in by_region[name].items():
            found[family].append(ratio)
    return {family: median(values) for family, values in found.items()}


def _ratio(family: str, known: Prices) -> float:
    if family in known:
        return round(known[family], 5)
    letters, processor = _kin(family)
    series = [other for other in known if _kin(other)[0] == letters]
    relatives = [other for other in series if _kin(other)[1] == processor]
    return round(median(known[other] for other in relatives or series or known), 5)


@cache
def _kin(family: str) -> tuple[str, str]:
    """(letters, processor): c6gd -> c, Graviton; m5a -> m, AMD; all others are Intel or hold accelerators."""
    match = _FAMILY.fullmatch(family)
    if match is None:
        return family, ""
    options = match["options"]
    return match["letters"], "graviton" if options.startswith("g") else "amd" if options.startswith("a") else ""
