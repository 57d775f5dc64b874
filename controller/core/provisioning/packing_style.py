"""Packing styles: orders in which a first plan allocates topology domains to pods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """How the allocator orders pods and chooses nodes for them."""

    constrained_first: bool = False
    """Pods with a topology rule come before pods that rules only count. It may place more pods, but relies on
    kube-scheduler binding them in that order."""
    certain_counts: bool = False
    """Units that a spread counts only on some nodes (its node filter) are allocated to those nodes or to the others, so
    that counts are certain; else they are bounds, to both of which the spread is held."""


def alternative_styles(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Styles that may place pods which the default one left out. unsettled: counts of some spread were uncertain."""
    first = PackingStyle(constrained_first=True)
    if not unsettled:
        return (first,)
    return first, PackingStyle(certain_counts=True), PackingStyle(constrained_first=True, certain_counts=True)
