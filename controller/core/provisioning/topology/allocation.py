"""Zones and the like are decided before nodes: each bundle's units are dealt out to cells.

A cell is one value for every label key over which the bundle has a rule (a zone; a zone and a capacity type). Units are
dealt one after the other to the lowest permitted cell, so every step is one that kube-scheduler could take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler, Tolerations
from controller.core.provisioning.packing_style import PackingStyle
from controller.core.provisioning.pods.relaxation import Choice
from controller.core.provisioning.topology.bundles import Bundle, RuleSet, UnitRule
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import RuleKind
from controller.core.scheduling.requirements import Requirement, Requirements

ABSENT = "\0absent"
"""The domain of nodes without the label: anti-affinity does not hold there."""


Reach = Mapping[int, Mapping[str, int]]
"""For each affinity group, how many pods could join in each domain."""


@dataclass(frozen=True, slots=True)
class JointDomain:
    """One value per key, the mask of the nodes that have them, and what a unit costs there ($/hour, 0: room exists)."""

    values: tuple[str, ...]
    mask: Mask
    cost: float


@dataclass(slots=True)
class Allocation:
    """`count` units of a bundle for one cell."""

    bundle: Bundle
    mask: Mask
    domain: JointDomain | None
    count: int


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a set of rules asks of every cell."""

    rules: RuleSet
    active: list[tuple[UnitRule, int]]
    """Rules over label values, each with the position of its key in a cell's values."""
    must: tuple[bool, ...]
    """Per key, whether a node needs the label."""
    obeys: bool
    """Whether any rule is obeyed; else its pods may be bound at any time."""
    outside: tuple[UnitRule, ...]
    """Running pods' anti-affinity over other keys."""

    @classmethod
    def of(cls, rules: RuleSet) -> _Terms:
        places = {key: index for index, key in enumerate(rules.keys)}
        obeyed = [r.group.key for r in rules.domain if r.obeys]
        lasting = {key.key for key in obeyed if key.kind is not RuleKind.ANTI_AFFINITY}
        active = [(rule, places[rule.group.key.key]) for rule in rules.domain if rule.group.key.key in places]
        outside = tuple(
            rule
            for rule in rules.domain
            if rule.group.key.key not in places and rule.matched and rule.group.key.kind is RuleKind.ANTI_AFFINITY
        )
        obeys = any(rule.obeys for rule, _ in active)
        return cls(rules, active, tuple(key in lasting for key in rules.keys), obeys, outside)


@dataclass(slots=True)
class _Dealing:
    """A bundle being dealt out."""

    bundle: Bundle
    terms: _Terms
    domains: list[JointDomain]
    left: int

    @property
    def rules(self) -> list[tuple[UnitRule, int]]:
        """Rules over label values, each with the position of its key in a cell's values."""
        return self.terms.active


