"""Order the nodes by which a set that is removed together grows, before anything is simulated.

A removal without new nodes moves pods into the room of the nodes that stay. Each node that goes takes up its whole size
of that room: its pods need what it uses, and what it has free is gone. So the first are those that cost most, less what
moving their pods costs, for the size that they take up. Nodes that are expensive for their pods follow, and these
need new nodes: what a pod is worth there are the dual prices of the lower bound for all these pods on new nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.api.pod import Pod
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.cost_screen import CostScreen
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.worth import Totals, threshold
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.problem import build

MOVE_SHARE = 1.5
"""Weight of moving a pod in the order, as a multiple of the fleet's cost for a pod: of nodes that cost the same for
their size, those with fewer pods come first."""
PLAN_OVER_BOUND = 1.1
"""Estimated cost of new nodes over the lower bound, since pods are not divisible."""


class RemovalOrder:
    """The order of the candidates of one snapshot."""

    def __init__(self, simulator: Simulator, screen: CostScreen, totals: Totals) -> None:
        self._simulator, self._screen, self._totals = simulator, screen, totals

    def move_price(self, candidate: Candidate) -> float:
        """Return the least saving for which the node's pods may be moved, $ an hour: the threshold as a price."""
        return threshold(candidate.provisioner) * self._share(candidate)

    def by_room(self, members: Sequence[Candidate]) -> list[Candidate]:
        """Return nodes whose cost is worth moving their pods, those first that save most for the room they take up."""
        worthy = [each for each in members if each.cost >= self.move_price(each)]
        value = self._screen.value_of_rooms(worthy)

        def rank(candidate: Candidate) -> tuple[float, str]:
            saves = candidate.cost - MOVE_SHARE * self._share(candidate)
            return (-saves / max(1e-9, value[candidate.name]), candidate.name)

        return sorted(worthy, key=rank)

    def dear(self, members: Sequence[Candidate]) -> list[Candidate]:
        """Return nodes that cost more than new nodes for their pods and the moves, the most expensive first."""
        worth = self._pod_worth([pod for each in members for pod in each.pods])
        over: list[tuple[float, Candidate]] = []
        for each in members:
            elsewhere = PLAN_OVER_BOUND * sum(worth.get(_kind(pod), 0.0) for pod in each.pods)
            surplus = each.cost - elsewhere - self.move_price(each)
            if surplus > 0:
                over.append((surplus / max(0.1, each.disruption), each))
        return [each for _, each in sorted(over, key=lambda entry: (-entry[0], entry[1].name))]

    def _share(self, candidate: Candidate) -> float:
        """Return the share of the fleet's cost that is the node's by its disruption cost."""
        totals = self._totals
        return max(0.0, candidate.disruption) / totals.disruption * totals.cost if totals.disruption > 0 else 0.0

    def _pod_worth(self, pods: list[Pod]) -> dict[object, float]:
        """Return the $ an hour that a pod of each kind adds to a fleet of new nodes for all of them."""
        snapshot = self._simulator.snapshot
        everywhere = frozenset(snapshot.nodes)
        problem = build(snapshot, self._simulator.catalog, pods, everywhere, self._simulator.skipped)
        lower_bound = bound(problem, self._simulator.options, snapshot_index=self._simulator.snapshot_index)
        by_key = {pod.key: pod for pod in pods}
        return {_kind(by_key[key]): worth for key, worth in lower_bound.pod_worth if key in by_key}


def _kind(pod: Pod) -> object:
    """Return a key that is equal for pods which the bound treats alike."""
    return (pod.spec, pod.namespace, pod.labels)
