"""Search for removals that save money: nodes whose pods fit elsewhere, or on new nodes that cost less.

Any number of nodes may be replaced by any number (Karpenter v0.27: by one at most), since a simulation is judged by its
cost alone. Empty nodes first. Then sets of one Provisioner's nodes, from the largest that the disruption budgets allow
down to pairs, of the nodes that waste most for what their removal disrupts. Then single nodes, first those that may
save most. A removal that cannot be worth it is refused without a simulation (cost_screen.py). One pass makes a limited
number of simulations, and the next continues where it ended, so that every node is judged in the end (Karpenter v0.27
starts again each time).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.core.api.labels import ON_DEMAND
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.backoff import REST_COST, Moves
from controller.core.deprovisioning.candidates import Candidate, pod_cost
from controller.core.deprovisioning.cost_screen import CostScreen
from controller.core.deprovisioning.emptiness import EMPTY_NODES
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.removal_command import CONSOLIDATION, Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.sets.removal_order import RemovalOrder
from controller.core.deprovisioning.worth import Totals, Worth, best_case_refusal, totals_of, worth
from controller.core.machines.opening import opens_together
from controller.core.provisioning.plan import PlannedNode

UNDERUTILIZED = "underutilized"
"""The reason in disruption budgets."""
MOST_SIMULATIONS = 48
"""Limit for one pass: some tenths of a second for a thousand nodes."""
MOST_IN_A_SET = 100
"""The limit of later Karpenter versions (multi-node consolidation)."""
MOST_MISSES = 12
"""A set is complete after this many nodes in a row that do not fit."""
SET_SECONDS, SINGLE_SECONDS = 0.4, 0.02
"""Work limit of a simulation, for a set and for a single node. A removal that is decided is planned again, with the
whole work limit, before it begins."""
MOST_TRIALS = 8
"""How often a set is judged without some of its nodes of a type."""
NO_POD: Final = "no pod needs the node"
"""Why an empty node is removed; its record has this reason too, and so shows that no pods move."""
OTHERS_FIRST = "other nodes go first"
_COUNTED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a search has come: Provisioners whose sets were judged, and nodes that were judged alone, by name.

    Names and not positions, because nodes and their order change between two passes.
    """

    provisioners: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()


NO_MOVES: Final = Moves()
BEGIN: Final = Cursor()
"""Where a search begins, and what it returns when it is complete."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`commands` have no node in common. `kept`: nodes that were judged and stay, with the reason; `blocked`: nodes
    that the gate refuses. `cursor`: where the next pass continues; BEGIN when every node was judged."""

    commands: tuple[Command, ...] = ()
    kept: tuple[tuple[Candidate, str], ...] = ()
    blocked: tuple[tuple[Candidate, str], ...] = ()
    cursor: Cursor = BEGIN
    simulations: int = 0


def consolidatable(candidate: Candidate) -> bool:
    """Return whether the node's Provisioner enables consolidation, and no annotation of the node forbids it.

    Only the annotation's value "true" has an effect; in Karpenter v0.27 another value turns consolidation on.
    """
    forbidden = candidate.node.node.annotations.get(V1ALPHA5.keys.do_not_consolidate) == "true"
    return candidate.provisioner.disruption.consolidation and not forbidden


def find(
    candidates: Sequence[Candidate],
    simulator: Simulator,
    gate: Gate,
    moves: Moves = NO_MOVES,
    cursor: Cursor = BEGIN,
    most: int = MOST_SIMULATIONS,
    judged: frozenset[str] = frozenset(),
    totals: Totals | None = None,
) -> SearchResult:
    """Make one pass with at most `most` simulations.

    moves: of pods that cool down, which cost more to move again. judged: names of nodes that were judged recently: they
    are judged in sets only, and not at all if that is true of all nodes of a Provisioner. totals: of all candidates, if
    `candidates` are only some of them.
    """
    search = _SearchPass(simulator, gate, totals or totals_of(candidates), most)
    eligible = [with_cool_down(each, moves) for each in search.eligible(candidates)]
    empty = list(search.remove_empty([candidate for candidate in eligible if not candidate.pods]))
    busy = sorted((c for c in eligible if c.pods and c.price is not None), key=_by_waste)
    after = search.continue_from(cursor, busy, judged)
    commands, kept, blocked = (*empty, *search.commands), tuple(search.kept), tuple(search.blocked)
    return SearchResult(commands, kept, blocked, after, search.simulations)


