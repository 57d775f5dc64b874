"""Allocate bundles to topology domains, before any node is chosen; packing styles are orders in which that is done.

A joint domain is one value for each label key over which the bundle has a rule (a zone; a zone and a capacity type).
Units go one after the other to the permitted domain with the lowest score, so that every step is one that
kube-scheduler could take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.topology.bundles import Bundle
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import EVERY_NODE, NodeFilter, RuleKind, UnitRule
from controller.core.scheduling.requirements import Requirement, Requirements


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """How the allocator orders pods and chooses nodes for them."""

    constrained_first: bool = False
    """Pods with a topology rule come before pods that rules only count. It may place more pods, but relies on
    kube-scheduler binding them in that order."""
    certain_counts: bool = False
    """Units that a spread counts only on some nodes (its node filter) are allocated to those nodes or to the others, so
    that counts are certain; else they are bounds, to both of which the spread is held."""
    in_turn: bool = False
    """Bundles are allocated in turn, one unit each, so that domains fill up together where a spread counts several
    workloads. Else one bundle is allocated as far as possible before the next, and may fill domains that are the only
    ones for later bundles."""
    by_node_share: bool = False
    """Where limits may run out, pods go first that take the least share of a node full of their like, and with it of
    the limits; else those that request the least share of the limits. The first is better where nodes run out of what
    no limit counts, as memory under a limit on CPU."""


def alternative_styles(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Return styles for pods that the default one left out. unsettled: counts of some spread were uncertain."""
    first = PackingStyle(constrained_first=True)
    if not unsettled:
        return (first,)
    return first, PackingStyle(certain_counts=True), PackingStyle(constrained_first=True, certain_counts=True)


