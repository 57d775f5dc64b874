"""Half a day of moving spot prices: users of Karpenter saw nodes swapped all day for cents (aws#8536, aws#7344)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.backoff import Moves, workload
from controller.core.deprovisioning.removal_command import Command
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning.builders import FREELY, look, owner, standing

HOUR = 3600
LOOK_SECONDS = 1800
NODES = 3
PODS = 8


def market(prices: Sequence[float]) -> tuple[InstanceType, ...]:
    """Types of 8 cpu on the spot market of one zone, at these prices."""
    zone = factories.ZONES[0]
    return tuple(
        factories.instance_type(
            name=f"m{number:02}.2xlarge", cpu="8", memory="32Gi", offered=(Offering(zone, keys.SPOT, price),)
        )
        for number, price in enumerate(prices)
    )


class Day:
    """Nodes that are 90 % full, and prices that change by up to two percent an hour."""

    def __init__(self, threshold: float | None = None) -> None:
        requirement = factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)
        self.owner = owner(requirements=[requirement], disruption=replace(FREELY, consolidation_threshold=threshold))
        self.random = random.Random(7)
        self.prices = [0.15 * self.random.uniform(0.97, 1.03) for _ in range(8)]
        self.moves: dict[str, frozenset[float]] = {}
        self.moved = self.made = 0
        self.nodes = [self._node(f"m{number:02}.2xlarge") for number in range(NODES)]

    def _node(self, kind: str) -> StateNode:
        """A node of one workload's pods."""
        self.made += 1
        made = [{"cpu": "900m"}] * PODS
        return standing(f"n{self.made:03}", kind, *made, types=market(self.prices), capacity_type=keys.SPOT)

    def live(self, hours: int) -> None:
        """Look every half hour, and do what is found at once."""
        for second in range(0, hours * HOUR, LOOK_SECONDS):
            if second % HOUR == 0:
                self.prices = [price * self.random.uniform(0.98, 1.02) for price in self.prices]
            search = look(self.nodes, market(self.prices), [self.owner], moves=Moves(self.moves))
            for command in search.commands:
                self._carry_out(command, second)

    def _carry_out(self, command: Command, second: float) -> None:
        gone = {candidate.name for candidate in command.candidates}
        pods: list[Pod] = [pod for candidate in command.candidates for pod in candidate.pods]
        self.moved += len(pods)
        assert len(command.replacements) == len(gone), "the nodes are full: one for one"
        new = [self._node(node.offering.instance_type) for node in command.replacements]
        self.nodes = [*(node for node in self.nodes if node.name not in gone), *new]
        self.moves = {workload(pod): frozenset({second}) for node in new for pod in node.pods}


def test_pods_of_full_nodes_are_not_moved_all_day_for_cents() -> None:
    """With the threshold at 0, Karpenter v0.27's rule, each of them moves within hours."""
    theirs, ours = Day(threshold=0.0), Day()
    theirs.live(8)
    assert theirs.moved >= NODES * PODS
    ours.live(12)
    assert ours.moved == 0
