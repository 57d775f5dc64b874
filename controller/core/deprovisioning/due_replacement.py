"""Expiration and drift decide alike: the first node that is due and may go is replaced, whatever that costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.gate import NOT_EVENTS, Gate
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Stage, simulate

MOST_SIMULATIONS = 5
"""In one decision: nodes that cannot go now do not keep those behind them from being looked at at the next."""


@dataclass(frozen=True, slots=True)
class Method:
    """`name` as in Command.method, `reason` as in budgets.REASONS; `because` puts a candidate's reason in words."""

    name: str
    reason: str
    because: Callable[[Candidate], str]


@dataclass(frozen=True, slots=True)
class Decision:
    """A command, or none. `blocked`: what a user should know about nodes that would go and may not, with the reason.

    `looked_at`: for how many a simulation was made.
    """

    command: Command | None = None
    blocked: tuple[tuple[Candidate, str], ...] = ()
    looked_at: int = 0


def replace_first(due: Iterable[Candidate], method: Method, stage: Stage, gate: Gate, start: int = 0) -> Decision:
    """The command for the first of `due` that may go; of those that pass the gate, the first `start` are skipped."""
    blocked: list[tuple[Candidate, str]] = []
    looked_at = passed = 0
    for candidate in due:
        refusal = gate.refusal(candidate) or gate.over_budget([candidate], method.reason)
        if refusal is not None:
            if refusal.kind not in NOT_EVENTS:
                blocked.append((candidate, refusal.reason))
            continue
        passed += 1
        if passed <= start:
            continue
        if looked_at == MOST_SIMULATIONS:
            break
        looked_at += 1
        outcome = simulate(stage, [candidate.node])
        if outcome.problem:
            blocked.append((candidate, outcome.problem))
            continue
        because = method.because(candidate)
        command = Command(method.name, method.reason, because, (candidate,), outcome.replacements)
        return Decision(command, tuple(blocked), looked_at)
    return Decision(None, tuple(blocked), looked_at)
