"""The dependencies that the reconcilers of one process share."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from controller.cloud.catalogs import Catalogs
from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Pod
from controller.core.cloud import Cloud
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.state.snapshot import Snapshot
from controller.kube.client import KubeClient
from controller.kube.events import EventRecorder
from controller.kube.informers import Informers
from controller.machines.launcher import Launcher
from controller.machines.removals import Removals
from controller.runtime.clock import Clock
from controller.runtime.executors import Executors, Flag
from controller.runtime.loops import ItemBackoff
from controller.runtime.metrics import Recorder
from controller.runtime.waits import Waits
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger


@dataclass(slots=True)
class LiveSettings:
    """The current settings. Loops read `current` in each pass; `operator.configuration` replaces it."""

    current: Settings


@dataclass(slots=True)
class Planning:
    """The state of provisioning, for loops that wait for it. Only its loop writes it, but for `moves`."""

    unplanned: bool = False
    """Pods wait for their plan: the batch window is open, or the plan is being computed."""
    launching: frozenset[str] = frozenset()
    """Launch tokens of nodes whose launch has not ended."""
    expected: Mapping[str, ExpectedPod] = EMPTY
    """The pods of the last plan that were not bound when it was made, by uid."""
    moves: deque[Sequence[tuple[Pod, ExpectedPod]]] = field(default_factory=deque)
    """Pods that are about to be evicted, with their places on closed nodes, as removal commands begin: their executor
    appends, the loop of provisioning takes them out once it has their places in `moving_to`."""
    moving_to: frozenset[str] = frozenset()
    """Names of closed nodes with places that no pod has taken yet, but for those of `moves`."""

    def nodes_with_places(self) -> frozenset[str]:
        """Return the names of closed nodes with places that no pod has taken yet."""
        queued = frozenset(place.node for moves in tuple(self.moves) for _, place in moves)
        return queued | self.moving_to  # read after `moves`, which are taken out once they are in it


@dataclass(frozen=True, slots=True)
class ReconcilerContext:
    """The dependencies of every reconciler."""

    settings: LiveSettings
    kube: KubeClient
    informers: Informers
    events: EventRecorder
    cloud: Cloud
    catalogs: Catalogs
    launcher: Launcher
    removals: Removals
    clock: Clock
    ledger: Ledger
    waits: Waits
    executors: Executors
    stop: Flag
    """Set when the process stops: nothing new is begun."""
    adopted: Flag
    """Set once every instance of an earlier process has its Node in the cluster state: planning may begin."""
    planned: Flag
    """Set once the pods and headroom that waited at the start were planned for; nodes may be called empty."""
    namespace: str = ""
    """Namespace of the ConfigMaps that loops write; empty: none is written."""
    planning: Planning = field(default_factory=Planning)

    @property
    def recorder(self) -> Recorder:
        """The metrics of the process."""
        return self.ledger.recorder


class ContextReconciler:
    """A reconciler's dependencies, its logger, the back-off of its items, and when its next pass is due."""

    name: str
    unsynced_seconds = 1.0
    """Between two looks whether the caches are synced."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._informers, self._events = context.kube, context.informers, context.events
        self._cloud, self._catalogs, self._removals = context.cloud, context.catalogs, context.removals
        self._clock, self._ledger, self._recorder = context.clock, context.ledger, context.recorder
        self._settings = context.settings
        self._items = ItemBackoff(context.clock, self.name)
        self._log = structlog.get_logger(self.name)
        self._due_at = context.clock.monotonic()

    def reconcile(self, snapshot: Snapshot) -> float:
        """Make a pass, as soon as every watch has delivered its first list (invariant 5)."""
        return self._pass(snapshot) if snapshot.synced else self.unsynced_seconds

    def _pass(self, snapshot: Snapshot) -> float:
        """Return the seconds until the next pass if nothing changes."""
        raise NotImplementedError

    def _left_seconds(self) -> float:
        """Return the seconds until a pass is due; 0 or less: now."""
        return self._due_at - self._clock.monotonic()

    def _due_in(self, seconds: float) -> float:
        """Set when the next pass is due, and return the seconds until then."""
        self._due_at = self._clock.monotonic() + seconds
        return seconds
