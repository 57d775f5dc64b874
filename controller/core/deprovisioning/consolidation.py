"""Consolidation by money: nodes are removed where what takes their place is cheaper by more than the move is worth.

Any number of nodes may be replaced by any number (the peer: by one at most), since what a simulation packs is judged
by its price alone. Sets are tried first, Provisioner by Provisioner, from the largest that the disruption budgets allow
down to pairs, of the nodes that waste most for what their removal disrupts; then single nodes in the same order. A look
makes a limited number of simulations, and the next one goes on where it ended, so that no Provisioner and no node is
never looked at (the peer starts again).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from controller.core.api.labels import DO_NOT_CONSOLIDATE
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.command import Command
from controller.core.deprovisioning.gate import NOT_EVENTS, Gate
from controller.core.deprovisioning.memory import workload
from controller.core.deprovisioning.simulation import Stage, simulate
from controller.core.deprovisioning.worth import Scale, Worth, scale, worth

CONSOLIDATION = "consolidation"
UNDERUTILIZED = "underutilized"
EMPTY_NODES = "empty"
MOST_SIMULATIONS = 24
"""In one look."""
MOST_IN_A_SET = 100
"""The later peer's limit."""
_COUNTED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Found:
    """Commands that do not touch each other. `kept`: nodes that were judged, with the reason why they stay.

    `cursor`: where the next look begins among Provisioners, then single nodes; 0 when all have been looked at.
    """

    commands: tuple[Command, ...] = ()
    kept: tuple[tuple[Candidate, str], ...] = ()
    blocked: tuple[tuple[Candidate, str], ...] = ()
    cursor: int = 0
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
    cursor: int = 0,
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

    def go_on(self, busy: Sequence[Candidate], cursor: int) -> int:
        """Sets of each Provisioner, then node by node, from the cursor on; where the next look is to begin."""
        by_owner: dict[str, list[Candidate]] = {}
        for candidate in busy:
            by_owner.setdefault(candidate.provisioner.name, []).append(candidate)
        owners = sorted(by_owner)
        for index in range(cursor, len(owners)):
            members = by_owner[owners[index]]
            sizes = list(self._sizes(members))
            if self.simulations > 0 and self.simulations + len(sizes) > self.most:
                return index
            self._best_set(members, sizes)
        stopped = self._singles(busy, max(0, cursor - len(owners)))
        return 0 if stopped is None else len(owners) + stopped

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

    def _singles(self, busy: Sequence[Candidate], start: int) -> int | None:
        """Node by node; where it stopped, None when it came to the end."""
        for index in range(start, len(busy)):
            candidate = busy[index]
            if self.gate.refusal(candidate) is not None:
                continue  # a set has it
            if (refusal := self.gate.over_budget([candidate], UNDERUTILIZED)) is not None:
                self.blocked.append((candidate, refusal.reason))
                continue
            if self.simulations >= self.most:
                return index
            found = self._judge([candidate])
            if found.refusal:
                self.kept.append((candidate, found.refusal))
            else:
                self._take(_command([candidate], found))
        return None

    def _judge(self, removed: Sequence[Candidate]) -> Worth:
        self.simulations += 1
        outcome = simulate(self._present(), [candidate.node for candidate in removed])
        if outcome.problem:
            return Worth(refusal=outcome.problem)
        return worth(removed, outcome, self.of, self.stage.catalog)

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
