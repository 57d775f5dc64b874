"""A lower bound on the cost of the new nodes that a removal needs, without a simulation.

Most nodes of a well-packed fleet are ruled out by it: a removal that is not worth it at this cost is not worth it.

Counted are resource requests, and which existing nodes are open to a pod by node selector, required node affinity,
bound volumes and taints. Everything else (topology, DaemonSets, limits, room that other moves take, surplus CPU)
is left out, so the bound is never above what a simulation finds. It is the maximum of

- the cheapest instance that holds a pod, for each pod that exceeds the room on existing nodes; infinite for a pod that
  must run on a node of a given hostname;
- for each class of pods, those that exceed the room, times the least cost for one of them of any instance that they
  fill: so nothing is cheaper than a full node at that cost;
- the requests that exceed the room on existing nodes, times dual prices: $ an hour for a unit of each resource, by
  which no instance costs less than what it holds. For one resource it is the cost where that resource is cheapest;
  for cpu and memory together the prices belong to the edges of a convex hull.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from controller.core.api.labels import FIELD_NAME, HOSTNAME
from controller.core.api.pod import Pod, PodKey, Resources
from controller.core.cloud import Catalog
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning.offerings.option_table import NEW_HOSTNAME
from controller.core.provisioning.plan import Beside
from controller.core.provisioning.pods.relaxation import Choice, required_choices
from controller.core.provisioning.pods.volume_needs import Volumes
from controller.core.provisioning.resource_space import Bools, Floats, ResourceSpace
from controller.core.state.snapshot import Snapshot, StateNode

ROUNDING = 1.0 - 1e-9
"""Factor on a sum of prices, so that the order of summation never turns an equal price into a refusal."""
UNLIMITED = 1e9
"""Pods without requests that any node has room for."""


@dataclass(frozen=True, slots=True, eq=False)
class _PodClass:
    """Pods with equal requests and equal rules about nodes.

    `requests`: R (resources of the space). `slots`: nodes; how many pods of the class each existing node has room for.
    `cost`: $ an hour of the cheapest new node for one of them; `share`: the least of any new node for each of the pods
    that fill it.
    """

    requests: Floats
    slots: Floats
    cost: float
    share: float


class CostScreen:
    """The lower bound for removals on one snapshot. Not thread-safe.

    Arrays: `_free` is R x nodes, free room on the nodes that stay or may be removed; `_places` their places in the
    snapshot's index; `_capacities` R x types and `_costs` types, of the instance types on offer; each of `_duals` R.
    """

    def __init__(self, simulator: Simulator) -> None:
        index = simulator.snapshot_index
        nodes = [n for n in simulator.snapshot.nodes.values() if not n.leaving and n.name not in simulator.going]
        self._space = ResourceSpace(pod.spec.requests for node in nodes for pod in node.pods)
        self._columns = {node.name: column for column, node in enumerate(nodes)}
        self._places = np.array([index.place[node.name] for node in nodes], dtype=np.int64)
        self._free = index.free(self._space)[:, self._places].clip(min=0.0)
        self._capacities, self._costs = offered_types(simulator.catalog, self._space, simulator.options.beside)
        self._duals = self._dual_prices()
        self._cluster_nodes = index.cluster_nodes
        self._volume_choices = _volume_choices(simulator.snapshot, nodes)
        self._classes: dict[Hashable, _PodClass] = {}

    def least_cost(self, removed: Sequence[Candidate]) -> float:
        """Return the least $ an hour of new nodes if these are removed together; infinite: no type holds some pod."""
        counts = Counter(self._class_of(pod) for candidate in removed for pod in candidate.pods)
        if not counts:
            return 0.0
        own = [self._columns[candidate.name] for candidate in removed if candidate.name in self._columns]
        least = 0.0
        # R: requests of all pods that move, and of those that exceed their class's slots on the other nodes.
        requests, exceeding = np.zeros(len(self._space)), np.zeros(len(self._space))
        usable = np.zeros(self._free.shape[1], dtype=np.bool_)  # nodes that take a pod of some class
        for pods, count in counts.items():
            over = count - min(float(count), float(pods.slots.sum() - pods.slots[own].sum()))
            requests += count * pods.requests
            exceeding += over * pods.requests
            usable |= pods.slots > 0
            if over > 0:
                least = max(least, pods.cost, over * pods.share)
        usable[own] = False
        room: Floats = self._free[:, usable].sum(axis=1)
        on_new_nodes = np.maximum(exceeding, requests - room)
        return ROUNDING * max(least, *(float(prices @ on_new_nodes) for prices in self._duals))

    def value_of_rooms(self, candidates: Iterable[Candidate]) -> dict[str, float]:
        """Return the $ an hour of each node's allocatable, by name, at the dual prices that value its pods most."""
        nodes = list(candidates)
        wanted = self._space.matrix([pod.spec.requests for node in nodes for pod in node.pods]).sum(axis=1)
        prices = max(self._duals, key=lambda each: float(each @ wanted))
        rooms = prices @ self._space.matrix([candidate.node.allocatable for candidate in nodes])
        return {candidate.name: float(value) for candidate, value in zip(nodes, rooms, strict=True)}

    def _class_of(self, pod: Pod) -> _PodClass:
        spec, choices = pod.spec, self._volume_choices.get(pod.key, ())
        key = (spec.requests, spec.node_selector, spec.required_node_affinity, spec.tolerations, choices)
        if key not in self._classes:
            self._classes[key] = self._new_class(pod)
        return self._classes[key]

    def _new_class(self, pod: Pod) -> _PodClass:
        amounts = self._space.vector(pod.spec.requests)
        asked = amounts > 0
        open_to, may_be_new = self._open_to(pod)
        slots = np.where(open_to, UNLIMITED, 0.0)
        if asked.any() and open_to.any():
            room = self._free[np.ix_(asked, open_to)] / amounts[asked, None]
            slots[open_to] = np.floor(room).min(axis=0).clip(min=0.0)
        holds = np.all(self._capacities >= amounts[:, None], axis=0)
        if not may_be_new or not holds.any():
            return _PodClass(amounts, slots, math.inf, math.inf)
        fill = np.full(int(holds.sum()), UNLIMITED)
        if asked.any():
            fill = np.floor((self._capacities[np.ix_(asked, holds)] / amounts[asked, None]).min(axis=0) / ROUNDING)
        costs = self._costs[holds]
        return _PodClass(amounts, slots, float(costs.min()), float((costs / fill).min()))

    def _open_to(self, pod: Pod) -> tuple[Bools, bool]:
        """Return which existing nodes (nodes) labels, taints and volumes allow, and whether they allow a new one."""
        try:
            choices = (*required_choices(pod.spec), *self._volume_choices.get(pod.key, ()))
        except ValueError:
            return np.ones(len(self._places), dtype=np.bool_), True  # the simulation reports what is wrong with it
        places = self._cluster_nodes.tolerated(pod.spec.tolerations)
        for terms in choices:
            places = places & self._cluster_nodes.choice(terms)
        return places[self._places], all(map(_may_be_new, choices))

    def _dual_prices(self) -> list[Floats]:
        """Prices of resources (R each), in $ an hour of a unit, by which no instance costs less than what it holds."""
        names = self._space.column
        duals = [np.zeros(len(names))]
        if not len(self._costs) or self._costs.min() <= 0:
            return duals
        per_dollar = self._capacities / self._costs  # R x types
        for row, most in enumerate(per_dollar.max(axis=1).tolist()):
            if most > 0:
                duals.append(np.zeros(len(names)))
                duals[-1][row] = 1.0 / most
        if "cpu" in names and "memory" in names:
            pair = [names["cpu"], names["memory"]]
            for prices in _hull_edge_prices(per_dollar[pair].T.tolist()):
                duals.append(np.zeros(len(names)))
                duals[-1][pair] = prices
        return duals


