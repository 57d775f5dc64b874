"""Choose the nodes to remove: of the sets that leave a fleet cheap enough, the one that moves the fewest pods.

The linear program proposes sets, and a plan for each shows its real cost; the difference becomes a price of moving the
pods that needed more new nodes than the program estimated. Then nodes are taken out of the set, or exchanged for others
with fewer pods, as long as the fleet stays cheap enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.rebalance.removal_program import RemovalProgram, pod_class, shares_of_cost
from controller.core.deprovisioning.removal_simulation import Outcome, Simulator

ROUNDS = 14
"""Sets that the program proposes."""
KEPT, LEARNED = 0.5, 0.5
"""Factors on a learned price from round to round: of the price so far, and of the new one."""
MOST_KNOWN = 4
"""The rounds end after this many that propose a set tried before, or none; each asks for a cheaper fleet by what the
best one exceeds the limit, as whole nodes may cost more than the program's fractions of them."""
WORK, FEWEST_TRIALS, MOST_TRIALS = 5_000, 6, 60
"""Limits on the neighbouring sets that are tried: pods in total, and numbers of sets."""
PROPOSAL_SECONDS, TRIAL_SECONDS = 1.0, 0.02
"""Work limit of the plan for one set. Proposals of fewer than MANY pods get a share of it."""
MANY = 1_000


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """`goes`: nodes to remove together; `cost` in $ an hour of all candidates that stay and of the new nodes.

    `stuck`: names of candidates some pod of which would have no place, with the reason.
    """

    goes: tuple[Candidate, ...] = ()
    outcome: Outcome = field(default_factory=Outcome)
    cost: float = 0.0
    stuck: Mapping[str, str] = field(default_factory=dict)

    @property
    def moves(self) -> int:
        """Pods that move."""
        return sum(len(candidate.pods) for candidate in self.goes)


def choose_nodes(nodes: Sequence[Candidate], simulator: Simulator, most_cost: float) -> NodeChoice:
    """Choose among these candidates for a fleet of at most `most_cost` $ an hour; the cheapest fleet if none is."""
    search = _Search(nodes, simulator, most_cost)
    search.propose()
    search.improve()
    search.plan(search.best.goes, math.inf)
    return replace(search.best, stuck=search.stuck)


class _Search:
    """One search. `tried`: the cost of each set that was planned, by names."""

    def __init__(self, nodes: Sequence[Candidate], simulator: Simulator, most_cost: float) -> None:
        self.nodes, self.simulator, self.most_cost = tuple(nodes), simulator, most_cost
        self.by_name = {node.name: node for node in nodes}
        self.before = sum(node.cost for node in nodes)
        self.best = NodeChoice(cost=self.before)
        self.tried: dict[frozenset[str], float] = {}
        self.stuck: dict[str, str] = {}

    def propose(self) -> None:
        """Try the sets of the program, and learn from each."""
        if not any(node.pods for node in self.nodes):
            self.plan(self.nodes, TRIAL_SECONDS)
            return
        program = RemovalProgram(self.nodes, self.simulator)
        prices: dict[Hashable, float] = {}
        known, aim = 0, self.most_cost
        work = PROPOSAL_SECONDS * min(1.0, sum(len(node.pods) for node in self.nodes) / MANY)
        for _ in range(ROUNDS):
            staying = frozenset(self.stuck)
            limit = max(aim, program.least_cost(prices, staying) * (1 + 1e-6))
            removal = program.fewest_moves(limit, prices, staying)
            goes = () if removal is None else removal.goes
            if removal is None or frozenset(node.name for node in goes) in self.tried:
                prices, known = {key: price / 2 for key, price in prices.items()}, known + 1
                if known == MOST_KNOWN:
                    return
                aim -= max(0.0, self.best.cost - self.most_cost)
                continue
            outcome = self.plan(goes, work)
            if not outcome.problem:
                prices = _learn(prices, goes, outcome, outcome.cost - removal.new_cost)

    def improve(self) -> None:
        """Try sets with fewer moves beside the best one, until none of them is cheap enough or enough were tried."""
        pods = sum(len(node.pods) for node in self.nodes)
        left = min(MOST_TRIALS, max(FEWEST_TRIALS, WORK // max(1, pods)))
        better = True
        while better and left > 0:
            better, at = False, self.best
            for goes in self._beside(at):
                if frozenset(node.name for node in goes) in self.tried:
                    continue
                left -= 1
                self.plan(goes, TRIAL_SECONDS)
                if self.best is not at:
                    better = True
                    break
                if left <= 0:
                    break

    def plan(self, goes: Sequence[Candidate], most_seconds: float) -> Outcome:
        """Plan the removal of a set within a work limit, and keep it if it is the best so far."""
        outcome = self.simulator.within(most_seconds).simulate([node.node for node in goes])
        cost = math.inf if outcome.problem else self.before - sum(node.cost for node in goes) + outcome.cost
        self.tried[frozenset(node.name for node in goes)] = cost
        if outcome.problem:
            self._note_stuck(goes, outcome)
        choice = NodeChoice(tuple(goes), outcome, cost)
        if self._rank(choice) < self._rank(self.best):
            self.best = choice
        return outcome

    def _rank(self, choice: NodeChoice) -> tuple[float, float, float]:
        over = max(0.0, choice.cost - self.most_cost * (1 + 1e-9))
        return over, choice.moves, choice.cost

    def _note_stuck(self, goes: Sequence[Candidate], outcome: Outcome) -> None:
        unplaced = {} if outcome.solved is None else {one.pod: one.reason for one in outcome.solved.plan.unplaced}
        reasons = {
            node.name: f"pod {'/'.join(pod.key)} would have no place: {unplaced[pod.key]}"
            for node in reversed(goes)
            for pod in reversed(node.pods)
            if pod.key in unplaced
        }
        self.stuck.update(reasons or {node.name: outcome.problem for node in goes[:1]})

    def _beside(self, choice: NodeChoice) -> Iterator[tuple[Candidate, ...]]:
        """Yield the neighbourhood of a set: without one node, or with one exchanged for a node with fewer pods."""
        going = sorted(choice.goes, key=lambda node: (-len(node.pods), node.cost, node.name))
        names = {node.name for node in going}
        staying = sorted(
            (node for node in self.nodes if node.name not in names and node.name not in self.stuck),
            key=lambda node: (-node.cost / max(1, len(node.pods)), node.name),
        )
        for one in going:
            yield tuple(node for node in choice.goes if node is not one)
        for one in going:
            rest = tuple(node for node in choice.goes if node is not one)
            for other in staying:
                if len(other.pods) < len(one.pods):
                    yield (*rest, other)


def _learn(
    prices: Mapping[Hashable, float], goes: Sequence[Candidate], outcome: Outcome, excess: float
) -> dict[Hashable, float]:
    """Update the prices after a plan whose new nodes cost `excess` $ an hour more than the program estimated."""
    pods = {pod.key: pod for node in goes for pod in node.pods}
    moved = Counter(pod_class(pod) for pod in pods.values())
    costs: Counter[Hashable] = Counter()
    for new in outcome.replacements:
        costs.update(shares_of_cost([pods[key] for key in new.pods if key in pods], new.offering.cost))
    whole = sum(costs.values())
    learned = dict(prices)
    for each, count in moved.items():
        price = max(0.0, excess) * costs[each] / whole / count if whole > 0 else 0.0
        learned[each] = KEPT * prices.get(each, 0.0) + LEARNED * price
    return learned
