"""Zone moves: where a Provisioner's zone balance is missed for long, a node of the fullest zone is replaced in another.

Plans even out new nodes alone. A Provisioner with the annotation `karpenter.sh/zone-move-interval` has nodes that stand
moved, too: one at a time and one in each interval, so that a zone that comes back fills slowly. The interval begins
when the aim is seen missed with no command under way, and anew with each leader. A move costs at most the aim's
premium, passes the gate as consolidation does, and never falls back to the zone that is left: where the others have no
capacity its launch fails, and nothing is removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import UNDERUTILIZED, consolidatable
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.records import recorded_commands
from controller.core.deprovisioning.removal_command import ZONE_MOVE, Command
from controller.core.deprovisioning.removal_simulation import Outcome
from controller.core.provisioning.plan import PlannedNode
from controller.core.provisioning.solver.zone_shares import planned_load, zone_load
from controller.core.state.snapshot import Snapshot
from controller.core.zones.balance import ROUNDING, Load, ZoneBalance

MOST_SIMULATIONS = 5
"""Limit for one Provisioner in one interval."""


@dataclass(frozen=True, slots=True)
class _Imbalance:
    """A Provisioner whose zone balance is missed: its fullest zone, and the CPU by zone."""

    aim: ZoneBalance
    zone: str
    load: Load


class ZoneMoves:
    """The method. It keeps since when (monotonic seconds) each Provisioner's aim is missed."""

    name = ZONE_MOVE

    def __init__(self) -> None:
        self._missed: dict[str, float] = {}

    def wanted(self, candidate: Candidate, snapshot: Snapshot, _now: float) -> bool:
        """Return whether the Provisioner still asks for it, and no other zone is fuller than the node's."""
        aim = ZoneBalance().of(candidate.provisioner.object_annotations)
        load = zone_load(snapshot.nodes.values(), candidate.provisioner.name, aim)
        own = load.cpu.get(candidate.node.node.zone, 0)
        fuller = any(cpu > own for cpu in load.cpu.values())
        return consolidatable(candidate) and aim.move_seconds > 0 and not fuller

    def decide(self, given: MethodInput) -> Proposal:
        """Propose the move of the first Provisioner, by name, whose interval is over."""
        aims = _aims(given)
        imbalances = _imbalances(aims, given)
        self._missed = {name: self._missed.get(name, given.monotonic) for name in imbalances}
        eligible = sum(_movable(each, imbalances) for each in given.candidates)
        kept: list[tuple[Candidate, str]] = []
        for name in sorted(imbalances):
            if given.monotonic - self._missed[name] < imbalances[name].aim.move_seconds:
                continue
            self._missed[name] = given.monotonic
            command, refused = _move(imbalances[name], name, given)
            kept += refused
            if command is not None:
                return Proposal((command,), kept=tuple(kept), eligible=eligible)
        due = [since + imbalances[name].aim.move_seconds - given.monotonic for name, since in self._missed.items()]
        pauses = [aim.move_seconds for aim in aims.values()]
        return Proposal(kept=tuple(kept), eligible=eligible, again_seconds=min(due + pauses, default=math.inf))


def outside(nodes: Iterable[PlannedNode], zones: Iterable[str], factor: float = math.inf) -> tuple[PlannedNode, ...]:
    """Return the replacements without alternative offerings in these zones; one planned there stays as it is.

    factor: alternatives that cost more than so many times the planned offering are left out too, unless they are among
    the first choices.
    """
    left = frozenset(zones)
    return tuple(
        node
        if node.offering.zone in left
        else replace(
            node,
            alternatives=tuple(
                each
                for each in node.alternatives
                if each.zone not in left and (each in node.named or each.cost <= node.offering.cost * factor)
            ),
        )
        for node in nodes
    )


def _movable(candidate: Candidate, imbalances: Mapping[str, _Imbalance]) -> bool:
    imbalance = imbalances.get(candidate.provisioner.name)
    return imbalance is not None and candidate.node.node.zone == imbalance.zone and consolidatable(candidate)


