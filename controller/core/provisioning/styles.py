"""Ways to pack. None is the best for every problem: small ones are packed in several, and the cheapest plan is kept."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.provisioning.plan import SolveOptions

PODS_PER_SECOND = 1600
"""About as many pods as a second of budget packs once more."""

FEW_PODS = 50
"""Of so few pods there is little to choose: two ways are enough."""


@dataclass(frozen=True, slots=True)
class Style:
    """filled: nodes are filled by what pods are worth; else pods are packed class by class, which is faster.

    portions: a pod kind takes at most this part of the room it could have before the next choice, so that fillings stay
    mixed. tries: candidates filled in thought for each node. choosy_first: nodes are opened first for pods with the
    least choice; else for the largest. bound_first: zones go first to pods that a rule binds, and not to those that it
    only counts; it may place more, but relies more on the order in which kube-scheduler binds them.
    """

    filled: bool = True
    portions: int = 4
    tries: int = 6
    choosy_first: bool = True
    bound_first: bool = False


QUICK = Style(filled=False)
STYLES = (
    Style(),
    Style(portions=2),
    Style(portions=2, tries=12, choosy_first=False),
    Style(portions=8),
    Style(portions=3, tries=16),
    QUICK,
)


def styles(options: SolveOptions, pods: int) -> tuple[Style, ...]:
    """The ways to try for a problem of so many pods."""
    if options.budget_seconds <= 0:
        return (QUICK,)
    if pods <= FEW_PODS:
        return (STYLES[0], QUICK)
    return STYLES[: max(1, int(options.budget_seconds * PODS_PER_SECOND / pods))]
