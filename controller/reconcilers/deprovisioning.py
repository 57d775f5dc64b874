"""Deprovisioning: nodes that should go are found, method by method, and commands on record are carried on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from controller.catalogs import Catalogs, CatalogView
from controller.clock import Clock
from controller.commands import Commands
from controller.core.deprovisioning import expiration
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.records import recorded
from controller.core.deprovisioning.replacement import Decision, Method, replace_first
from controller.core.deprovisioning.simulation import Stage
from controller.core.state.snapshot import Snapshot
from controller.errors import NodelessError
from controller.kube.events import EventRecorder, ObjectRef
from controller.kube.informers import Informers
from controller.launcher import Launcher
from controller.loops import ItemBackoff

EXPIRATION = Method("expiration", "expired", expiration.because)


@dataclass(frozen=True, slots=True)
class DeprovisioningTimes:
    """`plan_seconds` between looks when nothing was found (the peer's 10 s), `again_seconds` after something was.
    `step_seconds`: how often commands on record are looked at."""

    plan_seconds: float = 10.0
    again_seconds: float = 0.2
    step_seconds: float = 1.0


Plan = Callable[["Pass"], Decision]


@dataclass(frozen=True, slots=True)
class Pass:
    """What one look at the cluster works with."""

    stage: Stage
    gate: Gate
    candidates: Sequence[Candidate]
    now: float


class DeprovisioningReconciler:
    """One loop. Does nothing before the caches are synced (invariant 5) and all instances have their Nodes."""

    name = "deprovisioning"

    def __init__(
        self,
        *,
        informers: Informers,
        events: EventRecorder,
        catalogs: Catalogs,
        launcher: Launcher,
        commands: Commands,
        clock: Clock,
        adopted: threading.Event,
        times: DeprovisioningTimes | None = None,
    ) -> None:
        self._informers = informers
        self._events = events
        self._catalogs = catalogs
        self._launcher = launcher
        self._commands = commands
        self._clock = clock
        self._adopted = adopted
        self._times = times or DeprovisioningTimes()
        self._log = structlog.get_logger(self.name)
        self._failing = ItemBackoff(clock, self.name)
        self._due_at = clock.monotonic()
        self._cursors: dict[str, int] = {}
        self._methods: Mapping[str, Plan] = {"expiration": self._expiration}

    def reconcile(self, snapshot: Snapshot) -> float:
        """Carry on what is on record; when it is time, look for more."""
        if not snapshot.synced or not self._adopted.is_set():
            return self._times.step_seconds
        due = self._clock.monotonic() >= self._due_at
        active = bool(recorded(snapshot))
        if not due and not active:
            return self._due_at - self._clock.monotonic()
        view = self._catalogs.view(snapshot)
        if active:
            self._commands.step(snapshot, view)
        if due:
            self._due_at = self._clock.monotonic() + self._plan(self._informers.snapshot(), view)
        until_due = self._due_at - self._clock.monotonic()
        return max(0.0, min(self._times.step_seconds, until_due) if active else until_due)

    def _plan(self, snapshot: Snapshot, view: CatalogView) -> float:
        """Look with each method in turn and begin the first command there is; seconds until the next look."""
        if self._launcher.settle(snapshot):
            return self._times.step_seconds
        now = self._clock.now()
        found = candidates(snapshot, view.types, now)
        present = Pass(self._commands.stage(snapshot, view), Gate(snapshot, now), found, now)
        for name, plan in self._methods.items():
            if not self._failing.ready(name):
                continue
            decision = plan(present)
            self._say_blocked(decision)
            if decision.command is not None and self._start(name, decision, view):
                return self._times.again_seconds
        soonest = expiration.next_expiry(found, now)
        return self._times.plan_seconds if soonest is None else min(self._times.plan_seconds, soonest - now + 0.05)

    def _start(self, name: str, decision: Decision, view: CatalogView) -> bool:
        assert decision.command is not None
        try:
            self._commands.start(decision.command, view)
        except NodelessError as error:
            # This method waits; the others go on (the peer gives up the whole pass).
            self._failing.failed(name, error, "Command not begun", command=decision.command.text())
            return False
        self._failing.succeeded(name)
        return True

    def _say_blocked(self, decision: Decision) -> None:
        for candidate, reason in decision.blocked:
            ref = ObjectRef.of(candidate.node.node)
            self._events.publish(
                ref,
                "Normal",
                "DeprovisioningBlocked",
                f"Cannot be removed: {reason}",
                (candidate.node.node.uid, reason),
            )

    def _expiration(self, present: Pass) -> Decision:
        due = expiration.expired(present.candidates, present.now)
        return self._replace(present, due, EXPIRATION)

    def _replace(self, present: Pass, due: Sequence[Candidate], method: Method) -> Decision:
        """Nodes that cannot go now do not hide those behind them: the next look begins where this one ended."""
        ready = [candidate for candidate in due if not self._commands.held_back(method.name, candidate)]
        start = self._cursors.get(method.name, 0)
        decision = replace_first(ready, method, present.stage, present.gate, start)
        ended = decision.command is not None or decision.looked_at == 0
        self._cursors[method.name] = 0 if ended else start + decision.looked_at
        return decision
