"""What a removal costs at least, said without a simulation: most nodes of a good fleet need none to be left alone.

Everything but amounts is left out (selectors, taints, topology, daemons, limits, what other moves take), so that the
price said here is never above what a simulation finds: a removal that is not worth it at this price is not worth it.
Three things are known of the new nodes. A pod that fits on no node there is needs an instance that holds it. So do pods
of one size beyond those that the other nodes have room for. And their amounts cost at least what any one resource costs
where it is cheapest, and cpu and memory together: the dual prices of a linear program, which are edges of a hull.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from controller.core.api.pod import Resources
from controller.core.cloud import Catalog
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.simulation import Stage
from controller.core.provisioning.resources import Floats, ResourceSpace

ROUNDING = 1.0 - 1e-9
"""Of a sum of prices, so that two ways to add them up never differ in favour of a refusal."""
UNLIMITED = 1e9
"""Pods that ask for nothing, on any node."""


@dataclass(frozen=True, slots=True)
class _Size:
    """Pods of equal requests: how many each node has room for, and what the cheapest node that holds one costs."""

    amounts: Floats
    slots: Floats
    price: float


class Screen:
    """Over one stage. Not safe for several threads."""

    def __init__(self, stage: Stage) -> None:
        nodes = [n for n in stage.snapshot.nodes.values() if not n.leaving and n.name not in stage.going]
        self._space = ResourceSpace(pod.spec.requests for node in nodes for pod in node.pods)
        self._rows = {node.name: row for row, node in enumerate(nodes)}
        self._free = self._space.matrix(node.allocatable for node in nodes)
        for row, node in enumerate(nodes):
            for requests, count in Counter(pod.spec.requests for pod in node.pods).items():
                self._free[:, row] -= count * self._space.vector(requests)
        self._free = self._free.clip(min=0.0)
        self._rooms, self._prices = _offers(stage.catalog, self._space)
        self._duals = self._find_duals()
        self._sizes: dict[Resources, _Size] = {}

    def least_price(self, removed: Sequence[Candidate]) -> float:
        """$ an hour that new nodes cost at least when these nodes go together; infinite: no type holds some pod."""
        counts = Counter(pod.spec.requests for candidate in removed for pod in candidate.pods)
        if not counts:
            return 0.0
        own = [self._rows[candidate.name] for candidate in removed if candidate.name in self._rows]
        least, amounts = 0.0, np.zeros(len(self._space))
        beyond, taken = amounts.copy(), np.zeros(self._free.shape[1], dtype=np.bool_)
        for requests, count in counts.items():
            size = self._size(requests)
            over = count - min(float(count), float(size.slots.sum() - size.slots[own].sum()))
            amounts += count * size.amounts
            beyond += over * size.amounts
            taken |= size.slots > 0
            if over > 0:
                least = max(least, size.price)
        taken[own] = False
        room: Floats = self._free[:, taken].sum(axis=1)
        new = np.maximum(beyond, amounts - room)
        return ROUNDING * max(least, *(float(prices @ new) for prices in self._duals))

    def _size(self, requests: Resources) -> _Size:
        found = self._sizes.get(requests)
        if found is None:
            amounts = self._space.vector(requests)
            asked = amounts > 0
            slots = np.full(self._free.shape[1], UNLIMITED)
            if asked.any():
                slots = np.floor(self._free[asked] / amounts[asked, None]).min(axis=0).clip(min=0.0)
            prices = self._prices[np.all(self._rooms >= amounts[:, None], axis=0)]
            price = float(prices.min()) if len(prices) else math.inf
            found = self._sizes[requests] = _Size(amounts, slots, price)
        return found

    def _find_duals(self) -> list[Floats]:
        """$ an hour of a unit of each resource, by which no instance costs less than what it holds."""
        names = self._space.column
        found = [np.zeros(len(names))]
        if not len(self._prices) or self._prices.min() <= 0:
            return found
        per_dollar = self._rooms / self._prices
        for column, most in enumerate(per_dollar.max(axis=1).tolist()):
            if most > 0:
                found.append(np.zeros(len(names)))
                found[-1][column] = 1.0 / most
        if "cpu" in names and "memory" in names:
            pair = [names["cpu"], names["memory"]]
            for prices in _corners(per_dollar[pair].T.tolist()):
                found.append(np.zeros(len(names)))
                found[-1][pair] = prices
        return found


def _offers(catalog: Catalog, space: ResourceSpace) -> tuple[Floats, Floats]:
    """Of each type that can be had: what it holds (resources x types), and the least that it costs."""
    rooms: list[Resources] = []
    prices: list[float] = []
    for kind in (each for types in catalog.values() for each in types):
        asked = [
            offering.price if offering.commitment is None else min(offering.price, offering.commitment.otherwise)
            for offering in kind.offerings
            if offering.available
        ]
        if asked:
            rooms.append(kind.allocatable)
            prices.append(min(asked))
    return space.matrix(rooms), np.array(prices, dtype=np.float64)


def _corners(points: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    """Prices (x, y) above 0 by which no point (a, b) is worth more than 1, and two of them just that.

    They belong to the edges of the points' upper right hull.
    """
    hull: list[tuple[float, float]] = []
    for a, b in sorted((float(a), float(b)) for a, b in points):
        while hull and (hull[-1][1] <= b or (len(hull) > 1 and _bends_in(hull[-2], hull[-1], (a, b)))):
            hull.pop()
        hull.append((a, b))
    return [((d - b) / (a * d - b * c), (a - c) / (a * d - b * c)) for (a, b), (c, d) in pairwise(hull)]


def _bends_in(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    """Whether the middle one lies on or below the line between the others."""
    along, up = second[0] - first[0], second[1] - first[1]
    return along * (third[1] - first[1]) - up * (third[0] - first[0]) >= 0
