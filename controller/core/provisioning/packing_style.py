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
    in_turn: bool = False
    """Bundles are allocated in turn, one unit each, so that domains fill up together where a spread counts several
    workloads. Else one bundle is allocated as far as possible before the next, and may fill domains that are the only
    ones for later bundles."""


def alternative_styles(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Return styles for pods that the default one left out. unsettled: counts of some spread were uncertain."""
    first = PackingStyle(constrained_first=True)
    if not unsettled:
        return (first,)
    return first, PackingStyle(certain_counts=True), PackingStyle(constrained_first=True, certain_counts=True)


def styles_in_turn(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Return styles that may place pods which rules over domains left out in the others."""
    first = PackingStyle(in_turn=True)
    return (first, PackingStyle(in_turn=True, certain_counts=True)) if unsettled else (first,)
