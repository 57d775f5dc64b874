"""Pack a small batch optimally, with a proof: topology domains and nodes are chosen together.

One dynamic program (`exact_packing`) computes the cost of every number of units of every class in every joint domain.
Of the states that place all pods, and in which all rules over domains hold (`end_states`), the cheapest is the optimum.
Where it would take too many states, column generation bounds the optimum, and searches for it (`column_generation`);
once refinement has a good packing, numbers of bins prove more (`bin_counts`). Where domains can be chosen in too many
ways, they are left out, then the integers: what remains is a lower bound.

Batches are left alone that have rules which this does not state exactly: affinity over hosts, shared volumes, spreads
and anti-affinity over hosts that count pods without binding them, spreads that may count a pod or not, and preferences
that part of a class's pods gave up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.optimize.bin_groups import TOLERANCE, existing_first, find_bins, within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.bin_types import LoadPrices, load_prices
from controller.core.provisioning.optimize.build import Packing
from controller.core.provisioning.optimize.covering import Covering, cover
from controller.core.provisioning.optimize.exact_packing import MOST_UNITS, Admissible, few_states, pack_exactly
from controller.core.provisioning.optimize.patterns.column_generation import ColumnGeneration, Effort, Searched
from controller.core.provisioning.optimize.writer import Writer
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.packing.placed_shares import shares
from controller.core.provisioning.packing.rounds import Rounds
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.provisioning.topology.allocation import Allocation, JointDomain
from controller.core.provisioning.topology.bundles import Bundle
from controller.core.provisioning.topology.end_states import EndStates, FixedCounts, most_units, whole_states
from controller.core.provisioning.topology.groups import RuleKind, UnitRule

MOST_LIMIT_PRICES = 6
"""Prices of limits at which it is solved at most."""
FIRST_LIMIT_PRICE = 0.125
"""The first of them: a part of the known cost for all that a limit leaves."""


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """least: $/hour, as the solver counts cost; no plan that places the same pods costs less.

    packer: the best packing known, or None where only a lower bound is known. searched: it is the best of a search
    among whole packings, so that little is left for refinement. optimal: a search found that nothing costs less.
    more: spends more work, given the cost ($/hour) of the best packing known; None: there is nothing left to do.
    """

    least: float
    packer: Packer | None = None
    searched: bool = False
    optimal: bool = False
    more: Callable[[float], SmallBatch] | None = None


@dataclass(slots=True)
class _Packed:
    """The cheapest packing found within limits, its cost, and a lower bound of the cost of any, $/hour."""

    packing: Packing = field(default_factory=Packing)
    cost: float = np.inf
    least: float = 0.0

    @property
    def optimal(self) -> bool:
        """Whether none within limits costs less."""
        return self.cost <= self.least * (1.0 + TOLERANCE) + TOLERANCE


@dataclass(slots=True)
class _Kind:
    """Pods equal to all rules, of one class or several. sources: the bundle of each class, with how many pods."""

    sources: list[tuple[Bundle, int]]
    domains: list[JointDomain] = field(default_factory=list)
    """The joint domains that they may go to; empty without rules over domains."""

    @property
    def bundle(self) -> Bundle:
        """The bundle of the first class."""
        return self.sources[0][0]

    @property
    def count(self) -> int:
        """Number of pods."""
        return sum(units for _, units in self.sources)


def pack_small_batch(rounds: Rounds, limits: Limits, most: float, effort: Effort) -> SmallBatch | None:
    """Pack again what a first plan placed. None: the batch is not small, or its rules are not stated exactly.

    limits: of the pools before anything was planned. most: $/hour, the cost of the first plan.
    """
    placed = [(share.allocation, share.units) for share in shares(rounds.packer) if share.units]
    if not placed or sum(units for _, units in placed) > MOST_UNITS:
        return None
    kinds = _kinds(rounds, placed)
    if kinds is None:
        return None
    batch = _Batch(rounds, kinds, _fixed_counts(rounds, placed), most, effort)
    return batch.solved(limits)


class _Batch:
    """The kinds of a small batch. fixed: what rules count beside them. most: see `pack_small_batch`."""

    def __init__(self, rounds: Rounds, kinds: list[_Kind], fixed: FixedCounts, most: float, effort: Effort) -> None:
        self.rounds = rounds
        self.effort = effort
        self.kinds = kinds
        self.fixed = fixed
        self.most = most

    def solved(self, limits: Limits) -> SmallBatch | None:
        """Return the optimum, or the best lower bound at hand."""
        items, ends, of_kind = self._items()
        problem, packed = self._problem(items), _Packed()
        if few_states(problem):
            packed = self._within_limits(problem, None if ends is None else self._admissible(ends, of_kind))
            if packed.optimal:
                return SmallBatch(packed.least, self._written(problem, packed.packing, limits))
            self.most = min(self.most, packed.cost)
        found = self._searched(problem, ends, of_kind, limits)
        found = found or self._bound() or SmallBatch(0.0)
        found = replace(found, least=max(packed.least, found.least))
        if found.packer is None and packed.packing.bins:
            # Nothing cheaper was found.
            found = replace(found, packer=self._written(problem, packed.packing, limits))
        return found if found.least or found.packer is not None else None

    def _within_limits(self, problem: BinPackingProblem, admissible: Admissible | None) -> _Packed:
        """Pack at prices of what limits leave (Lagrangian relaxation) that grow while the packing is beyond a limit.

        At any prices the cost of the cheapest packing, less what all that limits leave would cost, is a lower bound.
        """
        known, left = _Packed(), np.array([limit.left for limit in problem.limits])
        low, high = np.zeros(len(left)), None
        prices = low
        for _ in range(MOST_LIMIT_PRICES):
            found = self._packed(problem, admissible, prices)
            if found is None:
                break
            packing, cost = found
            numbers = [one.number for one in packing.bins if not one.existing]
            taken = np.array([limit.takes[numbers].sum() for limit in problem.limits])
            over = taken > left
            known.least = max(known.least, cost + float(prices @ (taken - left)))
            if not over.any():
                high = prices
                if cost < known.cost:
                    known.packing, known.cost = packing, cost
                if known.optimal:
                    break
            else:
                low = prices
            if high is None:
                first = FIRST_LIMIT_PRICE * self.most / np.maximum(1.0, left)
                prices = np.where(over, np.maximum(2.0 * prices, first), prices)
            else:
                prices = (low + high) / 2.0
        return known

    def _searched(
        self, problem: BinPackingProblem, ends: EndStates | None, of_kind: Sequence[Ints], limits: Limits
    ) -> SmallBatch | None:
        """Return what column generation proves and finds; None where the end states are too many."""
        wholes = whole_states(of_kind, [kind.count for kind in self.kinds], problem.counts, ends)
        if wholes is None:
            return None
        generation = ColumnGeneration(problem, self._load_prices(problem), wholes, self.most, self.effort)
        found = self._batch(problem, generation.searched(), limits)
        if found.optimal:
            return found
        return replace(found, more=partial(self._counted, generation, limits, found.least))

    def _counted(self, generation: ColumnGeneration, limits: Limits, least: float, most: float) -> SmallBatch:
        """Return what numbers of bins prove and find."""
        return self._batch(generation.problem, generation.counted(Searched(least, most, None)), limits)

    def _batch(self, problem: BinPackingProblem, result: Searched, limits: Limits) -> SmallBatch:
        if result.packing is None or not within_limits(problem, result.packing):
            return SmallBatch(result.least, optimal=result.optimal)
        packer = self._written(problem, result.packing, limits)
        return SmallBatch(result.least, packer, searched=True, optimal=result.optimal)

    def _admissible(self, ends: EndStates, of_kind: Sequence[Ints]) -> Admissible:
        """Return the function that says which numbers of units place every pod with all rules kept."""
        counts = [kind.count for kind in self.kinds]

        def admissible(units: Ints) -> Bools:
            flags = np.ones(len(units), dtype=np.bool_)
            for numbers, count in zip(of_kind, counts, strict=True):
                flags &= units[:, numbers].sum(axis=1) == count
            flags[flags] = ends.hold(units[flags])
            return flags

        return admissible

    def _items(self) -> tuple[list[Item], EndStates | None, list[Ints]]:
        """Return an item for each kind in each of its joint domains, the rules over domains,
        and the items of each kind."""
        batch: dict[int, int] = defaultdict(int)
        for kind in self.kinds:
            for rule, _ in kind.bundle.rules.positioned:
                batch[rule.group.index] += rule.matched * kind.count
        items, domains = list[Item](), list[JointDomain | None]()
        of_kind: list[Ints] = []
        for kind in self.kinds:
            first = len(items)
            choices: Sequence[JointDomain | None] = kind.domains or (None,)
            for domain in choices:
                count = kind.count
                if domain is not None:
                    count = int(min(count, most_units(kind.bundle.rules, domain, batch, self.fixed)))
                if count:
                    items.append(_item(len(items), kind, domain, count, self.rounds))
                    domains.append(domain)
            of_kind.append(np.arange(first, len(items)))
        if not any(kind.domains for kind in self.kinds):
            return items, None, of_kind
        rules = [item.allocations[0].bundle.rules for item in items]
        return items, EndStates(list(zip(rules, domains, strict=True)), self.fixed), of_kind

    def _problem(self, items: Sequence[Item]) -> BinPackingProblem:
        return BinPackingProblem(self.rounds.packer, items, anew=True)

    def _packed(
        self, problem: BinPackingProblem, admissible: Admissible | None, limit_prices: Floats | None = None
    ) -> tuple[Packing, float] | None:
        """Return the cheapest packing, Provisioners' limits aside, and its cost ($/hour) by the load of its new nodes.

        limit_prices: of each limit, $/hour that is added for each unit that nodes take of it to find the packing.
        None: it is too much work, or there is none.
        """
        by_load = priced = self._load_prices(problem)
        bin_types = find_bins(problem, self.most, by_load.base).type_numbers
        if limit_prices is not None and limit_prices.any():
            added = sum(price * limit.takes for price, limit in zip(limit_prices.tolist(), problem.limits, strict=True))
            priced = replace(by_load, base=by_load.base + added)
        packing = pack_exactly(problem, bin_types, priced, admissible)
        if packing is None:
            return None
        new = [one for one in packing.bins if not one.existing]
        return packing, sum(float(by_load.of(one.number, one.units @ problem.requests)) for one in new)

    def _load_prices(self, problem: BinPackingProblem) -> LoadPrices:
        return load_prices(problem.catalog, problem.bin_types, self.rounds.packer.premium)

    def _written(self, problem: BinPackingProblem, packing: Packing, limits: Limits) -> Packer:
        """Return the packing as a packer's rows, with items of its own, which hold what it placed of each class."""
        packing = existing_first(problem, packing)
        placed = np.sum([one.units for one in packing.bins], axis=0)
        waiting = {bundle.pod_class.index: units for kind in self.kinds for bundle, units in kind.sources}
        for item_type, units in zip(problem.item_types, placed.tolist(), strict=True):
            item = item_type.parts[0].item
            item = replace(item, allocations=[replace(each) for each in item.allocations])
            item.count = left = int(units)
            for allocation in item.allocations:
                index = allocation.bundle.pod_class.index
                allocation.count = min(left, waiting[index])
                waiting[index] -= allocation.count
                left -= allocation.count
            item_type.count, item_type.sources = item.count, [(item, item.count)]
        return Writer(problem.packer, problem, limits).write(packing)

    def _bound(self) -> SmallBatch | None:
        """Return the optimum without rules over domains, or without integers, too."""
        items = [_item(number, kind, None, kind.count, self.rounds) for number, kind in enumerate(self.kinds)]
        problem = self._problem(items)
        if few_states(problem) and any(kind.domains for kind in self.kinds):
            packed = self._packed(problem, None)
            if packed is not None:
                return SmallBatch(packed[1])
        rows, price = np.flatnonzero(problem.open_to.any(axis=1)), self._load_prices(problem).base
        program = Covering(
            requests=problem.requests,
            counts=problem.counts,
            capacity=np.concatenate([problem.capacity, problem.room[rows]]),
            price=np.concatenate([price, np.zeros(len(rows))]),
            ceiling=np.concatenate([np.full(len(problem.price), np.inf), np.ones(len(rows))]),
            allowed=np.concatenate([problem.allowed, problem.open_to[rows]]),
        )
        optimum = cover(program)
        return None if optimum.unplaced.any() else SmallBatch(optimum.price)


