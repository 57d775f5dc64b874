"""Search all ways to use patterns, guided by the duals of their linear program: exact where states are few enough.

A state is what remains to be placed. The cost of a way to it and the worth of what remains, by the duals, are together
no more than what any packing through it costs, so states for which they come to as much as the best packing known are
dropped. Every step takes a pattern with the first item type that remains, so equal sets of patterns are tried once.
Where states are too many the least promising are dropped: the least that they could have cost is part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.resource_space import Floats, Ints

PAIRS = 60_000
"""Pairs of state and pattern worked on at once."""
TOLERANCE = 1e-9
FEWEST_STATES = 20
"""States kept after each step, whatever the pairs."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """P patterns. units: P x D. reduced: P, $/hour, what a bin costs less the worth of the units; 0 at least.

    An existing node costs what the duals charge for it; holding nothing is one of its patterns.
    """

    units: Ints
    reduced: Floats


@dataclass(slots=True)
class _Layer:
    """S states after a step. left: S x D. least: S, $/hour. parent: the state before. pattern: the one used, or -1."""

    left: Ints
    least: Floats
    parent: Ints
    pattern: Ints


@dataclass(frozen=True, slots=True)
class SearchResult:
    """least: $/hour, no packing costs less. cost: of the packing found, infinite without one.

    start: the row of its first state. existing: the pattern that each existing node takes, or -1. new: patterns.
    """

    least: float
    cost: float
    start: int = -1
    existing: tuple[int, ...] = ()
    new: tuple[int, ...] = ()


class PatternSearch:
    """The search. worth: D, $/hour of a unit, in the order in which item types are looked at.

    new: patterns of new nodes. existing: those of each existing node. most: $/hour, packings must cost less. pairs: of
    state and pattern in each step; an existing node with free room has many more patterns than new nodes may have.
    """

    def __init__(self, worth: Floats, new: Patterns, existing: list[Patterns], most: float, pairs: int) -> None:
        self.worth = worth
        self.new = new
        self.existing = existing
        self.most = most
        widest = max([1, *(len(each.reduced) for each in (new, *existing))])
        self.states = max(FEWEST_STATES, pairs // widest)
        self.least = np.inf
        self.layers: list[_Layer] = []
        self.goal: _Layer | None = None
        self.depth = 0
        self.radix: Ints = np.ones(len(worth), dtype=np.int64)
        self.with_item = list[Ints]()
        for item in range(len(worth)):
            chosen = np.flatnonzero(new.units[:, item])
            self.with_item.append(chosen[np.argsort(new.reduced[chosen], kind="stable")])

    def run(self, starts: Ints, least: Floats) -> SearchResult:
        """Search from the states (S x D units) that packings may place, each with the least that one costs."""
        self.radix = np.append(np.cumprod((starts.max(axis=0) + 1)[:0:-1])[::-1], 1).astype(np.int64)
        none = np.full(len(starts), -1, dtype=np.int64)
        self._keep(_Layer(starts.astype(np.int16), least, np.arange(len(starts)), none))
        for patterns in self.existing:
            self._keep(self._steps(np.arange(len(self.layers[-1].least)), patterns, np.arange(len(patterns.reduced))))
        while len(self.layers[-1].least):
            layer = self.layers[-1]
            first = np.argmax(layer.left > 0, axis=1)
            parts = [
                self._steps(np.flatnonzero(first == item), self.new, self.with_item[item])
                for item in np.unique(first).tolist()
            ]
            self._keep(_joined(parts))
        return self._result()

    def _steps(self, states: Ints, patterns: Patterns, chosen: Ints) -> _Layer:
        """Use each of these patterns, in order of their reduced costs, after each of these states."""
        layer, order = self.layers[-1], np.argsort(patterns.reduced[chosen], kind="stable")
        chosen = chosen[order]
        reduced = patterns.reduced[chosen]
        ways = np.searchsorted(reduced, self.most - TOLERANCE - layer.least[states], side="left")
        parts = []
        for block in _blocks(np.cumsum(ways)):
            some, number = states[block], ways[block]
            source = np.repeat(some, number)
            if not len(source):
                continue
            pattern = chosen[np.arange(len(source)) - np.repeat(np.cumsum(number) - number, number)]
            left = layer.left[source] - patterns.units[pattern].astype(np.int16)
            over = np.minimum(left, 0)
            least = layer.least[source] + patterns.reduced[pattern] - over @ self.worth
            kept = np.flatnonzero(least < self.most - TOLERANCE)
            left = np.maximum(left[kept], 0, dtype=np.int16)
            parts.append(self._distinct(_Layer(left, least[kept], source[kept], pattern[kept])))
        return _joined(parts) if parts else _Layer(layer.left[:0], np.zeros(0), states[:0], states[:0])

    def _distinct(self, layer: _Layer) -> _Layer:
        """Return the cheapest of equal states."""
        key = layer.left.astype(np.int64) @ self.radix
        order = np.lexsort((layer.least, key))
        key = key[order]
        kept = order[np.concatenate([[True], key[1:] != key[:-1]])] if len(order) else order
        return _some(layer, kept)

    def _keep(self, layer: _Layer) -> None:
        """Take a layer in: whole packings, and the most promising of its other states."""
        layer = self._distinct(layer)
        whole = np.flatnonzero(~layer.left.any(axis=1))
        staged = len(self.layers) >= len(self.existing)
        if staged and len(whole):
            best = int(whole[np.argmin(layer.least[whole])])
            if layer.least[best] < self.most:
                self.most = float(layer.least[best])
                self.goal, self.depth = _some(layer, np.array([best])), len(self.layers)
            rest = np.flatnonzero(layer.left.any(axis=1))
            layer = _some(layer, rest)
        layer = _some(layer, np.flatnonzero(layer.least < self.most - TOLERANCE))
        if len(layer.least) > self.states:
            order = np.argsort(layer.least, kind="stable")
            self.least = min(self.least, float(layer.least[order[self.states]]))
            layer = _some(layer, order[: self.states])
        self.layers.append(layer)

    def _result(self) -> SearchResult:
        least = min(self.most, self.least)
        if self.goal is None:
            return SearchResult(least, np.inf)
        used, state = [int(self.goal.pattern[0])], int(self.goal.parent[0])
        for layer in reversed(self.layers[: self.depth]):
            used.append(int(layer.pattern[state]))
            state = int(layer.parent[state])
        steps, existing = tuple(used[-2::-1]), len(self.existing)
        return SearchResult(least, self.most, state, steps[:existing], steps[existing:])


def _blocks(ends: Ints) -> Iterator[slice]:
    """Yield blocks of states with at most `PAIRS` pairs, one state at least. ends: pairs up to each state's last."""
    begin = 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + PAIRS, side="right")))
        yield slice(begin, end)
        begin = end


def _some(layer: _Layer, rows: Ints) -> _Layer:
    return _Layer(layer.left[rows], layer.least[rows], layer.parent[rows], layer.pattern[rows])


def _joined(parts: list[_Layer]) -> _Layer:
    return _Layer(
        np.concatenate([each.left for each in parts]),
        np.concatenate([each.least for each in parts]),
        np.concatenate([each.parent for each in parts]),
        np.concatenate([each.pattern for each in parts]),
    )
