"""The solver: a problem in, a plan out, the same for equal problems whatever the order of objects (invariant 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from controller.core.api.frozen import FrozenMap
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.optimize.patterns.column_generation import USUAL, Effort
from controller.core.provisioning.optimize.refine import refine
from controller.core.provisioning.optimize.small_batches import SmallBatch, pack_small_batch
from controller.core.provisioning.packing.packer import Packer, weight_premiums
from controller.core.provisioning.packing.rounds import Progress, Rounds
from controller.core.provisioning.plan import (
    DearPreference,
    Proof,
    SchedulingPlan,
    SchedulingProblem,
    SolveOptions,
    UnplacedPod,
)
from controller.core.provisioning.solver.assembly import Assembler
from controller.core.provisioning.solver.commitments import within_commitments
from controller.core.provisioning.solver.compiled_problem import CompiledProblem, compile_problem
from controller.core.provisioning.solver.new_nodes import NewNodes
from controller.core.provisioning.solver.pool_sharing import MOST_PREMIUM, Standing, expected_cost, share_pools
from controller.core.provisioning.solver.reasons import Partners, Question, Reasons, topology_reason
from controller.core.provisioning.solver.replica_exchange import Funds, pack_apart
from controller.core.provisioning.solver.zone_shares import even_zones
from controller.core.provisioning.topology.allocation import PackingStyle, alternative_styles, styles_in_turn
from controller.core.provisioning.topology.bundles import BundleMember, unit_rules

DEFAULTS = SolveOptions()
MOST_REORDERED = 3
"""First packings tried again, with pods in front that other pods' spreads count without binding them."""
MOST_IN_TURN = 500
"""Pods of a batch up to which plans are made in turn, too: each takes longer than a first plan."""
SAME = 1e-9
"""Two costs are equal up to this part of them."""


def solve(
    problem: SchedulingProblem, options: SolveOptions = DEFAULTS, snapshot_index: SnapshotIndex | None = None
) -> SchedulingPlan:
    """Place the pending pods on existing and new nodes at the least cost found. Never raises for a bad pod.

    `snapshot_index` saves time where many problems are solved on one snapshot.
    """
    index = snapshot_index if snapshot_index is not None else SnapshotIndex(problem.snapshot)
    return within_commitments(problem, lambda each: Solver(compile_problem(each, options, index)).solve())


