"""Whether a removal is worth what it disrupts: the price saved, as a share, against the pods moved, as a share.

The peer consolidates for any cheaper node, so that nodes at 90 % use are swapped for cents; its later `Balanced` policy
weighs the same two shares, and has to be asked for. Here the threshold is on by default. The score of a removal that
saves 10 % of what the Provisioners' nodes cost and moves 10 % of their pods is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.core.api.labels import INSTANCE_TYPE, SPOT
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, PricedOffering
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.removal_simulation import Outcome
from controller.core.provisioning.plan import PlannedNode

THRESHOLD_ANNOTATION = "karpenter.sh/consolidation-threshold"
"""On a Provisioner: the least score, 0 for the peer's rule (any saving)."""
DEFAULT_THRESHOLD = 0.15
SPOT_FLEXIBILITY = 15
"""Offerings that a spot replacement of spot nodes must leave EC2 to choose from, so that it does not move to ever rarer
ones (the later peer's number)."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What shares are taken of: $ an hour and disruption cost of all nodes of Provisioners with consolidation on."""

    price: float
    cost: float


@dataclass(frozen=True, slots=True)
class Worth:
    """`saved` in $ an hour, `score` as above; `refusal` says why it is not worth it, empty when it is.

    `replacements` are those of the outcome, with the offerings left out that would cost too much.
    """

    saved: float = 0.0
    score: float = 0.0
    replacements: tuple[PlannedNode, ...] = ()
    refusal: str = ""


def scale(candidates: Iterable[Candidate]) -> Scale:
    """Of the candidates whose Provisioner consolidates."""
    counted = [candidate for candidate in candidates if candidate.provisioner.consolidation_enabled]
    return Scale(sum(c.price or 0.0 for c in counted), sum(max(0.0, c.cost) for c in counted))


def threshold(provisioner: Provisioner) -> float:
    """The least score; the default where the annotation is no number of 0 or more."""
    try:
        value = float(provisioner.object_annotations.get(THRESHOLD_ANNOTATION, ""))
    except ValueError:
        return DEFAULT_THRESHOLD
    return value if 0 <= value < math.inf else DEFAULT_THRESHOLD


def score(saved: float, cost: float, of: Scale) -> float:
    """Share saved over share moved; infinite when nothing moves."""
    if cost <= 0 or of.cost <= 0:
        return math.inf
    return (saved / of.price) / (cost / of.cost) if of.price > 0 else 0.0


def hopeless(removed: Sequence[Candidate], least_price: float, of: Scale) -> str:
    """Why the removal of these is not worth it, if new nodes cost that much at least; empty when it may be.

    `least_price` in $ an hour. Never says no where `worth` would say yes to an outcome of that price or more.
    """
    before = sum(candidate.price or 0.0 for candidate in removed)
    if math.isinf(least_price):
        return "not all pods fit elsewhere: no other node may take them, and no new one would hold them"
    need = f"what its pods need beside other nodes' room costs ${least_price:.4f} an hour at least"
    if least_price > 0 and before - least_price <= 0:
        return need
    reached = score(before - least_price, sum(candidate.cost for candidate in removed), of)
    least = max(threshold(candidate.provisioner) for candidate in removed)
    if reached < least:
        what = need if least_price > 0 else f"saves ${before:.4f} an hour at most"
        return f"{what}, a score of {reached:.2f} at most for the pods that move; the threshold is {least:g}"
    return ""


def worth(removed: Sequence[Candidate], outcome: Outcome, of: Scale, catalog: Catalog) -> Worth:
    """Judge the removal of these for that outcome, which has no problem."""
    if unpriced := [candidate.name for candidate in removed if candidate.price is None]:
        return Worth(refusal=f"the price of {', '.join(unpriced[:5])} is not known")
    before = sum(candidate.price or 0.0 for candidate in removed)
    cost = sum(candidate.cost for candidate in removed)
    least = max(threshold(candidate.provisioner) for candidate in removed)
    if keeps_one(removed, outcome.replacements):
        return Worth(refusal="a replacement would be no cheaper than one of the nodes that it replaces")
    saved = before - outcome.price
    reached = score(saved, cost, of)
    if outcome.replacements and saved <= 0:
        return Worth(saved, reached, refusal="no cheaper replacement exists")
    if reached < least:
        what = f"saves ${saved:.4f} an hour, a score of {reached:.2f} for the pods that move"
        return Worth(saved, reached, refusal=f"{what}; the threshold is {least:g}")
    most = before - (least * cost / of.cost * of.price if of.cost > 0 and cost > 0 else 0.0)
    kept = tuple(_cheap_enough(node, most / outcome.price, strict=most >= before) for node in outcome.replacements)
    if (refusal := _spot_refusal(removed, outcome.replacements, kept, catalog)) != "":
        return Worth(saved, reached, refusal=refusal)
    return Worth(saved, reached, kept)


def keeps_one(removed: Sequence[Candidate], replacements: Sequence[PlannedNode]) -> bool:
    """Whether a replacement is of the type of a removed node that costs no more: keeping that one moves fewer pods."""
    prices: dict[str, float] = {}
    for candidate in removed:
        name = candidate.node.node.labels.get(INSTANCE_TYPE, "")
        prices[name] = min(prices.get(name, math.inf), candidate.price or math.inf)
    return any(prices.get(node.offering.instance_type, math.inf) <= node.offering.price for node in replacements)


def _cheap_enough(node: PlannedNode, factor: float, *, strict: bool) -> PlannedNode:
    """The node with those alternatives alone that keep the whole within what it may cost, whatever EC2 picks."""
    limit = node.offering.price * factor

    def fits(offering: PricedOffering) -> bool:
        return offering.price < limit or (not strict and offering.price == limit)

    return replace(node, alternatives=tuple(filter(fits, node.alternatives)))


def _spot_refusal(
    removed: Sequence[Candidate], planned: Sequence[PlannedNode], kept: Sequence[PlannedNode], catalog: Catalog
) -> str:
    """Spot for spot needs a choice: 15 offerings, or half of those that would do at all in a narrow pool."""
    if not all(candidate.capacity_type == SPOT for candidate in removed):
        return ""
    for before, after in zip(planned, kept, strict=True):
        if after.offering.capacity_type != SPOT:
            continue
        suited = _spot_count(before)
        pool = sum(
            o.capacity_type == SPOT and o.available for t in catalog.get(after.provisioner, ()) for o in t.offerings
        )
        needed = min(SPOT_FLEXIBILITY, max(1, min(suited, pool) // 2))
        if (left := _spot_count(after)) < needed:
            return f"spot for spot would leave {left} offerings to choose from; {needed} are needed"
    return ""


def _spot_count(node: PlannedNode) -> int:
    return sum(offering.capacity_type == SPOT for offering in (node.offering, *node.alternatives))
