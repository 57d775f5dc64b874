"""Count pods per node for the topology groups over kubernetes.io/hostname, and say what they allow.

The global minimum of a hostname spread is 0, as in Karpenter v0.27: a node that is just launched is an empty domain.
Pods that a spread counts but does not bind are held to its maxSkew too, on nodes with owners: the plan then holds in
whatever order kube-scheduler binds pods. Plans with `constrained_first` assume that unconstrained pods are bound last.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.provisioning.topology.groups import RuleKind, UnitRule


class HostCounts:
    """Pods per row of the NodeTable, by group: arrays of `room` entries, which grow with the table.

    _matched, _owners: pods that the group counts / whose rule it is. _unconstrained: with `constrained_first`, the
    matched pods that no rule binds, which do not count for the spread then.
    """

    def __init__(self, room: int, *, constrained_first: bool = False) -> None:
        self._room = room
        self._constrained_first = constrained_first
        self._unconstrained: dict[int, Floats] = defaultdict(self._none)
        self._matched: dict[int, Floats] = defaultdict(self._none)
        self._owners: dict[int, Floats] = defaultdict(self._none)

    def seed(self, group: int, row: int, matched: int, owners: int) -> None:
        """Add running pods on an existing node's row."""
        self._matched[group][row] += matched
        self._owners[group][row] += owners

    def of_existing(self, rows: int, room: int) -> HostCounts:
        """Return the counts of the first `rows` rows, the existing nodes, with room for `room` rows."""
        own = HostCounts(room, constrained_first=self._constrained_first)
        for arrays, mine in (
            (self._matched, own._matched),
            (self._owners, own._owners),
            (self._unconstrained, own._unconstrained),
        ):
            for group, array in arrays.items():
                mine[group][:rows] = array[:rows]
        return own

    def counts(self, group: int, rows: int) -> tuple[Floats, Floats]:
        """Return matched pods and owners on each of the first `rows` rows. Shared: do not change them."""
        return self._matched[group][:rows], self._owners[group][:rows]

    def grow(self, room: int) -> None:
        """Grow all arrays to `room` rows."""
        if room == self._room:
            return
        for arrays in (self._matched, self._owners, self._unconstrained):
            for group, array in arrays.items():
                arrays[group] = np.concatenate([array, np.zeros(room - len(array))])
        self._room = room

    def _none(self) -> Floats:
        return np.zeros(self._room)

    def admits(self, rule: UnitRule, rows: slice) -> Bools | None:
        """Return for each row whether the rule allows one more unit; None: on every row."""
        key, matched = rule.group.key, self._matched[rule.group.index][rows]
        if key.kind is RuleKind.AFFINITY:
            return matched > 0 if rule.obeys else None
        owners = self._owners[rule.group.index][rows]
        if key.kind is RuleKind.ANTI_AFFINITY:
            if not rule.obeys:
                return owners == 0 if rule.matched else None
            unmatched = matched == 0 if rule.matched <= 1 else np.zeros(len(matched), dtype=np.bool_)
            return unmatched & (owners == 0) if rule.matched else unmatched
        if not self._limits(rule):
            return None
        within = self._binding(rule, rows) <= key.max_skew - rule.matched
        return within if rule.obeys else within | (owners == 0)

    def cap(self, rule: UnitRule, rows: Ints) -> Floats | float:
        """Return how many units the rule allows on each of these rows, all of which it admits one unit to."""
        key = rule.group.key
        if key.kind is RuleKind.AFFINITY or not rule.matched:
            return np.inf
        if key.kind is RuleKind.ANTI_AFFINITY:
            return 1.0 if rule.obeys or rule.owned else np.inf
        if not self._limits(rule):
            return np.inf
        left: Floats = np.floor((key.max_skew - self._binding(rule, rows)) / rule.matched)
        return left if rule.obeys else np.where(self._owners[rule.group.index][rows] > 0, left, np.inf)

    def _binding(self, rule: UnitRule, rows: slice | Ints) -> Floats:
        """Return for each row the matched pods that count for a spread."""
        matched = self._matched[rule.group.index][rows]
        if self._constrained_first:
            matched = matched - self._unconstrained[rule.group.index][rows]
        return matched

    def _limits(self, rule: UnitRule) -> bool:
        """Return whether a spread limits the unit: the unit obeys it, or would break it for pods that do."""
        last = self._constrained_first and rule.unconstrained
        return rule.obeys or (rule.matched > 0 and rule.group.required and not last)

    def empty_cap(self, rule: UnitRule) -> float:
        """Return how many units an empty row may take."""
        key = rule.group.key
        if key.kind is RuleKind.AFFINITY:
            return 0.0 if rule.obeys else np.inf
        if key.kind is RuleKind.ANTI_AFFINITY:
            if not rule.obeys:
                return np.inf
            return np.inf if not rule.matched else 1.0 if rule.matched == 1 else 0.0
        if not rule.obeys or not rule.matched:
            return np.inf
        return float(key.max_skew // rule.matched)

    def add(self, rule: UnitRule, rows: Ints | int, counts: Floats | int) -> None:
        """Count `counts` units placed on each row."""
        if rule.matched:
            self._matched[rule.group.index][rows] += rule.matched * counts
            if self._constrained_first and rule.unconstrained:
                self._unconstrained[rule.group.index][rows] += rule.matched * counts
        if rule.owned:
            self._owners[rule.group.index][rows] += rule.owned * counts
