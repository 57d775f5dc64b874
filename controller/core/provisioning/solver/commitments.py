"""Count commitments down within a plan, so that a price for three instances is not used for a fourth.

The packer takes every offering's price at face value. If its plan launches more instances than a commitment covers, the
plan is priced as it will be paid, and so is a second plan made without that commitment's prices; the better one is
returned. At most two solves, and one as long as every commitment suffices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from controller.core.api.frozen import FrozenMap
from controller.core.cloud import Catalog, Commitment, InstanceType, Offering, PricedOffering
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem

Committed = Mapping[tuple[str, str, str, str], tuple[float, Commitment]]
"""Price and commitment of the offerings that have one, by (Provisioner, instance type, zone, capacity type)."""


def within_commitments(
    problem: SchedulingProblem, solve: Callable[[SchedulingProblem], SchedulingPlan]
) -> SchedulingPlan:
    """Return the plan of `solve`, or a better one if that overruns a commitment, with the prices that will be paid."""
    committed = {
        (provisioner, kind.name, offering.zone, offering.capacity_type): (offering.price, offering.commitment)
        for provisioner, types in problem.catalog.items()
        for kind in types
        for offering in kind.offerings
        if offering.commitment is not None
    }
    plan = solve(problem)
    overrun = _overrun(plan, committed)
    if not overrun:
        return plan
    without = solve(replace(problem, catalog=_without(problem.catalog, overrun)))
    paid = (_priced_as_paid(plan, committed), _priced_as_paid(without, committed))
    return min(paid, key=lambda each: (len(each.unplaced), each.price_per_hour))


def _overrun(plan: SchedulingPlan, committed: Committed) -> frozenset[int]:
    """Return the rules of the commitments that the plan needs for more instances than are left."""
    keys = (_key(node, node.offering) for node in plan.new_nodes) if committed else ()
    used = [committed[key][1] for key in keys if key in committed]
    instances = Counter(commitment.rule for commitment in used)
    return frozenset(commitment.rule for commitment in used if instances[commitment.rule] > commitment.left)


def _key(node: PlannedNode, offering: PricedOffering) -> tuple[str, str, str, str]:
    return node.provisioner, offering.instance_type, offering.zone, offering.capacity_type


def _without(catalog: Catalog, rules: frozenset[int]) -> Catalog:
    """Return the catalog as if the commitments of these rules were used up."""

    def used_up(offering: Offering) -> Offering:
        commitment = offering.commitment
        if commitment is None or commitment.rule not in rules:
            return offering
        return replace(offering, price=commitment.otherwise, commitment=None)

    def changed(kind: InstanceType) -> InstanceType:
        offerings = tuple(map(used_up, kind.offerings))
        return kind if offerings == kind.offerings else replace(kind, offerings=offerings)

    return FrozenMap({name: tuple(map(changed, types)) for name, types in sorted(catalog.items())})


def _priced_as_paid(plan: SchedulingPlan, committed: Committed) -> SchedulingPlan:
    """Return the same nodes at the prices that will be paid; commitments go to the nodes that they save most."""
    pricing = _Pricing(committed, {commitment.rule: commitment.left for _, commitment in committed.values()})
    order = sorted(range(len(plan.new_nodes)), key=lambda index: (-pricing.saving(plan.new_nodes[index]), index))
    paid = {index: pricing.pay(plan.new_nodes[index]) for index in order}
    return replace(plan, new_nodes=tuple(paid[index] for index in range(len(plan.new_nodes))), proof=None)


@dataclass(frozen=True, slots=True)
class _Pricing:
    """Prices nodes one by one. `left`: by rule, the instances that its commitment still covers."""

    committed: Committed
    left: dict[int, int]

    def saving(self, node: PlannedNode) -> float:
        """Return the $/hour that a commitment saves on the node's planned offering; 0 without one."""
        price, commitment = self.committed.get(_key(node, node.offering), (0.0, None))
        return commitment.otherwise - price if commitment else 0.0

    def pay(self, node: PlannedNode) -> PlannedNode:
        """Return the node at the offering that is cheapest now; uses one instance of its commitment up."""
        before = (node.offering, *node.alternatives)
        now = [replace(offering, price=self._price(node, offering)) for offering in before]
        chosen = min(now, key=lambda offering: offering.price)
        _, commitment = self.committed.get(_key(node, chosen), (0.0, None))
        if commitment and self.left[commitment.rule] > 0:
            self.left[commitment.rule] -= 1
        if tuple(now) == before:
            return node
        others = tuple(sorted(offering for offering in now if offering is not chosen))
        why = f"{node.reason}; what commitments leave makes it {chosen.instance_type} for ${chosen.price:.5f} an hour"
        return replace(node, offering=chosen, alternatives=others, reason=why)

    def _price(self, node: PlannedNode, offering: PricedOffering) -> float:
        price, commitment = self.committed.get(_key(node, offering), (0.0, None))
        if commitment is None:
            return offering.price
        return price if self.left[commitment.rule] > 0 else commitment.otherwise
