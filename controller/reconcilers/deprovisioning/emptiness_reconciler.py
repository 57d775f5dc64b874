"""Delete empty nodes in a separate loop, so that they never wait for consolidation or for another command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from controller.core.api.frozen import EMPTY
from controller.core.deprovisioning.emptiness import Emptiness
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput, NodeAnnotations
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import KubeError
from controller.reconcilers.context import ReconcilerContext
from controller.reconcilers.deprovisioning.events import RemovalEvents
from controller.reconcilers.deprovisioning.executor import CommandExecutor
from controller.reconcilers.deprovisioning.search_turns import Hold
from controller.runtime.loops import IDLE_SECONDS, ItemBackoff

MOST_HOLD_SECONDS = 30.0
"""How long empty nodes wait in a row for pods that have no plan yet."""


class EmptinessReconciler:
    """Idle until all watches have delivered their first lists and the leader has planned once.

    Before that it is not known which nodes pods or headroom are expected on.
    """

    name = "emptiness"

    def __init__(self, context: ReconcilerContext, emptiness: Emptiness, executor: CommandExecutor) -> None:
        self._emptiness, self._executor, self._events = emptiness, executor, RemovalEvents(context.events)
        self._clock, self._settings, self._planned = context.clock, context.settings, context.planned
        self._removals, self._cloud = context.removals, context.cloud
        self._log = structlog.get_logger(self.name)
        self._failing = ItemBackoff(self._clock, self.name)
        self._planning, self._hold = context.planning, Hold(MOST_HOLD_SECONDS)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Write or remove emptiness timestamps and delete; return the seconds until the next TTL may expire."""
        if not snapshot.synced or not self._planned.is_set() or self._removals.refusal():
            return 1.0
        self._hold = self._hold.observe(self._planning.unplanned, self._clock.monotonic())
        if self._hold.holds(self._clock.monotonic()):
            return 1.0  # the plan may put pods on nodes that are empty
        self._failing.keep({node.node.uid for node in snapshot.nodes.values()})
        held = frozenset(node.name for node in snapshot.nodes.values() if not self._failing.ready(node.node.uid))
        now = self._clock.now()
        gate = Gate(snapshot, now, self._settings.current.disruption_budgets, self._cloud.zones_left())
        proposal = self._emptiness.decide(MethodInput(Simulator(snapshot, EMPTY), gate, (), now, held_back=held))
        self._events.proposed(proposal, ())
        for stamp in proposal.annotations:
            self._write(stamp.node, partial(self._annotate, stamp))
        for command in proposal.commands:
            self._write(command.candidates[0].node, partial(self._delete, command))
        return max(0.1, min(IDLE_SECONDS, proposal.again_seconds, self._failing.next_try_seconds()))

    def _write(self, node: StateNode, write: Callable[[], None]) -> None:
        """Write; if the API server refuses, this node backs off."""
        self._failing.attempt(node.node.uid, write, "Emptiness could not be written", KubeError, node=node.name)

    def _annotate(self, stamp: NodeAnnotations) -> None:
        if self._executor.annotate(stamp):
            message = "Added emptiness timestamp" if any(stamp.values.values()) else "Removed emptiness timestamp"
            self._log.info(message, node=stamp.node.name, because=stamp.because)

    def _delete(self, command: Command) -> None:
        if self._executor.delete_at_once(command):
            self._log.info("Deleted empty node", node=command.candidates[0].name, because=command.because)
