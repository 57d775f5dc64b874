"""Ways to make a first plan: small problems are packed in both, and the cheaper plan is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.core.provisioning.plan import SolveOptions

FEW_PODS = 50
"""Of so few pods there is little to choose: two ways are enough."""


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """filled: nodes are filled by what pods are worth; else pods are packed class by class, which is faster.

    portions: a pod kind takes at most this part of the room it could have before the next choice, so that fillings stay
    mixed. tries: candidates filled in thought for each node. choosy_first: nodes are opened first for pods with the
    least choice; else for the largest. bound_first: zones go first to pods that a rule binds, and not to those that it
    only counts; it may place more, but relies more on the order in which kube-scheduler binds them. settled: pods that
    a spread counts on some nodes alone go to such nodes where they can, so that it is known how many it counts.
    """

    filled: bool = True
    portions: int = 4
    tries: int = 6
    choosy_first: bool = True
    bound_first: bool = False
    settled: bool = False


QUICK = PackingStyle(filled=False)
STYLES = (PackingStyle(), QUICK)


def styles(options: SolveOptions, pods: int) -> tuple[PackingStyle, ...]:
    """The ways to try for a first plan of so many pods; what budget there is, refinement spends on it."""
    return STYLES if options.budget_seconds > 0 and pods <= FEW_PODS else (QUICK,)


def otherwise(style: PackingStyle, *, unsettled: bool) -> tuple[PackingStyle, ...]:
    """The same in other orders, which may place pods that it left. `unsettled`: what spreads count was not known."""
    bound_first, settled = replace(style, bound_first=True), replace(style, settled=True)
    return (bound_first, settled, replace(settled, bound_first=True)) if unsettled else (bound_first,)
