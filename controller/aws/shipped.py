"""Tables that ship with the controller because no API tells (branch interfaces) or none can be reached (prices).

Both are written by scripts/aws_data.py, with their date and source inside. Branch interfaces are AWS's own file. The
prices were read from a Pricing API that the sandbox serves out of apache-libcloud's copy of AWS's list, with estimates
for types that it does not know: good enough to order types by price, no bill. The log names date and source whenever
they are in use; run the script with credentials before a release to have AWS's own.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from controller.core.api.frozen import FrozenMap

PRICES_FILE = "on-demand-prices.json.gz"
BRANCH_INTERFACES_FILE = "branch-interfaces.json.gz"
DEFAULT_REGION = "us-east-1"
"""Its prices stand in for regions that the table does not have: the order of types by price is much the same."""


@dataclass(frozen=True, slots=True)
class ShippedPrices:
    """On-demand $ an hour by instance type, `generated` on a day (ISO 8601) from `source`, of `region`."""

    region: str
    generated: str
    source: str
    prices: Mapping[str, float]


def shipped_prices(region: str) -> ShippedPrices:
    """The table's prices of a region, or of us-east-1 when it has none of it."""
    table = _read(PRICES_FILE)
    chosen = region if region in table else DEFAULT_REGION
    return ShippedPrices(chosen, **table[chosen])


@cache
def branch_interfaces() -> FrozenMap[str, int]:
    """Branch network interfaces (security groups for pods) by instance type; types that cannot trunk are absent."""
    found: dict[str, int] = _read(BRANCH_INTERFACES_FILE)["branchInterfaces"]
    return FrozenMap(found)


def _read(name: str) -> dict[str, Any]:
    packed = resources.files("controller.aws").joinpath("data", name).read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(packed))
    return document
