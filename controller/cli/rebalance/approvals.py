"""Approve a plan on its nodes, take that back, and show how far it has come. Nodes are removed by the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from controller.cli.formatting import count
from controller.core.api.timestamps import format_time
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.approval import (
    APPROVAL_ANNOTATION,
    Approval,
    approvals,
    read_approval,
    stop,
    write_approval,
)
from controller.core.deprovisioning.rebalance.approving import PlanToApprove, approvals_of, refusals
from controller.core.deprovisioning.records import engaged
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import ConflictError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import NODES

UNDONE = "it was taken back by nodeless rebalance --undo"
MOST_REASONS = 8
"""The most changes that a refusal names."""


def approve(plan: PlanToApprove, given: MethodInput, kube: KubeClient) -> str:
    """Write the approval on each node, with a cordon; return the plan's id. Raises ConflictError, KubeError."""
    reasons = refusals(plan, given)
    if reasons:
        more = f"; and {len(reasons) - MOST_REASONS:,} more" if len(reasons) > MOST_REASONS else ""
        raise ConflictError(f"the plan is refused: {'; '.join(reasons[:MOST_REASONS])}{more}")
    for name, approval in approvals_of(plan, given.snapshot, given.now).items():
        annotations = {APPROVAL_ANNOTATION: write_approval(approval)}
        kube.patch(NODES, name, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}})
    return plan.id(given.now)


def undo(snapshot: Snapshot, kube: KubeClient) -> int:
    """Take the approval off every node that is not leaving; return their number. Raises KubeError.

    The controller takes back a command that has begun on a node, and its cordon with it.
    """
    busy, undone = engaged(snapshot), 0
    for node in snapshot.nodes.values():
        value = node.node.annotations.get(APPROVAL_ANNOTATION)
        approval = read_approval(node)
        if value is None or node.leaving or (approval is not None and approval.stopped):
            continue
        undone += _release(node, approval, node.name in busy, kube)
    return undone


def _release(node: StateNode, approval: Approval | None, busy: bool, kube: KubeClient) -> bool:
    """Return whether the node was there still. What cannot be read is removed, and its cordon with it."""
    uncordon = not busy and (approval is None or approval.cordoned)
    value = None if approval is None else write_approval(stop(approval, UNDONE, uncordoned=uncordon))
    patch: dict[str, Any] = {"metadata": {"annotations": {APPROVAL_ANNOTATION: value}}}
    if uncordon:
        patch["spec"] = {"unschedulable": None}
    try:
        kube.patch(NODES, node.name, patch)
    except NotFoundError:
        return False
    return True


def status(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return every plan with nodes that are there still, as JSON values, the latest first."""
    by_node, busy = approvals(snapshot), engaged(snapshot)
    plans: dict[str, dict[str, Approval]] = {}
    for name, one in by_node.items():
        plans.setdefault(one.plan, {})[name] = one
    latest = sorted(plans.items(), key=lambda item: -max(one.at for one in item[1].values()))
    return [_plan(number, nodes, snapshot, busy) for number, nodes in latest]


def _plan(number: str, nodes: Mapping[str, Approval], snapshot: Snapshot, busy: frozenset[str]) -> dict[str, Any]:
    first = next(iter(nodes.values()))
    return {
        "plan": number,
        "approved": format_time(first.at),
        "steps": first.steps,
        "nodes": first.nodes,
        "gone": max(0, first.nodes - len(nodes)),
        "left": [
            {"node": name, "step": one.step, "state": _state(snapshot.nodes[name], one, busy)}
            for name, one in sorted(nodes.items(), key=lambda item: (item[1].step, item[0]))
        ],
    }


def _state(node: StateNode, one: Approval, busy: frozenset[str]) -> str:
    if node.leaving:
        return "is being drained"
    if one.stopped:
        return f"stays: {one.stopped}"
    return "is being removed" if node.name in busy else "waits"


def status_lines(plans: list[dict[str, Any]]) -> list[str]:
    """Return the same for people: how many nodes are in which state, by step."""
    lines = [] if plans else ["No node is part of a rebalance."]
    for plan in plans:
        lines.append(f"Rebalance {plan['plan']}, approved {plan['approved']}: {plan['gone']} of {plan['nodes']} gone")
        states = Counter((each["step"], each["state"]) for each in plan["left"])
        for (step, state), number in sorted(states.items()):
            lines.append(f"  step {step} of {plan['steps']}: {count(number, 'node')}: {state}")
    return lines