def _kinds(rounds: Rounds, placed: Sequence[tuple[Allocation, int]]) -> list[_Kind] | None:
    """Return the kinds of a first plan's units; None where some rule of theirs is not stated exactly."""
    bundles: dict[int, tuple[Bundle, int]] = {}
    for allocation, units in placed:
        bundle = allocation.bundle
        known, count = bundles.get(bundle.pod_class.index, (bundle, 0))
        if known.members != bundle.members or known.choices != bundle.choices or not _plain(bundle):
            return None
        bundles[bundle.pod_class.index] = (known, count + units)
    kinds: dict[tuple[object, ...], _Kind] = {}
    signatures: set[int] = set()
    for index, (bundle, count) in sorted(bundles.items()):
        if not _one_variant(rounds, index, bundle) or not all(_stated(rule, rounds) for rule in bundle.rules.host):
            return None
        mask = rounds.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations)
        signatures.add(mask.signature)
        domains = rounds.allocator.domains_of(bundle) if bundle.rules.domain else []
        if bundle.rules.domain and not _certain(rounds, bundle, domains):
            return None
        own = id(bundle.rules) if bundle.rules.domain else bundle.rules.identity
        kinds.setdefault((mask.index, bundle.request_key, own), _Kind([], domains)).sources.append((bundle, count))
    return list(kinds.values()) if len(signatures - {0}) <= 1 else None


