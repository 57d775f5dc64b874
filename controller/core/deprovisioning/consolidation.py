"""Consolidation: removals that save money, made if they are still worth it after a settling time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller.core.api.pod import PodKey
from controller.core.deprovisioning.backoff import Moves
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import (
    BEGIN,
    MOST_SIMULATIONS,
    NO_POD,
    SearchResult,
    consolidatable,
    find,
    judge,
    launches_anew,
)
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.records import recorded_commands
from controller.core.deprovisioning.removal_command import CONSOLIDATION, Command
from controller.core.deprovisioning.worth import totals_of
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ConsolidationTimes:
    """`settle_seconds`: a removal is made when it is still worth it after so long (Karpenter v0.27: 15 s).

    `quiet_seconds`: where nothing changed, and no node was left out because pods are expected on it, a new search
    begins after so long, since prices may have changed (Karpenter v0.27: 5 min). `search_seconds`: between two passes
    of one search.
    """

    settle_seconds: float = 15.0
    quiet_seconds: float = 300.0
    search_seconds: float = 2.0
    verdict_seconds: float = 120.0
    """A node that was judged alone, and stays, is judged alone again after this time, or when its pods change."""
    arrival_seconds: float = 30.0
    """How long the next search waits after a command began: its pods are moving to the remaining nodes."""


class Consolidation:
    """The method. It keeps the cursor of its search, and the removals that settle with their (monotonic) times."""

    name = CONSOLIDATION

    def __init__(self, times: ConsolidationTimes | None = None, most_simulations: int = MOST_SIMULATIONS) -> None:
        self._times = times or ConsolidationTimes()
        self._most = most_simulations
        self._cursor = BEGIN
        self._settling: dict[frozenset[str], tuple[Command, float]] = {}
        """Removals to settle, by names of their nodes, oldest first, with the (monotonic) time of their decision."""
        self._verdicts: dict[tuple[str, frozenset[PodKey]], float] = {}
        """Until when nodes that were judged alone stay, by name and pods (monotonic seconds)."""
        self._quiet: tuple[int, float] | None = None
        """(version of the snapshot on which a search ended without a result, until when no search begins on it)."""

    def wanted(self, candidate: Candidate, _snapshot: Snapshot, _now: float) -> bool:
        """Return whether consolidation may still take the node."""
        return consolidatable(candidate)

    def decide(self, given: MethodInput) -> Proposal:
        """Propose the removals that have settled and are still worth it; if there are none, search for more."""
        eligible = sum(map(consolidatable, given.candidates))
        if commands := self._settled(given):
            return Proposal(commands, eligible=eligible, again_seconds=self._again_seconds(given.monotonic))
        result = SearchResult() if self._is_quiet(given) else self._search(given)
        again_seconds = self._again_seconds(given.monotonic)
        return Proposal((), result.blocked, result.kept, eligible=eligible, again_seconds=again_seconds)

    def _again_seconds(self, monotonic: float) -> float:
        """Return the seconds until the next pass of an incomplete search, or until a removal has settled."""
        if self._cursor != BEGIN:
            return self._times.search_seconds
        settled = min((since for _, since in self._settling.values()), default=math.inf) + self._times.settle_seconds
        return max(self._times.search_seconds, settled - monotonic)

    def _settled(self, given: MethodInput) -> tuple[Command, ...]:
        """Return all empty nodes that have settled, else the first other removal."""
        by_name = {candidate.name: candidate for candidate in given.candidates}
        self._settling = {names: entry for names, entry in self._settling.items() if names <= by_name.keys()}
        empty: list[Command] = []
        for names, (_, since) in list(self._settling.items()):
            removed = [by_name[name] for name in sorted(names)]
            busy = any(candidate.pods for candidate in removed)
            if given.monotonic - since < self._times.settle_seconds or (busy and empty):
                continue
            del self._settling[names]
            judged = judge(removed, given.candidates, given.simulator, given.gate)
            if busy and len(removed) > 1 and all(map(launches_anew, judged.commands)):
                smaller = self._some_of(removed, given)
                judged = smaller if smaller.commands else judged
            if judged.commands and busy:
                return judged.commands[:1]
            for command in judged.commands:
                given.gate.grant(command.candidates)
                empty.append(command)
        return tuple(empty)

    def _some_of(self, removed: list[Candidate], given: MethodInput) -> SearchResult:
        """Search for the best subset of a settled set that cannot be removed as a whole any more, or not as well."""
        moves, totals = Moves.of(given.snapshot, given.now), totals_of(given.candidates)
        return find(removed, given.simulator, given.gate, moves, BEGIN, self._most, totals=totals)

    def _is_quiet(self, given: MethodInput) -> bool:
        return self._quiet is not None and self._quiet[0] == given.snapshot.version and given.monotonic < self._quiet[1]

    def _search(self, given: MethodInput) -> SearchResult:
        """Make one pass of the search; the removals that it decides have to settle first."""
        for command, _ in self._settling.values():
            given.gate.grant(command.candidates)
        free = [
            each
            for each in given.candidates
            if (each.name not in given.held_back or not each.pods) and each.name not in given.required
        ]
        moving = self._moving(given)
        if moving or not given.searches:
            free = [each for each in free if not each.pods]
        moves, known = Moves.of(given.snapshot, given.now), self._judged_lately(free, given.monotonic)
        result = find(free, given.simulator, given.gate, moves, self._cursor, self._most, known)
        if given.searches:
            self._cursor = result.cursor
        if not result.commands:
            until = given.monotonic + self._times.verdict_seconds
            self._verdicts.update((_verdict_key(each), until) for each, _ in result.kept)
        for command in result.commands:
            self._settling[frozenset(each.name for each in command.candidates)] = (command, given.monotonic)
        expecting = any(each.node.nominated_until > given.now for each in free)
        ended = given.searches and result.cursor == BEGIN and not (self._settling or moving or expecting)
        self._quiet = (given.snapshot.version, given.monotonic + self._times.quiet_seconds) if ended else None
        required = [
            (each, given.required[each.name])
            for each in given.candidates
            if each.name in given.required and consolidatable(each)
        ]
        return replace(result, kept=(*result.kept, *required))

    def _moving(self, given: MethodInput) -> bool:
        """Return whether a command of this method moves pods now: it began recently, or it settles."""
        records = (each.record for each in recorded_commands(given.snapshot))
        begun = (given.now - e.started_at for e in records if e.method == self.name and e.reason != NO_POD)
        settling = any(candidate.pods for command, _ in self._settling.values() for candidate in command.candidates)
        return settling or any(0 <= seconds < self._times.arrival_seconds for seconds in begun)

    def _judged_lately(self, candidates: Iterable[Candidate], monotonic: float) -> frozenset[str]:
        self._verdicts = {key: until for key, until in self._verdicts.items() if monotonic < until}
        return frozenset(each.name for each in candidates if _verdict_key(each) in self._verdicts)


def _verdict_key(candidate: Candidate) -> tuple[str, frozenset[PodKey]]:
    return candidate.name, frozenset(pod.key for pod in candidate.pods)
