"""Judge end states: whether all rules over topology domains hold with so many units in each domain.

The conditions are those of `rounds.holds`, and those of anti-affinity, for many states at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.provisioning.topology.allocation import ABSENT, JointDomain
from controller.core.provisioning.topology.bundles import RuleSet
from controller.core.provisioning.topology.groups import RuleKind, TopologyGroup

MOST_WAYS = 5_000
"""Ways to part units among domains that are looked at together."""


@dataclass(frozen=True, slots=True)
class FixedCounts:
    """Counts of the pods that no plan moves, by group index and domain. owners: with a required rule of the group."""

    matched: Mapping[int, Mapping[str, int]]
    owners: Mapping[int, Mapping[str, int]]


@dataclass(slots=True)
class _GroupStates:
    """One group over V domains and D items.

    matches, obeys: D x V, 1 where an item's units are in the domain and the group counts them, or its rule binds them.
    matched, owners: V, of pods that no plan moves. counts_least: V, the domains over which a spread takes its minimum.
    """

    group: TopologyGroup
    matches: Floats
    obeys: Floats
    matched: Floats
    owners: Floats
    counts_least: Bools

    def hold(self, units: Ints) -> Bools:
        """Return N flags for N states (N x D units)."""
        new, bound = units @ self.matches, units @ self.obeys
        counts = new + self.matched
        kind = self.group.key.kind
        if kind is RuleKind.SPREAD:
            above = (bound > 0) & (counts > self._least(counts) + self.group.key.max_skew)
            return np.asarray(~above.any(axis=1), dtype=np.bool_)
        if kind is RuleKind.AFFINITY:
            present = counts > 0
            together = (present.sum(axis=1) == 1) & ~((bound > 0) & ~present).any(axis=1)
            unmatched = (bound > 0) & (counts <= units @ (self.matches * self.obeys))
            return np.asarray(together | ~unmatched.any(axis=1), dtype=np.bool_)
        alone = (bound == 1) & (new == 1) & (units @ (self.matches * self.obeys) == 1)
        kept_off = (bound > 0) & ((self.matched > 0) | ((new > 0) & ~alone))
        repelled = kept_off | ((new > 0) & (self.owners > 0))
        return np.asarray(~repelled.any(axis=1), dtype=np.bool_)

    def _least(self, counts: Floats) -> Floats:
        """Return N x 1: the global minimum of a spread."""
        domains = self.group.domains
        if not domains or len(domains) < self.group.key.min_domains:
            return np.zeros((len(counts), 1))
        return np.asarray(counts[:, self.counts_least].min(axis=1, keepdims=True))


class EndStates:
    """The rules over domains of D items, each an amount of units with equal rules in one joint domain, or in none."""

    def __init__(self, items: Sequence[tuple[RuleSet, JointDomain | None]], fixed: FixedCounts) -> None:
        parts: dict[int, list[tuple[int, str, bool, bool]]] = defaultdict(list)
        groups: dict[int, TopologyGroup] = {}
        for number, (rules, domain) in enumerate(items):
            for rule, place in rules.positioned if domain is not None else ():
                groups[rule.group.index] = rule.group
                if domain is not None and domain.values[place] != ABSENT:
                    parts[rule.group.index].append((number, domain.values[place], rule.matched > 0, rule.obeys))
        self.groups = [
            _group_states(group, parts[index], len(items), fixed)
            for index, group in sorted(groups.items())
            if any(obeys for _, _, _, obeys in parts[index]) or fixed.owners.get(index)
        ]

    def hold(self, units: Ints) -> Bools:
        """Return N flags: whether every rule holds in each of N states (N x D units)."""
        flags = np.ones(len(units), dtype=np.bool_)
        for each in self.groups:
            flags[flags] = each.hold(units[flags])
        return flags


def whole_states(
    of_kind: Sequence[Ints], counts: Sequence[int], most: Floats, ends: EndStates | None
) -> list[Ints] | None:
    """Return the end states in which every rule holds, part by part: kinds that share a rule are a part.

    None: too many, or a part has none.

    of_kind, counts: the items of each kind, and its units. most: D, units of each item. Each part is S x D units; what
    has one state only is in every state of the first part.
    """
    parts: list[set[int]] = [{number} for number in range(len(of_kind))]
    for group in ends.groups if ends is not None else ():
        tied = {number for number, items in enumerate(of_kind) if (group.matches[items] + group.obeys[items]).any()}
        joined = [part for part in parts if part & tied]
        parts = [part for part in parts if not part & tied] + ([set().union(*joined)] if joined else [])
    wholes, always = list[Ints](), np.zeros((1, len(most)), dtype=np.int64)
    for part in parts:
        states = np.zeros((1, len(most)), dtype=np.int64)
        for number in sorted(part):
            ways = _ways(counts[number], most[of_kind[number]])
            if len(ways) * len(states) > MOST_WAYS:
                return None
            own = np.zeros((len(ways), len(most)), dtype=np.int64)
            own[:, of_kind[number]] = ways
            states = (states[:, None, :] + own[None]).reshape(-1, len(most))
        states = states if ends is None else states[ends.hold(states)]
        if not len(states):
            return None
        if len(states) == 1:
            always = always + states
        else:
            wholes.append(states)
    return [wholes[0] + always, *wholes[1:]] if wholes else [always]


def _ways(count: int, most: Floats) -> Ints:
    """Return N x D: the ways to part so many units among D items, of each at most so many."""
    shape = tuple((most + 1).astype(np.int64).tolist())
    if np.prod([float(each) for each in shape]) > 50 * MOST_WAYS:
        return np.zeros((MOST_WAYS + 1, len(most)), dtype=np.int64)
    ways: Ints = np.indices(shape).reshape(len(most), -1).T
    return np.asarray(ways[ways.sum(axis=1) == count])


def most_units(rules: RuleSet, domain: JointDomain, batch: Mapping[int, int], fixed: FixedCounts) -> float:
    """Return the most units with these rules in a domain. batch: by group, the planned pods that it counts."""
    most = np.inf
    for rule, place in rules.positioned:
        group, value = rule.group, domain.values[place]
        if not (rule.obeys and rule.matched) or value == ABSENT:
            continue
        here = fixed.matched[group.index].get(value, 0)
        if group.key.kind is RuleKind.ANTI_AFFINITY:
            most = min(most, 1.0)
        elif group.key.kind is RuleKind.SPREAD and value in group.domains:
            # The least domain has at most the mean of the others: x <= least + skew, x + (domains - 1) * least <= all.
            total, domains = batch[group.index], len(group.domains)
            total += sum(fixed.matched[group.index].get(each, 0) for each in group.domains)
            least = (total - group.key.max_skew) // domains if domains >= group.key.min_domains else 0
            most = min(most, max(0, least + group.key.max_skew - here))
    return most


def _group_states(
    group: TopologyGroup, parts: Sequence[tuple[int, str, bool, bool]], items: int, fixed: FixedCounts
) -> _GroupStates:
    matched, owners = fixed.matched[group.index], fixed.owners.get(group.index, {})
    values = sorted({*group.domains, *matched, *owners, *(value for _, value, _, _ in parts)})
    place = {value: number for number, value in enumerate(values)}
    matches, obeys = np.zeros((items, len(values))), np.zeros((items, len(values)))
    for number, value, counted, bound in parts:
        matches[number, place[value]], obeys[number, place[value]] = counted, bound
    return _GroupStates(
        group,
        matches,
        obeys,
        np.array([float(matched.get(value, 0)) for value in values]),
        np.array([float(owners.get(value, 0)) for value in values]),
        np.array([value in group.domains for value in values], dtype=np.bool_),
    )
