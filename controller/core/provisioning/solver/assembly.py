"""From rows to a plan: pods are handed out, the cheapest offering and its alternatives chosen, reasons written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import PricedOffering
from controller.core.provisioning.flexibility import runner_up
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.placed_pods import PlacedPods, PodSlice
from controller.core.provisioning.plan import ExistingPlacement, PlannedNode
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.topology.bundles import BundleMember
from controller.core.scheduling.requirements import Requirement, Requirements

_Alike = tuple[int, int, frozenset[int], bytes, int]
"""What makes rows alike: node option, signature, masks, what is left free, and how many pods there are."""


@dataclass(frozen=True, slots=True)
class _Fitting:
    """The offerings that would hold a row's pods, cheapest first: the first one is planned."""

    offering: PricedOffering
    alternatives: tuple[PricedOffering, ...]
    second: PricedOffering | None

    @property
    def every(self) -> tuple[PricedOffering, ...]:
        return (self.offering, *self.alternatives)


class Assembler:
    """Reads a packer's rows. Answers that many rows share are cached."""

    def __init__(self, packer: Packer, existing: ExistingNodes) -> None:
        self.packer = packer
        self.catalog: CompiledCatalog = packer.catalog
        self.existing = existing
        self._pods: dict[int, list[PodSlice]] = defaultdict(list)
        self._masks: dict[int, set[int]] = defaultdict(set)
        self._mask: dict[int, Mask] = {}
        self._bits: dict[frozenset[int], Bits] = {}
        self._allowing: dict[tuple[int, frozenset[int], int, int], Bools] = {}
        self._requirements: dict[tuple[int, frozenset[int], int], Requirements] = {}
        self._labels: dict[tuple[int, int], FrozenMap[str, str]] = {}
        self._fittings: dict[tuple[int, bytes], _Fitting] = {}
        self._recipes: dict[_Alike, PlannedNode] = {}
        self._holds: dict[int, Floats] = {}
        self._hand_out()

    def _hand_out(self) -> None:
        """Give each class's pods, oldest first, to the rows that its items were placed on."""
        self.placed: dict[int, int] = defaultdict(int)
        used: dict[int, list[int]] = {}
        for placement in self.packer.placements:
            item = placement.item
            mask = item.mask.index
            self._mask[mask] = item.mask
            place = used.setdefault(id(item), [0, 0])
            for row, count in zip(placement.rows, placement.counts, strict=True):
                self._masks[row].add(mask)
                while count:
                    allocation = item.allocations[place[0]]
                    taken = min(count, allocation.count - place[1])
                    self._take(self._pods[row], allocation.bundle.members, taken)
                    count -= taken
                    place[1] += taken
                    if place[1] == allocation.count:
                        place[0], place[1] = place[0] + 1, 0

    def _take(self, parts: list[PodSlice], members: tuple[BundleMember, ...], units: int) -> None:
        for member in members:
            index, count = member.pod_class.index, member.pods * units
            start = self.placed[index]
            parts.append(PodSlice(member.pod_class, start, count))
            self.placed[index] = start + count

    def _held_by(self, pool: int) -> Floats:
        """R x offerings of the pool, cheapest first: what an empty node of each holds."""
        found = self._holds.get(pool)
        if found is None:
            found = self._holds[pool] = self.catalog.allocatable[:, self.catalog.table.cheapest_first(pool).option_ids]
        return found

    def existing_placements(self) -> tuple[ExistingPlacement, ...]:
        """Pods on nodes that are there already."""
        found = []
        for row, parts in sorted(self._pods.items()):
            if row < self.packer.table.existing:
                pods = PlacedPods(parts)
                reason = f"{len(pods)} pods fit into what is free on this node"
                found.append(ExistingPlacement(self.existing.nodes[row].name, pods, reason))
        return tuple(found)

    def new_nodes(self) -> tuple[PlannedNode, ...]:
        """The nodes to launch, in the order of their first pods."""
        table = self.packer.table
        option_ids, signatures = table.option.tolist(), table.signature.tolist()
        free, width = np.ascontiguousarray(table.free.T).tobytes(), table.free.itemsize * len(table.free)
        found = []
        for row, parts in self._pods.items():
            if row >= table.existing:
                pods = PlacedPods(parts)
                left = free[row * width : (row + 1) * width]
                alike = (option_ids[row], signatures[row], frozenset(self._masks[row]), left, len(pods))
                found.append((pods.turn, self._node(row, pods, alike)))
        found.sort(key=itemgetter(0))
        return tuple(node for _, node in found)

    def _node(self, row: int, pods: PlacedPods, alike: _Alike) -> PlannedNode:
        """The node of a row. Rows that are alike are made by one recipe."""
        recipe = self._recipes.get(alike)
        if recipe is None:
            option, signature, masks, _, count = alike
            recipe = self._recipes[alike] = self._recipe(
                option, signature, masks, self.packer.table.free[:, row], count
            )
        return PlannedNode(
            recipe.provisioner,
            recipe.offering,
            recipe.alternatives,
            recipe.requirements,
            recipe.labels,
            recipe.taints,
            recipe.startup_taints,
            pods,
            recipe.requests,
            recipe.reason,
            recipe.runner_up,
            recipe.price_spread,
            recipe.spot_offerings,
        )

    def _recipe(self, option: int, signature: int, masks: frozenset[int], free: Floats, count: int) -> PlannedNode:
        """A node of the node option with so much left free by `count` pods, that has none yet."""
        catalog = self.catalog
        pool = int(catalog.pool_of[option])
        used = catalog.allocatable[:, option] - free
        fitting = self._offered(pool, self._holding(option, pool, masks, used))
        provisioner = catalog.pools[pool].provisioner
        return PlannedNode(
            provisioner=provisioner.name,
            offering=fitting.offering,
            alternatives=fitting.alternatives,
            runner_up=fitting.second,
            requirements=self._node_requirements(pool, masks, signature, fitting),
            labels=self._node_labels(pool, signature),
            taints=provisioner.taints,
            startup_taints=provisioner.startup_taints,
            pods=(),
            requests=FrozenMap(catalog.space.mapping(used + catalog.overhead[:, option])),
            reason=_reason(count, fitting),
            price_spread=self.packer.options.price_spread,
            spot_offerings=self.packer.options.spot_offerings,
        )

    def _holding(self, option: int, pool: int, masks: frozenset[int], need: Floats) -> Ints:
        """The places of the pool's offerings that hold what a row of the node option holds, cheapest first."""
        holds = self._allowed(option, pool, masks)
        for have, asked in zip(self._held_by(pool), need.tolist(), strict=True):
            if asked > 0:
                holds = holds & (have >= asked)
        return np.flatnonzero(holds)[: self.packer.options.max_alternatives]

    def _offered(self, pool: int, places: Ints) -> _Fitting:
        key = (pool, places.tobytes())
        found = self._fittings.get(key)
        if found is None:
            offerings = self.catalog.table.cheapest_first(pool).offerings
            first, *others = (offerings[index] for index in places.tolist())
            found = self._fittings[key] = _Fitting(first, tuple(others), runner_up(first, others))
        return found

    def _allowed(self, option: int, pool: int, masks: frozenset[int]) -> Bools:
        """Per offering of the pool, whether labels, open labels and limits let it stand in for the node option."""
        signatures, offered = self.packer.signatures, self.catalog.table.cheapest_first(pool)
        no_larger = self.packer.limits.no_larger(pool, option)
        key = (pool, masks, int(signatures.base[option]), option if no_larger is not None else -1)
        found = self._allowing.get(key)
        if found is None:
            found = (self._row_bits(masks)[offered.option_ids] & offered.offering_bits) != 0
            if self.catalog.open_keys:
                found = found & (signatures.base == signatures.base[option])[offered.option_ids]
            if no_larger is not None:
                every = np.ones(len(self.catalog), dtype=np.bool_)
                every[self.catalog.pool_of == pool] = no_larger
                found = found & every[offered.option_ids]
            self._allowing[key] = found
        return found

    def _row_bits(self, masks: frozenset[int]) -> Bits:
        bits = self._bits.get(masks)
        if bits is None:
            chosen = [self._mask[index].bits for index in sorted(masks)]
            bits = chosen[0]
            for other in chosen[1:]:
                bits = bits & other
            self._bits[masks] = bits
        return bits

    def _node_requirements(self, pool: int, masks: frozenset[int], signature: int, fitting: _Fitting) -> Requirements:
        key = (pool, masks, signature)
        found = self._requirements.get(key)
        if found is None:
            found = self.catalog.pools[pool].requirements
            for index in sorted(masks):
                found = found.intersection(self._mask[index].requirements)
            self._requirements[key] = found
        if all(self._mask[index].exact for index in masks):
            return found
        return found.intersection(_named(fitting.every))

    def _node_labels(self, pool: int, signature: int) -> FrozenMap[str, str]:
        """The Provisioner's labels, and a value for each label of its own that it leaves open."""
        found = self._labels.get((pool, signature))
        if found is None:
            chosen = dict(self.catalog.pools[pool].provisioner.labels)
            chosen[labels.PROVISIONER_NAME] = self.catalog.pools[pool].provisioner.name
            settled = self.catalog.pools[pool].requirements.intersection(
                self.packer.signatures.requirements(max(signature, 0))
            )
            for key, requirement in settled.items():
                if key in self.catalog.catalog_keys or key in labels.WELL_KNOWN or key in chosen:
                    continue
                value = chosen_value(requirement)
                if value is not None:
                    chosen[key] = value
            found = self._labels[(pool, signature)] = FrozenMap(dict(sorted(chosen.items())))
        return found


