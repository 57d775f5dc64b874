"""Ask the methods of removal other than emptiness in turn, and continue the commands on record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from controller.cloud.catalogs import CatalogView
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation import ConsolidationTimes
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import Method, MethodInput, NodeAnnotations, Proposal
from controller.core.deprovisioning.rebalance.approval import APPROVAL_ANNOTATION, under_way
from controller.core.deprovisioning.records import recorded_commands
from controller.core.deprovisioning.removal_command import CONSOLIDATION, REBALANCE, ZONE_MOVE, Command
from controller.core.guards.mix import needed
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError, NodelessError, SearchInterruptedError
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.reconcilers.deprovisioning.events import RemovalEvents
from controller.reconcilers.deprovisioning.executor import CommandExecutor
from controller.reconcilers.deprovisioning.record_reports import RecordReports
from controller.reconcilers.deprovisioning.search_turns import SearchTurns, nodes_on_their_way, provisioning_waited_for
from controller.runtime.metrics import ELIGIBLE_MACHINES, EVALUATION_DURATION, SEARCH_SECONDS

RESTS = frozenset({CONSOLIDATION, ZONE_MOVE})
"""Methods that wait during an approved rebalance: they would use room that its later steps need."""
MOST_HOLD_SECONDS = 600.0
"""How long consolidation waits in a row for pods that are planned for, and for their nodes."""


@dataclass(frozen=True, slots=True)
class DeprovisioningTimes:
    """`plan_seconds`: between searches that found nothing to remove (Karpenter v0.27: 10 s). `again_seconds`: after a
    command was started. `step_seconds`: between steps of commands on record."""

    plan_seconds: float = 10.0
    again_seconds: float = 0.2
    step_seconds: float = 1.0
    consolidation: ConsolidationTimes = field(default_factory=ConsolidationTimes)


class DeprovisioningReconciler(ContextReconciler):
    """Idle until the first lists of all watches are in and all instances have their Nodes."""

    name = "deprovisioning"

    def __init__(
        self,
        context: ReconcilerContext,
        methods: Sequence[Method],
        executor: CommandExecutor,
        times: DeprovisioningTimes | None = None,
    ) -> None:
        """`methods` in the order in which they are asked."""
        super().__init__(context)
        self._launcher, self._adopted, self._planning = context.launcher, context.adopted, context.planning
        self._methods, self._executor, self._times = methods, executor, times or DeprovisioningTimes()
        self._reports, self._removal_events = RecordReports(context), RemovalEvents(context.events)
        self._eligible: dict[str, int] = {}
        self._turns = SearchTurns(self.name, MOST_HOLD_SECONDS, self._due_at)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Take the next step of commands on record; when a search is due, ask the methods."""
        if not snapshot.synced or not self._adopted.is_set() or self._removals.refusal():
            return self._times.step_seconds
        due = self._left_seconds() <= 0
        active = bool(recorded_commands(snapshot))
        if not due and not active:
            return self._left_seconds()
        self._reports.report(snapshot)
        view = self._catalogs.view(snapshot)
        if active:
            self._executor.step(snapshot, view)
        if due:
            self._due_in(self._plan(self._informers.snapshot(), view))
        left = self._left_seconds()
        return max(0.0, min(self._times.step_seconds, left) if active else left)

    def _plan(self, snapshot: Snapshot, view: CatalogView) -> float:
        """Start the first command that a method proposes; return the seconds until the next search."""
        if self._launcher.settle(snapshot, self._planning.launching) or self._launcher.held_back():
            return self._times.step_seconds
        self._executor.remove_stale_annotations(snapshot)
        now, simulator = self._clock.now(), self._executor.simulator(snapshot, view)
        given = MethodInput(
            simulator=simulator,
            gate=Gate(snapshot, now, self._settings.current.disruption_budgets, self._cloud.zones_left()),
            candidates=candidates(snapshot, view.types, now, beside=simulator.options.beside),
            now=now,
            monotonic=self._clock.monotonic(),
            required=needed(snapshot),
        )
        again_seconds = self._times.plan_seconds
        rebalances = under_way(snapshot)
        for method in self._methods:
            if not self._items.ready(method.name) or (rebalances and method.name in RESTS):
                continue
            own = replace(given, held_back=self._executor.held_back(method.name, snapshot))
            proposal = self._decided(method, own)
            self._removal_events.proposed(proposal, given.candidates)
            self._annotate(proposal.annotations)
            if self._start_all(proposal.commands, view):
                return self._times.again_seconds
            again_seconds = min(again_seconds, proposal.again_seconds)
        return again_seconds

    def _decided(self, method: Method, given: MethodInput) -> Proposal:
        """Ask the method for its proposal. If it raises, it proposes nothing for a while, and the others go on."""
        key = (method.name, "decide")
        if not self._items.ready(key):
            return Proposal(again_seconds=self._times.plan_seconds)
        try:
            proposal = self._proposal(method, given)
        except Exception as error:  # noqa: BLE001 - one method never stops the others; logged and retried
            self._items.failed(key, error, "Method of removal failed", method=method.name)
            return Proposal(again_seconds=self._times.plan_seconds)
        self._items.succeeded(key)
        return proposal

    def _proposal(self, method: Method, given: MethodInput) -> Proposal:
        """Ask the method for its proposal; methods that only save money wait for provisioning."""
        if method.name == CONSOLIDATION or (method.name == REBALANCE and under_way(given.snapshot)):
            return self._search(method, given)
        if method.name == ZONE_MOVE and self._turns.held(given.monotonic):
            return Proposal()
        return self._ask(method, given)

    def _search(self, method: Method, given: MethodInput) -> Proposal:
        """Ask a method that searches, if provisioning is idle; consolidation searches if the budget allows it."""
        now, planning = given.monotonic, self._planning
        starting = nodes_on_their_way(given.snapshot, given.now)
        self._turns.observe(provisioning_waited_for(planning.unplanned, len(planning.launching), starting), now)
        if self._turns.held(now):
            return Proposal()
        wait = self._turns.wait_seconds(now)
        if wait > 0 and method.name != CONSOLIDATION:
            return Proposal(again_seconds=wait)
        gives_way, began = replace(given.simulator, interrupted=self._gives_way), self._clock.processor()
        try:
            proposal = self._ask(method, replace(given, simulator=gives_way, searches=wait <= 0))
            least = min(wait, self._times.plan_seconds)
            return replace(proposal, again_seconds=max(least, proposal.again_seconds))
        except SearchInterruptedError:
            return Proposal()
        finally:
            spent = self._clock.processor() - began
            self._turns.spend(spent, self._clock.monotonic())
            self._recorder.count(SEARCH_SECONDS, amount=spent)

    def _gives_way(self) -> bool:
        return self._planning.unplanned and self._turns.gives_way(self._clock.monotonic())

    def _ask(self, method: Method, given: MethodInput) -> Proposal:
        with self._measured(method.name):
            proposal = method.decide(given)
            self._eligible[method.name] = proposal.eligible
        return proposal

    def _start_all(self, commands: Sequence[Command], view: CatalogView) -> bool:
        """Start every command on empty nodes, and the first of the others: each of those was planned without the rest.

        True when one was started.
        """
        started = False
        for command in commands:
            busy = any(candidate.pods for candidate in command.candidates)
            started = (not (busy and started) and self._start(command, view)) or started
        return started

    @contextmanager
    def _measured(self, method: str) -> Iterator[None]:
        began = self._clock.monotonic()
        yield
        self._recorder.replace(ELIGIBLE_MACHINES, {(each,): count for each, count in self._eligible.items()})
        self._recorder.observe(EVALUATION_DURATION, self._clock.monotonic() - began, method)

    def _start(self, command: Command, view: CatalogView) -> bool:
        """Start the command; if that fails, its method backs off and the others go on."""
        start = partial(self._executor.start, command, view)
        return self._items.attempt(command.method, start, "Command not begun", NodelessError, command=command.text())

    def _annotate(self, annotations: Sequence[NodeAnnotations]) -> None:
        for one in annotations:
            node = one.node.node
            if node.deleted_at is None and self._items.ready(node.uid):
                write = partial(self._executor.annotate, one)
                written = self._items.attempt(node.uid, write, "Annotations not written", KubeError, node=node.name)
                if written and one.because and APPROVAL_ANNOTATION in one.values:
                    self._removal_events.plan_ended(one.node, one.because)
