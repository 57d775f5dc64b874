"""Read a Provisioner's disruption policy: ttlSeconds..., consolidation, and the controller's own annotations.

Karpenter v0.27 has neither of the annotations. One that cannot be read never removes more: budgets then allow nothing,
a node drains as long as it takes, and the threshold is the default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from controller.core.api.disruption import DisruptionPolicy, parse_budgets
from controller.core.api.duration import duration_seconds
from controller.core.api.front_end import AnnotationKeys
from controller.core.api.settings.readers import decimal
from controller.core.api.strict import MAX_INT64, Fields

ANNOTATION_KEYS: Final = AnnotationKeys(
    disruption_budgets="karpenter.sh/disruption-budgets",
    do_not_evict="karpenter.sh/do-not-evict",
    do_not_consolidate="karpenter.sh/do-not-consolidate",
    emptiness_timestamp="karpenter.sh/emptiness-timestamp",
    voluntary_disruption="karpenter.sh/voluntary-disruption",
    consolidation_threshold="karpenter.sh/consolidation-threshold",
    grace_period="karpenter.sh/termination-grace-period",
    rebalance_recommendation="karpenter.sh/rebalance-recommendation",
)


def read_disruption(spec: Fields, annotations: Mapping[str, str]) -> DisruptionPolicy:
    """Return the policy in `spec` and in the object's annotations; every broken rule of `spec` goes to its report."""
    after_empty = spec.integer("ttlSecondsAfterEmpty", 0, MAX_INT64)
    consolidation = spec.child("consolidation", ("enabled",)).boolean("enabled") or False
    if consolidation and after_empty is not None:
        remedy = "drop ttlSecondsAfterEmpty: consolidation removes empty nodes as well"
        spec.problem("ttlSecondsAfterEmpty", "cannot be combined with consolidation.enabled: true", remedy)
    budgets, problem = None, ""
    if (text := annotations.get(ANNOTATION_KEYS.disruption_budgets)) is not None:
        try:
            budgets = parse_budgets(text)
        except ValueError as error:
            problem = str(error)
    return DisruptionPolicy(
        empty_after_seconds=after_empty,
        expire_after_seconds=spec.integer("ttlSecondsUntilExpired", 0, MAX_INT64),
        consolidation=consolidation,
        consolidation_threshold=_threshold(annotations.get(ANNOTATION_KEYS.consolidation_threshold)),
        budgets=budgets,
        budgets_problem=problem,
        drain_seconds=_drain_seconds(annotations.get(ANNOTATION_KEYS.grace_period)),
        replace_at_risk=annotations.get(ANNOTATION_KEYS.rebalance_recommendation) == "replace",
    )


def _threshold(text: str | None) -> float | None:
    value = decimal(text or "")
    return value if 0 <= value < math.inf else None


def _drain_seconds(text: str | None) -> float | None:
    """Parse the grace period, in seconds; infinite if it is no positive duration, None if absent."""
    if text is None:
        return None
    try:
        seconds = duration_seconds(text)
    except ValueError:
        return math.inf
    return seconds if seconds > 0 else math.inf
