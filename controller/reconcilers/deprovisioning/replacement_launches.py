"""Launch a command's replacements, and keep the outcome of the launches of this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from controller.cloud.catalogs import CatalogView
from controller.core.api.frozen import EMPTY
from controller.core.api.pod import PodKey
from controller.core.decisions.decision import replacement_launched
from controller.core.decisions.launch_outcome import LaunchOutcome
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Outcome
from controller.core.machines.launching import LaunchPolicy
from controller.core.machines.on_their_way import stand_in_name
from controller.core.provisioning.plan import SolvedProblem
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import ConflictError
from controller.machines.launch_pipeline import Launch, LaunchPipeline, prepare
from controller.machines.plan_judge import PlanJudge
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.events import RemovalEvents
from controller.reconcilers.deprovisioning.node_writes import STATE_TIMEOUT_SECONDS
from controller.runtime.executors import Job

WORKERS = 10


class Replacements:
    """Launches of this process, by command id. Those of an earlier one are known only by the tokens on record."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._settings = context.settings
        self._informers, self._events, self._ledger = context.informers, RemovalEvents(context.events), context.ledger
        executor = context.executors.executor("replace", WORKERS)
        self._pipeline = LaunchPipeline(context.launcher, executor, context.stop)
        self._judge = PlanJudge("deprovisioning", context.recorder)
        self._launches: dict[str, tuple[Job[None], ...]] = {}
        self._planned: dict[str, Mapping[str, Sequence[PodKey]]] = {}

    def prepare(
        self,
        decided: Command | Outcome,
        leaving: Iterable[StateNode],
        view: CatalogView,
        snapshot: Snapshot,
        own_tokens: Collection[str] = (),
    ) -> tuple[Launch, ...]:
        """Return what to launch in place of the `leaving` nodes; `own_tokens` are those of a command on record.

        Raises ConflictError when one of the replacements may not be launched: a command has all of them or none.
        """
        if not decided.replacements:
            return ()
        if decided.solved is None:
            raise ConflictError("Replacement not launched: the plan that it is part of is not known")
        solved = decided.solved
        rejected = {each.pod: each.reason for each in self._judge.permitted(solved.plan, solved.problem).unplaced}
        for key in (key for node in decided.replacements for key in node.pods if key in rejected):
            raise ConflictError(f"Replacement not launched: {rejected[key]}")
        policy = LaunchPolicy(
            leaving=frozenset(node.name for node in leaving),
            own_tokens=frozenset(own_tokens),
            on_record=True,
            on_demand_taint=self._settings.current.on_demand_taint,
            open_together=self._settings.current.place_as_planned,
        )
        prepared = prepare(decided.replacements, snapshot, view.types, snapshot.pods, policy)
        for refusal in prepared.refused:
            raise ConflictError(f"Replacement not launched: {refusal.reason}")
        return prepared.launches

    def begin(
        self, command_id: str, launches: Sequence[Launch], method: str, text: str, solved: SolvedProblem | None
    ) -> None:
        """Start all launches, concurrently. text: the command in words. solved: what the launches are part of."""
        placed = {each.node: each.pods for each in solved.plan.existing} if solved else {}
        placed.update((stand_in_name(each.request.token), each.planned.pods) for each in launches)
        self._planned[command_id] = placed
        self._launches[command_id] = self._pipeline.begin(launches, partial(self._launched, method, text))

    def planned(self, command_id: str) -> Mapping[str, Sequence[PodKey]]:
        """Return the pods of the plan that this process launched for, by node or its stand-in; empty: by another."""
        return self._planned.get(command_id, EMPTY)

    def began(self, command_id: str) -> bool:
        """Return whether this process launched for the command."""
        return command_id in self._launches

    def under_way(self, command_id: str) -> bool:
        """Return whether a launch for the command has not ended."""
        return not all(job.done() for job in self._launches.get(command_id, ()))

    def failure(self, command_id: str) -> str:
        """Return the error of the first launch that failed; empty when none did."""
        for job in self._launches.get(command_id, ()):
            if job.done() and (error := job.exception()) is not None:
                return str(error)
        return ""

    def keep(self, command_ids: Collection[str]) -> None:
        """Forget commands other than these, once their launches have ended."""
        self._planned = {key: placed for key, placed in self._planned.items() if key in command_ids}
        self._launches = {
            key: jobs for key, jobs in self._launches.items() if key in command_ids or self.under_way(key)
        }

    def _launched(self, method: str, text: str, _launch: Launch, outcome: LaunchOutcome) -> None:
        self._ledger.record(replacement_launched(method, text, outcome))
        node = self._informers.submit(lambda _: None).result(STATE_TIMEOUT_SECONDS).nodes.get(outcome.node_name)
        if node is not None:
            self._events.launched(node, outcome.in_words, text)