def _volume_choices(snapshot: Snapshot, nodes: Iterable[StateNode]) -> dict[PodKey, tuple[Choice, ...]]:
    """Return where the volumes of each pod can be attached, of pods whose claims are all bound, which is final."""

    def bound(pod: Pod) -> bool:
        claims = [snapshot.claims.get((pod.namespace, volume.claim_name)) for volume in pod.volumes]
        return bool(claims) and all(claim is not None and claim.volume_name for claim in claims)

    pods = [pod for node in nodes for pod in node.pods if bound(pod)]
    return {key: needs.choices for key, needs in Volumes(snapshot, pods).needs().items()}


def _may_be_new(terms: Choice) -> bool:
    """Return whether one of the terms accepts the hostname of a node to be launched."""
    return any(all(term[key].accepts(NEW_HOSTNAME) for key in (HOSTNAME, FIELD_NAME) if key in term) for term in terms)


def offered_types(catalog: Catalog, space: ResourceSpace, beside: Beside) -> tuple[Floats, Floats]:
    """Return the allocatable (R x types) and the least cost (types) of each type with an available offering."""
    capacities: list[Resources] = []
    costs: list[float] = []
    for kind in (each for types in catalog.values() for each in types):
        asked = [
            (offering.price if offering.commitment is None else min(offering.price, offering.commitment.otherwise))
            + (offering.beside if beside.charges else 0.0)
            for offering in kind.offerings
            if offering.available
        ]
        if asked:
            capacities.append(kind.allocatable)
            costs.append(min(asked) + beside.node)
    return space.matrix(capacities), np.array(costs, dtype=np.float64)


def _hull_edge_prices(points: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    """Prices (x, y) above 0 by which no point (a, b) is worth more than 1, and two points are worth 1.

    Each belongs to an edge of the points' upper right convex hull (Andrew's monotone chain).
    """
    hull: list[tuple[float, float]] = []
    for a, b in sorted((float(a), float(b)) for a, b in points):
        while hull and (hull[-1][1] <= b or (len(hull) > 1 and _bends_in(hull[-2], hull[-1], (a, b)))):
            hull.pop()
        hull.append((a, b))
    return [((d - b) / (a * d - b * c), (a - c) / (a * d - b * c)) for (a, b), (c, d) in pairwise(hull)]


def _bends_in(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    """Return whether the middle one lies on or below the line between the others."""
    along, up = second[0] - first[0], second[1] - first[1]
    return along * (third[1] - first[1]) - up * (third[0] - first[0]) >= 0
