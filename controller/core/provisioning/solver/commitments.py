"""Commitments are counted down within a plan: a price that holds for three instances is not counted on for the fourth.

The packer takes the price of an offering as it is. Where its plan launches more than a commitment covers, the plan is
costed as it will be paid, and so is a second plan that was made without those commitments' prices; the cheaper one is
taken. Two solves at most, and none more while every commitment suffices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from controller.core.api.frozen import FrozenMap
from controller.core.cloud import Catalog, Commitment, InstanceType, Offering, PricedOffering
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem

Terms = Mapping[tuple[str, str, str, str], Offering]
"""Offerings with a commitment by (Provisioner, instance type, zone, capacity type)."""


def within_commitments(
    problem: SchedulingProblem, solve: Callable[[SchedulingProblem], SchedulingPlan]
) -> SchedulingPlan:
    """The plan of `solve`, or a cheaper one where that overruns a commitment; its prices are what will be paid."""
    terms = _terms(problem.catalog)
    plan = solve(problem)
    overrun = _overrun(plan, terms)
    if not overrun:
        return plan
    listed = solve(replace(problem, catalog=_without(problem.catalog, overrun)))
    return min((_costed(plan, terms), _costed(listed, terms)), key=_merit)


def _merit(plan: SchedulingPlan) -> tuple[int, float]:
    return (len(plan.unplaced), plan.price_per_hour)


def _terms(catalog: Catalog) -> Terms:
    return {
        (provisioner, kind.name, offering.zone, offering.capacity_type): offering
        for provisioner, types in catalog.items()
        for kind in types
        for offering in kind.offerings
        if offering.commitment is not None
    }


def _overrun(plan: SchedulingPlan, terms: Terms) -> frozenset[int]:
    """The rules of which the plan launches more instances than are left."""
    if not terms:
        return frozenset()
    found = [term for node in plan.new_nodes if (term := _term(terms, node, node.offering)[1]) is not None]
    wanted = Counter(term.rule for term in found)
    return frozenset(term.rule for term in found if wanted[term.rule] > term.left)


def _term(
    terms: Terms, node: PlannedNode, offered: PricedOffering
) -> tuple[Offering | PricedOffering, Commitment | None]:
    """The offering as the catalog has it, with its commitment; without one the offering itself."""
    key = (node.provisioner, offered.instance_type, offered.zone, offered.capacity_type)
    offering = terms.get(key)
    return (offered, None) if offering is None else (offering, offering.commitment)


def _without(catalog: Catalog, rules: frozenset[int]) -> Catalog:
    """The catalog as if these rules were used up."""
    return FrozenMap(
        {name: tuple(_type_without(kind, rules) for kind in types) for name, types in sorted(catalog.items())}
    )


def _type_without(kind: InstanceType, rules: frozenset[int]) -> InstanceType:
    offerings = tuple(_used_up(offering, rules) for offering in kind.offerings)
    return kind if offerings == kind.offerings else replace(kind, offerings=offerings)


def _used_up(offering: Offering, rules: frozenset[int]) -> Offering:
    term = offering.commitment
    return (
        offering if term is None or term.rule not in rules else replace(offering, price=term.otherwise, commitment=None)
    )


def _costed(plan: SchedulingPlan, terms: Terms) -> SchedulingPlan:
    """The same nodes at the prices that will be paid; the commitments go to those that they spare most."""
    purse = _Purse(terms, {term.rule: term.left for offering in terms.values() if (term := offering.commitment)})
    order = sorted(range(len(plan.new_nodes)), key=lambda index: (-purse.saving(plan.new_nodes[index]), index))
    paid = {index: purse.pay(plan.new_nodes[index]) for index in order}
    return replace(plan, new_nodes=tuple(paid[index] for index in range(len(plan.new_nodes))))


@dataclass(frozen=True, slots=True)
class _Purse:
    """What is left of the commitments, by rule, while nodes are costed one by one."""

    terms: Terms
    left: dict[int, int]

    def saving(self, node: PlannedNode) -> float:
        """$ an hour that a commitment spares the node; 0 without one."""
        offering, term = _term(self.terms, node, node.offering)
        return term.otherwise - offering.price if term is not None else 0.0

    def pay(self, node: PlannedNode) -> PlannedNode:
        """The node at the cheapest of its offerings as they are now; one instance of a commitment is used up by it."""
        before = (node.offering, *node.alternatives)
        now = [replace(one, price=self._price(node, one)) for one in before]
        chosen = min(now, key=lambda one: one.price)
        _, term = _term(self.terms, node, chosen)
        if term is not None and self.left[term.rule] > 0:
            self.left[term.rule] -= 1
        if tuple(now) == before:
            return node
        rest = tuple(sorted(one for one in now if one is not chosen))
        why = f"{node.reason}; what commitments leave makes it {chosen.instance_type} for ${chosen.price:.5f} an hour"
        return replace(node, offering=chosen, alternatives=rest, reason=why)

    def _price(self, node: PlannedNode, offered: PricedOffering) -> float:
        offering, term = _term(self.terms, node, offered)
        return offering.price if term is None or self.left[term.rule] > 0 else term.otherwise
