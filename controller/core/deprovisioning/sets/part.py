"""Choose the part of a set to remove when it cannot be removed as a whole any more.

A set's plan is tight: its pods fill what was launched for them. By the time these nodes are there, other pods may have
taken some of the room, or a budget may hold a pod. Rolled back as a whole, the set would have cost launches and time
for nothing; so the largest part goes that is allowed, fits without another node, and is worth its moves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.removal_simulation import Outcome, Simulator
from controller.core.deprovisioning.worth import Totals, score, threshold

MOST_MISSES = 6
"""The part is complete after this many nodes in a row that do not fit."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes of a set that go together, and what their removal leads to."""

    removed: tuple[Candidate, ...]
    outcome: Outcome


def largest_part(
    allowed: Sequence[Candidate],
    staying: Collection[str],
    simulator: Simulator,
    idle: Mapping[str, float],
    totals: Totals,
) -> Part | None:
    """Choose nodes of `allowed` to remove now; None if none can be.

    staying: names of all nodes of the set, whose pods do not move unless they are in the part. idle: $ an hour of
    replacements that no pod uses yet. totals: of all candidates. Nodes join by cost over disruption: as many at once as
    fit, else half as many.
    """
    order = sorted(allowed, key=lambda each: (-each.cost / max(0.1, each.disruption), each.name))
    part: Part | None = None
    at, step, misses = 0, len(order), 0
    while at < len(order) and misses < MOST_MISSES:
        trial = (*(part.removed if part else ()), *order[at : at + step])
        outcome = _fits(trial, staying, simulator)
        if outcome is not None:
            part, at, misses = Part(trial, outcome), at + step, 0
        elif step > 1:
            step //= 2
        else:
            at, misses = at + 1, misses + 1
    return part if part and _is_worth(part, idle, totals) else None


def _fits(removed: Sequence[Candidate], staying: Collection[str], simulator: Simulator) -> Outcome | None:
    """Return the outcome if the first plan fits all their pods on existing nodes, with pending and leaving pods too."""
    apart = replace(simulator.within(0.0), going=simulator.going - frozenset(staying))
    outcome = apart.simulate([each.node for each in removed])
    return None if outcome.problem or outcome.launches else outcome


def _is_worth(part: Part, idle: Mapping[str, float], totals: Totals) -> bool:
    """Return whether it saves more than the replacements cost that it takes, and enough for what it disrupts."""
    taken = sum(cost for name, cost in idle.items() if name in part.outcome.targets)
    saved = sum(each.cost for each in part.removed) - taken - part.outcome.surplus
    disruption = sum(each.disruption for each in part.removed)
    least = max(threshold(each.provisioner) for each in part.removed)
    reached = score(saved, disruption, totals)
    return saved > 0 and not math.isnan(reached) and reached >= least