class Solver:
    """Makes plans for a compiled problem and keeps the best. effort: work on small batches."""

    def __init__(self, compiled: CompiledProblem, effort: Effort = USUAL) -> None:
        self.compiled = compiled
        self.effort = effort
        self.options = compiled.options
        self.masks = compiled.masks
        self._nodes = NewNodes(compiled.masks, compiled.limits(), compiled.options)

    def solve(self) -> SchedulingPlan:
        """Return the best of first plans (in other styles if one leaves pods out) and of the refined plan."""
        compiled = self.compiled
        rounds = self._sound(PackingStyle())
        plan = self._plan(rounds)
        if len(plan.unplaced) > len(compiled.unreadable) and self._tied():
            rounds, plan = self._fewer_left(rounds, plan)
        least = None
        if self.options.budget_seconds > 0:
            plan, least = self._refined(rounds, plan)
        cost = self._cost(plan)
        plan = self._spread(rounds, plan)
        plan = even_zones(plan, compiled.problem, self.options)
        if least is not None and (least > 0 or (plan.existing and not plan.new_nodes)):
            spread = self._cost(plan) - cost
            plan = replace(plan, proof=Proof(cost, least, spread if spread > SAME * cost else 0.0))
        return self._with_ignored_preferences(plan)

    def _spread(self, rounds: Rounds, plan: SchedulingPlan) -> SchedulingPlan:
        """Return the plan with first choices of offerings; packed anew, as `rounds` then are, where these do not do.

        That is where some zone or family could still take over its share of a workload's replicas.
        """
        compiled, share = self.compiled, self.options.spot_pool_share
        shared = share_pools(plan, compiled.problem, self.options, compiled.snapshot_index, MOST_PREMIUM)
        left = len(plan.unplaced)
        budget = self.options.budget_seconds
        if share >= 1.0 or not budget or left > len(compiled.unreadable) or len(plan.new_nodes) < 2:
            return shared
        standing = Standing.of(compiled.problem, compiled.snapshot_index)
        at_risk = len(standing.at_risk(shared, share))
        if not at_risk:
            return shared
        paid, most = self._cost(plan), expected_cost(plan) + MOST_PREMIUM * expected_cost(plan, spot=True)
        funds = Funds(paid * most / max(1e-9, plan.cost_per_hour), budget)
        packer = pack_apart(rounds.packer, compiled.limits(), standing, share, funds)
        if packer is None:
            return shared
        first, rounds.packer = rounds.packer, packer
        other = self._plan(rounds, bound=True)
        premium = (most - expected_cost(other)) / max(1e-9, expected_cost(other, spot=True))
        other = share_pools(other, compiled.problem, self.options, compiled.snapshot_index, premium)
        if premium >= 0 and len(other.unplaced) <= left and len(standing.at_risk(other, share)) < at_risk:
            return other
        rounds.packer = first
        return shared

    def _fewer_left(self, rounds: Rounds, plan: SchedulingPlan) -> tuple[Rounds, SchedulingPlan]:
        """Return the packing that leaves fewest pods out: in other styles, in turn, those left in front."""

        def try_styles(styles: Iterable[PackingStyle], early: frozenset[int] = frozenset()) -> None:
            nonlocal rounds, plan
            for style in styles:
                if len(plan.unplaced) == len(self.compiled.unreadable):
                    break
                other = self._sound(style, early)
                other_plan = self._plan(other)
                if len(other_plan.unplaced) < len(plan.unplaced):
                    rounds, plan = other, other_plan

        unsettled = rounds.unsettled
        try_styles(alternative_styles(unsettled=unsettled))
        few = sum(len(ladder.pod_class) for ladder in self.compiled.ladders) <= MOST_IN_TURN
        if few and rounds.left_by_domains:
            try_styles(styles_in_turn(unsettled=unsettled))
        if few and rounds.left_by_domains:
            try_styles(styles_in_turn(unsettled=unsettled), rounds.left_by_domains)
        return rounds, plan

    def _refined(self, rounds: Rounds, plan: SchedulingPlan) -> tuple[SchedulingPlan, float | None]:
        """Return the plan for less money, and the least that any for the same pods could cost ($/hour),
        if that is proven.

        `rounds` then has the plan's packing.
        """
        compiled, least, budget = self.compiled, None, self.options.budget_seconds
        scarce = len(plan.unplaced) > len(compiled.unreadable)
        if scarce:
            plan = self._tried(rounds, plan, refine(rounds, compiled.limits(), budget))
        first = rounds.packer
        small: SmallBatch | None = SmallBatch(0.0)
        if plan.new_nodes:
            small = pack_small_batch(rounds, compiled.limits(), self._cost(plan), self.effort)
        if small is not None:
            least = small.least
            plan = self._tried(rounds, plan, small.packer)
        searched = small is not None and (small.searched or Proof(self._cost(plan), small.least).optimal)
        if not searched and not (scarce and small is None):
            # A small batch may be packed with other domains: refinement tries those of the first plan. Where limits
            # leave pods out, it is settled by now which.
            best, rounds.packer = rounds.packer, first
            other = self._tried(rounds, plan, refine(rounds, compiled.limits(), budget, same_pods=scarce))
            if other is plan:
                rounds.packer = best
            plan = other
        cost = self._cost(plan)
        if small is not None and small.more is not None and cost > (1.0 + self.effort.near) * small.least:
            best, rounds.packer = rounds.packer, first
            small = small.more(cost)
            rounds.packer = best
            plan, least = self._tried(rounds, plan, small.packer), max(small.least, least or 0.0)
        return plan, least

    def _tried(self, rounds: Rounds, plan: SchedulingPlan, packer: Packer | None) -> SchedulingPlan:
        """Return the plan of a packer, whose packing `rounds` then has, or this one if that is no better."""
        if packer is not None:
            first, rounds.packer = rounds.packer, packer
            other = self._plan(rounds)
            if self._rank(other) < self._rank(plan):
                return other
            rounds.packer = first
        return plan

    def _sound(self, style: PackingStyle, early: frozenset[int] = frozenset()) -> Rounds:
        """Return a first packing in one style in which all required rules hold. `early`: see `Rounds`."""
        rounds = self._first(style, early)
        style, broken = rounds.packer.style, rounds.broken()
        if not broken:
            return rounds
        candidates = [rounds]
        if rounds.rationed:
            # Rules broke as limits cut some pods off: no order cures that, but allocating those within the limits anew.
            candidates.append(self.attempt(style, early=early, first=rounds.placed))
            broken = []
        while broken and len(candidates) <= MOST_REORDERED:
            more = candidates[-1].disregarding(broken) - early
            if not more:
                break
            early |= more
            candidates.append(self.attempt(style, early=early))
            broken = candidates[-1].broken()
        if broken and style == PackingStyle(by_node_share=style.by_node_share):
            candidates.append(self.attempt(style, careful=True))
        for each in candidates:
            each.settle()
        return min(candidates, key=lambda each: each.left)

    def _first(self, style: PackingStyle, early: frozenset[int]) -> Rounds:
        """Return a packing in one style; where limits leave pods out, in the order of pods that leaves fewer out."""
        rounds = self.attempt(style, early=early)
        if not rounds.rationed:
            return rounds
        other = self.attempt(replace(style, by_node_share=True), early=early)
        return other if other.left < rounds.left else rounds

    def attempt(
        self,
        style: PackingStyle,
        *,
        careful: bool = False,
        early: frozenset[int] = frozenset(),
        first: Mapping[int, int] | None = None,
    ) -> Rounds:
        """Return a first packing in one style. `careful`: one class and one unit at a time. `early`: see `Rounds`.

        first: the pods of each class, by index, that alone are placed; those left out may be placed by `settle`.
        """
        packer = Packer(self.masks, self.compiled.limits(), self.options, style, self.compiled.attached)
        topology, domains = self.compiled.topology(packer.hosts)
        progress = [Progress(each.pod_class, each.steps, len(each.pod_class)) for each in self.compiled.ladders]
        rounds = Rounds(topology, self.masks, domains, packer, progress, early)
        if first is None:
            rounds.run(careful=careful)
        else:
            rounds.run_first(first)
        return rounds

    def _tied(self) -> bool:
        """Return whether rules tie pods to each other, so that what is placed depends on the order of placement."""
        specs = [ladder.pod_class.spec for ladder in self.compiled.ladders]
        return any(s.topology_spread or s.required_pod_affinity or s.required_pod_anti_affinity for s in specs)

    def _rank(self, plan: SchedulingPlan) -> tuple[int, float, int]:
        """Rank by the fewest pods left out, then the least cost ($/hour), then the fewest pods on new nodes."""
        return len(plan.unplaced), self._cost(plan), sum(len(node.pods) for node in plan.new_nodes)

    def _cost(self, plan: SchedulingPlan) -> float:
        """Return the $/hour: all that the nodes cost, with the premiums for weight."""
        provisioners = [pool.provisioner for pool in self.masks.catalog.pools]
        premiums = weight_premiums([p.weight for p in provisioners], self.options.weight_premium).tolist()
        premium = dict(zip((p.name for p in provisioners), premiums, strict=True))
        return float(sum(node.offering.cost * premium[node.provisioner] for node in plan.new_nodes))

    def _plan(self, rounds: Rounds, *, bound: bool = False) -> SchedulingPlan:
        assembler = Assembler(rounds.packer, self.masks.existing, self._nodes, bound=bound)
        unplaced = {key: UnplacedPod(key, reason) for key, reason in self.compiled.unreadable.items()}
        for one in rounds.progress:
            placed = assembler.placed.get(one.pod_class.index, 0)
            if placed < len(one.pod_class):
                reason, limited = self._reason(rounds, one)
                left = one.pod_class.pods[placed:]
                unplaced.update((pod.key, UnplacedPod(pod.key, reason, limited)) for pod in left)
        return SchedulingPlan(
            new_nodes=assembler.new_nodes(),
            existing=assembler.existing_placements(),
            unplaced=tuple(unplaced[key] for key in sorted(unplaced)),
        )

    def _reason(self, rounds: Rounds, one: Progress) -> tuple[str, Mapping[str, str]]:
        """Return why pods of a class were left out, by what their last step requires; limits, by Provisioner."""
        space, existing, packer = self.masks.catalog.space, self.masks.existing, rounds.packer
        number, level, choices = one.steps[-1]
        request = space.vector(one.pod_class.requests)
        for column, count in packer.shared.on_empty(one.pod_class.volumes.shared).items():
            request[column] += count
        question = Question(level, self.masks.mask(level, choices), request)
        partners = Partners(rounds.topology.running_pods, existing, packer.table.free, space)
        topology = topology_reason(
            unit_rules(rounds.topology, (BundleMember(one.pod_class, 1, number),)),
            partial(partners.reason, mask=question.mask, request=question.request),
        )
        reasons = Reasons(self.masks.catalog, existing, packer.limits)
        text = reasons.explain(question, dict(self.compiled.problem.skipped), topology)
        return text, FrozenMap(reasons.limited)

    def _with_ignored_preferences(self, plan: SchedulingPlan) -> SchedulingPlan:
        """Return the plan with the preferences that it ignores; pods on existing nodes may have theirs there."""
        if not self.compiled.ignored_preferences:
            return plan
        on_new_nodes = {key for planned in plan.new_nodes for key in planned.pods}
        too_dear = []
        for ladder in self.compiled.ladders:
            ignored = self.compiled.ignored_preferences.get(ladder.pod_class.index, ())
            pods = tuple(pod.key for pod in ladder.pod_class.pods if pod.key in on_new_nodes) if ignored else ()
            too_dear += [DearPreference(preference, premium, pods) for preference, premium in ignored if pods]
        return replace(plan, too_dear=tuple(too_dear))