def styles_in_turn(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Return styles that may place pods which rules over domains left out in the others."""
    first = PackingStyle(in_turn=True)
    return (first, PackingStyle(in_turn=True, certain_counts=True)) if unsettled else (first,)


MOST_FILTERS = 3
"""Node filters by which the domains of a bundle are split at most: each may double them."""
TURNS = 200
"""With the style `in_turn`: bundles of more units are allocated more than one unit in a turn."""
ABSENT = "\0absent"
"""The domain of nodes without the label: anti-affinity does not apply there."""

Followers = Mapping[int, Mapping[str, int]]
"""By index of an affinity group and domain: how many units with that affinity could join there."""


@dataclass(frozen=True, slots=True)
class JointDomain:
    """A value for each label key of a rule set, then, for each node filter that splits it, the part (`Domains.split`).

    mask: of the nodes with these values. cost: $/hour of a unit there (see `Domains.cost`).
    """

    values: tuple[str, ...]
    mask: Mask
    cost: float


@dataclass(slots=True)
class Allocation:
    """`count` units of a bundle for nodes of one joint domain; None: no topology rule over labels applies."""

    bundle: Bundle
    mask: Mask
    domain: JointDomain | None
    count: int


@dataclass(slots=True)
class _Remaining:
    """`left` units of a bundle that are not allocated yet, and the joint domains that labels and room permit them."""

    bundle: Bundle
    domains: list[JointDomain]
    left: int

    @property
    def rules(self) -> tuple[tuple[UnitRule, int], ...]:
        """See `RuleSet.positioned`."""
        return self.bundle.rules.positioned


class Allocator:
    """Allocates bundles, and keeps the groups' counts of what it allocated."""

    def __init__(
        self, masks: MaskCompiler, domains: Domains, style: PackingStyle, early: frozenset[int] = frozenset()
    ) -> None:
        """`early`: classes, by index, that come before others."""
        self.early = early
        self.masks = masks
        self.domains = domains
        self.style = style
        self._followers: Followers = {}
        self._joint_domains: dict[object, list[JointDomain]] = {}

    def allocate(
        self, bundles: Sequence[Bundle], *, single: bool = False, considerate: bool = False
    ) -> list[Allocation]:
        """Allocate as many units as the rules permit; with `single`, one unit of each bundle at most.

        considerate: only where the rules of units placed before still hold afterwards.
        """
        allocations: list[Allocation] = []
        remaining = []
        for bundle in bundles:
            if bundle.rules.domain:
                remaining.append(self._remaining(bundle))
            else:
                mask = self.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations)
                allocations.append(Allocation(bundle, mask, None, bundle.count))
        remaining.sort(key=self._turn)
        self._count_followers(remaining)
        while remaining:
            before = sum(each.left for each in remaining)
            most = 1 if single else None
            if self.style.in_turn and not single:
                most = 1 + max(each.left for each in remaining) // TURNS
            for each in remaining:
                allocations += self._allocate(each, most=most, considerate=considerate)
            unfinished = [each for each in remaining if each.left]
            stuck = len(unfinished) == len(remaining)
            if self.style.in_turn:
                stuck = sum(each.left for each in unfinished) == before
            if single or stuck:
                break
            remaining = unfinished
        return _merged(allocations) if self.style.in_turn else allocations

    def _turn(self, remaining: _Remaining) -> tuple[bool, bool, int, int, str]:
        """Sort unconstrained pods first (kube-scheduler may bind them at any time), then by wait, then by domains."""
        first = remaining.bundle.pod_class
        constrained = any(rule.obeys for rule, _ in remaining.rules)
        late = first.index not in self.early
        return (late, constrained != self.style.constrained_first, -first.waited, len(remaining.domains), first.name)

    def _remaining(self, bundle: Bundle) -> _Remaining:
        domains = self.domains_of(bundle)
        if bundle.blocked:
            domains = [domain for domain in domains if domain.values not in bundle.blocked]
        return _Remaining(bundle, domains, bundle.count)

    def domains_of(self, bundle: Bundle) -> list[JointDomain]:
        """Return every joint domain that labels and room permit to the bundle. Shared: do not change it."""
        repelled = self._repelled(bundle.rules.repelling)
        base = self.masks.mask(bundle.level, bundle.choices, repelled, bundle.tolerations)
        filters = self._filters(bundle) if self.style.certain_counts else ()
        key = (base.index, bundle.request_key, bundle.rules.keys, bundle.rules.label_required, filters)
        if (domains := self._joint_domains.get(key)) is None:
            narrow = partial(self.masks.mask, bundle.level, bundle.choices, tolerations=bundle.tolerations)
            domains = self._joint_domains[key] = self._find_domains(bundle, base, repelled, narrow, filters)
        return domains

    def _filters(self, bundle: Bundle) -> tuple[NodeFilter, ...]:
        """Return the first node filters of required spreads that match the unit, each once."""
        groups = [rule.group for rule in bundle.rules.domain if rule.matched and rule.group.required]
        filters = (group.key.node_filter for group in groups if group.key.kind is RuleKind.SPREAD)
        return tuple(dict.fromkeys(each for each in filters if each != EVERY_NODE))[:MOST_FILTERS]

    def _find_domains(
        self,
        bundle: Bundle,
        base: Mask,
        repelled: Requirements | None,
        narrow: Callable[[Requirements], Mask],
        filters: Sequence[NodeFilter],
    ) -> list[JointDomain]:
        """Return every joint domain whose nodes, existing or new, can hold a unit.

        base: the bundle's mask over all domains. repelled: domains that are excluded. narrow: the mask for some pins.
        filters: domains are split into the nodes that pass and those that do not.
        """
        keys = bundle.rules.keys
        options = [self.domains.values(key, base) for key in keys]
        options = [
            values if required else [*values, ABSENT]
            for values, required in zip(options, bundle.rules.label_required, strict=True)
        ]
        domains = []
        for combination in product(*options):
            pins = (_pin(key, value) for key, value in zip(keys, combination, strict=True))
            pinned = Requirements((*(repelled.values() if repelled else ()), *pins))
            parts = [(combination, narrow(pinned) if pinned else base)]
            for each in filters:
                parts = [
                    ((*values, tag), part) for values, mask in parts for tag, part in self.domains.split(each, mask)
                ]
            costs = [self.domains.cost(mask, bundle.request) for _, mask in parts]
            domains += [
                JointDomain(values, mask, cost)
                for (values, mask), cost in zip(parts, costs, strict=True)
                if np.isfinite(cost)
            ]
        return domains

    def _repelled(self, rules: Sequence[UnitRule]) -> Requirements | None:
        """Exclude the domains of running pods whose anti-affinity matches the unit, over keys of no other rule."""
        requirements = []
        for rule in rules:
            values = sorted(value for value, owners in rule.group.owners.items() if owners)
            if values:
                requirements.append(Requirement.of(rule.group.key.key, "NotIn", values))
        return Requirements(requirements) if requirements else None

    def _count_followers(self, remaining: Sequence[_Remaining]) -> None:
        """Count the units that could join in each domain: the first goes where most of the others can follow."""
        followers: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for each in remaining:
            for rule, place in each.rules:
                if rule.group.key.kind is RuleKind.AFFINITY and rule.obeys:
                    for domain in each.domains:
                        followers[rule.group.index][domain.values[place]] += each.left
        self._followers = followers

    def _allocate(self, remaining: _Remaining, *, most: int | None, considerate: bool) -> list[Allocation]:
        """Allocate as many units as the rules permit, at most so many."""
        keep = 0 if most is None else max(0, remaining.left - most)
        counts: dict[tuple[str, ...], int] = defaultdict(int)

        def assign(domain: JointDomain, amount: int) -> None:
            counts[domain.values] += amount
            remaining.left -= amount
            self._record(remaining.rules, domain, amount)

        if most is None:
            for domain, amount in _even_rounds(remaining):
                assign(domain, amount)
        at_once = _affinity_alone(remaining)
        while remaining.left > keep:
            best = _best(remaining, self._followers, considerate=considerate)
            if best is None:
                break
            assign(best, remaining.left - keep if at_once else 1)
        by_values = {domain.values: domain for domain in remaining.domains} if counts else {}
        return [Allocation(remaining.bundle, by_values[v].mask, by_values[v], n) for v, n in counts.items() if n]

    def _record(self, rules: Sequence[tuple[UnitRule, int]], domain: JointDomain, amount: int) -> None:
        """Count `amount` units (negative: no longer) in a joint domain, for every group that matches them."""
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
            group.matched_owners[value] += amount * rule.matched_owners

    def take_back(self, allocation: Allocation, amount: int) -> None:
        """Undo the counts of units for which no node of the domain had room, and block the domain for their bundle."""
        if allocation.domain is not None:
            self._record(allocation.bundle.rules.positioned, allocation.domain, -amount)
            allocation.bundle.blocked.add(allocation.domain.values)


