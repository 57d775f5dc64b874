"""A cluster as it is now, or was when a dump was taken, with types and prices: what explain and view look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controller.aws.catalog.offline_catalog import ASSUMED_SPOT_SHARE, OfflineTypes, RegionCatalog, shipped_catalog
from controller.cli.cluster.decision_log import decisions, prices_on_record
from controller.cli.cluster.node_facts import Prices, capacity_type
from controller.cli.cluster.simulation import node_prices
from controller.cli.inputs.objects import Objects, read_objects
from controller.cli.inputs.scenario import cluster_of
from controller.cli.inputs.sources import DEFAULT_REGION, LIVE, Source, kube_client, live_types, offline_types
from controller.cli.inputs.sources import read_cluster as read
from controller.cloud.catalogs import CATALOG_WORKERS, Catalogs, CatalogView
from controller.core.api.frozen import EMPTY
from controller.core.api.labels import INSTANCE_TYPE, REGION, ZONE
from controller.core.api.strict import Report
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, SolveOptions
from controller.core.provisioning.problem import build
from controller.core.provisioning.solver.solver import solve
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.kube.client import KubeClient
from controller.runtime.executors import ThreadExecutors
from controller.settings import Settings
from controller.telemetry.decision_ledger import MOST_SHOWN


@dataclass(frozen=True, slots=True)
class Where:
    """Where the cluster is read: a kubeconfig and context, or a file."""

    kubeconfig: str = ""
    context: str = ""
    file: str = ""
    catalog: str = ""
    """`live`: types and prices of AWS now; else those that are shipped, or the dump's."""


@dataclass(frozen=True, slots=True)
class Present:
    """The state, and what it can be judged with. `kube` is None for a file."""

    snapshot: Snapshot
    settings: Settings
    source: Source
    view: CatalogView
    kube: KubeClient | None
    recorded: Prices = EMPTY
    """What the controller's launches on record cost; empty where AWS's prices of now are known."""

    @property
    def price_notes(self) -> tuple[str, ...]:
        """What to say where prices are shown."""
        record = "Offerings that the controller launched: the price that it launched them at" if self.recorded else ""
        return tuple(filter(None, (self.source.note, self.source.spot_note, record)))

    @property
    def paid(self) -> Prices:
        """Of nodes that there are: what is on record goes before what a table says."""
        return {**self.prices, **self.recorded}

    @property
    def prices(self) -> Prices:
        """$ an hour by (instance type, zone, capacity type): what Provisioners may buy, and what else there is."""
        prices = dict(node_prices(self.view.types))
        for node in self.snapshot.nodes.values():
            labels = node.node.labels
            key = (labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), capacity_type(labels))
            if key not in prices and (price := self.source.prices.price(*key)) is not None:
                prices[key] = price
        return prices

    @property
    def options(self) -> SolveOptions:
        """How the controller plans."""
        return self.settings.solve_options()

    def problem(self) -> SchedulingProblem:
        """That of all pods that wait."""
        return build(self.snapshot, self.view.types, skipped=self.view.problems)

    def plan(self) -> SchedulingPlan:
        """What the controller would do for them now."""
        return solve(self.problem(), self.options)


def look(where: Where) -> Present:
    """Read it. Raises ValidationError for files and kubeconfigs that cannot be used, Kube- and CloudErrors."""
    kube = None if where.file else kube_client(where.kubeconfig, where.context)
    if kube is None:
        report = Report()
        objects = read_objects([where.file], report)
        if report.problems:
            raise ValidationError("Files", report.problems)
    else:
        objects = read(kube)
    return arrange(objects, where, kube)


def arrange(objects: Objects, where: Where, kube: KubeClient | None = None) -> Present:
    """The state of objects that were read. Nodes that are coming up have the room of their types."""
    cluster, settings = cluster_of(objects.placed)
    snapshot = cluster.snapshot()
    source = source_for(region_of(snapshot), settings, where, objects.catalog)
    with ThreadExecutors() as executors:
        view = Catalogs(source.types, executors.executor("catalog", CATALOG_WORKERS)).view(snapshot)
    teach(cluster, view)
    known = EMPTY if where.catalog == LIVE else prices_on_record(decisions(kube, limit=MOST_SHOWN))
    return Present(cluster.snapshot(), settings, source, view, kube, known)


def teach(cluster: Cluster, view: CatalogView) -> None:
    """Let the types stand in for what nodes that are coming up have not reported, as the controller does."""
    for name, types in view.types.items():
        cluster.set_instance_types(name, {entry.name: entry for entry in types})


def source_for(region: str, settings: Settings, where: Where, catalog: RegionCatalog | None = None) -> Source:
    """Types and prices as asked for; none for a region that EC2 does not have. Raises CloudErrors for live ones."""
    if where.catalog == LIVE:
        return live_types(settings)
    try:
        known = catalog or shipped_catalog(region)
    except CloudError as error:
        types = OfflineTypes(RegionCatalog(region, "", "", {}, {}, {}), settings)
        return Source(types, types, f"No prices: {error}")
    return offline_types(known, settings, (), ASSUMED_SPOT_SHARE)


def region_of(snapshot: Snapshot) -> str:
    """Where most nodes are; the default region when none says."""
    counts = Counter(node.node.labels.get(REGION, "") for node in snapshot.nodes.values())
    counts.pop("", None)
    return counts.most_common(1)[0][0] if counts else DEFAULT_REGION
