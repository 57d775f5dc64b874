"""Consolidation by money: nodes are removed where what takes their place is cheaper by more than the move is worth.

Any number of nodes may be replaced by any number (the peer: by one at most), since what a simulation packs is judged
by its price alone. Sets are tried first, Provisioner by Provisioner, from the largest that the disruption budgets allow
down to pairs, of the nodes that waste most for what their removal disrupts; then single nodes, first those that may
save most for it. What cannot be worth it is told without a simulation (`screen`). A look makes a limited number of
simulations, and the next one goes on where it ended, so that no Provisioner and no node is never looked at (the peer
starts again).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.core.api.labels import DO_NOT_CONSOLIDATE
from controller.core.deprovisioning.backoff import workload
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.cost_screen import Screen
from controller.core.deprovisioning.gate import NOT_EVENTS, Gate
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Stage, simulate
from controller.core.deprovisioning.worth import Scale, Worth, hopeless, scale, worth

CONSOLIDATION = "consolidation"
UNDERUTILIZED = "underutilized"
EMPTY_NODES = "empty"
MOST_SIMULATIONS = 48
"""In one look: some tenths of a second for a thousand nodes."""
MOST_IN_A_SET = 100
"""The later peer's limit."""
_COUNTED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a search has come: Provisioners whose sets were tried, and nodes that were judged alone, by name.

    By name, because nodes come and go between two looks, and their order changes with what they hold.
    """

    owners: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()


BEGIN: Final = Cursor()
"""Of a search that is to begin, and of one that has seen everything."""


@dataclass(frozen=True, slots=True)
class Found:
    """Commands that do not touch each other. `kept`: nodes that were judged, with the reason why they stay.

    `cursor`: where the next look goes on; BEGIN when all have been looked at.
    """

    commands: tuple[Command, ...] = ()
    kept: tuple[tuple[Candidate, str], ...] = ()
    blocked: tuple[tuple[Candidate, str], ...] = ()
    cursor: Cursor = BEGIN
    simulations: int = 0


def wanted(candidate: Candidate, _now: float = 0.0) -> bool:
    """Whether consolidation may take the node: its Provisioner asks for it, and no annotation forbids it.

    An annotation of another value than "true" does nothing; with the peer it turns consolidation on.
    """
    forbidden = candidate.node.node.annotations.get(DO_NOT_CONSOLIDATE) == "true"
    return candidate.provisioner.consolidation_enabled and not forbidden


def find(
    candidates: Sequence[Candidate],
    stage: Stage,
    gate: Gate,
    resting: frozenset[str] = frozenset(),
    cursor: Cursor = BEGIN,
    most: int = MOST_SIMULATIONS,
) -> Found:
    """What to remove. `resting` are workloads whose pods were moved a short while ago: they stay where they are."""
    search = _Search(stage, gate, scale(candidates), most)
    eligible = search.eligible(candidates, resting)
    empty = list(search.empties([candidate for candidate in eligible if not candidate.pods]))
    busy = sorted((c for c in eligible if c.pods and c.price is not None), key=_rank)
    after = search.go_on(busy, cursor)
    commands = (*empty, *search.commands)
    return Found(commands, tuple(search.kept), tuple(search.blocked), after, search.simulations)


class _Search:
    """One look."""

    def __init__(self, stage: Stage, gate: Gate, of: Scale, most: int) -> None:
        self.stage, self.gate, self.of, self.most = stage, gate, of, most
        self.screen = Screen(stage)
        self.least_prices: dict[tuple[str, ...], float] = {}
        self.simulations = 0
        self.commands: list[Command] = []
        self.kept: list[tuple[Candidate, str]] = []
        self.blocked: list[tuple[Candidate, str]] = []

    def eligible(self, candidates: Iterable[Candidate], resting: frozenset[str]) -> list[Candidate]:
        found: list[Candidate] = []
        for candidate in candidates:
            if not wanted(candidate):
                if candidate.provisioner.consolidation_enabled:
                    self.kept.append((candidate, f"annotation {DO_NOT_CONSOLIDATE} is set"))
                continue
            refusal = self.gate.refusal(candidate)
            if refusal is not None:
                if refusal.kind not in NOT_EVENTS:
                    self.blocked.append((candidate, refusal.reason))
            elif any(workload(pod) in resting for pod in candidate.pods):
                self.kept.append((candidate, "pods of its workloads were moved a short while ago"))
            else:
                found.append(candidate)
        return found

    def empties(self, empty: Sequence[Candidate]) -> Iterator[Command]:
        """All empty nodes that the budgets allow."""
        for candidate in empty:
            if (refusal := self.gate.over_budget([candidate], EMPTY_NODES)) is not None:
                self.blocked.append((candidate, refusal.reason))
                continue
            self.gate.grant([candidate])
            yield Command(CONSOLIDATION, EMPTY_NODES, "no pod needs the node", (candidate,))

    def go_on(self, busy: Sequence[Candidate], cursor: Cursor) -> Cursor:
        """Sets of each Provisioner, then node by node, where they were not judged yet; where the next look goes on."""
        by_owner: dict[str, list[Candidate]] = {}
        for candidate in busy:
            by_owner.setdefault(candidate.provisioner.name, []).append(candidate)
        tried = set(cursor.owners)
        for owner in sorted(by_owner.keys() - tried):
            sizes = list(self._sizes(by_owner[owner]))
            if self.simulations > 0 and self.simulations + len(sizes) > self.most:
                return Cursor(frozenset(tried), cursor.nodes)
            self._best_set(by_owner[owner], sizes)
            tried.add(owner)
        left = [candidate for candidate in busy if candidate.name not in cursor.nodes]
        judged = self._singles(sorted(left, key=self._promise))
        return BEGIN if len(judged) == len(left) else Cursor(frozenset(tried), cursor.nodes.union(judged))

    def _promise(self, candidate: Candidate) -> tuple[float, float, str]:
        """First the nodes that may save most for each pod that would move."""
        most = (candidate.price or 0.0) - self._least_price([candidate])
        return (-most / max(0.1, candidate.cost), candidate.cost, candidate.name)

    def _best_set(self, members: Sequence[Candidate], sizes: Sequence[int]) -> None:
        """The set of one Provisioner's nodes that saves most, if any is worth it."""
        best: tuple[float, Command] | None = None
        for size in sizes:
            chosen = members[:size]
            found = self._judge(chosen)
            if not found.refusal and (best is None or found.saved > best[0]):
                best = (found.saved, _command(chosen, found))
        if best is not None:
            self._take(best[1])

    def _sizes(self, members: Sequence[Candidate]) -> Iterator[int]:
        allowed = self.gate.allowance(members[0].provisioner, UNDERUTILIZED).nodes
        size = min(len(members), allowed, MOST_IN_A_SET)
        while size >= 2:
            if self.gate.over_budget(members[:size], UNDERUTILIZED) is None:
                yield size
            size = size // 2 if size > 3 else size - 1

    def _singles(self, busy: Sequence[Candidate]) -> list[str]:
        """Node by node, as far as the simulations go; the names of those that were judged."""
        judged: list[str] = []
        for candidate in busy:
            if self.simulations >= self.most:
                break
            judged.append(candidate.name)
            if self.gate.refusal(candidate) is not None:
                continue  # a set has it
            if (refusal := self.gate.over_budget([candidate], UNDERUTILIZED)) is not None:
                self.blocked.append((candidate, refusal.reason))
                continue
            found = self._judge([candidate])
            if found.refusal:
                self.kept.append((candidate, found.refusal))
            else:
                self._take(_command([candidate], found))
        return judged

    def _judge(self, removed: Sequence[Candidate]) -> Worth:
        if (refusal := hopeless(removed, self._least_price(removed), self.of)) != "":
            return Worth(refusal=refusal)
        self.simulations += 1
        outcome = simulate(self._present(), [candidate.node for candidate in removed])
        if outcome.problem:
            return Worth(refusal=outcome.problem)
        return worth(removed, outcome, self.of, self.stage.catalog)

    def _least_price(self, removed: Sequence[Candidate]) -> float:
        names = tuple(candidate.name for candidate in removed)
        if names not in self.least_prices:
            self.least_prices[names] = self.screen.least_price(removed)
        return self.least_prices[names]

    def _present(self) -> Stage:
        """The stage without the nodes that commands of this very look remove."""
        taken = {candidate.name for command in self.commands for candidate in command.candidates}
        return replace(self.stage, going=self.stage.going | taken)

    def _take(self, command: Command) -> None:
        self.commands.append(command)
        self.gate.grant(command.candidates)


