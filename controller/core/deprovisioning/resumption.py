"""A command whose leader died before all of its replacements were launched: the same plan again, for the next one.

The record names replacements by launch token, and a token is made of what the node is for (docs/adr/0003). So the next
leader decides the same removal anew from the present cluster; where that comes to the same tokens, what is missing is
launched under them, and nothing that was launched is given back. Where it does not, the cluster changed in between, and
the command is taken back.
"""

from __future__ import annotations

from dataclasses import replace

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation import CONSOLIDATION
from controller.core.deprovisioning.records import Recorded
from controller.core.deprovisioning.removal_simulation import Stage, simulate
from controller.core.deprovisioning.worth import scale, worth
from controller.core.provisioning.plan import PlannedNode


def planned_again(command: Recorded, stage: Stage, now: float) -> tuple[PlannedNode, ...]:
    """All replacements of the recorded removal, as they would be planned at `now` (Unix seconds).

    As if nothing had been launched for it yet: nodes of the command that are there already are thought away. Empty: the
    removal would not be decided any more.
    """
    launched = {node.name for node in command.replacements.values()}
    nodes = {name: node for name, node in stage.snapshot.nodes.items() if name not in launched}
    before = replace(stage, snapshot=replace(stage.snapshot, nodes=FrozenMap(nodes)))
    outcome = simulate(before, command.carriers)
    if outcome.problem:
        return ()
    if command.record.method != CONSOLIDATION:
        return outcome.replacements
    everyone = candidates(before.snapshot, before.catalog, now)
    names = {node.name for node in command.carriers}
    removed = [candidate for candidate in everyone if candidate.name in names]
    return worth(removed, outcome, scale(everyone), before.catalog).replacements
