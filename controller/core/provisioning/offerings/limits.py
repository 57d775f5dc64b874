"""spec.limits of Provisioners: how much of each limited resource new nodes may still add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.state.snapshot import StateNode

WASTE = 1.5
"""Capacity that pods are assumed to need per unit requested, when it is estimated whether limits suffice."""


def headroom(provisioner: Provisioner, nodes: Iterable[StateNode]) -> dict[str, int]:
    """Return the limits less the capacity (not allocatable) of the Provisioner's nodes; empty without limits.

    As in Karpenter v0.27, leaving nodes do not count: their replacements must fit.
    """
    left = dict(provisioner.limits or {})
    for node in nodes if left else ():
        if node.provisioner_name == provisioner.name and not node.leaving:
            for name in left:
                left[name] -= node.capacity.get(name, 0)
    return left


class Limits:
    """What is left of each Provisioner's limits, and what one node of each node option takes of them.

    names: per pool, its L limited resources, sorted. left: per pool, L amounts. `_takes`: per pool, L x the pool's
    node options, which are the rows `_rows[pool]` of the option table.
    """

    def __init__(self, headrooms: Sequence[Mapping[str, int]], types: Sequence[InstanceType], pool_of: Ints) -> None:
        self.names = [tuple(sorted(left)) for left in headrooms]
        self.left: list[Floats] = []
        self._takes: list[Floats] = []
        self._rows: list[slice] = []
        for pool, (left, names) in enumerate(zip(headrooms, self.names, strict=True)):
            rows = slice(*np.searchsorted(pool_of, [pool, pool + 1]).tolist())
            takes = [[kind.capacity.get(name, 0) for kind in types[rows]] for name in names]
            self.left.append(np.array([left[name] for name in names], dtype=np.float64))
            self._takes.append(np.array(takes, dtype=np.float64).reshape(len(names), rows.stop - rows.start))
            self._rows.append(rows)

    @property
    def limited(self) -> list[int]:
        """The pools that have limits."""
        return [pool for pool, names in enumerate(self.names) if names]

    def takes(self, pool: int, option: int | Ints) -> Floats:
        """Return what one node of the option takes of each limited resource of its pool (L; of options L x options)."""
        return self._takes[pool][:, option - self._rows[pool].start]

    def allows(self, total: int) -> Bools:
        """Return for each node option (`total` of them) whether the limits allow one more node of it."""
        allowed = np.ones(total, dtype=np.bool_)
        for rows, takes, left in zip(self._rows, self._takes, self.left, strict=True):
            allowed[rows] = (takes <= left[:, None]).all(axis=0)
        return allowed

    def least(self, pool: int, rows: Bools) -> dict[str, float]:
        """Return, by limited resource, the least that a node of one of these node options (T flags) takes of it."""
        chosen = self._takes[pool][:, rows[self._rows[pool]]]
        return dict(zip(self.names[pool], chosen.min(axis=1).tolist(), strict=True)) if chosen.size else {}

    def copies(self, pool: int, option: int) -> int | None:
        """Return how many nodes of the node option the limits allow; None: any number."""
        if (self.left[pool] < 0).any():
            return 0
        takes = self.takes(pool, option)
        used = takes > 0
        return int(np.floor(self.left[pool][used] / takes[used]).min()) if used.any() else None

    def suffice(self, pool: int, need: Mapping[str, float]) -> bool:
        """Return whether the pool's limits hold nodes for pods that request so much of each resource (see `WASTE`)."""
        left = zip(self.names[pool], self.left[pool].tolist(), strict=True)
        return all(amount >= WASTE * need.get(name, 0.0) and amount > 0 for name, amount in left)

    def share(self, pool: int, asked: Mapping[str, float]) -> float:
        """Return the largest fraction of what is left of any limit that these requests make up."""
        left = zip(self.names[pool], self.left[pool].tolist(), strict=True)
        return max((asked.get(name, 0) / max(amount, 1e-9) for name, amount in left), default=0.0)

    def shares(self, option_ids: Ints, pools: Ints) -> Floats:
        """Return for each option (with its pool) the largest fraction of any limit's rest that a node takes."""
        shares = np.zeros(len(option_ids))
        for pool in sorted({*self.limited} & {*np.unique(pools).tolist()}):
            parts = self._takes[pool] / np.maximum(self.left[pool], 1e-9)[:, None]
            here = pools == pool
            shares[here] = parts.max(axis=0)[option_ids[here] - self._rows[pool].start]
        return shares

    def spend(self, pool: int, option: int, copies: int) -> None:
        """Subtract what `copies` nodes of the option take (negative: give back)."""
        self.left[pool] = self.left[pool] - copies * self.takes(pool, option)

    def no_larger(self, pool: int, option: int) -> Bools | None:
        """Return for each option of the pool whether it takes no more than this one of any limit; None: no limits."""
        if not self.names[pool]:
            return None
        return np.asarray((self._takes[pool] <= self.takes(pool, option)[:, None]).all(axis=0), dtype=np.bool_)
