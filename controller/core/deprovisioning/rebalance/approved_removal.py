"""The method that carries out an approved rebalance: one step after the other, each checked against the cluster of now.

Approvals are on the nodes (approval.py). All nodes that are left are simulated together, as the plan did, and the nodes
of the first step among them go by a command, like those of any other method. What has changed since the approval ends
the plan: the nodes that are left stay, with the reason, and become schedulable again. So does a step that fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from controller.core.deprovisioning.backoff import MOST_AHEAD_SECONDS, read_failure
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import MOST_IN_A_SET, UNDERUTILIZED
from controller.core.deprovisioning.emptiness import EMPTY_NODES
from controller.core.deprovisioning.method import MethodInput, NodeAnnotations, Proposal
from controller.core.deprovisioning.rebalance.approval import (
    APPROVAL_ANNOTATION,
    Approval,
    approvals,
    new_pods,
    read_approval,
    stop,
    write_approval,
)
from controller.core.deprovisioning.rebalance.planner import reason_to_stay
from controller.core.deprovisioning.records import engaged, recorded_commands
from controller.core.deprovisioning.removal_command import REBALANCE, Command
from controller.core.deprovisioning.removal_simulation import MOST_NAMED, Outcome
from controller.core.state.snapshot import Snapshot

APPROVED_SECONDS = 86_400.0
"""How long an approval holds: what has not gone by then stays."""
WRITING_SECONDS = 60.0
"""So long after the approval nodes may still be missing: they are written one by one."""
MOST_LOST = 0.05
"""So much of what the plan saves may be lost on the way: prices change, and kube-scheduler puts pods where it likes."""


class ApprovedRebalance:
    """The method. It keeps nothing: approvals and commands are on the nodes."""

    name = REBALANCE

    def wanted(self, candidate: Candidate, _snapshot: Snapshot, _now: float) -> bool:
        """Whether the node's removal is approved, and it has no other pods than were approved."""
        approval = read_approval(candidate.node)
        return approval is not None and not approval.stopped and not new_pods(candidate.node, approval.pods)

    def decide(self, given: MethodInput) -> Proposal:
        """The next step of the plan that was approved first, or its end; nodes of ended plans are made schedulable."""
        found, busy = approvals(given.snapshot), engaged(given.snapshot)
        released = tuple(_released(given, found, busy))
        left = _first_plan(given.snapshot, found)
        if not left:
            return Proposal(annotations=released)
        because, proposal = _changed(left, found, given), Proposal(eligible=len(left))
        if not because and not any(each.record.method == REBALANCE for each in recorded_commands(given.snapshot)):
            because, proposal = _next_step(left, given)
        stopped = [_stopped(given.snapshot, name, one, because, busy) for name, one in left.items() if because]
        return replace(proposal, annotations=(*released, *stopped))


def not_as_approved(removed: Sequence[Candidate], outcome: Outcome, saves: float, plan_saves: float) -> str:
    """Why these nodes must not go together, if that was to save so much of what the plan saves ($ an hour)."""
    own = {pod.key for node in removed for pod in node.pods}
    if outcome.solved is not None and any(pod.pod in own for pod in outcome.solved.plan.unplaced):
        return outcome.problem
    saved = sum(node.cost for node in removed) - outcome.cost
    if saved <= 0:
        return "nothing would be saved any more"
    if saved < saves - MOST_LOST * plan_saves:
        return f"the nodes that are left would save ${saved:.4f} an hour, and ${saves:.4f} were approved"
    return ""


def _first_plan(snapshot: Snapshot, found: Mapping[str, Approval]) -> dict[str, Approval]:
    """The nodes that are left of the plan that was approved first, by name."""
    left = {name: one for name, one in found.items() if not one.stopped and not snapshot.nodes[name].leaving}
    first = min(left.values(), key=lambda one: (one.at, one.plan), default=None)
    return {name: one for name, one in left.items() if first is not None and one.plan == first.plan}


