"""Zone balance: which planned nodes of a Provisioner go to another zone, and how much more that may cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controller.core.api.duration import duration_seconds
from controller.core.api.frozen import EMPTY
from controller.core.api.settings.readers import decimal

ROUNDING = 1e-9
SHARE_ANNOTATION: Final = "karpenter.sh/zone-max-share"
"""Annotation of a Provisioner: its `max_share`, such as 0.4; 1: no aim."""
PREMIUM_ANNOTATION: Final = "karpenter.sh/zone-premium"
"""Annotation of a Provisioner: its `premium`, such as 0.05."""
SCOPE_ANNOTATION: Final = "karpenter.sh/zone-share-of"
"""Annotation of a Provisioner: `cluster` counts all nodes, as topology hints do; `provisioner` its own alone."""
INTERVAL_ANNOTATION: Final = "karpenter.sh/zone-move-interval"
"""Annotation of a Provisioner: its `move_seconds` as a duration, such as 30m; 0: no node is moved."""
_SCOPES: Final = {"cluster": True, "provisioner": False}


@dataclass(frozen=True, slots=True)
class ZoneBalance:
    """A soft aim: of a Provisioner's allocatable CPU no zone has more than `max_share` (1: no aim).

    A node may cost up to the share `premium` more for it. The aim holds from `from_nodes` nodes on; fewer are chosen by
    cost alone. `cluster`: shares are of the CPU of all nodes of the cluster. `move_seconds`: while the aim is missed,
    one existing node is moved each time this has passed; 0: none is.
    """

    max_share: float = 1.0
    premium: float = 0.02
    from_nodes: int = 6
    cluster: bool = False
    move_seconds: float = 0.0

    def of(self, annotations: Mapping[str, str]) -> ZoneBalance:
        """Return the aim of a Provisioner with these annotations; one that cannot be read counts as missing."""
        read = {name: reader(annotations.get(key, "")) for key, (name, reader) in AIMS.items()}
        return replace(self, **{name: value for name, value in read.items() if value is not None})

    def crowded(self, load: Load) -> str:
        """Return the fullest zone if it has more than its share; "" otherwise, or if there are too few nodes."""
        missed = load.nodes >= self.from_nodes and load.share > self.max_share + ROUNDING
        return fullest(load.cpu) if missed else ""


@dataclass(frozen=True, slots=True)
class Load:
    """CPU by zone, in millicores, and the number of nodes. Nodes without a zone do not count."""

    cpu: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    nodes: int = 0

    @classmethod
    def of(cls, nodes: Iterable[tuple[str, int]]) -> Load:
        """Sum up nodes, each given as zone and millicores."""
        cpu: Counter[str] = Counter()
        count = 0
        for zone, own in nodes:
            if zone:
                cpu[zone] += own
                count += 1
        return cls(dict(cpu), count)

    def plus(self, more: Load) -> Load:
        """Add two loads."""
        return Load(dict(Counter(self.cpu) + Counter(more.cpu)), self.nodes + more.nodes)

    @property
    def share(self) -> float:
        """The fullest zone's share of all CPU, 0 to 1; 0 without nodes."""
        total = sum(self.cpu.values())
        return max(self.cpu.values()) / total if total else 0.0


def fullest(cpu: Mapping[str, int]) -> str:
    """Return the zone with most CPU, of equals the first by name; "" without zones."""
    return max(sorted(cpu), key=cpu.__getitem__, default="")


def read_share(text: str) -> float | None:
    """Return the `max_share` that an annotation names, above 0 and up to 1; None: it names none."""
    value = _number(text)
    return value if value is not None and 0 < value <= 1 else None


def read_premium(text: str) -> float | None:
    """Return the `premium` that an annotation names, 0 or more; None: it names none."""
    value = _number(text)
    return value if value is not None and value >= 0 else None


def read_scope(text: str) -> bool | None:
    """Return whether an annotation names the whole cluster; None: it names no scope."""
    return _SCOPES.get(text)


def read_interval(text: str) -> float | None:
    """Return the `move_seconds` that an annotation names, 0 or more; None: it names none."""
    try:
        seconds = duration_seconds(text)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _number(text: str) -> float | None:
    value = decimal(text)
    return value if math.isfinite(value) else None


AIMS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    SHARE_ANNOTATION: ("max_share", read_share),
    PREMIUM_ANNOTATION: ("premium", read_premium),
    SCOPE_ANNOTATION: ("cluster", read_scope),
    INTERVAL_ANNOTATION: ("move_seconds", read_interval),
}
"""By annotation of a Provisioner, the member of its `ZoneBalance`, and its reader; None: it cannot be read."""


@dataclass(frozen=True, slots=True)
class ZoneChoice:
    """A zone that a planned node may be in: its CPU there, in millicores, and what it costs more, in $/hour."""

    cpu: int
    extra: float


@dataclass(frozen=True, slots=True)
class PlannedZones:
    """`count` equal planned nodes in `zone`, and the other zones that they may be in."""

    zone: str
    cpu: int
    count: int
    others: Mapping[str, ZoneChoice]


@dataclass(frozen=True, slots=True)
class Move:
    """`count` nodes of group `group` (its place in the sequence) go to `zone`."""

    group: int
    zone: str
    count: int


def moves(standing: Mapping[str, int], groups: Sequence[PlannedZones], aim: ZoneBalance) -> tuple[Move, ...]:
    """Move nodes until no zone has more than its share, as far as possible, by the cheapest move per CPU.

    The fullest zone comes first; if none of its nodes can move (they exist, or require the zone), the next one.
    standing: CPU of the existing nodes, in millicores by zone.
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
    """Return the group and zone of the cheapest move out of the fullest zone from which there is one."""
    most = share * sum(load.values()) + ROUNDING
    crowded = sorted((zone for zone in load if load[zone] > most), key=lambda zone: (-load[zone], zone))
    moves_out = (_cheapest(zone, load, groups, left, share) for zone in crowded)
    return next((move for move in moves_out if move is not None), None)


def _cheapest(
    full: str, load: Mapping[str, int], groups: Sequence[PlannedZones], left: Sequence[int], share: float
) -> tuple[int, str] | None:
    """Return the group and zone of the cheapest move out of zone `full` that leaves the other zone within its share.

    Where there is none, since zones are missing, the other zone may come up to what is left in `full`.
    """
    total = sum(load.values())
    possible = []
    for place, group in enumerate(groups):
        for zone, choice in group.others.items() if left[place] and group.zone == full else ():
            beyond = load[zone] + choice.cpu > share * (total - group.cpu + choice.cpu) + ROUNDING
            if not beyond or load[zone] + choice.cpu <= load[full] - group.cpu:
                possible.append((beyond, choice.extra / group.cpu, load[zone], zone, place))
    if not possible:
        return None
    *_, zone, place = min(possible)
    return place, zone
