"""Demands: what the packer places. Shares that ask the same of a node are one demand, whatever class they are of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.bundles import UnitRule


@dataclass(slots=True)
class Item:
    """`count` units with the same request, mask and host rules. `shares` say whose they are, in order of placement."""

    index: int
    mask: Mask
    request: Floats
    rules: tuple[UnitRule, ...]
    shares: list[Allocation]
    count: int = 0
    """Units still to be placed."""
    placed: int = 0
    asked: list[tuple[int, float]] = field(default_factory=list)
    """The resources that the request has, by column, and how much of each."""
    size: float = 0.0
    """The largest part of the largest node that a unit takes: what demands are sorted by."""
    waited: int = 0
    """How long its oldest pod has waited (`PodClass.waited`): what demands for scarce room are sorted by first."""

    @property
    def standing_only(self) -> bool:
        """No node that could be launched would do: it goes first, while standing nodes have room."""
        return not self.mask.launchable


def demands(shares: Iterable[Allocation], scale: Floats) -> list[Item]:
    """The shares as demands, those without a choice first, then the largest units.

    `scale` is one over the largest amount of each resource that a node may have.
    """
    found: dict[tuple[object, ...], Item] = {}
    sizes: dict[bytes, tuple[list[tuple[int, float]], float]] = {}
    for share in shares:
        piece = share.piece
        key = (share.mask.index, piece.request_key, piece.rules.identity)
        demand = found.get(key)
        if demand is None:
            demand = found[key] = Item(len(found), share.mask, piece.request, piece.rules.host, [])
            if piece.request_key not in sizes:
                largest = float((piece.request * scale).max(initial=0.0))
                asked = [(column, amount) for column, amount in enumerate(piece.request.tolist()) if amount]
                sizes[piece.request_key] = asked, largest
            demand.asked, demand.size = sizes[piece.request_key]
        demand.shares.append(share)
        demand.count += share.count
        demand.waited = max(demand.waited, piece.pod_class.waited)
    for demand in found.values():
        if len(demand.shares) > 1:
            demand.shares.sort(key=lambda share: (-share.piece.pod_class.waited, share.piece.name))
    ordered = sorted(found.values(), key=_turn)
    for index, demand in enumerate(ordered):
        demand.index = index
    return ordered


def _turn(demand: Item) -> tuple[bool, int, float, str, int]:
    scarce = demand.standing_only
    return (not scarce, -demand.waited if scarce else 0, -demand.size, demand.shares[0].piece.name, demand.mask.index)
