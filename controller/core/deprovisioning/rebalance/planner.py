"""Plan a rebalance: from a cluster to a fleet near the cheapest one for its pods, in steps.

Consolidation decides by itself, and so makes only moves each of which is worth it. A rebalance is approved as a whole:
it looks for the fleet first, and then for the fewest moves that lead there. Nodes that the gate refuses stay, and so
do those that must not be consolidated, that a guard needs, or whose price is not known. Whether consolidation is
enabled does not matter: nothing happens before somebody approves the plan.
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
"""How near to the cheapest fleet a plan leads unless it is told otherwise, as a factor on the lower bound."""
MOST_REPAIRS = 3
"""How often a plan one of whose steps would break a rule is made anew without that step's nodes."""


def plan_rebalance(given: MethodInput, over_bound: float = OVER_BOUND) -> RebalancePlan:
    """The plan for a fleet of at most so many times the lower bound, or for the cheapest one that is found.

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
    """The first steps up to the one after which the fleet is cheapest."""
    saved, best, length = 0.0, 0.0, 0
    for number, step in enumerate(steps, start=1):
        saved += step.saved
        if saved > best:
            best, length = saved, number
    return tuple(steps[:length])


def reason_to_stay(candidate: Candidate, required: Mapping[str, str]) -> str:
    """Why no rebalance takes the node, whatever the gate says; `required` as in MethodInput. Empty: it may."""
    key = V1ALPHA5.keys.do_not_consolidate
    if candidate.node.node.annotations.get(key) == "true":
        return f"annotation {key} is set"
    if candidate.name in required:
        return required[candidate.name]
    return "its price is not known" if candidate.price is None else ""


def _stays_because(candidate: Candidate, given: MethodInput) -> str:
    """Why this plan does not take the node; empty when it may."""
    if reason := reason_to_stay(candidate, given.required):
        return reason
    refusal = given.gate.removal_refusal(candidate, UNDERUTILIZED if candidate.pods else EMPTY_NODES)
    return refusal.reason if refusal is not None else ""


def _bound(given: MethodInput, free: Sequence[Candidate]) -> float:
    """$ an hour that no fleet undercuts for the pods of these nodes, without them."""
    simulator = given.simulator
    pods = [pod for candidate in free for pod in candidate.pods]
    if not pods:
        return 0.0
    names = frozenset(candidate.name for candidate in free) | simulator.going
    problem = build(given.snapshot, simulator.catalog, pods, names, simulator.skipped)
    return bound(problem, simulator.options, snapshot_index=simulator.snapshot_index).cost_per_hour


def _sorted(stays: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(stays.items()))
