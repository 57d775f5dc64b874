"""The new nodes of plans, without their pods: the offerings that hold what is on a row, labels, the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import PricedOffering
from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.plan import PlannedNode, SolveOptions
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.scheduling.requirements import Requirement, Requirements

Masks = frozenset[int]
"""Indices of the masks of all items on one row."""
NodeKey = tuple[int, int, Masks, bytes, int, int]
"""What equal new rows have in common: node option, signature, masks, free resources, number of pods, and the offering
bits that they are bound to (0: none)."""


class NewNodes:
    """The new nodes of all plans of one solve.

    A plan of thousands of nodes has few distinct ones, and plans of one solve have many of the same: each is computed
    once, and the parts of it once per set of masks.
    """

    def __init__(self, compiler: MaskCompiler, limits: Limits, options: SolveOptions) -> None:
        """limits: Provisioners', whatever is left of them."""
        self.catalog, self.signatures = compiler.catalog, compiler.signatures
        self.limits, self.options = limits, options
        self.masks: dict[int, Mask] = {}
        """By index; of all items on rows that are asked for."""
        self._capacity: dict[int, Floats] = {}
        self._offerings: dict[tuple[int, bytes, bytes], tuple[PricedOffering, tuple[PricedOffering, ...]]] = {}
        self._allowing: dict[tuple[int, Masks, int, int], Bools] = {}
        self._requirements: dict[tuple[int, Masks, int], Requirements] = {}
        self._labels: dict[tuple[int, int], FrozenMap[str, str]] = {}
        self._nodes: dict[NodeKey, PlannedNode] = {}

    def node(self, key: NodeKey) -> PlannedNode:
        """Return the planned node of rows with this key, without pods."""
        if key not in self._nodes:
            self._nodes[key] = self._computed(key)
        return self._nodes[key]

    def _computed(self, key: NodeKey) -> PlannedNode:
        option, signature, masks, free, count, bits = key
        catalog, options = self.catalog, self.options
        pool = int(catalog.pool_of[option])
        used = catalog.allocatable[:, option] - np.frombuffer(free)
        cpu = self._cpu_asked(option, used)
        offering, alternatives = self._fitting(pool, self._holding(option, pool, masks, used, cpu), cpu)
        provisioner = catalog.pools[pool].provisioner
        node = PlannedNode(
            provisioner=provisioner.name,
            offering=offering,
            alternatives=alternatives,
            requirements=self._node_requirements(pool, masks, signature, (offering, *alternatives)),
            labels=self._node_labels(pool, signature),
            taints=provisioner.taints,
            startup_taints=provisioner.startup_taints,
            pods=(),
            requests=FrozenMap(catalog.space.mapping(used + catalog.overhead[:, option])),
            reason="",
            flexibility=options.flexibility,
        )
        node = replace(node, reason=_reason(count, node))
        return self._asking_first(node, option, bits) if bits else node

    def _asking_first(self, node: PlannedNode, option: int, bits: int) -> PlannedNode:
        """Return the node as one that first asks for the spot offering with these bits, if it names that one."""
        zone, capacity_type = self.catalog.offering_keys[bits.bit_length() - 1]
        wanted = (self.catalog.types[option].name, zone, capacity_type)
        every = (node.offering, *node.alternatives)
        first = next((o for o in every if (o.instance_type, o.zone, o.capacity_type) == wanted), None)
        if first is None or capacity_type != labels.SPOT:
            return node
        others = tuple(offering for offering in every if offering != first)
        return replace(node, offering=first, alternatives=others, first_choice=(first,))

    def _cpu_asked(self, option: int, used: Floats) -> float:
        """Return the vCPUs that the pods and daemons of a row of the node option request."""
        column = self.catalog.space.column.get("cpu")
        return 0.0 if column is None else float(used[column] + self.catalog.overhead[column, option]) / 1000.0

    def _surplus(self, pool: int, cpu: float) -> Floats | None:
        """Return the $/hour of surplus CPU of each of the pool's offerings for `cpu` vCPUs requested; None: of none."""
        offered, used = self.catalog.table.cheapest_first(pool), self.options.cpu_use * cpu
        if not (offered.baseline < used).any():
            return None
        return np.asarray(np.maximum(0.0, used - offered.baseline) * offered.surplus_price)

    def _holding(self, option: int, pool: int, masks: Masks, used: Floats, cpu: float) -> Ints:
        """Return the positions, among the pool's offerings, of those that hold what a row of the option holds,
        cheapest first.

        used: R, what the row's pods request. cpu: vCPUs, with those that its daemons request.
        """
        holds = self._allowed(option, pool, masks)
        for capacity, requested in zip(self._capacities(pool), used.tolist(), strict=True):
            if requested > 0:
                holds = holds & (capacity >= requested)
        positions, surplus = np.flatnonzero(holds), self._surplus(pool, cpu)
        if surplus is not None:
            costs = self.catalog.table.cheapest_first(pool).costs[positions] + surplus[positions]
            positions = positions[np.argsort(costs, kind="stable")]
        return positions[: self.options.max_alternatives]

    def _fitting(self, pool: int, positions: Ints, cpu: float) -> tuple[PricedOffering, tuple[PricedOffering, ...]]:
        """Return the offering at the first of these positions and those at the others, for so many vCPUs requested."""
        surplus = self._surplus(pool, cpu)
        return self._named(pool, positions, np.zeros(0) if surplus is None else surplus[positions])

    def _allowed(self, option: int, pool: int, masks: Masks) -> Bools:
        """Return for each offering of the pool whether labels and limits let it replace one of the node option."""
        signatures, offered = self.signatures, self.catalog.table.cheapest_first(pool)
        no_larger = self.limits.no_larger(pool, option)
        key = (pool, masks, int(signatures.base[option]), option if no_larger is not None else -1)
        if (allowed := self._allowing.get(key)) is None:
            bits = np.bitwise_and.reduce([self.masks[index].bits for index in sorted(masks)])
            allowed = (bits[offered.option_ids] & offered.offering_bits) != 0
            if self.catalog.open_keys:
                allowed &= (signatures.base == signatures.base[option])[offered.option_ids]
            if no_larger is not None:
                within = np.ones(len(self.catalog), dtype=np.bool_)
                within[self.catalog.pool_of == pool] = no_larger
                allowed &= within[offered.option_ids]
            self._allowing[key] = allowed
        return allowed

    def _node_requirements(
        self, pool: int, masks: Masks, signature: int, offerings: tuple[PricedOffering, ...]
    ) -> Requirements:
        """Return the requirements of the pool and of all masks; the offerings' own values where pods had OR terms."""
        key = (pool, masks, signature)
        if (requirements := self._requirements.get(key)) is None:
            requirements = self.catalog.pools[pool].requirements
            for index in sorted(masks):
                requirements = requirements.intersection(self.masks[index].requirements)
            self._requirements[key] = requirements
        if all(self.masks[index].exact for index in masks):
            return requirements
        values = (
            Requirement.of(labels.INSTANCE_TYPE, "In", (o.instance_type for o in offerings)),
            Requirement.of(labels.ZONE, "In", (o.zone for o in offerings)),
            Requirement.of(labels.CAPACITY_TYPE, "In", (o.capacity_type for o in offerings)),
        )
        return requirements.intersection(Requirements(values))

    def _node_labels(self, pool: int, signature: int) -> FrozenMap[str, str]:
        """Return the Provisioner's labels, and a value for each label of its own that it leaves open."""
        node_labels = self._labels.get((pool, signature))
        if node_labels is None:
            provisioner = self.catalog.pools[pool].provisioner
            chosen = {**provisioner.labels, labels.PROVISIONER_NAME: provisioner.name}
            of_pods = self.signatures.requirements(max(signature, 0))
            for key, requirement in self.catalog.pools[pool].requirements.intersection(of_pods).items():
                if key in self.catalog.catalog_keys or key in labels.WELL_KNOWN or key in chosen:
                    continue
                if (value := chosen_value(requirement)) is not None:
                    chosen[key] = value
            node_labels = self._labels[(pool, signature)] = FrozenMap(dict(sorted(chosen.items())))
        return node_labels

    def _capacities(self, pool: int) -> Floats:
        """Return what an empty node of each of the pool's offerings holds: R x offerings, cheapest first."""
        if pool not in self._capacity:
            self._capacity[pool] = self.catalog.allocatable[:, self.catalog.table.cheapest_first(pool).option_ids]
        return self._capacity[pool]

    def _named(self, pool: int, positions: Ints, extra: Floats) -> tuple[PricedOffering, tuple[PricedOffering, ...]]:
        """Return the offering at the first of these positions and those at the others; equal nodes share the tuple.

        extra: of each, $/hour for surplus CPU; empty: none has any.
        """
        key = (pool, positions.tobytes(), extra.tobytes())
        if key not in self._offerings:
            offered = self.catalog.table.cheapest_first(pool)
            named = zip(offered.option_ids[positions].tolist(), offered.offering_keys[positions].tolist(), strict=True)
            chosen = [self.catalog.table.offering(option, offering_key) for option, offering_key in named]
            for place in np.flatnonzero(extra).tolist():
                chosen[place] = replace(chosen[place], surplus=float(extra[place]))
            first, *others = chosen
            self._offerings[key] = first, tuple(others)
        return self._offerings[key]


def _reason(pods: int, node: PlannedNode) -> str:
    offering, second = node.offering, node.runner_up
    text = (
        f"{pods} pod{'' if pods == 1 else 's'} had no room on existing nodes; {offering.instance_type} "
        f"{offering.capacity_type} in {offering.zone} at {offering.in_words} is the cheapest that holds them"
    )
    others = len(node.alternatives)
    if second is None:
        return f"{text}; no other type would"
    return (
        f"{text}; next is {second.instance_type} {second.capacity_type} at ${second.cost - offering.cost:.4f}/h "
        f"more, {others} offering{'' if others == 1 else 's'} more would do"
    )


def chosen_value(requirement: Requirement) -> str | None:
    """Return the value a node gets for a label that is left open: the least one allowed;
    None: the node has no such label.

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
