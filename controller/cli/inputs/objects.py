"""Objects of files, dumps and clusters with their places, unfolded: stack configuration and dumps taken apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from controller.aws.catalog.offline_catalog import RegionCatalog, read_catalog
from controller.cli.inputs.files import Placed, read_files
from controller.cli.inputs.stack_file import stack_objects, stack_region
from controller.core.api.document import mapping, objects
from controller.core.api.labels import REGION
from controller.core.api.strict import Report
from controller.settings import CONFIG_MAP

STACK, DUMP = "StackConfig", "ClusterDump"
CONFIGURATION = ("Provisioner", "AWSNodeTemplate")


@dataclass(frozen=True, slots=True)
class Objects:
    """No stack configuration and no dump is left among them."""

    placed: tuple[Placed, ...] = ()
    regions: tuple[str, ...] = ()
    """Regions that stack configurations and dumps name."""
    catalog: RegionCatalog | None = None
    """Of the dump, if one was read."""

    @property
    def configuration(self) -> tuple[Placed, ...]:
        """Provisioners, templates and settings."""
        return tuple(each for each in self.placed if configures(each))

    @property
    def workload(self) -> tuple[Placed, ...]:
        """All else."""
        return tuple(each for each in self.placed if not configures(each))

    @property
    def region(self) -> str:
        """Where most nodes are; empty when none says."""
        labels = (
            mapping(mapping(each.document.get("metadata")).get("labels")) for each in self.placed if each.kind == "Node"
        )
        counts = Counter(str(own[REGION]) for own in labels if own.get(REGION))
        return counts.most_common(1)[0][0] if counts else ""


def configures(each: Placed) -> bool:
    """Whether the object says what nodes there may be, rather than what is to run on them."""
    return each.kind in CONFIGURATION or (each.kind == "ConfigMap" and each.name == CONFIG_MAP)


def read_objects(paths: Iterable[str], report: Report) -> Objects:
    """Read files (see `files.read_files`) and take apart what holds others."""
    return unfold(read_files(paths, report), report)


def unfold(placed: Iterable[Placed], report: Report) -> Objects:
    """Take stack configurations and dumps apart."""
    unfolded: list[Placed] = []
    regions: list[str] = []
    catalog: RegionCatalog | None = None
    for each in placed:
        if each.kind == STACK:
            unfolded.extend(stack_objects(each, report))
            regions.append(stack_region(each))
        elif each.kind == DUMP:
            unfolded.extend(Placed(one, each.where) for one in objects(each.document.get("objects")) if "kind" in one)
            catalog = _catalog(each, report) or catalog
        else:
            unfolded.append(each)
    if catalog is not None:
        regions.append(catalog.region)
    return Objects(tuple(unfolded), tuple(region for region in regions if region), catalog)


def _catalog(dump: Placed, report: Report) -> RegionCatalog | None:
    if dump.document.get("catalog") is None:
        return None
    try:
        return read_catalog(dump.document["catalog"])
    except ValueError as error:
        report.add(f"{dump.where}: catalog", str(error), "take the dump again")
        return None
