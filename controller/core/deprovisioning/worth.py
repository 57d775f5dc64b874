"""Whether consolidation saves enough for what it disrupts.

The score of a removal is the share of the nodes' cost that it saves over the share of their disruption cost that it
causes: saving 10 % by moving 10 % of the pods scores 1. A removal below the threshold is not made. Karpenter v0.27
consolidates for any saving of price, so that fully used nodes are replaced for cents; the opt-in policy `Balanced` of
later versions weighs the same two shares. Cost is all that plans minimise: the price, what a node costs beside it,
surplus CPU, so that no removal takes back what a plan has chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from controller.core.api.labels import SPOT
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, PricedOffering
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.removal_simulation import Outcome
from controller.core.provisioning.plan import PlannedNode, SolvedProblem

DEFAULT_THRESHOLD = 0.2
"""The least score where the Provisioner states none."""
SPOT_FLEXIBILITY = 15
"""Offerings that a spot replacement of spot nodes must leave EC2 to choose from, so that repeated consolidation does
not end in the rarest ones. 15 is the number of later Karpenter versions (SpotToSpotConsolidation)."""


@dataclass(frozen=True, slots=True)
class Totals:
    """$ an hour and disruption cost of all nodes whose Provisioner enables consolidation: shares are taken of them.

    Empty nodes have no part in them: they go at no disruption, and while they are there each move would have to save
    more.
    """

    cost: float
    disruption: float


@dataclass(frozen=True, slots=True)
class Worth:
    """`saved` in $ of cost an hour, and the score. `refusal` says why the removal is not worth it; empty when it is.

    `replacements`: those of the outcome, without alternative offerings that would cost too much.
    """

    saved: float = 0.0
    score: float = 0.0
    replacements: tuple[PlannedNode, ...] = ()
    refusal: str = ""
    solved: SolvedProblem | None = field(default=None, compare=False, repr=False)
    """The problem and plan of the replacements."""


def totals_of(candidates: Iterable[Candidate]) -> Totals:
    """Return totals over the candidates."""
    counted = [each for each in candidates if each.provisioner.disruption.consolidation and each.pods]
    return Totals(sum(c.cost for c in counted), sum(max(0.0, c.disruption) for c in counted))


def threshold(provisioner: Provisioner) -> float:
    """Return the Provisioner's least score, or the default."""
    own = provisioner.disruption.consolidation_threshold
    return DEFAULT_THRESHOLD if own is None else own


def score(saved: float, disruption: float, totals: Totals) -> float:
    """Divide the share of the cost saved by the share of the disruption cost; infinite if nothing is disrupted."""
    if disruption <= 0 or totals.disruption <= 0:
        return math.inf
    return (saved / totals.cost) / (disruption / totals.disruption) if totals.cost > 0 else 0.0


def best_case_refusal(removed: Sequence[Candidate], least_cost: float, totals: Totals) -> str:
    """Return why removing these is not worth it even at `least_cost` ($ an hour) for new nodes; empty if it may be.

    Refuses nothing that `worth` accepts for an outcome of that cost or more.
    """
    before = sum(candidate.cost for candidate in removed)
    if math.isinf(least_cost):
        return "not all pods fit elsewhere: no other node may take them, and no new one would hold them"
    need = f"room for its pods beyond that of other nodes costs ${least_cost:.4f} an hour at least"
    if least_cost > 0 and before - least_cost <= 0:
        return need
    reached = score(before - least_cost, sum(candidate.disruption for candidate in removed), totals)
    least = max(threshold(candidate.provisioner) for candidate in removed)
    if reached < least:
        what = need if least_cost > 0 else f"saves ${before:.4f} an hour at most"
        return f"{what}, a score of {reached:.2f} at most for the pods that move; the threshold is {least:g}"
    return ""


def worth(removed: Sequence[Candidate], outcome: Outcome, totals: Totals, catalog: Catalog) -> Worth:
    """Judge a removal by its outcome, which has no problem."""
    if unpriced := [candidate.name for candidate in removed if candidate.price is None]:
        return Worth(refusal=f"the price of {', '.join(unpriced[:5])} is not known")
    before = sum(candidate.cost for candidate in removed)
    disruption = sum(candidate.disruption for candidate in removed)
    least = max(threshold(candidate.provisioner) for candidate in removed)
    saved = before - outcome.cost
    reached = score(saved, disruption, totals)
    if outcome.replacements and saved <= 0:
        return Worth(saved, reached, refusal="no cheaper replacement exists")
    if reached < least:
        what = f"saves ${saved:.4f} an hour, a score of {reached:.2f} for the pods that move"
        return Worth(saved, reached, refusal=f"{what}; the threshold is {least:g}")
    disrupts = totals.disruption > 0 and disruption > 0
    least_saved = least * disruption / totals.disruption * totals.cost if disrupts else 0.0
    most, new = before - least_saved, outcome.cost - outcome.surplus
    cheap = tuple(
        _without_dear_alternatives(node, (most - outcome.surplus) / new, strict=most >= before)
        for node in outcome.replacements
    )
    if (refusal := _spot_refusal(removed, outcome.replacements, cheap, catalog)) != "":
        return Worth(saved, reached, refusal=refusal)
    return Worth(saved, reached, cheap, solved=outcome.solved)


def _without_dear_alternatives(node: PlannedNode, factor: float, *, strict: bool) -> PlannedNode:
    """Leave out alternatives that cost more than `factor` times the planned offering (`strict`: as much or more).

    EC2 may pick any offering that it is given: whichever it picks, the removal has to be worth it.
    """
    limit = node.offering.cost * factor

    def fits(offering: PricedOffering) -> bool:
        return offering.cost < limit or (not strict and offering.cost == limit)

    return replace(node, alternatives=tuple(filter(fits, node.alternatives)))


def _spot_refusal(
    removed: Sequence[Candidate], planned: Sequence[PlannedNode], kept: Sequence[PlannedNode], catalog: Catalog
) -> str:
    """Return why spot nodes must not be replaced by spot nodes of so few offerings; empty when they may be.

    SPOT_FLEXIBILITY offerings must remain, or half of the suitable ones where there are fewer than twice as many.
    """
    if not all(candidate.node.node.capacity_type == SPOT for candidate in removed):
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
