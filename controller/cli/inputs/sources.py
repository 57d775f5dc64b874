"""Sources of types and prices (shipped tables, a dump, live AWS) and of a live cluster's objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

import controller
from controller.aws.catalog.offline_catalog import OfflineTypes, RegionCatalog
from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.objects import Objects
from controller.core.api.document import Document
from controller.core.cloud import TypeSource
from controller.errors import ForbiddenError, NotFoundError, Problem, ValidationError
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CLUSTER_STATE, CONFIG_MAPS
from controller.runtime.clock import SystemClock
from controller.settings import CONFIG_MAP, Settings

if TYPE_CHECKING:
    from controller.aws.provider import AWSProvider

DEFAULT_REGION = "us-east-1"
LIVE, SHIPPED = "live", "shipped"


def kube_client(kubeconfig: str, context: str) -> KubeClient:
    """A client for a kubeconfig and context. Raises ValidationError without a usable kubeconfig."""
    return KubeClient(connect(kubeconfig, context))


def read_cluster(kube: KubeClient) -> Objects:
    """List every kind that planning reads; kinds that the cluster lacks are left out. Raises KubeError."""
    located: list[LocatedObject] = []
    for resource in CLUSTER_STATE:
        try:
            listing = kube.list_all(resource)
        except NotFoundError:
            continue
        for document in listing.items:
            full = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
            located.append(LocatedObject(full, f"cluster {kube.connection.server}"))
    settings = read_settings(kube)
    if settings is not None:
        located.append(LocatedObject({"apiVersion": "v1", "kind": "ConfigMap", **settings}, "cluster"))
    return Objects(tuple(located))


def read_settings(kube: KubeClient) -> Document | None:
    """The ConfigMap karpenter-global-settings of any namespace; None when missing or not readable."""
    try:
        config_maps = kube.list(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}")
    except ForbiddenError:
        return None
    return next(iter(config_maps), None)


def choose_region(given: str, named_by_files: Sequence[str], of_nodes: str) -> str:
    """The region of the flag, else of the files, else of the nodes, else DEFAULT_REGION.

    Raises ValidationError when files name several.
    """
    if given:
        return given
    named = sorted(set(named_by_files))
    if len(named) > 1:
        raise ValidationError("Region", [Problem("--region", f"files name {', '.join(named)}", "choose one")])
    return named[0] if named else of_nodes or DEFAULT_REGION


@dataclass(frozen=True, slots=True)
class Source:
    """Types and prices, with notes on where they come from."""

    types: TypeSource
    prices: OfflineTypes
    """Prices of nodes outside any Provisioner."""
    note: str
    spot_note: str = ""
    """Shown when spot nodes are involved."""


def offline_types(catalog: RegionCatalog, settings: Settings, zones: Sequence[str], spot_share: float) -> Source:
    """Types of a catalog in `zones` (none: all). Raises ValidationError for unknown zones."""
    unknown = sorted(set(zones) - catalog.all_zones)
    if unknown:
        known = ", ".join(sorted(catalog.all_zones))
        problem = Problem("--zone", f"{', '.join(unknown)}: not in {catalog.region}", f"known: {known}")
        raise ValidationError("Flags", [problem])
    note = f"Types and prices of {catalog.region}, {catalog.generated}: {catalog.source}"
    spot = f"Spot prices are assumed: {spot_share:.0%} of on-demand; --catalog live reads the real ones"
    types = OfflineTypes(catalog, settings, frozenset(zones), spot_share)
    return Source(types, types, note, spot if catalog.spot is None else "")


def live_types(settings: Settings) -> Source:
    """Types and prices from AWS now. Raises CloudError."""
    provider = live_provider(settings)
    provider.refresh()
    prices = OfflineTypes(provider.region_catalog(), settings)
    return Source(provider, prices, f"Types and prices of {provider.region} from AWS now")


def live_provider(settings: Settings) -> AWSProvider:
    """The controller's AWS provider, without logging. Raises CloudUnauthorizedError without a region."""
    from controller.aws.api.clients import make_clients  # boto3 is slow to import
    from controller.aws.provider import AWSProvider

    logger: Any = structlog.wrap_logger(
        structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(50)
    )
    return AWSProvider(settings, make_clients(version=controller.__version__), SystemClock(), logger)
