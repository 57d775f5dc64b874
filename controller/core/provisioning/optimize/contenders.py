"""Choose among packings of about the same cost: the fewest nodes, then the fewest instance types."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Packing

ABOUT = 0.01
"""Packings cost about the same within this part of the cheapest one's cost."""


@dataclass(frozen=True, slots=True)
class _Contender:
    """left: units left out. cost: $/hour of new nodes. nodes, types: how many, and of how many types."""

    left: float
    cost: float
    nodes: int
    types: int
    packing: Packing

    def dominates(self, other: _Contender) -> bool:
        """Return whether it is at least as good in all that counts."""
        return (
            self.left <= other.left
            and self.cost <= other.cost
            and self.nodes <= other.nodes
            and self.types <= other.types
        )


class Contenders:
    """The packings of a problem that may be chosen: none is better than another in everything."""

    def __init__(self, problem: BinPackingProblem, about: float) -> None:
        """`about`: the part of the cheapest cost that fewer nodes may cost."""
        self.problem = problem
        self.about = about
        self._kept: list[_Contender] = []

    def add(self, packing: Packing) -> None:
        """Keep a packing, unless another is at least as good in all that counts."""
        numbers = [one.number for one in packing.bins if not one.existing]
        cost = float(self.problem.price[numbers].sum()) if numbers else 0.0
        options = self.problem.bin_types.option[numbers].tolist() if numbers else []
        types = len({self.problem.catalog.types[option].name for option in options})
        new = _Contender(float(packing.left.sum()), cost, len(numbers), types, packing)
        if not any(each.dominates(new) for each in self._kept):
            self._kept = [each for each in self._kept if not new.dominates(each)] + [new]

    def kept(self) -> list[Packing]:
        """Return the packings of which none is better than another in everything."""
        return [each.packing for each in self._kept]

    def chosen(self) -> Packing:
        """Return, of those that leave the fewest units out and cost about as little as the cheapest,
        the fewest nodes."""
        fewest = min(each.left for each in self._kept)
        placing = [each for each in self._kept if each.left == fewest]
        most = (1.0 + self.about) * min(each.cost for each in placing)
        fine = [each for each in placing if each.cost <= most]
        return min(fine, key=lambda each: (each.nodes, each.types, each.cost)).packing
