"""spec.limits of Provisioners: how much of each limited resource new nodes may still add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.state.snapshot import StateNode


def headroom(provisioner: Provisioner, nodes: Iterable[StateNode]) -> dict[str, int]:
    """Limits less the capacity (not allocatable) of the Provisioner's nodes; empty without limits.

    As in Karpenter v0.27, leaving nodes do not count: their replacements must fit.
    """
    left = dict(provisioner.limits or {})
    for node in nodes if left else ():
        if node.provisioner_name == provisioner.name and not node.leaving:
            for name in left:
                left[name] -= node.capacity.get(name, 0)
    return left


WASTE = 1.5
"""Capacity that pods are assumed to need per unit requested, when it is estimated whether limits suffice."""


class Limits:
    """What is left of each Provisioner's limits, and what one node of each node option takes of them.

    left: per pool, one amount per limited resource (in the order of `names`). `_takes`: per pool, limited resources x
    the pool's options; `_rows`: the places of these options among all.
    """

    def __init__(self, headrooms: list[dict[str, int]], types: list[InstanceType], pool_of: Ints) -> None:
        self._names = [tuple(sorted(left)) for left in headrooms]
        self.left: list[Floats] = [
            np.array([left[n] for n in names], dtype=np.float64)
            for left, names in zip(headrooms, self._names, strict=True)
        ]
        self._takes: list[Floats] = []
        self._rows: list[Ints] = []
        self._first: dict[int, int] = {}
        for pool, names in enumerate(self._names):
            rows = np.flatnonzero(pool_of == pool)
            takes = [[types[row].capacity.get(name, 0) for row in rows.tolist()] for name in names]
            self._takes.append(np.array(takes, dtype=np.float64).reshape(len(names), len(rows)))
            self._rows.append(rows)
            self._first[pool] = int(rows[0]) if len(rows) else 0

    def limited(self, pool: int) -> bool:
        """Whether the pool has limits at all."""
        return bool(self._names[pool])

    def names(self, pool: int) -> tuple[str, ...]:
        """The limited resources of the pool."""
        return self._names[pool]

    def takes(self, pool: int, option: int) -> Floats:
        """What one node of the option takes of each limited resource of its pool."""
        return self._takes[pool][:, option - self._first[pool]]

    def allows(self, total: int) -> Bools:
        """Per node option (`total` of them), whether the limits allow one more node of it."""
        rows = np.ones(total, dtype=np.bool_)
        for pool, left in enumerate(self.left):
            if self._names[pool]:
                rows[self._rows[pool]] = (self._takes[pool] <= left[:, None]).all(axis=0)
        return rows

    def copies(self, pool: int, option: int) -> int | None:
        """How many nodes of the node option the limits allow; None: any number."""
        if not self._names[pool]:
            return None
        takes = self.takes(pool, option)
        if (self.left[pool] < 0).any():
            return 0
        used = takes > 0
        return int(np.floor(self.left[pool][used] / takes[used]).min()) if used.any() else None

    def suffice(self, pool: int, need: Mapping[str, float]) -> bool:
        """Whether the pool's limits hold nodes for pods that need so much of each resource (see `WASTE`)."""
        left = zip(self._names[pool], self.left[pool].tolist(), strict=True)
        return all(amount >= WASTE * need.get(name, 0.0) and amount > 0 for name, amount in left)

    def share(self, pool: int, asked: Mapping[str, float]) -> float:
        """The largest fraction of what is left of any limit that these requests make up."""
        left = zip(self._names[pool], self.left[pool].tolist(), strict=True)
        return max((asked.get(name, 0) / max(amount, 1e-9) for name, amount in left), default=0.0)

    def shares(self, option_ids: Ints, pools: Ints) -> Floats:
        """The largest fraction of what is left of any limit that a node takes, per option (with its pool)."""
        shares = np.zeros(len(option_ids))
        for pool in np.unique(pools).tolist():
            if self._names[pool]:
                parts = self._takes[pool] / np.maximum(self.left[pool], 1e-9)[:, None]
                here = pools == pool
                shares[here] = parts.max(axis=0)[option_ids[here] - self._first[pool]]
        return shares

    def spend(self, pool: int, option: int, copies: int) -> None:
        """Subtract what `copies` nodes of the option take (negative: give back)."""
        if self._names[pool]:
            self.left[pool] = self.left[pool] - copies * self.takes(pool, option)

    def no_larger(self, pool: int, option: int) -> Bools | None:
        """Per option of the pool, whether it takes no more than this one of any limit; None: no limits."""
        if not self._names[pool]:
            return None
        return np.asarray((self._takes[pool] <= self.takes(pool, option)[:, None]).all(axis=0), dtype=np.bool_)