def _plain(bundle: Bundle) -> bool:
    """Return whether a unit is a single pod that depends on no others of its host."""
    return not bundle.colocated and len(bundle.members) == 1 and not bundle.shared_volumes


def _one_variant(rounds: Rounds, index: int, bundle: Bundle) -> bool:
    """Return whether the level has one variant of its choices only; pods of a class might mix several."""
    steps = next(one.steps for one in rounds.progress if one.pod_class.index == index)
    return sum(number == bundle.members[0].number for number, _, _ in steps) == 1


def _stated(rule: UnitRule, rounds: Rounds) -> bool:
    """Return whether a column of the bin packing problem states a host rule exactly."""
    kind = rule.group.key.kind
    if kind is RuleKind.AFFINITY:
        return not rule.group.batch_owners
    if kind is RuleKind.ANTI_AFFINITY:
        return rule.matched > 0 and (rule.obeys or not len(rounds.masks.existing))
    return rule.obeys and rule.matched > 0 if rule.group.required or rule.obeys else True


def _certain(rounds: Rounds, bundle: Bundle, domains: Sequence[JointDomain]) -> bool:
    """Return whether it is certain of each domain which spreads count the units there."""
    counts = (rounds.domains.counted(rule.group, each.mask) for rule, _ in bundle.rules.positioned for each in domains)
    return all(surely and maybe for surely, maybe in counts)


