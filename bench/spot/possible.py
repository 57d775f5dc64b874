"""Prove how many workloads no plan within a price could keep: an integer program over divisible nodes.

Pods and nodes are divisible, zones, rules between pods and all else that a plan must heed but requests and capacity
types are left out. So a plan may keep fewer workloads than the program, never more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.spot.losses import LEAST_REPLICAS, SHARE
from controller.core.api import labels
from controller.core.api.pod import Pod
from controller.core.provisioning import SchedulingProblem, SolveOptions
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram, UnsolvedProgramError
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.provisioning.solver.compiled_problem import compile_problem

NODES = 2_000
"""Nodes of the branch and bound at most."""


@dataclass(frozen=True, slots=True)
class _Bins:
    """B sorts of nodes. family: B, -1 on demand. price: B, $/hour. capacity: B x R, each resource in its largest."""

    family: Ints
    price: Floats
    capacity: Floats


class Possible:
    """The program of a problem whose pods have owners."""

    def __init__(self, problem: SchedulingProblem) -> None:
        self.pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in problem.pending:
            self.pods[pod.owners[0].uid].append(pod)
        self.names = sorted(self.pods)
        specs = [self.pods[name][0].spec for name in self.names]
        self.counts = np.array([len(self.pods[name]) for name in self.names], dtype=np.float64)
        self.resources = sorted({name for spec in specs for name in spec.requests})
        self.requests: Floats = np.array([[spec.requests.get(r, 0) for r in self.resources] for spec in specs])
        self.wanted = [dict(spec.node_selector).get(labels.CAPACITY_TYPE, "") for spec in specs]
        self.bins = self._bins(problem)
        scale = np.maximum(self.bins.capacity.max(axis=0), 1.0)
        self.requests = self.requests / scale
        self.bins = _Bins(self.bins.family, self.bins.price, self.bins.capacity / scale)

    def _bins(self, problem: SchedulingProblem) -> _Bins:
        """The sorts of nodes that no other of its family (on demand: of all) replaces, if nodes are divisible."""
        catalog = compile_problem(problem, SolveOptions().of_prices_alone()).masks.catalog
        columns = [catalog.space.column[name] for name in self.resources]
        found: defaultdict[str, dict[tuple[float, ...], float]] = defaultdict(dict)
        for option, key in np.argwhere(np.isfinite(catalog.cost)).tolist():
            spot = catalog.offering_keys[key][1] == labels.SPOT
            own = found[catalog.types[option].name.partition(".")[0] if spot else ""]
            capacity = tuple(catalog.allocatable[columns, option].tolist())
            own[capacity] = min(float(catalog.cost[option, key]), own.get(capacity, np.inf))
        families, price, capacities = list[int](), list[float](), list[Floats]()
        for number, (family, sorts) in enumerate(sorted(found.items())):
            every, prices = np.array(list(sorts)), np.array(list(sorts.values()))
            for place in _undominated(every, prices):
                families.append(number if family else -1)
                price.append(float(prices[place]))
                capacities.append(every[place])
        return _Bins(np.array(families), np.array(price), np.array(capacities))

    def lost(self, most: float) -> int:
        """Workloads that every plan for at most this price ($/hour) loses over their share of in some loss, or more."""
        program, nodes, kept = self._program()
        paid = program.rows(np.array([-INFINITY]), np.array([most]))
        program.entries(np.repeat(paid, len(nodes)), nodes, self.bins.price)
        whole = set(kept.tolist())
        divisible = np.array([column for column in range(program.column_count) if column not in whole])
        bound = program.solve_integers(NODES, divisible).bound
        return len(kept) - int(np.floor(-bound + 1e-6)) if np.isfinite(bound) else len(kept)

    def price(self, names: Iterable[str] = ()) -> float | None:
        """The least price, $/hour, if these workloads are kept; None: no plan keeps them at any price."""
        program, _, _ = self._program(frozenset(names))
        try:
            return program.solve().objective
        except UnsolvedProgramError:
            return None

    def added(self, names: Iterable[str]) -> Mapping[str, float | None]:
        """What each of these workloads alone adds to the least price, $/hour, if it is kept; None: see `price`."""
        free = self.price() or 0.0
        prices = {name: self.price([name]) for name in names}
        return {name: None if price is None else price - free for name, price in prices.items()}

    def _program(self, names: frozenset[str] | None = None) -> tuple[LinearProgram, Ints, Ints]:
        """The program, its columns of nodes, and those of workloads kept (None: as many as can be, at any price)."""
        program, bins = LinearProgram(), self.bins
        nodes = program.columns(np.zeros(len(bins.price)) if names is None else bins.price)
        fits: Bools = np.all(self.requests[None, :, :] <= bins.capacity[:, None, :] + 1e-12, axis=2)
        for number, wanted in enumerate(self.wanted):
            if wanted:
                fits[:, number] &= (bins.family >= 0) == (wanted == labels.SPOT)
        place, item = np.nonzero(fits)
        placed = program.columns(np.zeros(len(place)), self.counts[item])
        cover = program.rows(self.counts, self.counts)
        program.entries(cover[item], placed, 1.0)
        for resource in range(len(self.resources)):
            room = program.rows(np.full(len(nodes), -INFINITY), np.zeros(len(nodes)))
            program.entries(room[place], placed, self.requests[item, resource])
            program.entries(room, nodes, -bins.capacity[:, resource])
        large = np.flatnonzero(self.counts >= LEAST_REPLICAS)
        kept = program.columns(np.full(len(large), -1.0), 1.0) if names is None else np.zeros(0, dtype=np.int64)
        for position, number in enumerate(large.tolist()):
            if names is not None and self.names[number] not in names:
                continue
            own = np.flatnonzero((item == number) & (bins.family[place] >= 0))
            families, of = np.unique(bins.family[place[own]], return_inverse=True)
            most, count = np.floor(SHARE * self.counts[number]), self.counts[number]
            upper = np.full(len(families), count if names is None else most)
            limit = program.rows(np.full(len(families), -INFINITY), upper)
            program.entries(limit[of], placed[own], 1.0)
            if names is None:
                program.entries(limit, np.repeat(kept[[position]], len(families)), count - most)
        return program, nodes, kept


def _undominated(capacities: Floats, prices: Floats) -> Sequence[int]:
    """Rows that no other replaces, which holds no less, in all and for its price."""
    ratio = capacities / prices[:, None]
    rows = []
    for place in range(len(prices)):
        better = (capacities >= capacities[place]).all(axis=1) & (ratio >= ratio[place]).all(axis=1)
        equal = (capacities == capacities[place]).all(axis=1) & (prices == prices[place])
        if not (better & ~equal).any() and not equal[:place].any():
            rows.append(place)
    return rows
