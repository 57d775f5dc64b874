"""A cluster, live or from a dump, with its instance types and prices: the input of `explain` and `view`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.cli.cluster.node_facts import Prices, offering_of
from controller.cli.inputs.objects import Objects, kube_client, read_cluster, read_objects
from controller.cli.inputs.scenario import cluster_of
from controller.cli.inputs.sources import DEFAULT_REGION, LIVE, RegionCatalog, Source, source_for, unpriced_source
from controller.cloud.catalogs import CATALOG_WORKERS, Catalogs, CatalogView
from controller.core.api.strict import Report
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, SolveOptions
from controller.core.provisioning.problem import build
from controller.core.provisioning.solver.solver import solve
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.core.zones.services import Service
from controller.errors import CloudError, ValidationError
from controller.kube.client import KubeClient
from controller.runtime.executors import ThreadExecutors
from controller.settings import Settings


@dataclass(frozen=True, slots=True)
class ClusterLocation:
    """Where a cluster is read from: a kubeconfig and context, or a dump file."""

    kubeconfig: str = ""
    context: str = ""
    file: str = ""
    catalog: str = ""
    """`live`: AWS's types and prices of now; `shipped`: the release's; empty: the dump's, else the release's types with
    the cluster's price book."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A snapshot with the settings, catalog and prices it is planned with. `kube` is None for a dump."""

    snapshot: Snapshot
    settings: Settings
    source: Source
    view: CatalogView
    kube: KubeClient | None
    services: tuple[Service, ...] = ()

    @property
    def price_notes(self) -> tuple[str, ...]:
        """Notes for output that shows prices."""
        return tuple(filter(None, (self.source.note, self.source.spot_note)))

    @property
    def prices(self) -> Prices:
        """$ an hour of every existing node's (instance type, zone, capacity type), as far as it is known."""
        keys = {offering_of(node) for node in self.snapshot.nodes.values()}
        known = ((key, self.source.prices.price(*key)) for key in keys)
        return {key: price for key, price in known if price is not None}

    @property
    def options(self) -> SolveOptions:
        return self.settings.solve_options()

    def problem(self) -> SchedulingProblem:
        return build(self.snapshot, self.view.types, skipped=self.view.problems)

    def plan(self) -> SchedulingPlan:
        return self.solve(self.problem())

    def first_plan(self, problem: SchedulingProblem) -> SchedulingPlan:
        """Return the controller's plan without refinement."""
        return self.solve(problem, replace(self.options, budget_seconds=0.0))

    def solve(self, problem: SchedulingProblem, options: SolveOptions | None = None) -> SchedulingPlan:
        """Solve a problem of this catalog, by default with the controller's options."""
        return solve(problem, options or self.options, self.index(problem.snapshot))

    def index(self, snapshot: Snapshot) -> SnapshotIndex:
        """Return an index of this cluster's snapshot, or of a change of it, with the one compiled catalog."""
        return SnapshotIndex(snapshot, self.view.tables)


def read_cluster_view(where: ClusterLocation, now: float = 0.0) -> ClusterView:
    """See `build_cluster_view`.

    Raises ValidationError for a file or kubeconfig that cannot be used, KubeError, CloudError.
    """
    kube = None if where.file else kube_client(where.kubeconfig, where.context)
    if kube is None:
        report = Report()
        objects = read_objects([where.file], report)
        if report.problems:
            raise ValidationError("Files", report.problems)
    else:
        objects = read_cluster(kube)
    return build_cluster_view(objects, where, kube, now)


def build_cluster_view(
    objects: Objects, where: ClusterLocation, kube: KubeClient | None = None, now: float = 0.0
) -> ClusterView:
    """Build the view from objects. Nodes that are still starting get the allocatable of their instance type.

    `now` (Unix seconds; of a dump, when it was taken): nodes that are not well by then are no room (see effective.py).
    """
    cluster, settings = cluster_of(objects.located)
    cluster.snapshot()
    cluster.expire(objects.taken or now)
    snapshot = cluster.snapshot()
    region = (objects.catalog.region if objects.catalog else objects.region) or DEFAULT_REGION
    source = source_or_none(where.catalog, region, settings, objects.catalog, objects.prices)
    with ThreadExecutors() as executors:
        view = Catalogs(source.types, executors.executor("catalog", CATALOG_WORKERS)).view(snapshot)
    add_instance_types(cluster, view)
    return ClusterView(cluster.snapshot(), settings, source, view, kube, objects.services)


def add_instance_types(cluster: Cluster, view: CatalogView) -> None:
    """Give the cluster state the instance types: their sizes are used until starting nodes report their own."""
    for name, types in view.types.items():
        cluster.set_instance_types(name, {entry.name: entry for entry in types})


def source_or_none(
    choice: str, region: str, settings: Settings, dumped: RegionCatalog | None = None, book: RegionCatalog | None = None
) -> Source:
    """See `source_for`; no types and prices for a region without a shipped catalog. Raises CloudError for live ones."""
    try:
        return source_for(choice, region, settings, dumped, book)
    except CloudError as error:
        if choice == LIVE:
            raise
        return unpriced_source(region, settings, error)
