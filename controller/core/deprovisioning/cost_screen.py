"""What a removal costs at least, said without a simulation: most nodes of a good fleet need none to be left alone.

Amounts count, and which of the other nodes selectors, required node affinity, bound volumes and taints leave a pod.
Everything else is left out (topology, daemons, limits, what other moves take), so that the price said here is never
above what a simulation finds: a removal that is not worth it at this price is not worth it. Three things are known of
the new nodes. A pod that has room on no node there is needs an instance that holds it, and one that asks for a host by
its name, or whose disk does, finds none. So do pods of one kind beyond those that the other nodes have room for. And
their amounts cost at least what any one resource costs where it is cheapest, and cpu and memory together: the dual
prices of a linear program, which are edges of a hull.
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
from controller.core.deprovisioning.removal_simulation import Stage
from controller.core.provisioning.offerings.option_table import NEW_HOSTNAME
from controller.core.provisioning.pods.relaxation import Choice, required_choices
from controller.core.provisioning.pods.volume_needs import Volumes
from controller.core.provisioning.resource_space import Bools, Floats, ResourceSpace
from controller.core.state.snapshot import Snapshot, StateNode

ROUNDING = 1.0 - 1e-9
"""Of a sum of prices, so that two ways to add them up never differ in favour of a refusal."""
UNLIMITED = 1e9
"""Pods that ask for nothing, on any node."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Pods that ask for the same: how many each node has room for, and what the cheapest new node for one costs."""

    amounts: Floats
    slots: Floats
    price: float


class Screen:
    """Over one stage. Not safe for several threads."""

    def __init__(self, stage: Stage) -> None:
        nodes = [n for n in stage.snapshot.nodes.values() if not n.leaving and n.name not in stage.going]
        self._space = ResourceSpace(pod.spec.requests for node in nodes for pod in node.pods)
        self._rows = {node.name: row for row, node in enumerate(nodes)}
        self._places = np.array([stage.snapshot_index.place[node.name] for node in nodes], dtype=np.int64)
        self._free = stage.snapshot_index.free(self._space)[:, self._places].clip(min=0.0)
        self._rooms, self._prices = _offers(stage.catalog, self._space)
        self._duals = self._find_duals()
        self._cluster_nodes = stage.snapshot_index.cluster_nodes
        self._reach = _reach(stage.snapshot, nodes)
        self._kinds: dict[Hashable, _Kind] = {}

    def least_price(self, removed: Sequence[Candidate]) -> float:
        """$ an hour that new nodes cost at least when these nodes go together; infinite: no type holds some pod."""
        counts = Counter(self._kind(pod) for candidate in removed for pod in candidate.pods)
        if not counts:
            return 0.0
        own = [self._rows[candidate.name] for candidate in removed if candidate.name in self._rows]
        least, amounts = 0.0, np.zeros(len(self._space))
        beyond, taken = amounts.copy(), np.zeros(self._free.shape[1], dtype=np.bool_)
        for kind, count in counts.items():
            over = count - min(float(count), float(kind.slots.sum() - kind.slots[own].sum()))
            amounts += count * kind.amounts
            beyond += over * kind.amounts
            taken |= kind.slots > 0
            if over > 0:
                least = max(least, kind.price)
        taken[own] = False
        room: Floats = self._free[:, taken].sum(axis=1)
        new = np.maximum(beyond, amounts - room)
        return ROUNDING * max(least, *(float(prices @ new) for prices in self._duals))

    def _kind(self, pod: Pod) -> _Kind:
        spec, reach = pod.spec, self._reach.get(pod.key, ())
        asks = (spec.requests, spec.node_selector, spec.required_node_affinity, spec.tolerations, reach)
        found = self._kinds.get(asks)
        if found is None:
            found = self._kinds[asks] = self._made(pod)
        return found

    def _made(self, pod: Pod) -> _Kind:
        amounts = self._space.vector(pod.spec.requests)
        asked = amounts > 0
        open_to, may_be_new = self._open_to(pod)
        slots = np.where(open_to, UNLIMITED, 0.0)
        if asked.any() and open_to.any():
            room = self._free[np.ix_(asked, open_to)] / amounts[asked, None]
            slots[open_to] = np.floor(room).min(axis=0).clip(min=0.0)
        prices = self._prices[np.all(self._rooms >= amounts[:, None], axis=0)]
        price = float(prices.min()) if may_be_new and len(prices) else math.inf
        return _Kind(amounts, slots, price)

    def _open_to(self, pod: Pod) -> tuple[Bools, bool]:
        """Which nodes the pod may use by their labels and taints, and whether it may use any that are not there yet."""
        try:
            choices = (*required_choices(pod.spec), *self._reach.get(pod.key, ()))
        except ValueError:
            return np.ones(len(self._places), dtype=np.bool_), True  # the simulation says what is wrong with it
        rows = self._cluster_nodes.tolerated(pod.spec.tolerations)
        for terms in choices:
            rows = rows & self._cluster_nodes.choice(terms)
        return rows[self._places], all(map(_may_be_new, choices))

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


def _reach(snapshot: Snapshot, nodes: Iterable[StateNode]) -> dict[PodKey, tuple[Choice, ...]]:
    """Where the volumes of pods can be reached; of pods all of whose claims are bound, so that it stays as it is."""

    def bound(pod: Pod) -> bool:
        claims = [snapshot.claims.get((pod.namespace, volume.claim_name)) for volume in pod.volumes]
        return bool(claims) and all(claim is not None and claim.volume_name for claim in claims)

    pods = [pod for node in nodes for pod in node.pods if bound(pod)]
    return {key: needs.choices for key, needs in Volumes(snapshot, pods).needs().items()}


def _may_be_new(terms: Choice) -> bool:
    """Whether one of the terms leaves out no node for its name alone, which new ones haven't got yet."""
    return any(all(term[key].accepts(NEW_HOSTNAME) for key in (HOSTNAME, FIELD_NAME) if key in term) for term in terms)


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