def _command(removed: Sequence[Candidate], found: Worth) -> Command:
    because = f"it saves ${found.saved:.4f} an hour"
    if not math.isinf(found.score):
        because += f" at a score of {found.score:.2f}"
    return Command(CONSOLIDATION, UNDERUTILIZED, because, tuple(removed), found.replacements)


def _rank(candidate: Candidate) -> tuple[float, float, str]:
    """First the nodes whose unused share costs most for each pod that would move."""
    waste = (candidate.price or 0.0) * (1.0 - use(candidate))
    return (-waste / max(0.1, candidate.cost), candidate.cost, candidate.name)


def use(candidate: Candidate) -> float:
    """The share of the node's scarcest resource (cpu or memory) that its pods ask for, 0 to 1."""
    most = 0.0
    for name in _COUNTED:
        room = candidate.node.allocatable.get(name, 0)
        if room > 0:
            most = max(most, sum(pod.spec.requests.get(name, 0) for pod in candidate.pods) / room)
    return min(1.0, most)


def judge(removed: Sequence[Candidate], everyone: Sequence[Candidate], stage: Stage, gate: Gate) -> Found:
    """Judge one set anew, with what is known now: its command, or the reason why it is none any more."""
    if not removed:
        return Found()
    for candidate in removed:
        if (refusal := gate.refusal(candidate)) is not None or not wanted(candidate):
            return Found(kept=((candidate, refusal.reason if refusal else "consolidation is not wanted any more"),))
    if not any(candidate.pods for candidate in removed):
        if (over := gate.over_budget(removed, EMPTY_NODES)) is not None:
            return Found(kept=((removed[0], over.reason),))
        return Found((Command(CONSOLIDATION, EMPTY_NODES, "no pod needs the node", tuple(removed)),))
    if (over := gate.over_budget(removed, UNDERUTILIZED)) is not None:
        return Found(kept=((removed[0], over.reason),))
    outcome = simulate(stage, [candidate.node for candidate in removed])
    found = (
        Worth(refusal=outcome.problem) if outcome.problem else worth(removed, outcome, scale(everyone), stage.catalog)
    )
    if found.refusal:
        return Found(kept=((removed[0], found.refusal),))
    return Found((_command(removed, found),))