def judge(
    removed: Sequence[Candidate], everyone: Sequence[Candidate], simulator: Simulator, gate: Gate
) -> SearchResult:
    """Judge one removal now: its command, or the reason why it is not made (any more)."""
    for candidate in removed:
        if (refusal := gate.refusal(candidate)) is not None or not consolidatable(candidate):
            reason = refusal.reason if refusal else "consolidation is not wanted any more"
            return SearchResult(kept=((candidate, reason),))
    empty = not any(candidate.pods for candidate in removed)
    if (refusal := gate.over_budget(removed, EMPTY_NODES if empty else UNDERUTILIZED)) is not None:
        return SearchResult(kept=((removed[0], refusal.reason),))
    if empty:
        return SearchResult((_empty_command(removed),))
    judged = _simulated(removed, simulator, totals_of(everyone))
    return (
        SearchResult(kept=((removed[0], judged.refusal),))
        if judged.refusal
        else SearchResult((_command(removed, judged),))
    )


def with_cool_down(candidate: Candidate, moves: Moves) -> Candidate:
    """Return the candidate at the disruption cost that it has while pods of it cool down."""
    resting = sum(max(0.0, pod_cost(pod)) for pod in candidate.pods if moves.rests(pod))
    if not resting or candidate.disruption <= 0:
        return candidate
    plain = sum(map(pod_cost, candidate.pods))
    more = 1.0 + (REST_COST - 1.0) * resting / max(resting, plain)
    return replace(candidate, disruption=candidate.disruption * more)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A set and its worth. `move_price`: what a removal has to save for moving a node's pods, $ an hour."""

    removed: Sequence[Candidate]
    worth: Worth
    move_price: Callable[[Candidate], float]

    def gain(self) -> float:
        """$ an hour that it saves beyond that."""
        return self.worth.saved - sum(map(self.move_price, self.removed))


