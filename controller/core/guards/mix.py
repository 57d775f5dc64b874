"""The on-demand mix: a base and a percentage of a Provisioner's nodes are on demand, which AWS never reclaims.

`karpenter.sh/on-demand-base` on a Provisioner is the number of its nodes that are on demand,
`karpenter.sh/on-demand-percentage` the share of those beyond (as in an Auto Scaling group's mixed instances policy).
Launches establish the mix; consolidation, which would replace by cheaper spot, leaves the nodes that it needs. Where
the Provisioner or the pods allow spot only, nodes stay on spot. An annotation that cannot be read makes every new node
on demand until it is corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND, ZONE
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.provisioning.plan import PlannedNode
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot, StateNode

BASE_ANNOTATION: Final = "karpenter.sh/on-demand-base"
PERCENTAGE_ANNOTATION: Final = "karpenter.sh/on-demand-percentage"
MOST: Final = {BASE_ANNOTATION: 10**6, PERCENTAGE_ANNOTATION: 100}
"""By annotation, the largest number that it may have."""


@dataclass(frozen=True, slots=True)
class Mix:
    """`base` nodes on demand, and `percentage` of those beyond."""

    base: int = 0
    percentage: int = 0
    problem: str = ""
    """Why the annotations cannot be read; empty when they can."""

    def on_demand_of(self, nodes: int) -> int:
        """Return how many of so many nodes are to be on demand; shares are rounded up."""
        return min(nodes, self.base) + -(-max(0, nodes - self.base) * self.percentage // 100)


def mix_of(provisioner: Provisioner) -> Mix | None:
    """Return what its annotations ask for; None without them."""
    given = {key: text for key in MOST if (text := provisioner.object_annotations.get(key)) is not None}
    if not given:
        return None
    problems = [
        f"annotation {key} of Provisioner {provisioner.name}: {text!r} is not 0 to {MOST[key]}"
        for key, text in given.items()
        if not readable(key, text)
    ]
    if problems:
        return Mix(0, 100, "; ".join(problems))
    return Mix(int(given.get(BASE_ANNOTATION, 0)), int(given.get(PERCENTAGE_ANNOTATION, 0)))


def readable(key: str, text: str) -> bool:
    """Return whether this is a number that the annotation `key` may have."""
    return text.isascii() and text.isdecimal() and int(text[:9]) <= MOST[key]


def with_mix(
    planned: Sequence[PlannedNode],
    provisioner: Provisioner,
    types: Mapping[str, InstanceType],
    snapshot: Snapshot,
    going: Collection[str] = (),
) -> tuple[PlannedNode, ...]:
    """Return the same nodes, as many of them turned to on demand as the mix needs.

    `planned` are the Provisioner's; existing nodes named in `going` do not count.
    """
    mix = mix_of(provisioner)
    if mix is None:
        return tuple(planned)
    standing = snapshot.nodes_of(provisioner.name, going)
    # Nodes on demand, existing or planned, count first: a spot node is turned only if they do not suffice.
    on_demand = len(_on_demand_names(standing)) + sum(n.offering.capacity_type == ON_DEMAND for n in planned)
    missing = mix.on_demand_of(len(standing) + len(planned)) - on_demand
    nodes_in_mix = []
    for node in planned:
        turned = _on_demand(node, types, mix) if missing > 0 and node.offering.capacity_type != ON_DEMAND else None
        missing -= turned is not None
        nodes_in_mix.append(turned or node)
    return tuple(nodes_in_mix)


def needed(snapshot: Snapshot) -> Mapping[str, str]:
    """Return on-demand nodes that a mix needs, by name, and why."""
    reasons: dict[str, str] = {}
    for provisioner in snapshot.provisioners.values():
        mix = mix_of(provisioner)
        if mix is None:
            continue
        standing = snapshot.nodes_of(provisioner.name)
        on_demand, wanted = _on_demand_names(standing), mix.on_demand_of(len(standing))
        if len(on_demand) <= wanted:
            why = (
                mix.problem
                or f"{wanted} of {len(standing)} nodes of Provisioner {provisioner.name} are to be on demand"
            )
            reasons.update(dict.fromkeys(on_demand, why))
    return reasons


def _on_demand_names(nodes: Iterable[StateNode]) -> list[str]:
    return [node.name for node in nodes if node.node.capacity_type == ON_DEMAND]


def _on_demand(node: PlannedNode, types: Mapping[str, InstanceType], mix: Mix) -> PlannedNode | None:
    """Return the cheapest on-demand offerings of types that hold the same pods; None where spot alone is allowed."""
    if not _allows(node.requirements, CAPACITY_TYPE, ON_DEMAND):
        return None
    names = {offering.instance_type: offering for offering in (node.offering, *node.alternatives)}
    offered = sorted(
        replace(names[name], price=offering.price, zone=offering.zone, capacity_type=ON_DEMAND)
        for name in names.keys() & types.keys()
        for offering in types[name].offerings
        if offering.capacity_type == ON_DEMAND
        and offering.available
        and offering.price > 0
        and _allows(node.requirements, ZONE, offering.zone)
    )
    if not offered:
        return None
    first, *others = offered
    why = mix.problem or f"on demand for {BASE_ANNOTATION} {mix.base}, {PERCENTAGE_ANNOTATION} {mix.percentage}"
    text = f"{first.instance_type} in {first.zone} at ${first.price:.4f}: {why}; planned before: {node.reason}"
    return replace(node, offering=first, alternatives=tuple(others), reason=text)


def _allows(requirements: Requirements, key: str, value: str) -> bool:
    requirement = requirements.get(key)
    return requirement is None or requirement.has(value)