def _merged(allocations: Iterable[Allocation]) -> list[Allocation]:
    """Return one allocation for each bundle and joint domain, in the order of the first of each."""
    merged: dict[tuple[int, tuple[str, ...] | None], Allocation] = {}
    for each in allocations:
        key = (id(each.bundle), each.domain.values if each.domain is not None else None)
        if key in merged:
            merged[key].count += each.count
        else:
            merged[key] = each
    return list(merged.values())


def _pin(key: str, value: str) -> Requirement:
    return Requirement.of(key, "DoesNotExist") if value == ABSENT else Requirement.of(key, "In", (value,))


def _affinity_alone(remaining: _Remaining) -> bool:
    """Return whether no spread or anti-affinity restricts the units, so that one domain may take all of them."""
    return not any(
        rule.matched and (rule.obeys or rule.group.required) and rule.group.key.kind is not RuleKind.AFFINITY
        for rule, _ in remaining.rules
    )


def _even_rounds(remaining: _Remaining) -> list[tuple[JointDomain, int]]:
    """Return whole rounds over all domains in one step, where a single spread applies and all domains have equal
    counts.

    The result is that of unit after unit, for thousands of replicas at once.
    """
    each = remaining.left // max(1, len(remaining.domains))
    if each < 2 or len(remaining.rules) != 1:
        return []
    rule, group = remaining.rules[0][0], remaining.rules[0][0].group
    if not rule.matched or group.key.kind is not RuleKind.SPREAD:
        return []
    values = {domain.values[0] for domain in remaining.domains}
    counts = {count.get(value, 0) for value in values for count in (group.max_matched, group.min_matched)}
    if values != group.domains or len(counts) != 1 or group.key.min_domains > len(values):
        return []
    return [(domain, each) for domain in remaining.domains]


def _best(remaining: _Remaining, followers: Followers, *, considerate: bool) -> JointDomain | None:
    """Return the permitted joint domain with the lowest score; None: no domain is permitted.

    considerate: a domain where a rule of units placed before would no longer hold is not permitted.

    The score, in this order: rules of other pods that the unit would violate, minus the units that could follow, pods
    that count towards the unit's own spread, cost, pods that count towards spreads that do not count the unit.
    """
    best: JointDomain | None = None
    best_score: tuple[float, ...] = ()
    rules = [(rule, place, rule.group, rule.group.key.kind, _most_before(rule)) for rule, place in remaining.rules]
    for domain in remaining.domains:
        violated = own = joining = others = 0
        for rule, place, group, kind, most in rules:
            value = domain.values[place]
            if kind is RuleKind.SPREAD and value != ABSENT:
                count = group.max_matched.get(value, 0)
                if count > most:
                    if rule.obeys:
                        break
                    violated += not considerate or group.owners.get(value, 0) > 0
                if rule.matched:
                    own += count
                else:
                    others += count
            elif not _permits(rule, value):
                break
            elif kind is RuleKind.AFFINITY:
                if not group.has_matched:
                    joining += followers.get(group.index, {}).get(value, 0)
                elif not rule.obeys and group.batch_owners and not group.max_matched.get(value, 0):
                    violated += 1
        else:
            if considerate and violated:
                continue
            score = (violated, -joining, own, domain.cost, others)
            if best is None or score < best_score:
                best, best_score = domain, score
    return best


def _most_before(rule: UnitRule) -> float:
    """Return, of a spread, the matched pods that a domain may have at most before one more unit keeps maxSkew.

    It also applies to units that the spread only counts: they would break it for the pods that obey it.
    """
    group = rule.group
    if group.key.kind is not RuleKind.SPREAD or not (rule.obeys or (rule.matched and group.required)):
        return np.inf
    return group.global_minimum() + group.key.max_skew - rule.matched


def _permits(rule: UnitRule, value: str) -> bool:
    """Return whether (anti-)affinity allows one more unit in the domain; of spread, whether it has the label."""
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
