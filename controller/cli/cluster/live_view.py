"""A live cluster: listed once, then watched, with the instance types and prices of its region.

Uses the controller's own watches and cluster state. Kinds that the cluster lacks (our CRDs on a foreign cluster) or
that the user may not list are left out; nodes and pods are required.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from logging import CRITICAL

import structlog

from controller.cli.cluster.cluster_view import ClusterLocation, ClusterView, add_instance_types, source_or_none
from controller.cli.cluster.decision_log import on_record
from controller.cli.inputs.objects import kube_client, parse_settings, read_settings, region_of
from controller.cli.inputs.price_record import published
from controller.cli.inputs.sources import DEFAULT_REGION, LIVE, Source
from controller.cloud.catalogs import CATALOG_WORKERS, Catalogs
from controller.core.api.document import Document, mapping
from controller.core.api.frozen import EMPTY
from controller.core.decisions.decision import Entry
from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.errors import ForbiddenError, NotFoundError, UnavailableError, ValidationError
from controller.kube.client import KubeClient
from controller.kube.informers import Informers
from controller.kube.resources import CLUSTER_STATE, CONFIG_MAPS, NODES, PODS, Resource
from controller.kube.served_devices import served_devices
from controller.kube.watcher import Watcher
from controller.reconcilers.bookkeeping.decision_store import CONFIG_MAP as RECORD
from controller.reconcilers.bookkeeping.price_store import CONFIG_MAP as PRICES
from controller.runtime.clock import Clock, SystemClock
from controller.runtime.executors import Executor, ThreadExecutors
from controller.settings import CONFIG_MAP, Settings

SHOWN = 20
"""Newest decisions kept in an observation."""
SYNC_SECONDS = 60.0
"""Longest wait for the first lists."""
POLL_SECONDS = 0.02
"""Between two looks whether the first lists are there."""
STATE_SECONDS = 10.0
PRICES_SECONDS = 3600.0
"""Live prices are fetched again after so long."""
OUTAGE_NOTES = {
    "server": "The API server does not answer; the last known state is shown",
    "silent": "The API server sends no more events; the last known state is shown",
    "expired": "Listing again",
}
"""Note by kind of outage, see `kube.outages`."""
NONE = "metadata.name=-"
"""Matches no object: the answer shows whether a kind exists and may be listed."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at one moment; `cluster` is the same object as before when nothing changed."""

    cluster: ClusterView
    decisions: tuple[Entry, ...] = ()
    names: frozenset[str] | None = None
    """Names of nodes that match the selector; None: all nodes."""
    notes: tuple[str, ...] = ()
    listing: bool = False
    """Whether the first lists are not complete yet."""


