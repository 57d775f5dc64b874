"""Orders in which a first plan gives topology domains to pods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """How topology domains are given to pods.

    bound_first: domains go first to pods that a rule binds, and not to those that it only counts; it may place more
    pods, but relies more on the order in which kube-scheduler binds them. settled: pods that a spread counts on some
    nodes alone go to such nodes where they can, so that it is known how many it counts.
    """

    bound_first: bool = False
    settled: bool = False


def alternative_styles(*, unsettled: bool) -> tuple[PackingStyle, ...]:
    """Orders that may place pods which the usual one left. `unsettled`: some spread's count was not known for sure."""
    if not unsettled:
        return (PackingStyle(bound_first=True),)
    return PackingStyle(bound_first=True), PackingStyle(settled=True), PackingStyle(bound_first=True, settled=True)
