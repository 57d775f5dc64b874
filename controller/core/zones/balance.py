"""How even the zones of one Provisioner's nodes are: which planned nodes go to another zone, and for how much more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

ROUNDING = 1e-9
SHARE_ANNOTATION: Final = "karpenter.sh/zone-max-share"
"""Of a Provisioner: its `max_share`, such as 0.4; 1: no aim."""
PREMIUM_ANNOTATION: Final = "karpenter.sh/zone-premium"
"""Of a Provisioner: its `premium`, such as 0.05."""


@dataclass(frozen=True, slots=True)
class ZoneBalance:
    """A soft aim: of a Provisioner's allocatable CPU no zone has more than `max_share` (1: no aim).

    A node may cost up to the share `premium` more for it. The aim holds from `from_nodes` nodes on: fewer stay as cheap
    as they can be.
    """

    max_share: float = 1.0
    premium: float = 0.02
    from_nodes: int = 6

    def of(self, annotations: Mapping[str, str]) -> ZoneBalance:
        """The aim of a Provisioner with these annotations; one that cannot be read counts as missing."""
        share, premium = (annotations.get(key, "") for key in (SHARE_ANNOTATION, PREMIUM_ANNOTATION))
        return replace(
            self,
            max_share=_or(read_share(share), self.max_share),
            premium=_or(read_premium(premium), self.premium),
        )


def read_share(text: str) -> float | None:
    """The `max_share` that an annotation names, above 0 and up to 1; None: it names none."""
    value = _number(text)
    return value if value is not None and 0 < value <= 1 else None


def read_premium(text: str) -> float | None:
    """The `premium` that an annotation names, 0 or more; None: it names none."""
    value = _number(text)
    return value if value is not None and value >= 0 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


@dataclass(frozen=True, slots=True)
class ZoneChoice:
    """A zone that a planned node may stand in: its CPU there, in millicores, and what it costs more, in $/hour."""

    cpu: int
    extra: float


@dataclass(frozen=True, slots=True)
class PlannedZones:
    """`count` equal planned nodes in `zone`, and the other zones that they may stand in."""

    zone: str
    cpu: int
    count: int
    others: Mapping[str, ZoneChoice]


@dataclass(frozen=True, slots=True)
class Move:
    """So many nodes of group `group` (its place in the sequence) go to `zone`."""

    group: int
    zone: str
    count: int


def moves(standing: Mapping[str, int], groups: Sequence[PlannedZones], aim: ZoneBalance) -> tuple[Move, ...]:
    """The moves by which no zone has more than its share, the cheapest per CPU first; as far as there are such moves.

    standing: CPU of the nodes that there are, in millicores by zone.
    """
    load = dict(standing)
    left = [group.count for group in groups]
    for group in groups:
        for zone in (group.zone, *group.others):
            load.setdefault(zone, 0)
        load[group.zone] += group.cpu * group.count
    moved: dict[tuple[int, str], int] = {}
    while (chosen := _next(load, groups, left, aim.max_share)) is not None:
        place, zone = chosen
        group = groups[place]
        load[group.zone] -= group.cpu
        load[zone] += group.others[zone].cpu
        left[place] -= 1
        moved[chosen] = moved.get(chosen, 0) + 1
    return tuple(Move(place, zone, count) for (place, zone), count in sorted(moved.items()))


def _next(
    load: Mapping[str, int], groups: Sequence[PlannedZones], left: Sequence[int], share: float
) -> tuple[int, str] | None:
    """The group and zone of the cheapest move out of the fullest zone that leaves the other zone within its share."""
    total = sum(load.values())
    fullest = max(sorted(load), key=load.__getitem__, default="")
    if not total or load[fullest] <= share * total + ROUNDING:
        return None
    possible = [
        (choice.extra / group.cpu, load[zone], zone, place)
        for place, group in enumerate(groups)
        if left[place] and group.zone == fullest
        for zone, choice in group.others.items()
        if load[zone] + choice.cpu <= share * (total - group.cpu + choice.cpu) + ROUNDING
    ]
    if not possible:
        return None
    _, _, zone, place = min(possible)
    return place, zone