class ObjectStore:
    """Objects of one watch by (namespace, name). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], Document] = {}

    def apply(self, change: Change) -> None:
        with self._lock:
            if change.type is ChangeType.REPLACED:
                self._objects = {}
            for each in change.objects:
                metadata = mapping(each.get("metadata"))
                key = (str(metadata.get("namespace", "")), str(metadata.get("name", "")))
                if change.type is ChangeType.DELETED:
                    self._objects.pop(key, None)
                else:
                    self._objects[key] = each

    def objects(self) -> tuple[Document, ...]:
        with self._lock:
            return tuple(self._objects.values())


@dataclass(slots=True)
class _Types:
    """Types and prices for one (region, settings, ConfigMaps of the price book) key; `since` is monotonic seconds."""

    key: tuple[str, Settings, tuple[Document, ...]]
    source: Source
    catalogs: Catalogs
    since: float


@dataclass(slots=True)
class LiveCluster:
    """Made by `watch_cluster`. Not thread-safe: one thread calls `observe`."""

    kube: KubeClient
    where: ClusterLocation
    clock: Clock
    informers: Informers
    config: ObjectStore
    record: ObjectStore
    prices: ObjectStore
    chosen: ObjectStore | None
    notes: tuple[str, ...]
    executor: Executor
    followed: Sequence[Watcher] = ()
    _settings: Settings = field(default_factory=lambda: Settings(cluster_name=""))
    _types: _Types | None = None
    _last: ClusterView | None = None

    def observe(self) -> Observation:
        """Return the cluster as known now. Raises CloudError with live prices."""
        snapshot = self.informers.snapshot()
        settings, problems = self._read_settings()
        types = self._types_for(snapshot, settings)
        last = self._last
        entries = on_record(self.record.objects(), limit=SHOWN)
        if last is None or (last.snapshot.version, last.source) != (snapshot.version, types.source):
            self._last = last = self._rebuild(snapshot, settings, types)
        names = None
        if self.chosen is not None:
            names = frozenset(str(each["metadata"]["name"]) for each in self.chosen.objects())
        late = _late(self.informers, self.followed)
        listing = (f"Still listing {', '.join(late)}: figures are incomplete",) if late else ()
        notes = (*self.notes, *listing, *problems, *map(_outage_note, self.informers.outages.current()))
        return Observation(last, entries, names, notes, bool(late))

    def _rebuild(self, snapshot: Snapshot, settings: Settings, types: _Types) -> ClusterView:
        view = types.catalogs.view(snapshot)
        snapshot = self.informers.submit(partial(add_instance_types, view=view)).result(STATE_SECONDS)
        return ClusterView(snapshot, settings, types.source, view, self.kube)

    def _read_settings(self) -> tuple[Settings, tuple[str, ...]]:
        """Return the settings, or the last valid ones with the problems of the present ones."""
        for each in self.config.objects():
            try:
                self._settings = parse_settings(each, "unnamed")
            except ValidationError as error:
                return self._settings, tuple(f"{CONFIG_MAP}: {problem}" for problem in error.problems)
        return self._settings, ()

    def _types_for(self, snapshot: Snapshot, settings: Settings) -> _Types:
        own, now = self._types, self.clock.monotonic()
        stale = own is not None and self.where.catalog == LIVE and now - own.since > PRICES_SECONDS
        written = self.prices.objects()
        region = region_of(node.node.labels for node in snapshot.nodes.values())
        if own is None or own.key != (region, settings, written) or stale:
            book = published(written)
            named = region or (book.region if book else DEFAULT_REGION)
            source = source_or_none(self.where.catalog, named, settings, book=book)
            self._types = own = _Types((region, settings, written), source, Catalogs(source.types, self.executor), now)
        return own


@contextmanager
def watch_cluster(where: ClusterLocation, selector: str = "", *, early: bool = False) -> Iterator[LiveCluster]:
    """Watch the cluster of a kubeconfig inside a `with` block. `selector` selects nodes by label.

    `early`: yield as soon as the nodes are listed, while other lists are still to come.

    Raises ValidationError for a kubeconfig that cannot be used, ForbiddenError without the right to list nodes and
    pods, InvalidObjectError for a bad selector, UnavailableError when the first lists time out.
    """
    kube, clock = kube_client(where.kubeconfig, where.context), SystemClock()
    resources, notes = readable(kube, (*CLUSTER_STATE, *served_devices(kube)), (NODES, PODS))
    kube.list(NODES, label_selector=selector, field_selector=NONE)
    config, record, prices = ObjectStore(), ObjectStore(), ObjectStore()
    chosen = ObjectStore() if selector else None
    followed = [Watcher(NODES, kube, chosen.apply, clock, label_selector=selector)] if chosen else []
    if CONFIG_MAPS in readable(kube, (CONFIG_MAPS,))[0]:
        for store, name in ((config, CONFIG_MAP), (record, RECORD), (prices, PRICES)):
            followed.append(Watcher(CONFIG_MAPS, kube, store.apply, clock, field_selector=f"metadata.name={name}"))
    cluster = Cluster([resource.kind for resource in resources], device_classes=_device_classes(kube))
    informers = Informers(kube, cluster, clock, resources)
    with _silence(), ThreadExecutors() as executors:
        catalogs = executors.executor("catalog", CATALOG_WORKERS)
        try:
            informers.start()
            for watcher in followed:
                watcher.start()
            _wait(clock, informers, followed, (NODES.kind,) if early else ())
            yield LiveCluster(kube, where, clock, informers, config, record, prices, chosen, notes, catalogs, followed)
        finally:
            for watcher in followed:
                watcher.request_stop()
            informers.stop()
            for watcher in followed:
                watcher.stop()


def _device_classes(kube: KubeClient) -> Mapping[str, str]:
    """Return the setting deviceClasses; empty where the settings cannot be read."""
    try:
        return parse_settings(read_settings(kube) or {}, "unnamed").device_classes
    except ValidationError:
        return EMPTY


def readable(
    kube: KubeClient, resources: tuple[Resource, ...], needed: tuple[Resource, ...] = ()
) -> tuple[tuple[Resource, ...], tuple[str, ...]]:
    """Return the resources that exist and may be listed, and a note on those that may not."""
    listed, hidden = [], []
    for resource in resources:
        try:
            kube.list(resource, field_selector=NONE)
        except NotFoundError:
            continue
        except ForbiddenError:
            if resource in needed:
                raise
            hidden.append(resource.plural)
        else:
            listed.append(resource)
    notes = (f"You may not list {', '.join(hidden)}: what depends on them is unknown",) if hidden else ()
    return tuple(listed), notes


def _wait(clock: Clock, informers: Informers, followed: Sequence[Watcher], kinds: Collection[str] = ()) -> None:
    """Wait for the first lists of `kinds` (none: all)."""
    stop, deadline = threading.Event(), clock.monotonic() + SYNC_SECONDS
    if not kinds:
        informers.wait_synced(stop, SYNC_SECONDS)
    while late := [kind for kind in _late(informers, followed) if not kinds or kind in kinds]:
        if clock.monotonic() > deadline:
            raise UnavailableError(f"the first list did not come in {SYNC_SECONDS:.0f} s: {', '.join(late)}")
        stop.wait(POLL_SECONDS)


def _late(informers: Informers, followed: Iterable[Watcher]) -> tuple[str, ...]:
    """Return the kinds whose first list has not arrived."""
    others = {watcher.resource.kind for watcher in followed if not watcher.synced.is_set()}
    return tuple(sorted({*informers.unsynced(), *others}))


def _outage_note(sort: str) -> str:
    kind = sort.partition("/")[2]
    return f"The API server refuses to list or watch {kind}" if kind else OUTAGE_NOTES[sort]


@contextmanager
def _silence() -> Iterator[None]:
    """Silence the watchers' log, which would be drawn over the page; outages are shown on the page."""
    before = structlog.get_config()
    structlog.configure(**{**before, "wrapper_class": structlog.make_filtering_bound_logger(CRITICAL)})
    try:
        yield
    finally:
        structlog.configure(**before)
