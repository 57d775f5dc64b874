"""Zones and the like are decided before nodes: each piece's units are dealt out to cells.

A cell is one value for every label key over which the piece has a rule (a zone; a zone and a capacity type). Units are
dealt one after the other to the lowest permitted cell, so every step is one that kube-scheduler could take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from controller.core.provisioning.compiler import Mask, MaskCompiler
from controller.core.provisioning.domains import Domains
from controller.core.provisioning.pieces import Piece, UnitRule
from controller.core.provisioning.topology import Group, Kind
from controller.core.scheduling.requirements import Requirement, Requirements

ABSENT = "\0absent"
"""The domain of nodes without the label: anti-affinity does not hold there."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value per key, the mask of the nodes that have them, and what a unit costs there ($/hour, 0: room exists)."""

    values: tuple[str, ...]
    mask: Mask
    cost: float


@dataclass(slots=True)
class Share:
    """`count` units of a piece for one cell."""

    piece: Piece
    mask: Mask
    cell: Cell | None
    count: int


@dataclass(slots=True)
class _Dealing:
    """A piece being dealt out."""

    piece: Piece
    rules: tuple[UnitRule, ...]
    keys: tuple[str, ...]
    cells: list[Cell]
    left: int
    places: dict[str, int]
    """Key → position in a cell's values."""