class _SearchPass:
    """One pass of a search. `least_costs`: the cost screen's answers, by names of the removed nodes."""

    def __init__(self, simulator: Simulator, gate: Gate, totals: Totals, most: int) -> None:
        self.simulator, self.gate, self.totals, self.most = simulator, gate, totals, most
        self.screen = CostScreen(simulator)
        self.least_costs: dict[tuple[str, ...], float] = {}
        self.simulations = 0
        self.commands: list[Command] = []
        self.taken: set[str] = set()
        """Names of nodes that are removed: their room does not count."""
        self.kept: list[tuple[Candidate, str]] = []
        self.blocked: list[tuple[Candidate, str]] = []

    def eligible(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return those that may be removed if it is worth it; the others are noted with their reason."""
        eligible: list[Candidate] = []
        for candidate in candidates:
            if not consolidatable(candidate):
                if candidate.provisioner.disruption.consolidation:
                    self.kept.append((candidate, f"annotation {V1ALPHA5.keys.do_not_consolidate} is set"))
                continue
            refusal = self.gate.refusal(candidate)
            if refusal is None:
                eligible.append(candidate)
            elif not refusal.temporary:
                self.blocked.append((candidate, refusal.reason))
        return eligible

    def remove_empty(self, empty: Iterable[Candidate]) -> Iterator[Command]:
        """Yield a command for each empty node that the budgets allow."""
        for candidate in empty:
            if (refusal := self.gate.over_budget([candidate], EMPTY_NODES)) is not None:
                self.blocked.append((candidate, refusal.reason))
                continue
            self.gate.grant([candidate])
            self.taken.add(candidate.name)
            yield _empty_command([candidate])

    def continue_from(self, cursor: Cursor, busy: Sequence[Candidate], judged_lately: frozenset[str]) -> Cursor:
        """Judge sets of each Provisioner, then single nodes, those that `cursor` does not name; the cursor after it.

        If a set is taken, its moves come first, and the search restarts after it.
        """
        by_provisioner: defaultdict[str, list[Candidate]] = defaultdict(list)
        for candidate in busy:
            by_provisioner[candidate.provisioner.name].append(candidate)
        tried = set(cursor.provisioners)
        for name in sorted(by_provisioner.keys() - tried):
            if self.simulations >= self.most:
                return Cursor(frozenset(tried), cursor.nodes)
            if not all(each.name in judged_lately for each in by_provisioner[name]):
                self._take_best_set(by_provisioner[name])
            tried.add(name)
        if self.commands:
            going = {candidate.name for command in self.commands for candidate in command.candidates}
            self.kept.extend((each, OTHERS_FIRST) for each in busy if each.name not in going)
            return BEGIN
        left = [candidate for candidate in busy if candidate.name not in cursor.nodes]
        judged = self._judge_singles(sorted(left, key=self._by_possible_saving), judged_lately)
        return BEGIN if len(judged) == len(left) else Cursor(frozenset(tried), cursor.nodes.union(judged))

    def _by_possible_saving(self, candidate: Candidate) -> tuple[float, float, str]:
        """Sort first the nodes that may save most for what their removal disrupts."""
        most = candidate.cost - self._least_cost([candidate])
        return (-most / max(0.1, candidate.disruption), candidate.disruption, candidate.name)

    def _take_best_set(self, members: Sequence[Candidate]) -> None:
        """Take the set that is worth most, if any is.

        Sets are nodes whose pods fit in the others' room, expensive ones, and all on-demand nodes beside spot nodes:
        their pods mostly have no other place, so that one of these nodes alone is rarely worth replacing.
        """
        order = RemovalOrder(self.simulator, self.screen, self.totals)
        packed = self._packed(order.by_room(members))
        names = {each.name for each in packed}
        dear = [each for each in order.dear(members) if each.name not in names]
        sets = [packed, *(self._within_budget([*packed, *dear[:size]]) for size in _halves(len(dear)))]
        if packed and dear:
            sets.append(self._within_budget(dear))
        on_demand = [each for each in members if each.node.node.capacity_type == ON_DEMAND]
        if 1 < len(on_demand) < len(members) and self.simulations + len(sets) < self.most:
            sets.append(self._within_budget(on_demand))
        judged = [(each, self._judge(each, SET_SECONDS)) for each in sets if len(each) > 1 or (each and packed)]
        worthy = [_Judged(each, one, order.move_price) for each, one in judged if not one.refusal]
        for each in sorted(worthy, key=_Judged.gain, reverse=True):
            best = self._without_needless(each, order)
            if not depends_on_kube_scheduler(best.removed, best.worth.replacements, self.simulator):
                self._take(_command(best.removed, best.worth))
                return

    def _without_needless(self, best: _Judged, order: RemovalOrder) -> _Judged:
        """Leave out nodes of types that the set launches again, if it gains more without them; most pods first.

        Of each type as many at once as possible, else half as many.
        """
        for kind in sorted({node.offering.instance_type for node in best.worth.replacements}):
            step, trials = len(best.removed), 0
            while (anew := _launched_anew(best, kind)) and step and trials < MOST_TRIALS:
                step = min(step, len(anew))
                for start in range(0, len(anew), step):
                    trials += 1
                    fewer = self._judge_without(best, anew[start : start + step], order)
                    if fewer is not None:
                        best = fewer
                        break
                else:
                    step //= 2
        return best

    def _judge_without(self, best: _Judged, kept: Sequence[Candidate], order: RemovalOrder) -> _Judged | None:
        """Return the set without these, if it gains more than with them."""
        rest = [each for each in best.removed if each not in kept]
        if not rest or self.simulations >= self.most:
            return None
        fewer = _Judged(rest, self._judge(rest, SET_SECONDS), order.move_price)
        return fewer if not fewer.worth.refusal and fewer.gain() > best.gain() else None

    def _packed(self, order: Sequence[Candidate]) -> list[Candidate]:
        """Return nodes that may be removed together without a launch: add as many at once as fit, else half as many."""
        packed: list[Candidate] = []
        at, step, misses = 0, max(1, len(order) // 2), 0
        while at < len(order) and misses < MOST_MISSES and self.simulations < self.most:
            trial = [*packed, *order[at : at + step]]
            if len(self._within_budget(trial)) == len(trial) and self._fits(trial):
                packed, at, misses = trial, at + step, 0
            elif step > 1:
                step //= 2
            else:
                at, misses = at + 1, misses + 1
        return packed

    def _within_budget(self, members: list[Candidate]) -> list[Candidate]:
        """Return the first of one Provisioner's nodes, as many as may be removed at once."""
        allowed = self.gate.allowance(members[0].provisioner, UNDERUTILIZED).nodes
        size = min(len(members), allowed, MOST_IN_A_SET)
        while size > 0 and self.gate.over_budget(members[:size], UNDERUTILIZED) is not None:
            size -= 1
        return members[:size]

    def _fits(self, removed: Sequence[Candidate]) -> bool:
        """Return whether all their pods fit on nodes that stay, by the first plan alone."""
        if self._least_cost(removed) > 0:
            return False
        self.simulations += 1
        outcome = self._without_taken(0.0).simulate([candidate.node for candidate in removed])
        return not outcome.problem and not outcome.replacements

    def _judge_singles(self, busy: Iterable[Candidate], judged_lately: frozenset[str]) -> list[str]:
        """Judge node by node as long as simulations are left; the names of those that were judged.

        Those of `judged_lately` that the screen does not refuse are passed over.
        """
        judged: list[str] = []
        for candidate in busy:
            if self.simulations >= self.most:
                break
            judged.append(candidate.name)
            if self.gate.refusal(candidate) is not None:
                continue  # removed with a set of this pass
            if (refusal := self.gate.over_budget([candidate], UNDERUTILIZED)) is not None:
                self.blocked.append((candidate, refusal.reason))
                continue
            if candidate.name in judged_lately and not self._screened([candidate]):
                continue
            single = self._judge([candidate], SINGLE_SECONDS)
            if single.refusal:
                self.kept.append((candidate, single.refusal))
            else:
                self._take(_command([candidate], single))
        return judged

    def _judge(self, removed: Sequence[Candidate], most_seconds: float) -> Worth:
        """Judge a removal by a simulation that may cost so many seconds of work, unless the screen refuses it."""
        if (refusal := self._screened(removed)) != "":
            return Worth(refusal=refusal)
        self.simulations += 1
        return _simulated(removed, self._without_taken(most_seconds), self.totals)

    def _screened(self, removed: Sequence[Candidate]) -> str:
        """Return why the removal is not worth it at best; empty when it may be."""
        return best_case_refusal(removed, self._least_cost(removed), self.totals)

    def _without_taken(self, most_seconds: float) -> Simulator:
        return replace(self.simulator.within(most_seconds), going=self.simulator.going | self.taken)

    def _least_cost(self, removed: Sequence[Candidate]) -> float:
        names = tuple(candidate.name for candidate in removed)
        if names not in self.least_costs:
            self.least_costs[names] = self.screen.least_cost(removed)
        return self.least_costs[names]

    def _take(self, command: Command) -> None:
        self.commands.append(command)
        self.taken.update(candidate.name for candidate in command.candidates)
        self.gate.grant(command.candidates)


def _launched_anew(judged: _Judged, kind: str) -> list[Candidate]:
    """Return nodes of the type, as many as are launched again, those with most pods first."""
    own = [each for each in judged.removed if each.node.node.instance_type == kind]
    count = sum(node.offering.instance_type == kind for node in judged.worth.replacements)
    return sorted(own, key=lambda each: (-len(each.pods), each.name))[:count]


def depends_on_kube_scheduler(
    removed: Sequence[Candidate], replacements: Sequence[PlannedNode], simulator: Simulator
) -> bool:
    """Return whether a set only rearranges pods on about the same nodes, and these are not placed as planned."""
    if simulator.place_as_planned and opens_together(replacements, simulator.snapshot.pods):
        return False
    launched = [node.offering.instance_type for node in replacements]
    return rearranges([each.node.node.instance_type for each in removed], launched)


def rearranges(removed: Sequence[str], launched: Sequence[str]) -> bool:
    """Return whether a set (by instance types) becomes no smaller, and more than half of it is launched again.

    Its pods move for little, and unless they are placed as planned, whether that saves anything depends on
    kube-scheduler, which puts them elsewhere than the plan does.
    """
    renewed = (Counter(removed) & Counter(launched)).total()
    return len(launched) >= len(removed) and 2 * renewed > len(removed)


def launches_anew(command: Command) -> bool:
    """Return whether a replacement has the type of a removed node, so that a smaller set may be as good."""
    own = {each.node.node.instance_type for each in command.candidates}
    return any(node.offering.instance_type in own for node in command.replacements)


def _simulated(removed: Sequence[Candidate], simulator: Simulator, totals: Totals) -> Worth:
    outcome = simulator.simulate([candidate.node for candidate in removed])
    return Worth(refusal=outcome.problem) if outcome.problem else worth(removed, outcome, totals, simulator.catalog)


def _empty_command(removed: Sequence[Candidate]) -> Command:
    return Command(CONSOLIDATION, EMPTY_NODES, NO_POD, tuple(removed))


def _command(removed: Sequence[Candidate], judged: Worth) -> Command:
    because = f"it saves ${judged.saved:.4f} an hour"
    if not math.isinf(judged.score):
        because += f" at a score of {judged.score:.2f}"
    return Command(CONSOLIDATION, UNDERUTILIZED, because, tuple(removed), judged.replacements, judged.solved)


def _by_waste(candidate: Candidate) -> tuple[float, float, str]:
    """Sort first the nodes whose unused share costs most for what their removal disrupts."""
    waste = candidate.cost * (1.0 - used_share(candidate))
    return (-waste / max(0.1, candidate.disruption), candidate.disruption, candidate.name)


def _halves(count: int) -> list[int]:
    """Return the count, a half and a quarter of it, without 0."""
    return sorted({count, count // 2, count // 4} - {0}, reverse=True)


def used_share(candidate: Candidate) -> float:
    """Return the share of the node's scarcer resource (cpu or memory) that its pods request, 0 to 1."""
    most = 0.0
    for name in _COUNTED:
        room = candidate.node.allocatable.get(name, 0)
        if room > 0:
            most = max(most, sum(pod.spec.requests.get(name, 0) for pod in candidate.pods) / room)
    return min(1.0, most)
