"""Objects of files, with stack configuration and dumps unfolded into the objects they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from controller.aws.catalog.offline_catalog import RegionCatalog, read_catalog
from controller.cli.inputs.files import LocatedObject, read_files
from controller.cli.inputs.stack_file import stack_objects, stack_region
from controller.core.api.document import mapping, objects
from controller.core.api.labels import REGION
from controller.core.api.strict import Report
from controller.settings import CONFIG_MAP

STACK, DUMP = "StackConfig", "ClusterDump"
CONFIGURATION = ("Provisioner", "AWSNodeTemplate")


@dataclass(frozen=True, slots=True)
class Objects:
    """Unfolded objects: no stack configuration and no dump among them."""

    located: tuple[LocatedObject, ...] = ()
    regions: tuple[str, ...] = ()
    """Regions that stack configurations and dumps name."""
    catalog: RegionCatalog | None = None
    """Of a dump that has one."""

    @property
    def configuration(self) -> tuple[LocatedObject, ...]:
        """Provisioners, templates and settings."""
        return tuple(each for each in self.located if configures(each))

    @property
    def workload(self) -> tuple[LocatedObject, ...]:
        """All other objects."""
        return tuple(each for each in self.located if not configures(each))

    @property
    def region(self) -> str:
        """The region of most nodes; empty when no node has the label."""
        labels = (
            mapping(mapping(each.document.get("metadata")).get("labels"))
            for each in self.located
            if each.kind == "Node"
        )
        counts = Counter(str(own[REGION]) for own in labels if own.get(REGION))
        return counts.most_common(1)[0][0] if counts else ""


def configures(each: LocatedObject) -> bool:
    """Whether the object is a Provisioner, a node template or the settings."""
    return each.kind in CONFIGURATION or (each.kind == "ConfigMap" and each.name == CONFIG_MAP)


def read_objects(paths: Iterable[str], report: Report) -> Objects:
    """Read files (see `read_files`) and unfold them."""
    return unfold(read_files(paths, report), report)


def unfold(located: Iterable[LocatedObject], report: Report) -> Objects:
    """Replace stack configurations and dumps by the objects they hold."""
    unfolded: list[LocatedObject] = []
    regions: list[str] = []
    catalog: RegionCatalog | None = None
    for each in located:
        if each.kind == STACK:
            unfolded.extend(stack_objects(each, report))
            regions.append(stack_region(each))
        elif each.kind == DUMP:
            unfolded.extend(
                LocatedObject(one, each.where) for one in objects(each.document.get("objects")) if "kind" in one
            )
            catalog = _catalog(each, report) or catalog
        else:
            unfolded.append(each)
    if catalog is not None:
        regions.append(catalog.region)
    return Objects(tuple(unfolded), tuple(region for region in regions if region), catalog)


def _catalog(dump: LocatedObject, report: Report) -> RegionCatalog | None:
    if dump.document.get("catalog") is None:
        return None
    try:
        return read_catalog(dump.document["catalog"])
    except ValueError as error:
        report.add(f"{dump.where}: catalog", str(error), "take the dump again")
        return None
