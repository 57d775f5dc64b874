"""Plan a rebalance: from a cluster to a fleet near the cheapest one for its pods, in steps.

Consolidation acts by itself, and so makes only moves each of which is worth it. A rebalance is approved as a whole: it
first looks for the fleet, then for the fewest moves that lead there. Nodes that the gate refuses stay, and so do those
that must not be consolidated, that a guard needs, or whose price is not known. Consolidation need not be enabled:
nothing happens before a user approves the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import UNDERUTILIZED
from controller.core.deprovisioning.emptiness import EMPTY_NODES
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.node_choice import choose_nodes
from controller.core.deprovisioning.rebalance.rebalance_plan import RebalancePlan, Step
from controller.core.deprovisioning.rebalance.step_order import divide
from controller.core.deprovisioning.rebalance.steps_in_place import first_violation
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.problem import build

OVER_BOUND = 1.05
"""Default of the cost of the planned fleet, as a factor on the lower bound."""
MOST_REPAIRS = 3
"""How often a plan with a step that would break a rule is made again without that step's nodes."""


def plan_rebalance(given: MethodInput, over_bound: float = OVER_BOUND) -> RebalancePlan:
    """Plan a fleet of at most `over_bound` times the lower bound, or the cheapest one if none is that cheap.

    No plan costs more than the present fleet: where there is nothing to save it has no steps.
    """
    stays = {each.name: reason for each in given.candidates if (reason := _stays_because(each, given))}
    nodes = tuple(each for each in given.candidates if each.name not in stays)
    before = sum(candidate.cost for candidate in given.candidates)
    fixed = before - sum(candidate.cost for candidate in nodes)
    least = fixed + _bound(given, nodes)
    empty = RebalancePlan(before, min(before, least), stays=_sorted(stays))
    if before <= over_bound * least or not nodes:
        return empty
    for _ in range(MOST_REPAIRS + 1):
        choice = choose_nodes(nodes, given.simulator, over_bound * least - fixed)
        stays |= choice.stuck
        steps = divide(choice.goes, choice.outcome, given.gate)
        broken = first_violation(given.snapshot, steps, given.simulator.catalog)
        if broken is None:
            return replace(empty, steps=steps, surplus=choice.outcome.surplus, stays=_sorted(stays))
        position, violation = broken
        names = [node.name for node in steps[position].removes]
        stays |= dict.fromkeys(names, f"a rule would be broken on the way: {violation}")
        nodes = tuple(node for node in nodes if node.name not in stays)
    return replace(empty, steps=_saving(steps[:position]), surplus=choice.outcome.surplus, stays=_sorted(stays))


def _saving(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the first steps up to the one after which the fleet is cheapest."""
    saved, best, length = 0.0, 0.0, 0
    for number, step in enumerate(steps, start=1):
        saved += step.saved
        if saved > best:
            best, length = saved, number
    return tuple(steps[:length])


def reason_to_stay(candidate: Candidate, required: Mapping[str, str]) -> str:
    """Return why no rebalance removes the node, apart from the gate; empty if it may. required: as in MethodInput."""
    key = V1ALPHA5.keys.do_not_consolidate
    if candidate.node.node.annotations.get(key) == "true":
        return f"annotation {key} is set"
    if candidate.name in required:
        return required[candidate.name]
    return "its price is not known" if candidate.price is None else ""


def _stays_because(candidate: Candidate, given: MethodInput) -> str:
    """Return why this plan does not remove the node; empty if it may."""
    if reason := reason_to_stay(candidate, given.required):
        return reason
    refusal = given.gate.removal_refusal(candidate, UNDERUTILIZED if candidate.pods else EMPTY_NODES)
    return refusal.reason if refusal is not None else ""


def _bound(given: MethodInput, free: Sequence[Candidate]) -> float:
    """Return the lower bound of a fleet for the pods of these nodes without them, $ an hour."""
    simulator = given.simulator
    pods = [pod for candidate in free for pod in candidate.pods]
    if not pods:
        return 0.0
    names = frozenset(candidate.name for candidate in free) | simulator.going
    problem = build(given.snapshot, simulator.catalog, pods, names, simulator.skipped)
    return bound(problem, simulator.options, snapshot_index=simulator.snapshot_index).cost_per_hour


def _sorted(stays: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(stays.items()))
