"""A linear program for the fewest moves at a given cost: which nodes to remove if pods and nodes were divisible.

A removed node saves its cost; its pods need what they request, and its free room is gone. They are placed in the free
room of the remaining nodes and on new nodes of any type on offer. Selectors, topology and the fit of single pods are
left out: what a real plan costs beyond the program is learned, as a price of moving a pod of each class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.api.pod import Pod
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.cost_screen import offered_types
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram, UnsolvedProgramError
from controller.core.provisioning.resource_space import Floats, ResourceSpace

TIE = 1e-6
"""Cost of removing a node beside its pods in the objective: of sets with as many moves the smallest wins."""


@dataclass(frozen=True, slots=True)
class Removal:
    """`goes`: candidates of which the program removes half or more. `new_cost`: $ an hour of new nodes."""

    goes: tuple[Candidate, ...]
    new_cost: float


class RemovalProgram:
    """The program over the candidates of one snapshot.

    Arrays: N candidates, R resources, T instance types on offer. `_used` and `_free` are R x N: what a candidate's pods
    request, and what is left; `_room` R: free on other nodes without taints.
    """

    def __init__(self, nodes: Sequence[Candidate], simulator: Simulator) -> None:
        self._nodes = tuple(nodes)
        self._space = ResourceSpace(pod.spec.requests for node in nodes for pod in node.pods)
        index, names = simulator.snapshot_index, {node.name for node in nodes}
        free = index.free(self._space).clip(min=0.0)
        self._free = free[:, [index.place[node.name] for node in nodes]]
        others = [
            index.place[node.name]
            for node in simulator.snapshot.nodes.values()
            if node.name not in names and node.takes_pods and not node.taints
        ]
        self._room: Floats = free[:, others].sum(axis=1)
        columns = [self._space.matrix(pod.spec.requests for pod in node.pods).sum(axis=1) for node in nodes]
        self._used = np.array(columns, dtype=np.float64).reshape(len(nodes), len(self._space)).T
        self._capacities, self._costs = offered_types(simulator.catalog, self._space, simulator.options.beside)
        self._cost = np.array([node.cost for node in nodes])
        self._moves = np.array([float(len(node.pods)) for node in nodes])

    def fewest_moves(
        self, most_cost: float, prices: Mapping[Hashable, float], staying: frozenset[str]
    ) -> Removal | None:
        """Minimise moves so that candidates and new nodes cost `most_cost` $ an hour at most; None if infeasible.

        prices: $ an hour of moving a pod of each class (see `pod_class`). staying: names of nodes not to remove.
        """
        program = LinearProgram()
        goes, new = self._add_room(program, self._moves + TIE, np.zeros(len(self._costs)), staying)
        limit = program.rows(np.array([-INFINITY]), np.array([most_cost - float(self._cost.sum())]))
        program.entries(np.repeat(limit, len(goes)), goes, self._learned(prices) - self._cost)
        program.entries(np.repeat(limit, len(new)), new, self._costs)
        try:
            values = program.solve().values
        except UnsolvedProgramError:
            return None
        removed = tuple(node for node, share in zip(self._nodes, values[goes], strict=True) if share >= 0.5)
        return Removal(removed, float(values[new] @ self._costs))

    def least_cost(self, prices: Mapping[Hashable, float], staying: frozenset[str]) -> float:
        """Return the least $ an hour of candidates and new nodes, with any number of moves."""
        program = LinearProgram()
        self._add_room(program, self._learned(prices) - self._cost, self._costs, staying)
        return float(self._cost.sum()) + program.solve().objective

    def _add_room(
        self, program: LinearProgram, of_going: Floats, of_new: Floats, staying: frozenset[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add a column for each candidate that goes and for each type, and a row for each resource's room.

        Return the numbers of both sets of columns.
        """
        ceilings = np.array([float(node.name not in staying) for node in self._nodes])
        goes, new = program.columns(of_going, ceilings), program.columns(of_new)
        # In units of the largest amount of a resource: memory in bytes is too large for the solver beside 1.
        taken = self._used + self._free
        unit = np.maximum(1.0, np.maximum(taken.max(axis=1, initial=0.0), self._capacities.max(axis=1, initial=0.0)))
        most = (self._free.sum(axis=1) + self._room) / unit
        rows = program.rows(np.full(len(most), -INFINITY), most)
        for row, frees, holds in zip(rows, taken / unit[:, None], self._capacities / unit[:, None], strict=True):
            program.entries(np.full(len(goes), row), goes, frees)
            program.entries(np.full(len(new), row), new, -holds)
        return goes, new

    def _learned(self, prices: Mapping[Hashable, float]) -> Floats:
        return np.array([sum(prices.get(pod_class(pod), 0.0) for pod in node.pods) for node in self._nodes])


def pod_class(pod: Pod) -> Hashable:
    """Return a key that is equal for pods with equal requests and equal rules about nodes."""
    spec = pod.spec
    return spec.requests, spec.node_selector, spec.required_node_affinity, spec.tolerations


def shares_of_cost(pods: Sequence[Pod], cost: float) -> Counter[Hashable]:
    """Divide a new node's cost among the classes of its pods, by the mean of their shares of its requests."""
    names = {name for pod in pods for name, amount in pod.spec.requests.items() if amount > 0}
    whole = {name: sum(pod.spec.requests.get(name, 0) for pod in pods) for name in names}
    shares: Counter[Hashable] = Counter()
    for pod in pods:
        part = sum(pod.spec.requests.get(name, 0) / whole[name] for name in whole) / max(1, len(whole))
        shares[pod_class(pod)] += cost * part  # type: ignore[assignment]
    return shares
