"""Execute removal commands, whichever method decided them.

Each pass compares every command on record with the cluster state and takes its next step, without waiting: commands
run concurrently, and a blocked one delays no other. Every step is idempotent, so that the next leader continues where
the last one crashed.

    recorded ──► launching ──► waiting ──► concluding ──► committed
        │            │            │            │
        └────────────┴────────────┴────────────┴────────► rolled back

    recorded      the record is on every node of the command, and the nodes are cordoned
    launching     replacements are launched, or launched again under their tokens by the next leader
    waiting       until every replacement is initialized, or would be if it were open to kube-scheduler
    concluding    the command is validated against the current snapshot; single replicas are moved by rollouts
    committed     the nodes are being deleted, and the replacements nominated; no rollback any more
    rolled back   unused replacements are deleted, then record and cordon are removed in one patch

Empty nodes whose TTL has expired are deleted at once without a record: there is nothing to launch or to roll back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from controller.cloud.catalogs import CatalogView
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.cloud import Catalog
from controller.core.deprovisioning.backoff import REST_SECONDS, held_back, next_failure, stale, workload
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import Method, NodeAnnotations
from controller.core.deprovisioning.records import Record, RecordedCommand, recorded_commands
from controller.core.deprovisioning.removal_command import CONSOLIDATION, REBALANCE, ZONE_MOVE, Command
from controller.core.deprovisioning.removal_simulation import MOST_NAMED, Outcome, Simulator
from controller.core.deprovisioning.resumption import planned_again
from controller.core.deprovisioning.sets.part import largest_part
from controller.core.deprovisioning.sets.planned_moves import (
    as_planned,
    places_on_closed_nodes,
    takes_moved_pods,
    to_close,
)
from controller.core.deprovisioning.worth import totals_of
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import KubeError, NodelessError
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.events import RemovalEvents
from controller.reconcilers.deprovisioning.node_writes import NodeWrites
from controller.reconcilers.deprovisioning.replacement_launches import Replacements
from controller.reconcilers.deprovisioning.surge_rollout import Surge
from controller.runtime.loops import BackoffTimes, ItemBackoff
from controller.runtime.metrics import ACTIONS_PERFORMED, REPLACEMENT_INITIALIZED

NEVER_LAUNCHED = "a replacement was not launched, or is gone"
TORN = "its record is incomplete"
TRIALS = 12
"""How often a refused command is judged before it is rolled back."""
ARRIVAL_SECONDS = 20.0
"""How long replacements are nominated for the evicted pods."""
CRASHED = frozenset({NEVER_LAUNCHED, TORN})
"""Reasons that follow from a crash: the method has not failed, and so does not back off."""


@dataclass(frozen=True, slots=True)
class CommandTimes:
    """`ready_seconds`: replacements must be initialized by then (instances that do not join are deleted after 15 min).
    `appear_seconds`: a replacement that is neither being launched nor visible is given up; if EC2 shows it later, the
    next command for the same pods has its token, and gets it. `patience_seconds`: how long a concluding command
    may be refused before it is rolled back; `part_seconds`: the rest of a set of which a part is removed: until then
    its nodes count as going in every search. `surge_seconds`: how long single replicas may take to start elsewhere.
    `hold_back`: back-off after failures, per Provisioner and method."""

    ready_seconds: float = 900.0
    appear_seconds: float = 10.0
    patience_seconds: float = 60.0
    part_seconds: float = 15.0
    surge_seconds: float = 300.0
    hold_back: BackoffTimes = field(default_factory=lambda: BackoffTimes(60.0, 3600.0))


@dataclass(slots=True)
class _Progress:
    """When this process first saw a command in each state (monotonic seconds); None: not yet."""

    known_since: float
    refused_since: float | None = None
    judged_at: float = -math.inf
    """When its removal was last refused."""
    surging_since: float | None = None
    measured: bool = False
    """The duration of its replacements was recorded as a metric."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """One command in one pass. `simulator` leaves out the nodes of all commands on record."""

    command: RecordedCommand
    progress: _Progress
    simulator: Simulator
    catalogs: CatalogView
    only: frozenset[str] | None = None
    """Names of the part of its nodes that this pass is about; None: all."""

    @property
    def record(self) -> Record:
        return self.command.record

    @property
    def snapshot(self) -> Snapshot:
        return self.simulator.snapshot

    @property
    def staying(self) -> tuple[StateNode, ...]:
        """The command's nodes that are not leaving yet."""
        only = self.only
        return tuple(n for n in self.command.carriers if not n.leaving and (only is None or n.name in only))


