"""Orders in which a first plan gives topology domains to pods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """How the allocator decides.

    constrained_first: allocate domains to pods with a topology rule before pods that rules only count; it may place
    more, but relies on kube-scheduler binding pods in that order. prefer_counted: pods that a spread counts on some
    nodes alone go to such nodes where they can, so that its counts are certain.
    """

    constrained_first: bool = False
    prefer_counted: bool = False


def alternative_styles(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Orders that may place pods which the usual one left. `unsettled`: the counts of some spread were uncertain."""
    first = PackingStyle(constrained_first=True)
    if not unsettled:
        return (first,)
    return first, PackingStyle(prefer_counted=True), PackingStyle(constrained_first=True, prefer_counted=True)
