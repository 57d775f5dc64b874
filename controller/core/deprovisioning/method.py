"""The interface of every method of removal: what it decides on, and what it proposes.

Repair, expiration, drift, emptiness, approved rebalances, consolidation and zone moves implement `Method`. A method
decides and never acts: what it proposes has passed the gate (gate.py), and the one executor
(controller.reconcilers.deprovisioning.executor) carries it out. A method may keep its progress from one pass to the
next; what must survive the process is kept on the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controller.core.api.frozen import EMPTY
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.state.snapshot import Snapshot, StateNode


@dataclass(frozen=True, slots=True)
class MethodInput:
    """The input of one pass. `now` is Unix seconds; `monotonic` seconds on a clock that never jumps, for durations.

    `held_back`: names of nodes that the method leaves alone for a while, since it failed on them or on others of their
    Provisioner. `required`: nodes that a guard keeps, by name, with the reason. `searches`: whether there is time for a
    search; without it, consolidation proposes empty nodes and what it has found before.
    """

    simulator: Simulator
    gate: Gate
    candidates: Sequence[Candidate]
    now: float
    monotonic: float = 0.0
    held_back: frozenset[str] = frozenset()
    required: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    searches: bool = True

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the simulator."""
        return self.simulator.snapshot


@dataclass(frozen=True, slots=True)
class NodeAnnotations:
    """Annotations to write on a node: None removes one. `because`: why, for logs and events; empty: it is not reported.

    `uncordon`: make the node schedulable in the same patch.
    """

    node: StateNode
    values: Mapping[str, str | None]
    because: str = ""
    uncordon: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a method proposes. `commands` have no node in common; one that cannot begin now is decided again later.

    `blocked`: candidates that the method would remove and must not now, with the reason. `kept`: candidates that it
    judged and leaves, with the reason. `eligible`: how many nodes it would remove if nothing prevented it.
    `again_seconds`: when to decide again even if nothing changes; infinite: never.
    """

    commands: tuple[Command, ...] = ()
    blocked: tuple[tuple[Candidate, str], ...] = ()
    kept: tuple[tuple[Candidate, str], ...] = ()
    annotations: tuple[NodeAnnotations, ...] = ()
    eligible: int = 0
    again_seconds: float = math.inf


class Method(Protocol):
    """A reason to remove nodes."""

    @property
    def name(self) -> str:
        """As in Command.method."""

    def wanted(self, candidate: Candidate, snapshot: Snapshot, now: float, /) -> bool:
        """Return whether the node should still be removed at `now` (Unix seconds); called again before the deletion."""

    def decide(self, given: MethodInput) -> Proposal:
        """Return the proposal for this pass."""
