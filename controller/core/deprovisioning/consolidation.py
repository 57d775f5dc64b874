"""Consolidation: removals that save money, made if they are still worth it after a settling time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from controller.core.deprovisioning.backoff import resting
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import (
    BEGIN,
    MOST_SIMULATIONS,
    SearchResult,
    consolidatable,
    find,
    judge,
)
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_command import CONSOLIDATION, Command
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ConsolidationTimes:
    """`settle_seconds`: a removal is made when it is still worth it after so long (Karpenter v0.27: 15 s).

    `quiet_seconds`: where nothing changed, a new search begins after so long, since prices may have changed (Karpenter
    v0.27: 5 min). `search_seconds`: between two passes of one search.
    """

    settle_seconds: float = 15.0
    quiet_seconds: float = 300.0
    search_seconds: float = 2.0


class Consolidation:
    """The method. It keeps the cursor of its search, and the removals that settle with their (monotonic) times."""

    name = CONSOLIDATION

    def __init__(self, times: ConsolidationTimes | None = None, most_simulations: int = MOST_SIMULATIONS) -> None:
        self._times = times or ConsolidationTimes()
        self._most = most_simulations
        self._cursor = BEGIN
        self._settling: dict[frozenset[str], tuple[Command, float]] = {}
        """Removals to settle, by names of their nodes, oldest first, with the (monotonic) time of their decision."""
        self._quiet: tuple[int, float] | None = None
        """(version of the snapshot on which a search ended without a result, until when no search begins on it)."""

    def wanted(self, candidate: Candidate, _snapshot: Snapshot, _now: float) -> bool:
        """Whether consolidation may still take the node."""
        return consolidatable(candidate)

    def decide(self, given: MethodInput) -> Proposal:
        """The first removal that has settled and is still worth it; else search for more."""
        eligible = sum(map(consolidatable, given.candidates))
        if (command := self._settled(given)) is not None:
            return Proposal((command,), eligible=eligible, again_seconds=self._again_seconds())
        result = SearchResult() if self._is_quiet(given) else self._search(given)
        return Proposal((), result.blocked, result.kept, eligible=eligible, again_seconds=self._again_seconds())

    def _again_seconds(self) -> float:
        return math.inf if self._cursor == BEGIN else self._times.search_seconds

    def _settled(self, given: MethodInput) -> Command | None:
        by_name = {candidate.name: candidate for candidate in given.candidates}
        self._settling = {names: entry for names, entry in self._settling.items() if names <= by_name.keys()}
        for names, (_, since) in list(self._settling.items()):
            if given.monotonic - since < self._times.settle_seconds:
                continue
            del self._settling[names]
            removed = [by_name[name] for name in sorted(names)]
            judged = judge(removed, given.candidates, given.simulator, given.gate)
            if judged.commands:
                return judged.commands[0]
        return None

    def _is_quiet(self, given: MethodInput) -> bool:
        return self._quiet is not None and self._quiet[0] == given.snapshot.version and given.monotonic < self._quiet[1]

    def _search(self, given: MethodInput) -> SearchResult:
        """One pass of the search; the removals that it decides have to settle first."""
        for command, _ in self._settling.values():
            given.gate.grant(command.candidates)
        free = [
            each for each in given.candidates if each.name not in given.held_back and each.name not in given.required
        ]
        result = find(free, given.simulator, given.gate, resting(given.snapshot, given.now), self._cursor, self._most)
        self._cursor = result.cursor
        for command in result.commands:
            self._settling[frozenset(each.name for each in command.candidates)] = (command, given.monotonic)
        ended = result.cursor == BEGIN and not self._settling
        self._quiet = (given.snapshot.version, given.monotonic + self._times.quiet_seconds) if ended else None
        required = [
            (each, given.required[each.name])
            for each in given.candidates
            if each.name in given.required and consolidatable(each)
        ]
        return replace(result, kept=(*result.kept, *required))
