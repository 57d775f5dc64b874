"""Sources of instance types and prices: the tables of this release, a dump's catalog, or AWS now.

Beside the checks of `nodeless check`, this is the only module of the command line that imports `controller.aws`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

import controller
from controller.aws.catalog.offline_catalog import ASSUMED_SPOT_SHARE as ASSUMED_SPOT_SHARE
from controller.aws.catalog.offline_catalog import OfflineTypes, shipped_catalog
from controller.aws.catalog.offline_catalog import RegionCatalog as RegionCatalog
from controller.aws.catalog.offline_catalog import read_catalog as read_catalog
from controller.aws.catalog.shipped_tables import shipped_type_names as shipped_type_names
from controller.core.cloud import TypeSource
from controller.errors import CloudError, Problem, ValidationError
from controller.runtime.clock import SystemClock
from controller.settings import Settings

if TYPE_CHECKING:
    from controller.aws.api.clients import Clients
    from controller.aws.provider import AWSProvider

DEFAULT_REGION = "us-east-1"
LIVE, SHIPPED = "live", "shipped"
"""Values of `--catalog`; empty: the dump's, else shipped."""


@dataclass(frozen=True, slots=True)
class Source:
    """Types and prices, with notes on where they come from."""

    types: TypeSource
    prices: OfflineTypes
    """Prices of nodes outside any Provisioner."""
    note: str
    spot_note: str = ""
    """Shown when spot nodes are involved."""


def choose_region(given: str, named_by_files: Sequence[str], of_nodes: str) -> str:
    """Return the region of the flag, else of the files, else of the nodes, else DEFAULT_REGION.

    Raises ValidationError when files name several.
    """
    if given:
        return given
    named = sorted(set(named_by_files))
    if len(named) > 1:
        raise ValidationError("Region", [Problem("--region", f"files name {', '.join(named)}", "choose one")])
    return named[0] if named else of_nodes or DEFAULT_REGION


def source_for(
    catalog: str,
    region: str,
    settings: Settings,
    dumped: RegionCatalog | None = None,
    book: RegionCatalog | None = None,
    *,
    zones: Sequence[str] = (),
    spot_share: float = ASSUMED_SPOT_SHARE,
) -> Source:
    """Return the types and prices that `--catalog` asks for, in `zones` (none: all).

    `dumped` is a dump's catalog; without it, `book` is the price book of the cluster or of the dump.

    Raises ValidationError for unknown zones, CloudError for a region without a shipped catalog or when AWS fails.
    """
    if catalog == LIVE:
        return _live_source(settings)
    known = dumped
    if known is None or catalog == SHIPPED or known.region != region:
        known = shipped_catalog(region)
        if book is not None and catalog != SHIPPED and book.region == region:
            known = known.priced(book)
    unknown = sorted(set(zones) - known.all_zones)
    if unknown:
        listed = ", ".join(sorted(known.all_zones))
        problem = Problem("--zone", f"{', '.join(unknown)}: not in {region}", f"known: {listed}")
        raise ValidationError("Flags", [problem])
    note = f"Types and prices of {region}, {known.generated}: {known.source}"
    spot = f"Spot prices are assumed: {spot_share:.0%} of on-demand; --catalog live reads the real ones"
    types = OfflineTypes(known, settings, frozenset(zones), spot_share)
    return Source(types, types, note, spot if known.spot is None else "")


def unpriced_source(region: str, settings: Settings, error: CloudError) -> Source:
    """Return a source without types and prices, for a cluster in a region without a catalog; `error` says why."""
    types = OfflineTypes(RegionCatalog(region, "", "", {}, {}, {}), settings)
    return Source(types, types, f"No prices: {error}")


def dumped_prices(book: RegionCatalog | None, region: str) -> Mapping[str, Any]:
    """Return a dump's prices: those of the cluster's price book, else the release's for its region."""
    if book is not None and book.region == (region or book.region):
        return book.price_book()
    try:
        return shipped_catalog(region or DEFAULT_REGION).price_book()
    except CloudError:
        return {}  # a region that is not EC2's


def live_catalog(settings: Settings) -> RegionCatalog:
    """Return the catalog of the caller's region, from AWS now. Raises CloudError."""
    provider = live_provider(settings)
    provider.refresh()
    return provider.region_catalog()


def _live_source(settings: Settings) -> Source:
    provider = live_provider(settings)
    provider.refresh()
    prices = OfflineTypes(provider.region_catalog(), settings)
    return Source(provider, prices, f"Types and prices of {provider.region} from AWS now")


def live_provider(settings: Settings, clients: Clients | None = None) -> AWSProvider:
    """Return the controller's AWS provider, without logging. Raises CloudUnauthorizedError without a region."""
    from controller.aws.api.clients import make_clients  # boto3 is slow to import
    from controller.aws.provider import AWSProvider

    logger: Any = structlog.wrap_logger(
        structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(50)
    )
    return AWSProvider(settings, clients or make_clients(version=controller.__version__), SystemClock(), logger)