def _fixed_counts(rounds: Rounds, placed: Sequence[tuple[Allocation, int]]) -> FixedCounts:
    """Return the groups' counts without the plan's units."""
    groups = rounds.topology.groups.values()
    matched = {group.index: dict(group.max_matched) for group in groups}
    owners = {group.index: dict(group.owners) for group in groups}
    for allocation, units in placed:
        for rule, place in allocation.bundle.rules.positioned if allocation.domain is not None else ():
            value = allocation.domain.values[place] if allocation.domain is not None else ""
            if value in matched[rule.group.index]:
                matched[rule.group.index][value] -= rule.matched * units
            if value in owners[rule.group.index]:
                owners[rule.group.index][value] -= rule.owned * units
    return FixedCounts(matched, owners)


def _item(number: int, kind: _Kind, domain: JointDomain | None, count: int, rounds: Rounds) -> Item:
    """Return an item of up to `count` units of a kind in a joint domain, or anywhere."""
    bundle = kind.bundle
    mask = rounds.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations) if domain is None else domain.mask
    allocations = [Allocation(each, mask, domain, 0) for each, _ in kind.sources]
    asked = [(column, amount) for column, amount in enumerate(bundle.request.tolist()) if amount]
    return Item(number, mask, bundle.request, bundle.rules.host, (), allocations, count, asked=asked)
