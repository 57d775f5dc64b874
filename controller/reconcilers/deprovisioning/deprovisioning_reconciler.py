"""Deprovisioning: nodes that should go are found, method by method, and commands on record are carried on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from controller.cloud.catalogs import CatalogView
from controller.cloud.drift_checks import Drift
from controller.core.deprovisioning import consolidation, expiration
from controller.core.deprovisioning.backoff import resting
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.drift import DRIFT, DRIFTED, due
from controller.core.deprovisioning.due_replacement import Decision, Method, replace_first
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.records import recorded
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Stage
from controller.core.guards.mix import needed
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError, NodelessError
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.executor import CommandExecutor
from controller.runtime.loops import ItemBackoff
from controller.runtime.metrics import ELIGIBLE_MACHINES, EVALUATION_DURATION

EXPIRATION = Method("expiration", "expired", expiration.because)


@dataclass(frozen=True, slots=True)
class DeprovisioningTimes:
    """`plan_seconds` between looks when nothing was found (the peer's 10 s), `again_seconds` after something was.
    `step_seconds`: how often commands on record are looked at. `settle_seconds`: what consolidation found must hold
    for so long (the peer's 15 s). `rest_seconds`: workloads whose pods it moved are left alone for so long.
    `search_seconds` between looks of a search for savings that has not seen every node yet.
    `quiet_seconds`: where nothing changed, it searches again after this long (the peer's 5 min), for prices may have.
    """

    plan_seconds: float = 10.0
    again_seconds: float = 0.2
    step_seconds: float = 1.0
    settle_seconds: float = 15.0
    quiet_seconds: float = 300.0
    search_seconds: float = 2.0


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
        context: ReconcilerContext,
        *,
        commands: CommandExecutor,
        times: DeprovisioningTimes | None = None,
        drift: Drift | None = None,
    ) -> None:
        """`drift` None: the feature gate is off."""
        self._kube, self._informers, self._events = context.kube, context.informers, context.events
        self._catalogs, self._launcher = context.catalogs, context.launcher
        self._clock, self._recorder, self._adopted = context.clock, context.recorder, context.adopted
        self._commands = commands
        self._times = times or DeprovisioningTimes()
        self._log = structlog.get_logger(self.name)
        self._failing = ItemBackoff(self._clock, self.name)
        self._due_at = self._clock.monotonic()
        self._cursors: dict[str, int] = {}
        self._searched = consolidation.BEGIN
        self._proposed: dict[frozenset[str], tuple[Command, float]] = {}
        self._quiet: tuple[int, float] | None = None
        self._said: dict[str, str] = {}
        self._eligible: dict[str, int] = {}
        self._drift = drift
        self._settings = context.settings
        self._methods: Mapping[str, Plan] = {"expiration": self._expiration}
        if drift is not None:
            self._methods = {**self._methods, DRIFT: self._drifted}

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
        self._commands.clean(snapshot)
        now = self._clock.now()
        found = candidates(snapshot, view.types, now)
        gate = Gate(snapshot, now, self._settings.current.disruption_budgets)
        present = Pass(self._commands.stage(snapshot, view), gate, found, now)
        for name, plan in self._methods.items():
            if not self._failing.ready(name):
                continue
            with self._measured(name):
                decision = plan(present)
            self._say_blocked(decision)
            if decision.command is not None and self._start(name, decision.command, view):
                return self._times.again_seconds
        if self._failing.ready(consolidation.CONSOLIDATION):
            with self._measured(consolidation.CONSOLIDATION):
                begun = self._consolidate(present, view)
            if begun:
                return self._times.again_seconds
        pause = math.inf if self._searched == consolidation.BEGIN else self._times.search_seconds
        soonest = expiration.next_expiry(found, now)
        until_expiry = math.inf if soonest is None else soonest - now + 0.05
        return min(self._times.plan_seconds, pause, until_expiry)

    @contextmanager
    def _measured(self, method: str) -> Iterator[None]:
        began = self._clock.monotonic()
        yield
        self._recorder.replace(ELIGIBLE_MACHINES, {(each,): count for each, count in self._eligible.items()})
        self._recorder.observe(EVALUATION_DURATION, self._clock.monotonic() - began, method)

    def _start(self, name: str, command: Command, view: CatalogView) -> bool:
        try:
            self._commands.start(command, view)
        except NodelessError as error:
            # This method waits; the others go on (the peer gives up the whole pass).
            self._failing.failed(name, error, "Command not begun", command=command.text())
            return False
        self._failing.succeeded(name)
        return True

    def _consolidate(self, present: Pass, view: CatalogView) -> bool:
        """Begin what was found a while ago and still holds; else look for more. True when a command was begun."""
        now = self._clock.monotonic()
        self._eligible[consolidation.CONSOLIDATION] = sum(map(consolidation.wanted, present.candidates))
        by_name = {candidate.name: candidate for candidate in present.candidates}
        self._proposed = {names: entry for names, entry in self._proposed.items() if names <= by_name.keys()}
        for names, (_, since) in sorted(self._proposed.items(), key=lambda entry: entry[1][1]):
            if now - since < self._times.settle_seconds:
                continue
            del self._proposed[names]
            removed = [by_name[name] for name in sorted(names)]
            again = consolidation.judge(removed, present.candidates, present.stage, present.gate)
            if again.commands and self._start(consolidation.CONSOLIDATION, again.commands[0], view):
                return True
        self._search(present, now)
        return False

    def _search(self, present: Pass, now: float) -> None:
        """One look for removals that save money; what is found is begun when it has held for a while."""
        version = present.stage.snapshot.version
        if self._quiet is not None and self._quiet[0] == version and now < self._quiet[1]:
            return
        for command, _ in self._proposed.values():
            present.gate.grant(command.candidates)
        snapshot = present.stage.snapshot
        held = self._commands.held_back(consolidation.CONSOLIDATION, snapshot)
        pinned = needed(snapshot)
        free = [c for c in present.candidates if c.provisioner.name not in held and c.name not in pinned]
        found = consolidation.find(free, present.stage, present.gate, resting(snapshot, present.now), self._searched)
        self._searched = found.cursor
        for command in found.commands:
            names = frozenset(candidate.name for candidate in command.candidates)
            self._proposed[names] = (command, now)
            self._log.debug("Found a removal that saves money", command=command.text())
        ended = found.cursor == consolidation.BEGIN and not self._proposed
        self._quiet = (version, now + self._times.quiet_seconds) if ended else None
        kept = tuple((c, pinned[c.name]) for c in present.candidates if c.name in pinned and consolidation.wanted(c))
        self._say_kept(replace(found, kept=(*found.kept, *kept)), present)

    def _say_kept(self, found: consolidation.Found, present: Pass) -> None:
        """Each node's reason is said when it is another one than before."""
        uids = {candidate.node.node.uid for candidate in present.candidates}
        self._said = {uid: reason for uid, reason in self._said.items() if uid in uids}
        for candidate, reason in found.kept:
            node = candidate.node.node
            if self._said.get(node.uid) != reason:
                self._said[node.uid] = reason
                self._events.publish(ObjectRef.of(node), "Normal", "Unconsolidatable", reason, (node.uid, reason))
        self._say_blocked(Decision(blocked=found.blocked))

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

    def _drifted(self, present: Pass) -> Decision:
        assert self._drift is not None
        snapshot = present.stage.snapshot
        reasons: dict[str, str] = {}
        for candidate in present.candidates:
            self._stamp(candidate, self._drift.missing(candidate, snapshot))
            if (reason := self._drift.reason(candidate, snapshot)) != "":
                reasons[candidate.name] = reason
        drifted = [candidate for candidate in present.candidates if candidate.name in reasons]
        method = Method(DRIFT, DRIFTED, lambda candidate: reasons[candidate.name])
        return self._replace(present, due(drifted, present.candidates, snapshot), method)

    def _stamp(self, candidate: Candidate, annotations: Mapping[str, str]) -> None:
        """Give a node the hashes that it lacks: from now on a change will be seen."""
        node = candidate.node.node
        if not annotations or node.deleted_at is not None or not self._failing.ready(node.uid):
            return
        try:
            written = self._kube.patch(NODES, node.name, {"metadata": {"annotations": dict(annotations)}})
        except KubeError as error:
            self._failing.failed(node.uid, error, "Hashes not written", node=node.name)
        else:
            self._failing.succeeded(node.uid)
            self._informers.learn(NODES, written)

    def _replace(self, present: Pass, due: Sequence[Candidate], method: Method) -> Decision:
        """Nodes that cannot go now do not hide those behind them: the next look begins where this one ended."""
        self._eligible[method.name] = len(due)
        held = self._commands.held_back(method.name, present.stage.snapshot)
        ready = [candidate for candidate in due if candidate.provisioner.name not in held]
        start = self._cursors.get(method.name, 0)
        decision = replace_first(ready, method, present.stage, present.gate, start)
        ended = decision.command is not None or decision.looked_at == 0
        self._cursors[method.name] = 0 if ended else start + decision.looked_at
        return decision
