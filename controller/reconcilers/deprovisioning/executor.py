"""Commands carried out: recorded, replacements launched, awaited and checked again, then the old nodes deleted.

Nothing here waits: each pass looks at what the cluster shows of each command on record and takes the next step, so that
several run side by side and a stuck one holds back itself alone. A step may be repeated, and whoever leads next takes
the one that is due (invariant 8). Until the first of its nodes is deleted, a command that cannot go on is rolled back:
record and cordon are taken off in one patch, and replacements that nobody uses are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from controller.cloud.catalogs import CatalogView
from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.backoff import held_until, next_failure, stale, workload
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.consolidation import CONSOLIDATION
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.records import Record, Recorded, recorded
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Outcome, Stage, simulate
from controller.core.deprovisioning.resumption import planned_again
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import KubeError, NodelessError
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.node_writes import STATE_TIMEOUT_SECONDS, NodeWrites
from controller.reconcilers.deprovisioning.replacement_launches import Replacements, replacement_launches
from controller.reconcilers.deprovisioning.surge_rollout import Surge
from controller.runtime.loops import BackoffTimes, ItemBackoff
from controller.runtime.metrics import ACTIONS_PERFORMED, REPLACEMENT_INITIALIZED

NEVER_LAUNCHED = "a replacement was not launched, or is gone"
TORN = "its record is incomplete"
CRASHED = frozenset({NEVER_LAUNCHED, TORN})
"""The reasons after a crash between record and launch: no failure, so that the next command need not wait."""


@dataclass(frozen=True, slots=True)
class CommandTimes:
    """`ready_seconds`: replacements must be initialized by then (instances that do not join are given up after 15 min).
    `appear_seconds`: a replacement that nobody launches and nobody sees is given up; if EC2 shows it later after all,
    the next command for the same pods has its token, and gets it. `patience_seconds`: how long a command that is ready
    may be refused before it is rolled back. `arrival_seconds`: how long replacements are kept for the pods that were
    evicted. `surge_seconds`: how long single replicas may take to start elsewhere. `rest_seconds`: workloads whose pods
    consolidation moved are left alone for so long. `hold_back`: after a failure, per Provisioner and method."""

    ready_seconds: float = 900.0
    appear_seconds: float = 10.0
    patience_seconds: float = 60.0
    arrival_seconds: float = 60.0
    rest_seconds: float = 600.0
    surge_seconds: float = 300.0
    hold_back: BackoffTimes = field(default_factory=lambda: BackoffTimes(60.0, 3600.0))


Wanted = Callable[[Candidate, float], bool]
"""Whether a method still wants a candidate to go at a time (Unix seconds)."""


class CommandExecutor:
    """One for the whole process; used by one loop's thread. `wanted` are the methods, by name."""

    def __init__(
        self,
        context: ReconcilerContext,
        *,
        wanted: Mapping[str, Wanted],
        times: CommandTimes | None = None,
    ) -> None:
        self._nodes = NodeWrites(context)
        self._settings = context.settings
        surges = context.settings.current.surge_single_replicas
        self._surge = Surge(context.kube, context.events) if surges else None
        self._replacements = Replacements(context)
        self._informers, self._events = context.informers, context.events
        self._clock, self._ledger = context.clock, context.ledger
        self._wanted = wanted
        self._times = times or CommandTimes()
        self._log = structlog.get_logger("deprovisioning")
        self._known_since: dict[str, float] = {}
        self._refused_since: dict[str, float] = {}
        self._surging_since: dict[str, float] = {}
        self._measured: set[str] = set()
        self._failing = ItemBackoff(self._clock, "deprovisioning")

    def held_back(self, method: str, snapshot: Snapshot) -> frozenset[str]:
        """Names of the Provisioners for which the last command of this method failed a while ago."""
        now, delay = self._clock.now(), self._times.hold_back.delay_seconds
        return frozenset(name for name in snapshot.provisioners if now < held_until(snapshot, name, method, delay))

    def clean(self, snapshot: Snapshot) -> None:
        """Take off nodes what earlier commands noted there and means nothing any more."""
        now = self._clock.now()
        for node in snapshot.nodes.values():
            if not node.leaving and stale(node, now) and self._failing.ready(node.node.uid):
                try:
                    self._nodes.clean([node])
                except KubeError as error:
                    self._failing.failed(node.node.uid, error, "Stale annotations not taken off", node=node.name)

    def stage(self, snapshot: Snapshot, view: CatalogView) -> Stage:
        """What simulations run on: nodes of all commands on record are thought away."""
        going = frozenset(node.name for command in recorded(snapshot) for node in command.carriers)
        index = SnapshotIndex(snapshot, view.tables)
        return Stage(
            snapshot, view.types, going, FrozenMap(view.problems), self._settings.current.solve_options(), index
        )

    def start(self, command: Command, view: CatalogView) -> Snapshot:
        """Put the command on record and begin to launch; the snapshot that shows it.

        Raises NodelessError when it cannot begin; nothing is left of it then.
        """
        snapshot = self._informers.snapshot()
        going = [candidate.node for candidate in command.candidates]
        now = self._clock.now()
        names = tuple(sorted(candidate.name for candidate in command.candidates))
        record = Record(command.id(now), command.method, command.because, names, (), now)
        try:
            launches = replacement_launches(command.replacements, going, view, snapshot)
        except NodelessError as error:
            for node in going:
                self._nodes.given_up(node, record, str(error), command.action)
            raise
        record = replace(record, replacements=tuple(launch.request.token for launch in launches))
        self._nodes.record((candidate.node for candidate in command.candidates), record)
        self._log.info(
            "Deprovisioning",
            id=record.id,
            method=command.method,
            command=command.text(),
            price_before_per_hour=round(command.price_before, 4),
            price_after_per_hour=round(command.price_after, 4),
        )
        self._ledger.recorder.count(ACTIONS_PERFORMED, f"{command.method}/{command.action}", command.method)
        self._known_since[record.id] = self._clock.monotonic()
        self._replacements.begin(record.id, launches, command.method, command.text())
        return self._informers.submit(lambda _cluster: None).result(STATE_TIMEOUT_SECONDS)

    def step(self, snapshot: Snapshot, view: CatalogView) -> bool:
        """Take the next step of every command on record; whether there is any."""
        found = recorded(snapshot)
        ids = {command.record.id for command in found}
        self._failing.keep({*ids, *(node.node.uid for node in snapshot.nodes.values())})
        for known in (self._known_since, self._refused_since, self._surging_since):
            for gone in [key for key in known if key not in ids]:
                del known[gone]
        self._replacements.keep(ids)
        if self._surge is not None:
            self._surge.keep(ids)
        for command in found:
            if not self._failing.ready(command.record.id):
                continue
            try:
                self._advance(command, snapshot, view)
            except NodelessError as error:
                self._failing.failed(command.record.id, error, "Command held up", nodes=command.record.nodes)
            else:
                self._failing.succeeded(command.record.id)
        return bool(found)

    def _advance(self, command: Recorded, snapshot: Snapshot, view: CatalogView) -> None:
        staying = tuple(node for node in command.carriers if not node.leaving)
        if command.committed:
            self._say_going(command)
            if staying:
                self._conclude(command, staying, snapshot, view)
            return
        self._go_on_launching(command, snapshot, view)
        failure = self._failure(command)
        if failure:
            self._roll_back(command, failure, snapshot)
        elif not self._waits(command):
            self._conclude(command, staying, snapshot, view)

    def _go_on_launching(self, command: Recorded, snapshot: Snapshot, view: CatalogView) -> None:
        """Launch what an earlier process recorded and did not come to, if it would be decided again as it stands."""
        record = command.record
        missing = [token for token in record.replacements if token not in command.replacements]
        if not missing or command.torn or self._replacements.began(record.id):
            return
        planned = planned_again(command, self.stage(snapshot, view), self._clock.now())
        try:
            launches = replacement_launches(planned, command.carriers, view, snapshot, record.replacements)
        except NodelessError as error:
            self._log.debug("Replacements on record cannot be launched now", id=record.id, error=str(error))
            return
        if sorted(launch.request.token for launch in launches) == sorted(missing):
            text = f"replace {', '.join(record.nodes)}, because {record.reason}; begun by another process"
            self._log.info("Goes on launching", id=record.id, nodes=record.nodes, replacements=len(missing))
            self._replacements.begin(record.id, launches, record.method, text)

    def _say_going(self, command: Recorded) -> None:
        for node in command.carriers:
            if node.leaving:
                uid, pods = node.node.uid, len(leaving_pods(node))
                message = f"Waits until the node is gone; {pods} pods are still to be moved"
                self._events.publish(
                    ObjectRef.of(node.node), "Normal", "DeprovisioningWaitingDeletion", message, (uid,)
                )

    def _failure(self, command: Recorded) -> str:
        """Why the command cannot go on; empty when it can, or when nobody knows yet."""
        record = command.record
        if self._replacements.under_way(record.id):
            self._known_since[record.id] = self._clock.monotonic()
            return ""
        if command.torn:
            return TORN
        if (failure := self._replacements.failure(record.id)) != "":
            return f"a replacement was not launched: {failure}"
        known_since = self._known_since.setdefault(record.id, self._clock.monotonic())
        waited = self._clock.monotonic() - known_since
        if len(command.replacements) < len(record.replacements) and waited >= self._times.appear_seconds:
            return NEVER_LAUNCHED
        if any(node.leaving for node in command.replacements.values()):
            return "a replacement is being deleted"
        late = self._clock.now() - record.started_at >= self._times.ready_seconds
        if late and not all(node.initialized for node in command.replacements.values()):
            return f"a replacement was not initialized within {int(self._times.ready_seconds)} s"
        return ""

    def _waits(self, command: Recorded) -> bool:
        """Whether replacements are still on their way."""
        if self._replacements.under_way(command.record.id):
            return True
        for node in command.replacements.values():
            if not node.initialized:
                ref, uid = ObjectRef.of(node.node), node.node.uid
                message = f"Waits until the node is initialized; then {', '.join(command.record.nodes)} will go"
                self._events.publish(ref, "Normal", "DeprovisioningWaitingReadiness", message, (uid,))
                return True
        return len(command.replacements) < len(command.record.replacements)

    def _conclude(
        self, command: Recorded, staying: tuple[StateNode, ...], snapshot: Snapshot, view: CatalogView
    ) -> None:
        """Check everything again with what is known now, and delete; or give up when it stays refused."""
        self._measure(command)
        outcome = simulate(self.stage(snapshot, view), staying)
        refusal = self._refusal(command, staying, snapshot, view, outcome)
        record = command.record
        if not refusal:
            self._refused_since.pop(record.id, None)
            if self._surges(command, staying, snapshot):
                return
            self._commit(command, staying, snapshot, outcome)
            return
        since = self._refused_since.setdefault(record.id, self._clock.monotonic())
        if self._clock.monotonic() - since >= self._times.patience_seconds:
            self._roll_back(command, refusal, snapshot)

    def _surges(self, command: Recorded, staying: tuple[StateNode, ...], snapshot: Snapshot) -> bool:
        """Whether the only pods of Deployments are still starting elsewhere; taken back when they do not start."""
        record = command.record
        if self._surge is None or command.committed:
            return False
        waiting = self._surge.waits_for(record, staying)
        since = self._surging_since.setdefault(record.id, self._clock.monotonic())
        if not waiting:
            return False
        if self._clock.monotonic() - since >= self._times.surge_seconds:
            named = ", ".join(waiting[:5])
            self._roll_back(command, f"single replicas did not start elsewhere in time: {named}", snapshot)
        return True

    def _measure(self, command: Recorded) -> None:
        """How long the replacements took, once a command."""
        record = command.record
        if record.replacements and record.id not in self._measured:
            self._measured.add(record.id)
            self._ledger.recorder.observe(REPLACEMENT_INITIALIZED, max(0.0, self._clock.now() - record.started_at))

    def _refusal(
        self,
        command: Recorded,
        staying: tuple[StateNode, ...],
        snapshot: Snapshot,
        view: CatalogView,
        outcome: Outcome,
    ) -> str:
        now = self._clock.now()
        gate = Gate(snapshot, now)
        fresh = candidates(snapshot, view.types, now, staying)
        if len(fresh) < len(staying):
            return "its Provisioner is not usable any more"
        wanted = self._wanted.get(command.record.method)
        for candidate in fresh:
            if wanted is None or not wanted(candidate, now):
                return f"{command.record.method} does not ask for node {candidate.name} any more"
            if (refusal := gate.refusal(candidate, own_command=True)) is not None:
                return f"node {candidate.name}: {refusal.reason}"
        if outcome.replacements and not outcome.problem:
            return "its pods would need more new nodes than were launched"
        return outcome.problem

    def _commit(self, command: Recorded, staying: tuple[StateNode, ...], snapshot: Snapshot, outcome: Outcome) -> None:
        """From here on there is no way back. Raises KubeError; the next pass goes on."""
        record, now = command.record, self._clock.now()
        if record.method == CONSOLIDATION:
            moved = {workload(pod) for node in staying for pod in leaving_pods(node)}
            takers = [snapshot.nodes[name] for name in outcome.targets]
            self._nodes.rest(takers, moved, now + self._times.rest_seconds)
        if self._nodes.delete(staying, record):
            self._nodes.nominate(command.replacements.values(), now + self._times.arrival_seconds)

    def _roll_back(self, command: Recorded, because: str, snapshot: Snapshot) -> None:
        """Take it back, as far as nodes have not begun to go. Raises KubeError; the next pass goes on.

        Replacements go first: while there is a record, whoever leads next knows that nobody else wants them.
        """
        record = command.record
        if not command.committed:
            self._nodes.discard(command.replacements.values(), record, because)
        for node in command.carriers:
            if node.node.deleted_at is None:
                failed = because not in CRASHED
                failure = next_failure(snapshot, node, record.method, self._clock.now()) if failed else None
                self._nodes.erase(node, record, failure)
            message = f"Not removed ({record.method}: {record.reason}): {because}"
            self._nodes.given_up(node, record, because)
            self._events.publish(ObjectRef.of(node.node), "Warning", "DeprovisioningFailed", message, (node.node.uid,))
        self._log.warning(
            "Command rolled back", id=record.id, method=record.method, nodes=record.nodes, because=because
        )
