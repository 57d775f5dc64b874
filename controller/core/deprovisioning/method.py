"""The interface of every method of removal: what it decides on, and what it proposes.

Expiration, drift, emptiness and consolidation implement `Method`. A method decides and never acts: what it proposes
has passed the gate (gate.py), and the one executor (controller.reconcilers.deprovisioning.executor) carries it out.
A method may remember from one look to the next how far it came; what must survive the process is kept on the nodes.
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
    """One look at the cluster. `now` is Unix seconds; `monotonic` seconds on a clock that never jumps, for durations.

    `held_back`: names of nodes that the method leaves alone for a while, since it failed on them or on others of their
    Provisioner. `required`: nodes that a guard needs as they are, by name, with the reason.
    """

    simulator: Simulator
    gate: Gate
    candidates: Sequence[Candidate]
    now: float
    monotonic: float = 0.0
    held_back: frozenset[str] = frozenset()
    required: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def snapshot(self) -> Snapshot:
        """What all of it was made from."""
        return self.simulator.snapshot


@dataclass(frozen=True, slots=True)
class NodeAnnotations:
    """Annotations to write on a node: None takes one off."""

    node: StateNode
    values: Mapping[str, str | None]
    because: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a method asks for. `commands` have no node in common; one that cannot be begun now is decided anew later.

    `blocked`: candidates that the method would remove and must not now, with the reason. `kept`: candidates that it
    judged and leaves, with the reason. `eligible`: how many nodes it would remove if nothing stood in the way.
    `again_seconds`: when to look again though nothing changed; infinite: no need.
    """

    commands: tuple[Command, ...] = ()
    blocked: tuple[tuple[Candidate, str], ...] = ()
    kept: tuple[tuple[Candidate, str], ...] = ()
    annotations: tuple[NodeAnnotations, ...] = ()
    eligible: int = 0
    again_seconds: float = math.inf


class Method(Protocol):
    """A reason to remove nodes that work."""

    @property
    def name(self) -> str:
        """As in Command.method."""

    def wanted(self, candidate: Candidate, snapshot: Snapshot, now: float, /) -> bool:
        """Whether it still asks for the node's removal at `now` (Unix seconds); asked again before the deletion."""

    def decide(self, given: MethodInput) -> Proposal:
        """What to do by what is known now."""
