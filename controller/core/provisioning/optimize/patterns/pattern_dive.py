"""Cover an end state by patterns: the linear program, and dives through it to a whole packing.

A dive packs what the program uses whole, else the pattern that it uses most, and solves the program again for what is
left, with the same patterns. Other dives take the second most used at one step or other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.core.provisioning.optimize.bin_groups import (
    BinGroups,
    count_existing,
    cover_by_patterns,
    keep_within_limits,
    use_existing_once,
)
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.linear_program import INFINITY, WHOLE, LinearProgram
from controller.core.provisioning.resource_space import Floats, Ints


@dataclass(frozen=True, slots=True)
class PatternCover:
    """The program over P patterns. used: the columns of patterns. choices: part by part, those of its end states.

    cover, available, limited: the rows of item types, of existing nodes and of limits.
    """

    program: LinearProgram
    used: Ints
    choices: list[Ints]
    cover: Ints
    available: Ints
    limited: Ints


@dataclass(frozen=True, slots=True)
class Rest:
    """What is to be packed: one end state of each part (`wholes`, S x D units each), into bins of these groups.

    available: G, bins left of each. limits: L, what is left of each. cost: of patterns (P x D, P groups), $/hour.
    dear: $/hour of a unit that is left out.
    """

    groups: BinGroups
    wholes: Sequence[Ints]
    available: Floats
    limits: Floats
    cost: Callable[[Floats, Ints], Floats]
    dear: float

    def covered(self, units: Floats, group: Ints) -> PatternCover:
        """Let bins with these patterns (units P x D, group P) cover an end state within limits."""
        program, choices = LinearProgram(), list[Ints]()
        used, cover = cover_by_patterns(program, units, self.cost(units, group), np.zeros(units.shape[1]), self.dear)
        for states in self.wholes:
            chosen, one = program.columns(np.zeros(len(states))), program.rows(np.ones(1), np.ones(1))
            program.matrix(cover, chosen, -states.astype(np.float64))
            program.entries(np.repeat(one, len(states)), chosen, 1.0)
            choices.append(chosen)
        available = use_existing_once(program, self.groups, used, group, self.available)
        limited = keep_within_limits(program, used, self.groups.takes[group], self.limits)
        return PatternCover(program, used, choices, cover, available, limited)

    def add(self, cover: PatternCover, units: Floats, group: Ints) -> None:
        """Add patterns to the program."""
        program = cover.program
        used = program.columns(self.cost(units, group))
        program.matrix(cover.cover, used, units)
        count_existing(program, self.groups, used, group, cover.available)
        program.matrix(cover.limited, used, self.groups.takes[group])

    def chosen(self, cover: PatternCover, values: Floats) -> Ints:
        """Return the units (D) of the end states that a solution uses most, one of each part."""
        states = (each[np.argmax(values[own])] for each, own in zip(self.wholes, cover.choices, strict=True))
        return np.asarray(sum(states))


def dives(rest: Rest, units: Floats, group: Ints, turns: Sequence[Sequence[int]]) -> Iterator[Packing]:
    """Yield whole packings of patterns at hand (units P x D, group P), at most one for each of the turns.

    turns: step by step, 0 for the pattern that is used most, 1 for the one after it; 0 after the last of them.
    """
    takes = rest.groups.takes[group]
    within = ((takes <= rest.limits) | (takes <= 0)).all(axis=1)
    units, group = units[within], group[within]
    if any(len(states) > 1 for states in rest.wholes):
        cover = rest.covered(units, group)
        values = cover.program.solve(presolve=False).values
        rest = replace(rest, wholes=[rest.chosen(cover, values)[None]])
    dive = _Dive(rest, units, group)
    for each in turns:
        packing = dive.run(each)
        if packing is not None:
            yield packing


class _Dive:
    """Dives through the program over the only end state. units, group: its patterns (P x D, P)."""

    def __init__(self, rest: Rest, units: Floats, group: Ints) -> None:
        self.rest, self.units, self.group = rest, units, group
        self.takes = rest.groups.takes[group]
        self.asked: Floats = np.sum([states[0] for states in rest.wholes], axis=0).astype(np.float64)
        self.cover = rest.covered(units, group)
        self.first: Floats = self.cover.program.solve_again().values[self.cover.used]
        self._known: dict[tuple[bytes, bytes, bytes], Floats] = {}
        """By what is left of units, bins and limits how often the program uses each pattern (P): dives often come to
        the same."""

    def run(self, turns: Sequence[int]) -> Packing | None:
        """Return a whole packing; None where the patterns do not come to one."""
        rest, left, used = self.rest, self.asked, self.first
        available, limits, rows = rest.available.copy(), rest.limits, [list(rows) for rows in rest.groups.numbers]
        bins, step = list[Bin](), 0
        while (used >= 0).any():
            whole = np.flatnonzero(used >= 1.0 - WHOLE)
            if not len(whole):
                order = np.argsort(-used, kind="stable")
                turn = turns[step] if step < len(turns) and (used >= 0).sum() > turns[step] else 0
                whole, step = order[turn : turn + 1], step + 1
            times = np.maximum(1, np.floor(used[whole] + WHOLE)).astype(np.int64)
            for place in np.repeat(whole, times).tolist():
                taken, number = np.minimum(self.units[place], left), int(self.group[place])
                if taken.any():
                    existing = number >= rest.groups.types
                    bins.append(Bin(existing, rows[number].pop() if existing else rows[number][0], taken))
                    left, available[number] = left - taken, available[number] - 1
                    limits = limits - rest.groups.takes[number]
            if not left.any():
                return Packing(bins, left)
            used = self._solved(left, available, limits)
        return None

    def _solved(self, left: Floats, available: Floats, limits: Floats) -> Floats:
        """Solve the program for these units (D), bins (G) and limits (L); -1 for patterns that are of no use then."""
        key = left.tobytes(), available.tobytes(), limits.tobytes()
        if key not in self._known:
            usable = (self.units * left).any(axis=1) & (available[self.group] >= 1)
            usable &= ((self.takes <= limits) | (self.takes <= 0)).all(axis=1)
            cover, program, types = self.cover, self.cover.program, self.rest.groups.types
            program.change_ceilings(cover.used, np.where(usable, INFINITY, 0.0))
            # The end state is still chosen: its units are asked for, less those that are packed.
            program.change_bounds(cover.cover, left - self.asked, np.full(len(left), INFINITY))
            program.change_bounds(cover.available, np.full(len(cover.available), -INFINITY), available[types:])
            program.change_bounds(cover.limited, np.full(len(cover.limited), -INFINITY), np.maximum(limits, 0.0))
            self._known[key] = np.where(usable, program.solve_again().values[cover.used], -1.0)
        return self._known[key]