def _reason(pods: int, fitting: _Fitting) -> str:
    offering, found = fitting.offering, fitting.second
    text = (
        f"{pods} pod{'' if pods == 1 else 's'} had no room on existing nodes; {offering.instance_type} "
        f"{offering.capacity_type} in {offering.zone} at ${offering.price:.4f}/h is the cheapest that holds them"
    )
    others = len(fitting.alternatives)
    if found is None:
        return f"{text}; no other type would"
    return (
        f"{text}; next is {found.instance_type} {found.capacity_type} at ${found.price - offering.price:.4f}/h more, "
        f"{others} offering{'' if others == 1 else 's'} more would do"
    )


def _named(fitting: Sequence[PricedOffering]) -> Requirements:
    """Requirements that name exactly what the offerings are, for rows whose pods had OR terms."""
    return Requirements(
        (
            Requirement.of(labels.INSTANCE_TYPE, "In", (o.instance_type for o in fitting)),
            Requirement.of(labels.ZONE, "In", (o.zone for o in fitting)),
            Requirement.of(labels.CAPACITY_TYPE, "In", (o.capacity_type for o in fitting)),
        )
    )


def chosen_value(requirement: Requirement) -> str | None:
    """The value a node gets for a label that is left open: the first that is allowed; None: no label.

    Karpenter v0.27 draws a random number, which NotIn may exclude; here it is the least integer allowed.
    """
    if not requirement.satisfiable:
        return None
    if not requirement.complement:
        return min(requirement.values) if requirement.values else None
    least = requirement.greater_than + 1 if requirement.greater_than is not None else 0
    if requirement.less_than is not None and requirement.greater_than is None:
        least = min(0, requirement.less_than - 1)
    step = 1 if requirement.greater_than is not None or requirement.less_than is None else -1
    while not requirement.has(str(least)):
        least += step
    return str(least)
