"""Refinement: pack the units of a first plan again, at a lower cost.

Topology domains stay as the first plan allocated them. Few units are packed optimally (`exact_packing`); others by
builds with several strategies (`build`), by diving where there are few item types, and then by local search. The
cheapest packing is kept if it costs less than the first plan and leaves no more pods out. The budget counts work, not
time: equal problems get equal plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.optimize.bin_groups import TOLERANCE, existing_first, find_bins, within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.bin_types import LoadPrices
from controller.core.provisioning.optimize.build import Bin, Builder, Packing, first_packing
from controller.core.provisioning.optimize.contenders import ABOUT, Contenders
from controller.core.provisioning.optimize.diving import Diving
from controller.core.provisioning.optimize.exact_packing import MOST_UNITS, few_states, pack_exactly
from controller.core.provisioning.optimize.fill import FillStrategy
from controller.core.provisioning.optimize.local_search import Search
from controller.core.provisioning.optimize.pair_repacking import PairRepacking
from controller.core.provisioning.optimize.patterns.pricing import PricedBins
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.optimize.writer import Writer
from controller.core.provisioning.packing.items import make_items
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.packing.rounds import Rounds
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.bundles import Bundle, BundleMember, RuleSet, unit_rules
from controller.core.provisioning.topology.groups import RuleKind

STRATEGIES = (
    FillStrategy(),
    FillStrategy(scarcity=2.0, size=0.05, batch=0.6),
    FillStrategy(size=0.05, batch=0.6, floor=0.2),
    FillStrategy(size=0.2, batch=0.2),
    FillStrategy(scarcity=2.0, batch=0.2, floor=0.2),
    FillStrategy(scarcity=4.0, size=0.1, batch=0.5, floor=0.05),
)
"""Strategies of greedy filling, tried in this order while the budget lasts."""
GREEDY = 0.4
"""The part of the work for builds; the rest is for local search."""
DIVING, DIVING_ITEM_TYPES = 0.35, 100
"""Work for diving, beside that for builds and local search, as a part of it; the most item types for which it pays."""
AT_MOST, PER_ITEM_TYPE = 2.3, 2.5e-3
"""Times the work left after which a build is given up: the first of these or, where there are many item types, which
make every build long, the second for each item type over `SHARE_OF_BUDGET`."""
GOOD = 1.0005
"""A packing that costs at most this many times the linear program's optimum is good enough."""
SMALL, SMALL_IN_VAIN = 4, 2
"""Packings of at most `SMALL` new nodes are final once `SMALL_IN_VAIN` strategies in a row were no cheaper."""
OF_SMALL = 0.15
"""The part of its work that a small problem has: more is in vain."""
SHARE_OF_BUDGET = 0.6
"""The part of the budget given out as work: the first plan takes time, too, and work only approximates time."""


def refine(rounds: Rounds, limits: Limits, budget_seconds: float, *, same_pods: bool = False) -> Packer | None:
    """Return a packer with the units packed again; None if that would leave more units out, or break a rule.

    limits: of the pools before anything was planned. same_pods: it places those that the first plan placed, and no
    others. The caller compares the cost of the two plans.
    """
    packer = rounds.packer
    asked = [] if same_pods else make_items(_leftovers(rounds), rounds.scale)
    problem = BinPackingProblem(packer, asked)
    if not problem.item_types or (packer.table.count == packer.table.existing and not asked):
        return None
    best = cheapest(problem, WorkBudget(SHARE_OF_BUDGET * budget_seconds))
    if best.left.sum() > sum(item.count for item in asked):
        return None
    if (best.left > problem.unplaced)[problem.pinned].any():
        return None
    return Writer(packer, problem, limits).write(best)


