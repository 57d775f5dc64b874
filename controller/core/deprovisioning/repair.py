"""Repair: nodes that stay unhealthy, and nodes that were not initialized in time, are removed.

Nothing is launched before: a replacement could not be placed where a limit counts the broken node, and its pods are
planned for as soon as it leaves. No disruption budget limits repairs, since a broken node serves nobody; instead none
happens while too many nodes are unhealthy at once (node_health.py). While a node is Ready (a condition of the node
monitoring agent fails), its pods may work, and `do-not-evict` and PodDisruptionBudgets keep it. A node that was never
initialized is removed however many others are unhealthy, like one that never registers: it costs money and serves
nothing. It stays if it is Ready and pods run on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from controller.core.api.frozen import EMPTY
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_command import REPAIR, Command
from controller.core.machines.node_health import NOT_READY_SECONDS, Census, sickness
from controller.core.machines.registration import joined, not_initialized_because
from controller.core.state.snapshot import Snapshot

UNHEALTHY: Final = "unhealthy"
"""The reason of its commands; no disruption budget names it."""


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """`sick_nodes`: whether unhealthy nodes are removed; those that were not initialized in time always are."""

    sick_nodes: bool = True
    not_ready_seconds: float = NOT_READY_SECONDS


@dataclass(frozen=True, slots=True)
class _Due:
    """When a node is due for removal. `at`: Unix seconds, infinite: never; `sick`: it was initialized before."""

    at: float
    because: str = ""
    sick: bool = False


_NEVER: Final = _Due(math.inf)


class Repair:
    """The method."""

    name = REPAIR

    def __init__(self, policy: RepairPolicy) -> None:
        self._policy = policy

    def wanted(self, candidate: Candidate, snapshot: Snapshot, now: float) -> bool:
        """Return whether the node is to be removed, and not too many others are unhealthy."""
        due = self._due(candidate, now)
        return due.at <= now and not (due.sick and Census(snapshot).refusal(candidate.provisioner.name))

    def decide(self, given: MethodInput) -> Proposal:
        """Remove all nodes that are due; `blocked` has those that must not be removed now."""
        census = Census(given.snapshot)
        commands: list[Command] = []
        blocked: list[tuple[Candidate, str]] = []
        soonest = math.inf
        for candidate in sorted(given.candidates, key=lambda each: each.name):
            due = self._due(candidate, given.now)
            if due.at > given.now:
                soonest = min(soonest, due.at)
                continue
            if candidate.name in given.held_back:
                continue
            if due.sick and (outbreak := census.refusal(candidate.provisioner.name)):
                blocked.append((candidate, outbreak))
                continue
            refusal = given.gate.repair_refusal(candidate)
            if refusal is None:
                commands.append(Command(REPAIR, UNHEALTHY, due.because, (candidate,)))
            elif not refusal.temporary:
                blocked.append((candidate, refusal.reason))
        eligible = len(commands) + len(blocked)
        return Proposal(tuple(commands), tuple(blocked), eligible=eligible, again_seconds=soonest - given.now)

    def _due(self, candidate: Candidate, now: float) -> _Due:
        if candidate.node.leaving:
            return _NEVER
        return self._sick(candidate, now) if candidate.node.initialized else self._late(candidate)

    def _sick(self, candidate: Candidate, now: float) -> _Due:
        ill = sickness(candidate.node.node, self._policy.not_ready_seconds) if self._policy.sick_nodes else None
        return _NEVER if ill is None else _Due(ill.due_at, ill.text(now), sick=True)

    def _late(self, candidate: Candidate) -> _Due:
        """Judge a node that is not initialized: due once it missed its deadline (core/state/effective.py)."""
        node = candidate.node.node
        if not candidate.node.no_room or not joined(node) or (node.ready and candidate.pods):
            return _NEVER  # a node that never joined is for garbage collection
        expected = candidate.instance_type.capacity if candidate.instance_type is not None else EMPTY
        because = not_initialized_because(node, candidate.provisioner, expected)
        return _Due(-math.inf, f"{candidate.node.no_room}: {because}") if because else _NEVER