class CommandExecutor:
    """One per process. Not thread-safe but for the methods whose docstring says so."""

    def __init__(
        self, context: ReconcilerContext, methods: Iterable[Method], times: CommandTimes | None = None
    ) -> None:
        """`methods` are asked again before a node is deleted."""
        self._nodes = NodeWrites(context)
        self._events = RemovalEvents(context.events)
        self._surge = Surge(context) if context.settings.current.surge_single_replicas else None
        self._replacements = Replacements(context)
        self._informers, self._clock, self._recorder = context.informers, context.clock, context.recorder
        self._methods = {method.name: method for method in methods}
        self._times = times or CommandTimes()
        self._settings, self._moves = context.settings, context.planning.moves
        self._log = structlog.get_logger("deprovisioning")
        self._progress: dict[str, _Progress] = {}
        self._failing = ItemBackoff(self._clock, "deprovisioning")

    def held_back(self, method: str, snapshot: Snapshot) -> frozenset[str]:
        """Return names of nodes in the method's back-off: its last command for their Provisioner failed recently."""
        return held_back(snapshot, method, self._clock.now(), self._times.hold_back.delay_seconds)

    def remove_stale_annotations(self, snapshot: Snapshot) -> None:
        """Remove back-offs and cool-downs that have expired from the nodes."""
        now = self._clock.now()
        for node in snapshot.nodes.values():
            if not node.leaving and (keys := stale(node, now)) and self._failing.ready(node.node.uid):
                try:
                    self._nodes.annotate(NodeAnnotations(node, dict.fromkeys(keys)))
                except KubeError as error:
                    self._failing.failed(node.node.uid, error, "Stale annotations not taken off", node=node.name)

    def annotate(self, annotations: NodeAnnotations) -> bool:
        """Write annotations that a method asks for; False when the node is gone. Thread-safe. Raises KubeError."""
        return self._nodes.annotate(annotations)

    def simulator(self, snapshot: Snapshot, catalogs: CatalogView) -> Simulator:
        """Return a simulator whose snapshot leaves out the nodes of all commands on record."""
        going = frozenset(node.name for command in recorded_commands(snapshot) for node in command.carriers)
        settings, index = self._settings.current, SnapshotIndex(snapshot, catalogs.tables)
        return Simulator(
            snapshot,
            catalogs.types,
            going,
            FrozenMap(catalogs.problems),
            settings.solve_options(),
            index,
            place_as_planned=settings.place_as_planned,
        )

    def delete_at_once(self, command: Command, catalog: Catalog = EMPTY) -> bool:
        """Delete the one node of a command without replacements, if its method still proposes it. Thread-safe.

        `catalog` is what the method decided with. Return False when it does not, or the node is gone. Raises KubeError;
        the node is then unchanged.
        """
        (candidate,) = command.candidates
        method = self._methods[command.method]

        def still_wanted(_seen: StateNode, present: Snapshot) -> bool:
            now = self._clock.now()
            fresh = candidates(present, catalog, now, [present.nodes[candidate.name]])
            return any(method.wanted(each, present, now) for each in fresh)

        return self._nodes.delete_unrecorded(candidate.node, command, still_wanted)

    def start(self, command: Command, catalogs: CatalogView) -> None:
        """Record the command and start its launches. Raises NodelessError, and undoes the record, when it cannot."""
        snapshot, now = self._informers.snapshot(), self._clock.now()
        going = [candidate.node for candidate in command.candidates]
        record = Record(command.id(now), command.method, command.because, tuple(sorted(n.name for n in going)), (), now)
        try:
            launches = self._replacements.prepare(command, going, catalogs, snapshot)
        except NodelessError as error:
            for node in going:
                self._nodes.skipped(node, record, str(error), command.action)
            raise
        record = replace(record, replacements=tuple(launch.request.token for launch in launches))
        self._nodes.record(going, record)
        self._log.info(
            "Deprovisioning",
            id=record.id,
            method=command.method,
            command=command.text(),
            price_before_per_hour=round(command.price_before, 4),
            price_after_per_hour=round(command.price_after, 4),
        )
        self._recorder.count(ACTIONS_PERFORMED, f"{command.method}/{command.action}", command.method)
        self._progress[record.id] = _Progress(self._clock.monotonic())
        self._replacements.begin(record.id, launches, command.method, command.text(), command.solved)
        self._nodes.wait_until_applied()

    def step(self, snapshot: Snapshot, catalogs: CatalogView) -> None:
        """Take the next step of every command on record."""
        commands = recorded_commands(snapshot)
        self._forget_others({command.record.id for command in commands}, snapshot)
        simulator = self.simulator(snapshot, catalogs)
        for command in commands:
            record = command.record
            if not self._failing.ready(record.id):
                continue
            progress = self._progress.setdefault(record.id, _Progress(self._clock.monotonic()))
            advance = partial(self._advance, _Pass(command, progress, simulator, catalogs))
            # Whatever is wrong with one command never stops the others.
            self._failing.attempt(record.id, advance, "Command held up", Exception, nodes=record.nodes)

    def _forget_others(self, ids: set[str], snapshot: Snapshot) -> None:
        self._failing.keep({*ids, *(node.node.uid for node in snapshot.nodes.values())})
        self._progress = {key: progress for key, progress in self._progress.items() if key in ids}
        self._replacements.keep(ids)
        if self._surge is not None:
            self._surge.keep(ids)

    def _advance(self, seen: _Pass) -> None:
        if seen.command.committed:
            self._events.waiting_for_deletion(node for node in seen.command.carriers if node.leaving)
            if seen.staying:
                self._conclude(seen)
            return
        self._resume_launches(seen)
        if (failure := self._failure(seen)) != "":
            self._roll_back(seen, failure)
        elif not self._waits(seen):
            self._conclude(seen)

    def _resume_launches(self, seen: _Pass) -> None:
        """Launch replacements that an earlier process recorded and did not launch, if they are planned again."""
        record = seen.record
        missing = [token for token in record.replacements if token not in seen.command.replacements]
        if not missing or seen.command.torn or self._replacements.began(record.id):
            return
        planned = planned_again(seen.command, seen.simulator, self._clock.now())
        try:
            launches = self._replacements.prepare(
                planned, seen.command.carriers, seen.catalogs, seen.snapshot, record.replacements
            )
        except NodelessError as error:
            self._log.debug("Replacements on record cannot be launched now", id=record.id, error=str(error))
            return
        if sorted(launch.request.token for launch in launches) == sorted(missing):
            text = f"replace {', '.join(record.nodes)}, because {record.reason}; begun by another process"
            self._log.info("Goes on launching", id=record.id, nodes=record.nodes, replacements=len(missing))
            self._replacements.begin(record.id, launches, record.method, text, planned.solved)

    def _failure(self, seen: _Pass) -> str:
        """Return why the command must be rolled back; empty when it may continue, or when that is not known yet."""
        record, replacements = seen.record, seen.command.replacements
        if self._replacements.under_way(record.id):
            seen.progress.known_since = self._clock.monotonic()
            return ""
        if seen.command.torn:
            return TORN
        if (failure := self._replacements.failure(record.id)) != "":
            return f"a replacement was not launched: {failure}"
        waited = self._clock.monotonic() - seen.progress.known_since
        if len(replacements) < len(record.replacements) and waited >= self._times.appear_seconds:
            return NEVER_LAUNCHED
        if any(node.leaving for node in replacements.values()):
            return "a replacement is being deleted"
        # A start in the future is not the controller's: a user edited the record.
        late = abs(self._clock.now() - record.started_at) >= self._times.ready_seconds
        types = seen.catalogs.types
        if late and not all(takes_moved_pods(node, seen.snapshot, types) for node in replacements.values()):
            return f"a replacement was not initialized within {int(self._times.ready_seconds)} s"
        return ""

    def _waits(self, seen: _Pass) -> bool:
        """Return whether some replacement is not launched, not visible or not ready for pods yet."""
        command = seen.command
        if self._replacements.under_way(command.record.id):
            return True
        for node in command.replacements.values():
            if not takes_moved_pods(node, seen.snapshot, seen.catalogs.types):
                self._events.waiting_for_readiness(node, command.record)
                return True
        return len(command.replacements) < len(command.record.replacements)

    def _conclude(self, seen: _Pass) -> None:
        """Validate the command against the current snapshot and delete the nodes; roll back if it stays refused."""
        self._measure(seen)
        progress, now = seen.progress, self._clock.monotonic()
        patience = self._times.part_seconds if seen.command.committed else self._times.patience_seconds
        if now - progress.judged_at < patience / TRIALS:
            return
        outcome = self._outcome(seen)
        refusal = self._refusal(seen, outcome)
        if not refusal:
            progress.refused_since = None
            if not self._surges(seen):
                self._commit(seen, outcome)
            return
        progress.judged_at = now
        if progress.refused_since is None:
            progress.refused_since = now
        if (part := self._part(seen)) is not None and not self._surges(part[0]):
            self._commit(*part)
            return
        if now - progress.refused_since >= patience:
            self._roll_back(seen, refusal)

    def _outcome(self, seen: _Pass) -> Outcome:
        """Return what the removal leads to now: as planned, or simulated again.

        Usually all pods fit on existing nodes, and the first plan is enough.
        """
        planned = self._replacements.planned(seen.record.id)
        if (outcome := as_planned(planned, seen.staying, seen.command, seen.simulator)) is not None:
            return outcome
        quick = seen.simulator.within(0.0).simulate(seen.staying)
        return seen.simulator.simulate(seen.staying) if quick.replacements or quick.problem else quick

    def _part(self, seen: _Pass) -> tuple[_Pass, Outcome] | None:
        """Return the part of a consolidation's set that may go now, where the set may not go as a whole; None: no part.

        The other nodes keep their record: they are tried again, and rolled back if they stay refused.
        """
        if seen.record.method != CONSOLIDATION or len(seen.staying) < 2:
            return None
        snapshot, now, types = seen.snapshot, self._clock.now(), seen.catalogs.types
        everyone = candidates(snapshot, types, now, beside=seen.simulator.options.beside)
        staying = {node.name for node in seen.staying}
        gate = Gate(snapshot, now)
        allowed = [each for each in everyone if each.name in staying and not self._held(seen, each, gate)]
        idle = {node.name for node in seen.command.replacements.values() if not leaving_pods(node)}
        costs = {each.name: each.cost for each in everyone if each.name in idle}
        part = largest_part(allowed, staying, seen.simulator, costs, totals_of(everyone))
        if part is None:
            return None
        going = {each.name for each in part.removed}
        return replace(seen, only=frozenset(going)), part.outcome

    def _held(self, seen: _Pass, candidate: Candidate, gate: Gate) -> str:
        """Return why the node must not be deleted now, apart from where its pods go; empty if it may."""
        name, method = seen.record.method, self._methods.get(seen.record.method)
        if method is None or not method.wanted(candidate, seen.snapshot, gate.now):
            return f"{name} does not ask for node {candidate.name} any more"
        refusal = gate.refusal(candidate, own_command=True)
        return f"node {candidate.name}: {refusal.reason}" if refusal is not None else ""

    def _measure(self, seen: _Pass) -> None:
        """Record once how long the replacements took."""
        if seen.record.replacements and not seen.progress.measured:
            seen.progress.measured = True
            self._recorder.observe(REPLACEMENT_INITIALIZED, max(0.0, self._clock.now() - seen.record.started_at))

    def _refusal(self, seen: _Pass, outcome: Outcome) -> str:
        """Return why the nodes must not be deleted now; empty when they may."""
        now = self._clock.now()
        gate = Gate(seen.snapshot, now)
        fresh = candidates(seen.snapshot, seen.catalogs.types, now, seen.staying)
        if len(fresh) < len(seen.staying):
            return "its Provisioner is not usable any more"
        for candidate in fresh:
            if (held := self._held(seen, candidate, gate)) != "":
                return held
        if outcome.replacements and not outcome.problem:
            return "its pods would need more new nodes than were launched"
        begun = seen.command.committed or any(node.leaving for node in seen.command.carriers)
        if begun and seen.record.method == CONSOLIDATION and outcome.launches:
            return "pending pods, or pods of nodes that were removed before, need the room"
        return outcome.problem

    def _surges(self, seen: _Pass) -> bool:
        """Return whether single replicas are still starting elsewhere; rolled back when they do not start in time."""
        if self._surge is None or seen.command.committed:
            return False
        waiting = self._surge.waits_for(seen.record, seen.staying)
        progress = seen.progress
        if progress.surging_since is None:
            progress.surging_since = self._clock.monotonic()
        if waiting and self._clock.monotonic() - progress.surging_since >= self._times.surge_seconds:
            named = ", ".join(waiting[:MOST_NAMED])
            self._roll_back(seen, f"single replicas did not start elsewhere in time: {named}")
        return bool(waiting)

    def _commit(self, seen: _Pass, outcome: Outcome) -> None:
        """Delete the nodes, after which no rollback is possible. Raises KubeError; the next pass continues."""
        record, now = seen.record, self._clock.now()
        if record.method in (CONSOLIDATION, REBALANCE, ZONE_MOVE):
            moved = {workload(pod) for node in seen.staying for pod in leaving_pods(node)}
            targets = [seen.snapshot.nodes[name] for name in outcome.targets]
            self._nodes.rest(targets, moved, now + REST_SECONDS)
        if not self._nodes.mark(seen.staying):
            return
        closing = to_close(outcome, seen.staying, seen.snapshot) if seen.simulator.place_as_planned else ()
        self._nodes.close(closing, record, seen.staying)
        used: Iterable[StateNode] = seen.command.replacements.values()
        if seen.only is not None:
            used = [node for node in used if node.name in outcome.targets]
        self._nodes.nominate((*used, *closing), now + ARRIVAL_SECONDS)
        self._nodes.wait_until_applied()
        self._moves.append(places_on_closed_nodes(outcome, seen.staying, self._informers.snapshot()))
        self._nodes.delete(seen.staying, record)

    def _roll_back(self, seen: _Pass, because: str) -> None:
        """Undo the command on nodes that are not being deleted. Raises KubeError; the next pass continues.

        Replacements are deleted first: while the record exists, the next leader knows that they are unused.
        """
        record, failed = seen.record, because not in CRASHED and seen.command.fails_if_rolled_back
        if not seen.command.committed:
            self._nodes.discard(seen.command.replacements.values(), record, because)
        for node in seen.command.carriers:
            if node.node.deleted_at is None:
                failure = next_failure(seen.snapshot, node, record.method, self._clock.now()) if failed else None
                self._nodes.erase(node, record, failure)
            self._nodes.skipped(node, record, because)
            self._events.rolled_back(node, record, because)
        self._log.warning(
            "Command rolled back", id=record.id, method=record.method, nodes=record.nodes, because=because
        )
