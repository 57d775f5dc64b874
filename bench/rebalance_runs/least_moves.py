"""The fewest pods that any fleet of at most a given cost makes move, by an exact model of its own.

An integer program: how many pods of each class stay on each node, how many arrive there, and how many go to new nodes
of each type. Any pod may move, whether or not its node goes (a plan moves whole nodes' pods). New nodes of a type are
counted as one of their size together, so the least may be lower than any fleet's, never higher.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.api.pod import PodSpec
from controller.core.cloud import InstanceType
from controller.core.deprovisioning.candidates import Candidate
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.resource_space import Floats, Ints

MOST_BRANCHES = 2_000


@dataclass(frozen=True, slots=True)
class LeastMoves:
    """`moves`: no fleet needs fewer; `proven`: the search was complete, else only its bound is known."""

    moves: int
    proven: bool


def least_moves(
    nodes: Sequence[Candidate], types: Sequence[InstanceType], node_cost: float, most_cost: float, *, whole: bool = True
) -> LeastMoves:
    """The least number of moves to a fleet of at most so many $ an hour; `whole`: pods and nodes are not divisible."""
    program = _Program(nodes, types, node_cost, most_cost)
    return program.search() if whole else program.relaxed()


class _Program:
    """Arrays: N nodes, C pod classes (equal requests), R resources, T types. `_there`: N x C pods."""

    def __init__(
        self, nodes: Sequence[Candidate], types: Sequence[InstanceType], node_cost: float, most_cost: float
    ) -> None:
        specs: list[PodSpec] = sorted({pod.spec for node in nodes for pod in node.pods}, key=str)
        names = sorted({name for spec in specs for name in spec.requests})
        counts = [Counter(pod.spec for pod in node.pods) for node in nodes]
        self._there = np.array([[float(own[spec]) for spec in specs] for own in counts])
        self._requests = np.array([[float(spec.requests.get(name, 0)) for name in names] for spec in specs])  # C x R
        rooms = [[float(node.node.allocatable.get(name, 0)) for name in names] for node in nodes]
        offered = [[float(each.allocatable.get(name, 0)) for name in names] for each in types]
        scale = np.maximum(1.0, np.array(offered).max(axis=0))
        self._requests /= scale
        self._rooms, self._offered = np.array(rooms) / scale, np.array(offered) / scale  # N x R, T x R
        self._costs = np.array([node.cost for node in nodes])
        self._prices = np.array([min(o.price + o.beside for o in each.offerings) + node_cost for each in types])
        self._program = LinearProgram()
        self._build(most_cost)

    def search(self) -> LeastMoves:
        found = self._program.solve_integers(MOST_BRANCHES)
        whole = float(self._there.sum())
        least = math.ceil(whole + found.bound - 1e-6)
        proven = found.values is not None and abs(found.objective - found.bound) < 0.5
        return LeastMoves(max(0, least), proven)

    def relaxed(self) -> LeastMoves:
        return LeastMoves(max(0, math.ceil(self._there.sum() + self._program.solve().objective - 1e-6)), False)

    def _build(self, most_cost: float) -> None:
        program, (nodes, classes) = self._program, self._there.shape
        kinds = len(self._prices)
        stay = program.columns(np.full(nodes * classes, -1.0), self._there.ravel()).reshape(nodes, classes)
        arrive = program.columns(np.zeros(nodes * classes)).reshape(nodes, classes)
        on_new = program.columns(np.zeros(kinds * classes)).reshape(kinds, classes)
        kept, bought = program.columns(np.zeros(nodes), 1.0), program.columns(np.zeros(kinds))
        self._fit([stay, arrive], kept, self._rooms)
        self._fit([on_new], bought, self._offered)
        self._stay_where_it_stands(stay, kept)
        counts = self._there.sum(axis=0)
        rows = program.rows(counts, counts)  # every pod is somewhere
        for columns in (stay, arrive, on_new):
            program.entries(np.tile(rows, len(columns)), columns.ravel(), 1.0)
        cost = program.rows(np.array([-INFINITY]), np.array([most_cost * (1 + 1e-9)]))
        program.entries(np.repeat(cost, nodes), kept, self._costs)
        program.entries(np.repeat(cost, kinds), bought, self._prices)

    def _fit(self, placed: Sequence[Ints], nodes: Ints, room: Floats) -> None:
        """What is placed on a node requests no more than its room, and nothing where it is not there."""
        for resource in range(room.shape[1]):
            rows = self._program.rows(np.full(len(nodes), -INFINITY), np.zeros(len(nodes)))
            self._program.entries(rows, nodes, -room[:, resource])
            for columns in placed:
                requests = np.tile(self._requests[:, resource], len(nodes))
                self._program.entries(np.repeat(rows, columns.shape[1]), columns.ravel(), requests)

    def _stay_where_it_stands(self, stay: Ints, kept: Ints) -> None:
        rows = self._program.rows(np.full(stay.size, -INFINITY), np.zeros(stay.size))
        self._program.entries(rows, stay.ravel(), 1.0)
        self._program.entries(rows, np.repeat(kept, stay.shape[1]), -self._there.ravel())