class Allocator:
    """Deals bundles out to cells, and keeps the groups' counts."""

    def __init__(self, masks: MaskCompiler, domains: Domains, style: PackingStyle) -> None:
        self.masks = masks
        self.domains = domains
        self.style = style
        self._reach: Reach = {}
        self._joint_domains: dict[object, list[JointDomain]] = {}
        self._terms: dict[int, _Terms] = {}

    def allocate(self, bundles: Sequence[Bundle], *, single: bool = False) -> list[Allocation]:
        """Shares for all that can be dealt out. `single`: one unit of each bundle (then ask again)."""
        allocations: list[Allocation] = []
        dealings = []
        for bundle in bundles:
            if bundle.rules.domain:
                dealings.append(self._dealing(bundle))
            else:
                mask = self.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations)
                allocations.append(Allocation(bundle, mask, None, bundle.count))
        dealings.sort(key=self._turn)
        self._measure_reach(dealings)
        while dealings:
            waiting = []
            for dealing in dealings:
                before = dealing.left
                self._deal(dealing, allocations, single=single)
                if (dealing.left and dealing.left < before and not single) or (dealing.left == before and before):
                    waiting.append(dealing)
            progressed = sum(d.left for d in waiting) < sum(d.left for d in dealings) or len(waiting) < len(dealings)
            if not progressed or single:
                break
            dealings = waiting
        return allocations

    def _turn(self, dealing: _Dealing) -> tuple[bool, int, int, str]:
        """Pods that obey nothing go first (kube-scheduler may bind them at any time), then those that have waited
        longest, then those with least choice."""
        first = dealing.bundle.pod_class
        return (dealing.terms.obeys != self.style.bound_first, -first.waited, len(dealing.domains), first.name)

    def _dealing(self, bundle: Bundle) -> _Dealing:
        terms = self._terms.get(id(bundle.rules))
        if terms is None:
            terms = self._terms[id(bundle.rules)] = _Terms.of(bundle.rules)
        pins = self._exclusions(terms.outside) if terms.outside else None
        choices, tolerations = self._settled(bundle) if self.style.settled else (bundle.choices, bundle.tolerations)
        base = self.masks.mask(bundle.level, choices, pins, tolerations)
        key = (base.index, bundle.request_key, bundle.rules.keys, terms.must)
        domains = self._joint_domains.get(key)
        if domains is None:
            narrow = partial(self.masks.mask, bundle.level, choices, tolerations=tolerations)
            domains = self._joint_domains[key] = self._find_domains(bundle, base, terms.must, pins, narrow)
        if bundle.blocked:
            domains = [domain for domain in domains if domain.values not in bundle.blocked]
        return _Dealing(bundle, terms, domains, bundle.count)

    def _settled(self, bundle: Bundle) -> tuple[tuple[Choice, ...], Tolerations]:
        """The bundle's choices and tolerations, with those of spreads that may count it, and then surely do."""
        level = bundle.level
        choices = bundle.choices
        tolerations = bundle.tolerations or ((level.tolerations, level.avoids_preferred_taints),)
        for rule in bundle.rules.domain:
            group = rule.group
            if rule.obeys or not rule.matched or not group.required or group.key.kind is not RuleKind.SPREAD:
                continue
            counted = group.key.node_filter
            if any(len(terms) > 1 for terms in counted.choices):
                continue  # a node settles an open label for one of OR terms: which one, nobody knows here
            more = (*choices, *counted.choices)
            tolerated = tolerations if counted.tolerations is None else (*tolerations, (counted.tolerations, False))
            if np.isfinite(self.domains.cost(self.masks.mask(level, more, None, tolerated), bundle.request)):
                choices, tolerations = more, tolerated
        return choices, tolerations

    def _find_domains(
        self,
        bundle: Bundle,
        base: Mask,
        must: tuple[bool, ...],
        pins: Requirements | None,
        narrow: Callable[[Requirements], Mask],
    ) -> list[JointDomain]:
        domains, keys = [], bundle.rules.keys
        values_of = [self.domains.values(key, base) for key in keys]
        options = [values if needed else [*values, ABSENT] for values, needed in zip(values_of, must, strict=True)]
        for values in product(*options):
            pinned = Requirements(
                (*(pins.values() if pins else ()), *(_pin(k, v) for k, v in zip(keys, values, strict=True)))
            )
            mask = narrow(pinned) if pinned else base
            cost = self.domains.cost(mask, bundle.request)
            if np.isfinite(cost):
                domains.append(JointDomain(values, mask, cost))
        return domains

    def _exclusions(self, outside: tuple[UnitRule, ...]) -> Requirements | None:
        """Running pods' anti-affinity alone needs no cell: their domains are left out."""
        found = []
        for rule in outside:
            values = sorted(value for value, owners in rule.group.owners.items() if owners)
            if values:
                found.append(Requirement.of(rule.group.key.key, "NotIn", values))
        return Requirements(found) if found else None

    def _measure_reach(self, dealings: list[_Dealing]) -> None:
        """For each affinity group, how many pods could join in each domain: where its first pod should go."""
        reach: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for dealing in dealings:
            for rule, place in dealing.rules:
                if rule.group.key.kind is RuleKind.AFFINITY and rule.obeys:
                    for domain in dealing.domains:
                        reach[rule.group.index][domain.values[place]] += dealing.left
        self._reach = reach

    def _deal(self, dealing: _Dealing, allocations: list[Allocation], *, single: bool) -> None:
        given: dict[tuple[str, ...], int] = defaultdict(int)
        if not single:
            self._deal_evenly(dealing, given)
        unlimited = not single and self._unlimited(dealing)
        while dealing.left and not (single and given):
            best = _best(dealing, self._reach)
            if best is None:
                break
            self._give(dealing, best, dealing.left if unlimited else 1, given)
        if given:
            by_values = {domain.values: domain for domain in dealing.domains}
            allocations.extend(
                Allocation(dealing.bundle, by_values[v].mask, by_values[v], n) for v, n in given.items() if n
            )

    def _unlimited(self, dealing: _Dealing) -> bool:
        """Nothing but affinity holds: all may go to one cell."""
        return not any(
            rule.matched and (rule.obeys or rule.group.required) and rule.group.key.kind is not RuleKind.AFFINITY
            for rule, _ in dealing.rules
        )

    def _deal_evenly(self, dealing: _Dealing, given: dict[tuple[str, ...], int]) -> None:
        """Whole rounds at once, where one spread rule binds and its domains stand level."""
        each = dealing.left // max(1, len(dealing.domains))
        if each < 2 or len(dealing.rules) != 1 or dealing.rules[0][0].group.key.kind is not RuleKind.SPREAD:
            return
        rule, group = dealing.rules[0][0], dealing.rules[0][0].group
        if not rule.matched:
            return
        values = {domain.values[0] for domain in dealing.domains}
        counts = {group.max_matched.get(value, 0) for value in values} | {
            group.min_matched.get(value, 0) for value in values
        }
        if values == group.domains and len(counts) == 1 and group.key.min_domains <= len(values):
            for domain in dealing.domains:
                self._give(dealing, domain, each, given)

    def _give(self, dealing: _Dealing, domain: JointDomain, amount: int, given: dict[tuple[str, ...], int]) -> None:
        given[domain.values] += amount
        dealing.left -= amount
        self.record(dealing.rules, domain, amount)

    def record(self, rules: list[tuple[UnitRule, int]], domain: JointDomain, amount: int) -> None:
        """Count units (negative: take back) in a cell."""
        for rule, place in rules:
            group = rule.group
            value = domain.values[place]
            if value == ABSENT:
                continue
            surely, maybe = self.domains.counted(group, domain.mask)
            if maybe:
                group.max_matched[value] += amount * rule.matched
                if rule.unconstrained:
                    group.unconstrained[value] += amount * rule.matched
            if surely:
                group.min_matched[value] += amount * rule.matched
            group.owners[value] += amount * rule.owned

    def take_back(self, allocation: Allocation, amount: int) -> None:
        """Units that found no room in their cell after all."""
        if allocation.domain is None:
            return
        keys = allocation.bundle.rules.keys
        rules = [(r, keys.index(r.group.key.key)) for r in allocation.bundle.rules.domain if r.group.key.key in keys]
        self.record(rules, allocation.domain, -amount)
        allocation.bundle.blocked.add(allocation.domain.values)