def cheapest(problem: BinPackingProblem, work: WorkBudget, most: float = np.inf) -> Packing:
    """Return the cheapest packing that the work allows, one build at least: of several builds, and local search.

    Of few units it is the cheapest one there is, if Provisioners' limits admit it. most: $/hour; of few units one
    packing is built then, and it is repacked pair by pair only if it costs no more.
    """
    best = first_packing(problem)
    # Where pods are left out, the first plan has chosen whom: the pods that have waited longest go first.
    small = bool(problem.counts.sum() <= MOST_UNITS)
    if small:
        work = WorkBudget(OF_SMALL * work.allowed)
    if small and few_states(problem) and not best.left.any():
        exact = pack_exactly(
            problem, find_bins(problem, best.cost(problem)).type_numbers, LoadPrices.flat(problem.price)
        )
        if exact is not None and exact.cost(problem) >= best.cost(problem) - TOLERANCE:
            return existing_first(problem, best)
        if exact is not None and within_limits(problem, exact):
            return existing_first(problem, exact)
    contenders = Contenders(problem, 0.0 if small else ABOUT)
    contenders.add(best)
    once = small and (not best.left.any() or most < np.inf)
    best, finished = _build(problem, best, work, contenders, STRATEGIES[:1] if once else STRATEGIES)
    whole = [each for each in contenders.kept() if not each.left.any()]
    if small and whole:
        near = [_repacked(problem, each) for each in whole if each.cost(problem) <= most]
        return min(near or whole, key=lambda each: each.cost(problem))
    if once:
        return contenders.chosen()
    if not small and not finished and not best.left.any() and len(problem.counts) <= DIVING_ITEM_TYPES:
        best = Diving(problem, best, STRATEGIES, WorkBudget(DIVING * work.allowed)).run(contenders)
        finished = _good(best, problem)
    if not work.over and not finished:
        Search(problem, best, STRATEGIES, work).run(contenders)
    return contenders.chosen()


def _repacked(problem: BinPackingProblem, packing: Packing) -> Packing:
    """Return a packing of few units, repacked pair by pair."""
    groups = find_bins(problem, packing.cost(problem))
    none = np.zeros(len(groups.price))
    bins = PricedBins(groups.capacity, groups.allowed, groups.price, none, none, 0)
    return PairRepacking(problem, groups, bins).repacked(packing)[0]


def _build(
    problem: BinPackingProblem,
    best: Packing,
    work: WorkBudget,
    contenders: Contenders,
    strategies: Sequence[FillStrategy],
) -> tuple[Packing, bool]:
    """Build by each strategy while the work lasts; the cheapest packing, `best` included, and whether it is final."""
    in_vain = 0
    kept: list[Bin] = []
    for strategy in strategies:
        before = work.done
        most = max(AT_MOST, PER_ITEM_TYPE / SHARE_OF_BUDGET * len(problem.item_types)) * (work.allowed - work.done)
        built = Builder(problem, problem.counts, [limit.left for limit in problem.limits], work, most).build(
            strategy, kept
        )
        if built is None:
            break
        contenders.add(built)
        if built.left.sum() > best.left.sum():
            kept = [one for one in best.bins if not one.existing and one.units[problem.dependent].any()]
        if built.cost(problem) < best.cost(problem) - 1e-9:
            best, in_vain = built, 0
        else:
            in_vain += 1
        small = sum(not one.existing for one in best.bins) <= SMALL
        if _good(best, problem) or (small and in_vain >= SMALL_IN_VAIN):
            return best, True
        if work.done + (work.done - before) > GREEDY * work.allowed:
            break
    return best, False


def _good(packing: Packing, problem: BinPackingProblem) -> bool:
    """Return whether the packing is about as cheap as the linear program's optimum."""
    return not packing.left.any() and packing.cost(problem) <= problem.lp_bound * GOOD


def _leftovers(rounds: Rounds) -> Iterable[Allocation]:
    """Yield the pods that the first plan left out and that no topology rule or volume ties to others,
    at their last level."""
    for one in rounds.progress:
        if one.left and not one.pod_class.volumes.shared:
            number, level, choices = one.steps[-1]
            members = (BundleMember(one.pod_class, 1, number),)
            rules = RuleSet.of(unit_rules(rounds.topology, members))
            request = rounds.masks.catalog.space.vector(one.pod_class.requests)
            if not rules.domain and not any(r.group.key.kind is RuleKind.AFFINITY and r.obeys for r in rules.host):
                bundle = Bundle(members, level, choices, request, one.left, rules, request.tobytes())
                yield Allocation(bundle, rounds.masks.mask(level, choices), None, one.left)
