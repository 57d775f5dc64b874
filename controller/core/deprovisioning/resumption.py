"""Resume a command whose leader died before all of its replacements were launched.

The record names replacements by launch token, and a token is a hash of what the node is for (docs/adr/0003). The next
leader plans the recorded removal again; if that gives the same tokens, it launches what is missing under them. If not,
the cluster has changed in between, and the command is rolled back.
"""

from __future__ import annotations

from dataclasses import replace

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.records import RecordedCommand
from controller.core.deprovisioning.removal_command import CONSOLIDATION, ZONE_MOVE
from controller.core.deprovisioning.removal_simulation import Outcome, Simulator
from controller.core.deprovisioning.worth import totals_of, worth
from controller.core.deprovisioning.zones.zone_moves import outside


def planned_again(command: RecordedCommand, simulator: Simulator, now: float) -> Outcome:
    """Plan the recorded removal with all of its replacements again, as it would be decided at `now` (Unix seconds).

    Replacements that were launched already are left out of the snapshot. There are none where the removal would not be
    decided now.
    """
    launched = {node.name for node in command.replacements.values()}
    nodes = {name: node for name, node in simulator.snapshot.nodes.items() if name not in launched}
    before = replace(simulator, snapshot=replace(simulator.snapshot, nodes=FrozenMap(nodes)))
    outcome = before.simulate(command.carriers)
    if outcome.problem:
        return Outcome(problem=outcome.problem)
    if command.record.method == ZONE_MOVE:
        left = {node.node.zone for node in command.carriers}
        return replace(outcome, replacements=outside(outcome.replacements, left))
    if command.record.method != CONSOLIDATION:
        return outcome
    everyone = candidates(before.snapshot, before.catalog, now, beside=before.options.beside)
    names = {node.name for node in command.carriers}
    removed = [candidate for candidate in everyone if candidate.name in names]
    judged = worth(removed, outcome, totals_of(everyone), before.catalog)
    return replace(outcome, replacements=judged.replacements)