def _changed(left: Mapping[str, Approval], found: Mapping[str, Approval], given: MethodInput) -> str:
    """What ends the plan, whatever a simulation says; empty: nothing does."""
    plan = next(iter(left.values()))
    for one in found.values():
        if one.plan == plan.plan and one.stopped:
            return one.stopped
    if not 0 <= given.now - plan.at + MOST_AHEAD_SECONDS < APPROVED_SECONDS:
        return "it was not done within a day of its approval"
    failures = (read_failure(given.snapshot.nodes[name]) for name in left)
    if any(each is not None and each.method == REBALANCE and each.at >= plan.at for each in failures):
        return "a step of it was taken back"
    by_name = {each.name: each for each in given.candidates}
    for name, one in left.items():
        if (reason := _node_changed(name, one, by_name, given)) != "":
            return f"node {name} has changed since the approval: {reason}"
    return ""


def _node_changed(name: str, one: Approval, by_name: Mapping[str, Candidate], given: MethodInput) -> str:
    candidate = by_name.get(name)
    if candidate is None:
        return "its Provisioner is not usable"
    if new := new_pods(candidate.node, one.pods):
        return f"it has other pods, {', '.join(new[:MOST_NAMED])}"
    return reason_to_stay(candidate, given.required)


def _next_step(left: Mapping[str, Approval], given: MethodInput) -> tuple[str, Proposal]:
    """Why the plan ends, or the command for those nodes of its next step that may go now."""
    plan, nothing = next(iter(left.values())), Proposal(eligible=len(left))
    if len(left) < plan.nodes and given.now - plan.at < WRITING_SECONDS:
        return "", nothing
    removed = [each for each in given.candidates if each.name in left]
    outcome = given.simulator.simulate([each.node for each in removed])
    because = not_as_approved(removed, outcome, sum(one.saves for one in left.values()), plan.plan_saves)
    if because:
        return because, nothing
    number = min(one.step for one in left.values())
    ready, blocked = _ready([each for each in removed if left[each.name].step == number], given)
    if outcome.problem:
        blocked = [(each, outcome.problem) for each in ready]
    if not ready or outcome.problem:
        return "", replace(nothing, blocked=tuple(blocked))
    keys = {pod.key for each in ready for pod in each.pods}
    launched = tuple(node for node in outcome.replacements if not keys.isdisjoint(node.pods))
    text = f"rebalance {plan.plan} was approved, step {number} of {plan.steps}"
    command = Command(REBALANCE, _reason(ready), text, tuple(ready), launched, outcome.solved)
    return "", replace(nothing, commands=(command,), blocked=tuple(blocked))


def _ready(nodes: Sequence[Candidate], given: MethodInput) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Those of a step that the gate lets go together now, and the others with the reason."""
    ready: list[Candidate] = []
    blocked: list[tuple[Candidate, str]] = []
    for each in nodes:
        together = [*ready, each]
        refusal = given.gate.refusal(each) or given.gate.over_budget(together, _reason(together))
        if refusal is None and len(ready) < MOST_IN_A_SET:
            ready.append(each)
        elif refusal is not None and not refusal.temporary:
            blocked.append((each, refusal.reason))
    return ready, blocked


def _reason(nodes: Sequence[Candidate]) -> str:
    """As disruption budgets name it."""
    return UNDERUTILIZED if any(each.pods for each in nodes) else EMPTY_NODES


def _released(given: MethodInput, found: Mapping[str, Approval], busy: Collection[str]) -> Iterator[NodeAnnotations]:
    """Nodes of ended plans: first the cordon is taken off, and a day after the approval what says why they stay."""
    for name, one in found.items():
        if one.stopped and one.cordoned and name not in busy:
            yield _stopped(given.snapshot, name, one, one.stopped, busy)
        elif one.stopped and not one.cordoned and given.now - one.at >= APPROVED_SECONDS:
            yield NodeAnnotations(given.snapshot.nodes[name], {APPROVAL_ANNOTATION: None})


def _stopped(snapshot: Snapshot, name: str, one: Approval, because: str, busy: Collection[str]) -> NodeAnnotations:
    """What to write on a node that stays. A command on record still needs the cordon: it is taken off afterwards."""
    uncordon = one.cordoned and name not in busy
    value = write_approval(stop(one, because, uncordoned=uncordon))
    return NodeAnnotations(snapshot.nodes[name], {APPROVAL_ANNOTATION: value}, because, uncordon=uncordon)
