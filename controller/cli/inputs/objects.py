"""Objects of files or of a live cluster; stack configuration and dumps are unfolded into the objects they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.cli.inputs.files import LocatedObject, read_files
from controller.cli.inputs.price_record import price_book
from controller.cli.inputs.sources import RegionCatalog, read_catalog
from controller.cli.inputs.stack_file import stack_objects, stack_region
from controller.core.api.document import Document, mapping, objects, timestamp
from controller.core.api.labels import REGION
from controller.core.api.strict import Report
from controller.core.zones.services import Service, parse_service
from controller.errors import ForbiddenError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CLUSTER_STATE, CONFIG_MAPS, DEVICES, SERVICES
from controller.kube.served_devices import served_devices
from controller.settings import CONFIG_MAP, Settings

STACK, DUMP = "StackConfig", "ClusterDump"
CONFIGURATION = ("Provisioner", "AWSNodeTemplate")


@dataclass(frozen=True, slots=True)
class Objects:
    """Unfolded objects: no stack configuration and no dump among them."""

    located: tuple[LocatedObject, ...] = ()
    regions: tuple[str, ...] = ()
    """Regions that stack configurations and dumps name."""
    catalog: RegionCatalog | None = None
    """The catalog of a dump that has one."""
    taken: float = 0.0
    """When the dump was taken, Unix seconds; 0 without a dump."""
    prices: RegionCatalog | None = None
    """The price book of a cluster or of a dump, without types."""

    @property
    def configuration(self) -> tuple[LocatedObject, ...]:
        """Provisioners, templates and settings."""
        return tuple(each for each in self.located if configures(each))

    @property
    def workload(self) -> tuple[LocatedObject, ...]:
        """All other objects."""
        return tuple(each for each in self.located if not configures(each))

    @property
    def services(self) -> tuple[Service, ...]:
        """Services, sorted by namespace and name."""
        return services_of(self.located)

    @property
    def region(self) -> str:
        """The region of most nodes, else that of the price book; empty without both."""
        metadata = (mapping(each.document.get("metadata")) for each in self.located if each.kind == "Node")
        of_nodes = region_of(mapping(each.get("labels")) for each in metadata)
        return of_nodes or (self.prices.region if self.prices else "")


def region_of(labels: Iterable[Mapping[str, Any]]) -> str:
    """Return the region that the labels of most nodes name; empty when none does."""
    counts = Counter(str(own[REGION]) for own in labels if own.get(REGION))
    return counts.most_common(1)[0][0] if counts else ""


def services_of(located: Iterable[LocatedObject]) -> tuple[Service, ...]:
    """Return the Services among objects, sorted by namespace and name."""
    parsed = (parse_service(each.document) for each in located if each.kind == SERVICES.kind)
    return tuple(sorted(parsed, key=lambda service: service.key))


def configures(each: LocatedObject) -> bool:
    return each.kind in CONFIGURATION or (each.kind == "ConfigMap" and each.name == CONFIG_MAP)


def read_objects(paths: Iterable[str], report: Report) -> Objects:
    """Read files (see `read_files`) and unfold them."""
    return unfold(read_files(paths, report), report)


def unfold(located: Iterable[LocatedObject], report: Report) -> Objects:
    """Replace stack configurations and dumps by the objects they hold."""
    unfolded: list[LocatedObject] = []
    regions: list[str] = []
    catalog: RegionCatalog | None = None
    taken = 0.0
    prices: RegionCatalog | None = None
    for each in located:
        if each.kind == STACK:
            unfolded.extend(stack_objects(each, report))
            regions.append(stack_region(each))
        elif each.kind == DUMP:
            unfolded.extend(
                LocatedObject(one, each.where) for one in objects(each.document.get("objects")) if "kind" in one
            )
            catalog = _catalog(each, "catalog", report) or catalog
            taken = timestamp(each.document.get("taken")) or taken
            prices = _catalog(each, "prices", report) or prices
        else:
            unfolded.append(each)
    if known := catalog or prices:
        regions.append(known.region)
    return Objects(tuple(unfolded), tuple(region for region in regions if region), catalog, taken, prices)


def _catalog(dump: LocatedObject, member: str, report: Report) -> RegionCatalog | None:
    if dump.document.get(member) is None:
        return None
    try:
        return read_catalog(dump.document[member])
    except ValueError as error:
        report.add(f"{dump.where}: {member}", str(error), "take the dump again")
        return None


def kube_client(kubeconfig: str, context: str) -> KubeClient:
    """Return a client for a kubeconfig and context. Raises ValidationError without a usable kubeconfig."""
    return KubeClient(connect(kubeconfig, context))


def read_cluster(kube: KubeClient) -> Objects:
    """List every kind that planning reads, and Services, without those that the cluster lacks.

    Services and the kinds of DRA are left out where the user may not list them.

    Raises KubeError.
    """
    located: list[LocatedObject] = []
    for resource in (*CLUSTER_STATE, SERVICES, *served_devices(kube)):
        try:
            listing = kube.list_all(resource)
        except NotFoundError:
            continue
        except ForbiddenError:
            if resource.group != DEVICES and resource is not SERVICES:
                raise
            continue  # pods with claims are said to be refused, which need not stop anything else
        for document in listing.items:
            full = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
            located.append(LocatedObject(full, f"cluster {kube.connection.server}"))
    settings = read_settings(kube)
    if settings is not None:
        located.append(LocatedObject({"apiVersion": "v1", "kind": "ConfigMap", **settings}, "cluster"))
    return Objects(tuple(located), prices=price_book(kube))


def read_settings(kube: KubeClient) -> Document | None:
    """Return the ConfigMap karpenter-global-settings of any namespace; None when missing or not readable."""
    try:
        config_maps = kube.list(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}")
    except ForbiddenError:
        return None
    return next(iter(config_maps), None)


def parse_settings(config_map: Document, default_name: str = "") -> Settings:
    """Return the settings in a ConfigMap; `default_name` names the cluster if it does not. Raises ValidationError."""
    data = {str(key): str(value) for key, value in mapping(config_map.get("data")).items()}
    return Settings.parse({"aws.clusterName": default_name, **data} if default_name else data)