def _aims(given: MethodInput) -> dict[str, ZoneBalance]:
    """Return the aims, by name, of the Provisioners that ask for moves."""
    owners = {each.provisioner.name: each.provisioner for each in given.candidates}
    balance = given.simulator.options.zone_balance
    aims = {name: balance.of(owner.object_annotations) for name, owner in owners.items()}
    return {name: aim for name, aim in aims.items() if aim.move_seconds}


def _imbalances(aims: Mapping[str, ZoneBalance], given: MethodInput) -> dict[str, _Imbalance]:
    """Return by name the Provisioners that miss their aim, and for which no command is under way."""
    commands = recorded_commands(given.snapshot)
    busy = {node.provisioner_name for command in commands for node in command.carriers}
    imbalances = {}
    for name, aim in aims.items():
        if name in busy:
            continue
        load = zone_load(given.snapshot.nodes.values(), name, aim, given.simulator.going)
        if zone := aim.crowded(load):
            imbalances[name] = _Imbalance(aim, zone, load)
    return imbalances


def _move(imbalance: _Imbalance, name: str, given: MethodInput) -> tuple[Command | None, list[tuple[Candidate, str]]]:
    """Return the first node that may go, least disruption for its CPU first; and why others may not."""
    refused: list[tuple[Candidate, str]] = []
    simulated = 0
    for candidate in sorted(_candidates(imbalance, name, given), key=_by_disruption):
        if given.gate.removal_refusal(candidate, UNDERUTILIZED) is not None:
            continue
        if simulated == MOST_SIMULATIONS:
            break
        simulated += 1
        outcome = given.simulator.simulate([candidate.node])
        problem = outcome.problem or _problem(candidate, outcome, imbalance, given)
        if not problem:
            return _command(candidate, outcome, imbalance), refused
        refused.append((candidate, f"stays in {imbalance.zone}, which has more than its share of the CPU: {problem}"))
    return None, refused


def _candidates(imbalance: _Imbalance, name: str, given: MethodInput) -> Sequence[Candidate]:
    return [
        each
        for each in given.candidates
        if _movable(each, {name: imbalance})
        and each.price is not None
        and each.name not in given.held_back
        and each.name not in given.required
    ]


def _by_disruption(candidate: Candidate) -> tuple[float, str]:
    return candidate.disruption / max(1, candidate.node.allocatable.get("cpu", 0)), candidate.name


def _problem(candidate: Candidate, outcome: Outcome, imbalance: _Imbalance, given: MethodInput) -> str:
    """Return why a move with this outcome is not worth making; empty if it is."""
    name, aim = candidate.provisioner.name, imbalance.aim
    if (extra := outcome.cost - candidate.cost) > aim.premium * candidate.cost + ROUNDING:
        return f"elsewhere its pods cost ${extra:.4f} an hour more, and {aim.premium:.1%} more is allowed"
    without = given.simulator.going | {candidate.name}
    counted = [node for node in outcome.replacements if aim.cluster or node.provisioner == name]
    after = zone_load(given.snapshot.nodes.values(), name, aim, without)
    after = after.plus(planned_load(counted, given.simulator.catalog))
    if after.share >= imbalance.load.share - ROUNDING:
        return f"no other zone takes its pods for at most {aim.premium:.1%} more"
    return ""


def _command(candidate: Candidate, outcome: Outcome, imbalance: _Imbalance) -> Command:
    extra = outcome.cost - candidate.cost
    money = f"for ${extra:.4f} an hour more" if extra > 0 else f"which saves ${abs(extra):.4f} an hour"
    share, most = imbalance.load.share, imbalance.aim.max_share
    because = (
        f"zone {imbalance.zone} has {share:.0%} of the CPU, and {most:.0%} is the most that zone balance wants, {money}"
    )
    new, allowed = outcome.cost - outcome.surplus, (1.0 + imbalance.aim.premium) * candidate.cost - outcome.surplus
    replacements = outside(outcome.replacements, (imbalance.zone,), allowed / new if new > 0 else math.inf)
    return Command(ZONE_MOVE, UNDERUTILIZED, because, (candidate,), replacements, outcome.solved)
