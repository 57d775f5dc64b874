"""Approve a plan: check that the cluster is still the one it was made for, and decide what to write on its nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.approval import Approval, approvals, new_pods
from controller.core.deprovisioning.rebalance.approved_removal import not_as_approved
from controller.core.deprovisioning.rebalance.planner import reason_to_stay
from controller.core.deprovisioning.removal_simulation import MOST_NAMED
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class NodeToGo:
    """A node of a plan. `pods`: digests of those that it had; `step` counts from 1; `saves` as in Approval."""

    name: str
    uid: str
    step: int
    pods: frozenset[str]
    saves: float


@dataclass(frozen=True, slots=True)
class PlanToApprove:
    """The part of a plan that is kept until it is approved."""

    nodes: tuple[NodeToGo, ...]
    steps: int

    @property
    def saves(self) -> float:
        """$ an hour by all nodes."""
        return sum(node.saves for node in self.nodes)

    def id(self, now: float) -> str:
        """12 hex digits, a hash of the nodes' uids and of `now` (Unix seconds)."""
        parts = (f"{now:.3f}", *sorted(node.uid for node in self.nodes))
        return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:12]


def refusals(plan: PlanToApprove, given: MethodInput) -> list[str]:
    """Return why the plan must not be carried out on this cluster; empty if it may."""
    going = {name: one for name, one in approvals(given.snapshot).items() if not one.stopped}
    if going:
        return [f"rebalance {one.plan} is under way" for one in list(going.values())[:1]]
    if reasons := list(_changes(plan, given)):
        return reasons
    names = {node.name for node in plan.nodes}
    removed = [each for each in given.candidates if each.name in names]
    outcome = given.simulator.simulate([each.node for each in removed])
    reason = not_as_approved(removed, outcome, plan.saves, plan.saves) or outcome.problem
    return [reason] if reason else []


def _changes(plan: PlanToApprove, given: MethodInput) -> Iterator[str]:
    by_name = {each.name: each for each in given.candidates}
    for node in plan.nodes:
        candidate = by_name.get(node.name)
        if candidate is None:
            yield f"node {node.name} is gone, or its Provisioner is not usable"
        elif candidate.node.node.uid != node.uid:
            yield f"node {node.name} is another one of the same name"
        elif new := new_pods(candidate.node, node.pods):
            yield f"node {node.name} has other pods: {', '.join(new[:MOST_NAMED])}"
        elif reason := reason_to_stay(candidate, given.required):
            yield f"node {node.name}: {reason}"
        elif (refusal := given.gate.refusal(candidate)) is not None:
            yield f"node {node.name}: {refusal.reason}"


def approvals_of(plan: PlanToApprove, snapshot: Snapshot, now: float) -> dict[str, Approval]:
    """Return what to write on each node, by name, with a cordon where it is not cordoned yet. `now`: Unix seconds."""
    number = plan.id(now)
    return {
        node.name: Approval(
            plan=number,
            at=now,
            step=node.step,
            steps=plan.steps,
            nodes=len(plan.nodes),
            pods=node.pods,
            saves=node.saves,
            plan_saves=plan.saves,
            cordoned=not snapshot.nodes[node.name].node.unschedulable,
        )
        for node in plan.nodes
    }
