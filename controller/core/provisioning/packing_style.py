"""Packing styles: orders in which a first plan allocates topology domains to pods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """How the allocator orders pods and chooses nodes for them."""

    constrained_first: bool = False
    """Pods with a topology rule come before pods that rules only count. It may place more pods, but relies on
    kube-scheduler binding them in that order."""
    prefer_counted: bool = False
    """Pods that a spread counts only on some nodes (its node filter) go to such nodes if possible, so that the counts
    are certain."""


def alternative_styles(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Styles that may place pods which the default one left out. unsettled: counts of some spread were uncertain."""
    first = PackingStyle(constrained_first=True)
    if not unsettled:
        return (first,)
    return first, PackingStyle(prefer_counted=True), PackingStyle(constrained_first=True, prefer_counted=True)
