"""What pods are worth: prices of capacity per offering, by dual ascent.

The linear program: nodes may be fractions, a item may be split over every offering that it is allowed on. Its dual
sets a price on each resource of each offering, such that a whole node costs no more than the offering does; a item's
value is what the cheapest offering charges for it. Good prices come quickly by moving them, round by round, towards the
resources that the items which prefer an offering strain most (`bound` solves the program itself, for a proof).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.resource_space import Bools, Floats, Ints

MANY, KEPT = 400, 16
"""Beyond so many candidates, only those are kept that are among the best few for some item."""
WORK, FEWEST_ROUNDS = 20_000_000, 30
"""Charges worked out in all, at most: large problems get fewer rounds, but never fewer than this."""
STEP = 0.35
"""How far a round moves prices towards the resource that a round's load strains most; it shrinks with the rounds."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Offerings worth a look: O of them, each the cheapest of those that items cannot tell apart.

    price: O, what is paid plus the cost of a node. allocatable: O x R. allowed: N x O, by item.
    """

    option: Ints
    offering_key: Ints
    price: Floats
    allocatable: Floats
    allowed: Bools


def candidates(catalog: CompiledCatalog, items: Sequence[Item], node_cost: float, premium: Floats) -> Candidates:
    """The offerings that some item is allowed on. `premium`: a factor on the price, per node option."""
    masks = {item.mask.index: item.mask for item in items}
    number = {index: position for position, index in enumerate(masks)}
    bits = np.array([mask.bits for mask in masks.values()], dtype=np.uint64)
    found: list[tuple[int, int]] = []
    for option in np.flatnonzero((bits != 0).any(axis=0)).tolist():
        cheapest: dict[tuple[int, ...], int] = {}
        row, column = catalog.price[option], bits[:, option].tolist()
        for offering_key in np.argsort(row, kind="stable").tolist():
            if not np.isfinite(row[offering_key]):
                break
            cheapest.setdefault(tuple(b >> offering_key & 1 for b in column), offering_key)
        found.extend((option, offering_key) for who, offering_key in cheapest.items() if any(who))
    chosen = np.array([option for option, _ in found], dtype=np.int64)
    offering_key_of = np.array([offering_key for _, offering_key in found], dtype=np.int64)
    by_mask = (bits[:, chosen] >> offering_key_of.astype(np.uint64)) & np.uint64(1) != 0
    return Candidates(
        chosen,
        offering_key_of,
        catalog.price[chosen, offering_key_of] * premium[chosen] + node_cost,
        np.ascontiguousarray(catalog.allocatable[:, chosen].T),
        by_mask[[number[item.mask.index] for item in items]],
    )


def promising(offered: Candidates, requests: Floats) -> Candidates:
    """The candidates that are among the `KEPT` best for some item, by one resource or all alike; few: all of them."""
    if len(offered.option) <= MANY:
        return offered
    per_unit = np.divide(
        offered.price[:, None],
        offered.allocatable,
        out=np.zeros_like(offered.allocatable),
        where=offered.allocatable > 0,
    )
    kept = np.zeros(len(offered.option), dtype=np.bool_)
    barred = np.where(offered.allowed, 0.0, np.inf)
    resources = requests.shape[1]
    for weights in (*np.eye(resources), np.full(resources, 1.0 / resources)):
        charges = requests @ (per_unit * weights).T + barred
        best = np.argpartition(charges, KEPT, axis=1)[:, :KEPT]
        kept[np.unique(best[np.isfinite(np.take_along_axis(charges, best, axis=1))])] = True
    return Candidates(
        offered.option[kept],
        offered.offering_key[kept],
        offered.price[kept],
        offered.allocatable[kept],
        offered.allowed[:, kept],
    )


@dataclass(frozen=True, slots=True)
class Prices:
    """values: N, what a unit of each item is worth. bound: no plan for these items costs less ($/hour).

    charges: N x O, what each candidate charges for a unit; infinite where the item may not go or does not fit.
    """

    values: Floats
    charges: Floats
    bound: float


def dual_prices(offered: Candidates, requests: Floats, counts: Floats, rounds: int) -> Prices:
    """Prices after `rounds` rounds of ascent, the best found. requests: N x R. counts: N units each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(offered.allocatable > 0, 1.0 / offered.allocatable, np.inf)
    fits = np.ones(offered.allowed.shape, dtype=np.bool_)
    for resource in range(requests.shape[1]):
        fits &= requests[:, resource][:, None] <= offered.allocatable[:, resource]
    barred = np.where(offered.allowed & fits, 0.0, np.inf)
    usable = np.where(np.isfinite(shares), shares, 0.0)
    weights = np.full(offered.allocatable.shape, 1.0 / offered.allocatable.shape[1])
    best: Prices | None = None
    rounds = max(FEWEST_ROUNDS, min(rounds, WORK // offered.allowed.size))
    for number in range(rounds):
        charges = requests @ (offered.price[:, None] * weights * usable).T + barred
        chosen = charges.argmin(axis=1)
        values = charges[np.arange(len(chosen)), chosen]
        placeable = np.isfinite(values)
        bound = float((values * counts)[placeable].sum())
        if best is None or bound > best.bound:
            best = Prices(values, charges, bound)
        loads = np.zeros_like(weights)
        np.add.at(loads, chosen[placeable], (requests * counts[:, None])[placeable])
        strain = loads * usable
        top = strain.max(axis=1, keepdims=True)
        pull = np.divide(strain, top, out=np.zeros_like(strain), where=top > 0)
        weights = weights * np.exp(STEP * (1.0 - number / rounds) * pull)
        weights /= weights.sum(axis=1, keepdims=True)
    assert best is not None
    return best