def _pin(key: str, value: str) -> Requirement:
    return Requirement.of(key, "DoesNotExist") if value == ABSENT else Requirement.of(key, "In", (value,))


def _best(dealing: _Dealing, reach: Reach) -> JointDomain | None:
    """The permitted cell with the lowest score: others' rules kept, most followers reached, fewest there, cheapest."""
    best: JointDomain | None = None
    best_score: tuple[float, ...] = ()
    rules = [(rule, place, rule.group, rule.group.key.kind, _bar(rule)) for rule, place in dealing.rules]
    for domain in dealing.domains:
        strained = level = followers = beside = 0
        for rule, place, group, kind, bar in rules:
            value = domain.values[place]
            if kind is RuleKind.SPREAD and value != ABSENT:
                count = group.max_matched.get(value, 0)
                if count > bar:
                    if rule.obeys:
                        break
                    strained += 1
                if rule.matched:
                    level += count
                else:
                    beside += count
            elif not _permits(rule, value):
                break
            elif kind is RuleKind.AFFINITY:
                if not group.has_matched:
                    followers += reach.get(group.index, {}).get(value, 0)
                elif not rule.obeys and group.batch_owners and not group.max_matched.get(value, 0):
                    strained += 1
        else:
            score = (strained, -followers, level, domain.cost, beside)
            if best is None or score < best_score:
                best, best_score = domain, score
    return best


def _bar(rule: UnitRule) -> float:
    """Spread: how many matched pods a domain may have before one more unit is too much; pods not bound mind it too."""
    group = rule.group
    if group.key.kind is not RuleKind.SPREAD or not (rule.obeys or (rule.matched and group.required)):
        return np.inf
    return group.global_minimum() + group.key.max_skew - rule.matched


def _permits(rule: UnitRule, value: str) -> bool:
    """Whether affinity and anti-affinity allow one more unit in the domain; spread only asks that there is one."""
    group = rule.group
    kind = group.key.kind
    if value == ABSENT:
        return kind is RuleKind.ANTI_AFFINITY or not rule.obeys
    if kind is RuleKind.ANTI_AFFINITY:
        if rule.obeys and (group.max_matched.get(value, 0) or rule.matched > 1):
            return False
        return not (rule.matched and group.owners.get(value, 0) > 0)
    if kind is RuleKind.SPREAD or not rule.obeys:
        return True
    return group.max_matched.get(value, 0) > 0 or (rule.matched > 0 and not group.has_matched)