class Allocator:
    """Deals pieces out to cells, and keeps the groups' counts."""

    def __init__(self, masks: MaskCompiler, domains: Domains) -> None:
        self.masks = masks
        self.domains = domains
        self._reach: dict[int, dict[str, int]] = {}

    def allocate(self, pieces: Sequence[Piece], *, single: bool = False) -> list[Share]:
        """Shares for all that can be dealt out. `single`: one unit of each piece (then ask again)."""
        shares: list[Share] = []
        dealings = []
        for piece in pieces:
            rules = tuple(rule for rule in piece.rules if not rule.host)
            if rules:
                dealings.append(self._dealing(piece, rules))
            else:
                shares.append(
                    Share(
                        piece, self.masks.mask(piece.level, piece.choices, None, piece.tolerations), None, piece.count
                    )
                )
        dealings.sort(key=_turn)
        self._measure_reach(dealings)
        while dealings:
            waiting = []
            for dealing in dealings:
                before = dealing.left
                self._deal(dealing, shares, single=single)
                if (dealing.left and dealing.left < before and not single) or (dealing.left == before and before):
                    waiting.append(dealing)
            progressed = sum(d.left for d in waiting) < sum(d.left for d in dealings) or len(waiting) < len(dealings)
            if not progressed or single:
                break
            dealings = waiting
        return shares

    def _dealing(self, piece: Piece, rules: tuple[UnitRule, ...]) -> _Dealing:
        keys = tuple(sorted({rule.group.key.key for rule in rules if rule.group.batch_owners or rule.obeys}))
        pins = self._exclusions(rules, keys)
        base = self.masks.mask(piece.level, piece.choices, pins, piece.tolerations)
        cells = []
        for values in product(*(self._values(key, base, rules) for key in keys)):
            if values in piece.blocked:
                continue
            pinned = Requirements(
                (*(pins.values() if pins else ()), *(_pin(k, v) for k, v in zip(keys, values, strict=True)))
            )
            mask = self.masks.mask(piece.level, piece.choices, pinned, piece.tolerations) if pinned else base
            cost = self.domains.cost(mask, piece.request)
            if np.isfinite(cost):
                cells.append(Cell(values, mask, cost))
        return _Dealing(piece, rules, keys, cells, piece.count, {key: index for index, key in enumerate(keys)})

    def _exclusions(self, rules: tuple[UnitRule, ...], keys: tuple[str, ...]) -> Requirements | None:
        """Running pods' anti-affinity alone needs no cell: their domains are left out."""
        found = []
        for rule in rules:
            group = rule.group
            if group.key.key not in keys and rule.matched and group.key.kind is Kind.ANTI_AFFINITY:
                values = sorted(value for value, owners in group.owners.items() if owners)
                if values:
                    found.append(Requirement.of(group.key.key, "NotIn", values))
        return Requirements(found) if found else None

    def _values(self, key: str, base: Mask, rules: tuple[UnitRule, ...]) -> list[str]:
        values = self.domains.values(key, base)
        must = any(
            rule.obeys and rule.group.key.key == key and rule.group.key.kind is not Kind.ANTI_AFFINITY for rule in rules
        )
        return values if must else [*values, ABSENT]

    def _measure_reach(self, dealings: list[_Dealing]) -> None:
        """For each affinity group, how many pods could join in each domain: where its first pod should go."""
        self._reach = defaultdict(lambda: defaultdict(int))
        for dealing in dealings:
            for rule in dealing.rules:
                if rule.group.key.kind is Kind.AFFINITY and rule.obeys:
                    place = dealing.places[rule.group.key.key]
                    for cell in dealing.cells:
                        self._reach[rule.group.index][cell.values[place]] += dealing.left

    def _deal(self, dealing: _Dealing, shares: list[Share], *, single: bool) -> None:
        given: dict[tuple[str, ...], int] = defaultdict(int)
        by_values = {cell.values: cell for cell in dealing.cells}
        if not single:
            self._deal_evenly(dealing, given)
        while dealing.left:
            best = None if single and given else self._best(dealing, dealing.cells)
            if best is None:
                break
            amount = dealing.left if self._unlimited(dealing) and not single else 1
            self._give(dealing, best, amount, given)
        for values, amount in given.items():
            if amount:
                cell = by_values[values]
                shares.append(Share(dealing.piece, cell.mask, cell, amount))

    def _unlimited(self, dealing: _Dealing) -> bool:
        """Nothing but affinity holds: all may go to one cell."""
        return not any(
            (rule.obeys or (rule.matched and rule.group.hard)) and rule.group.key.kind is not Kind.AFFINITY
            for rule in dealing.rules
            if rule.group.key.key in dealing.places
        )

    def _deal_evenly(self, dealing: _Dealing, given: dict[tuple[str, ...], int]) -> None:
        """Whole rounds at once, where one spread rule binds and its domains stand level."""
        rules = [rule for rule in dealing.rules if rule.group.key.key in dealing.places]
        each = dealing.left // max(1, len(dealing.cells))
        if each < 2 or len(rules) != 1 or rules[0].group.key.kind is not Kind.SPREAD:
            return
        group = rules[0].group
        values = {cell.values[0] for cell in dealing.cells}
        counts = {group.most.get(value, 0) for value in values} | {group.least.get(value, 0) for value in values}
        if values == group.domains and len(counts) == 1 and group.key.min_domains <= len(values):
            for cell in dealing.cells:
                self._give(dealing, cell, each, given)

    def _best(self, dealing: _Dealing, cells: list[Cell]) -> Cell | None:
        best: Cell | None = None
        best_score: tuple[float, ...] = ()
        for cell in cells:
            score = self._score(dealing, cell)
            if score is not None and (best is None or score < best_score):
                best, best_score = cell, score
        return best

    def _score(self, dealing: _Dealing, cell: Cell) -> tuple[float, ...] | None:
        """Lower is better: others' rules kept, most followers reached, fewest there, cheapest. None: forbidden."""
        strained = level = reach = 0
        for rule in dealing.rules:
            place = dealing.places.get(rule.group.key.key)
            if place is None:
                continue
            value, group = cell.values[place], rule.group
            kind = group.key.kind
            if not _permits(rule, value):
                return None
            if kind is Kind.SPREAD and value != ABSENT:
                level += group.most.get(value, 0)
                if not rule.obeys and rule.matched and group.hard:
                    strained += group.most.get(value, 0) + rule.matched - group.floor() > group.key.max_skew
            elif kind is Kind.AFFINITY and not group.anywhere:
                reach += self._reach.get(group.index, {}).get(value, 0)
            elif kind is Kind.AFFINITY and not rule.obeys:
                strained += group.batch_owners > 0 and not group.most.get(value, 0)
        return (strained, -reach, level, cell.cost)

    def _give(self, dealing: _Dealing, cell: Cell, amount: int, given: dict[tuple[str, ...], int]) -> None:
        given[cell.values] += amount
        dealing.left -= amount
        self.record(dealing.rules, dealing.keys, cell, amount)

    def record(self, rules: tuple[UnitRule, ...], keys: tuple[str, ...], cell: Cell, amount: int) -> None:
        """Count units (negative: take back) in a cell."""
        for rule in rules:
            group = rule.group
            if group.key.key not in keys:
                continue
            value = cell.values[keys.index(group.key.key)]
            if value == ABSENT:
                continue
            surely, maybe = self.domains.counted(group, cell.mask)
            if maybe:
                group.most[value] += amount * rule.matched
            if surely:
                group.least[value] += amount * rule.matched
            group.owners[value] += amount * rule.owned

    def take_back(self, share: Share, amount: int) -> None:
        """Units that found no room in their cell after all."""
        if share.cell is None:
            return
        rules = tuple(rule for rule in share.piece.rules if not rule.host)
        keys = tuple(sorted({rule.group.key.key for rule in rules if rule.group.batch_owners or rule.obeys}))
        self.record(rules, keys, share.cell, -amount)
        share.piece.blocked.add(share.cell.values)


def _turn(dealing: _Dealing) -> tuple[bool, int, str]:
    """Pods that obey nothing go first (kube-scheduler may bind them at any time), then those with the least choice."""
    obeys = any(rule.obeys for rule in dealing.rules)
    return (obeys, len(dealing.cells), dealing.piece.name)


def _pin(key: str, value: str) -> Requirement:
    return Requirement.of(key, "DoesNotExist") if value == ABSENT else Requirement.of(key, "In", (value,))


def _permits(rule: UnitRule, value: str) -> bool:
    """Whether one more unit may go to the domain."""
    group: Group = rule.group
    kind = group.key.kind
    if value == ABSENT:
        return kind is Kind.ANTI_AFFINITY or not rule.obeys
    if kind is Kind.ANTI_AFFINITY:
        if rule.obeys and (group.most.get(value, 0) or rule.matched > 1):
            return False
        return not (rule.matched and group.owners.get(value, 0) > 0)
    if not rule.obeys:
        return True
    if kind is Kind.SPREAD:
        return group.most.get(value, 0) + rule.matched - group.floor() <= group.key.max_skew
    return group.most.get(value, 0) > 0 or (rule.matched > 0 and not group.anywhere)
