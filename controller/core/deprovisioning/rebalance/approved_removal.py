"""The method that carries out an approved rebalance step by step, each checked against the present cluster.

Approvals are on the nodes (approval.py). All remaining nodes are simulated together, as in the plan, and those of the
next step are removed by a command, like those of any other method. A change since the approval, or a step that fails,
ends the plan: the remaining nodes stay, with the reason, and become schedulable again.
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
"""How long an approval is valid: nodes not removed by then stay."""
WRITING_SECONDS = 60.0
"""Within this time of the approval some nodes may still be without it: they are written one by one."""
MOST_LOST = 0.05
"""Share of the plan's saving that may be lost meanwhile: prices change, and kube-scheduler chooses nodes for pods."""


class ApprovedRebalance:
    """The method. It has no state: approvals and commands are on the nodes."""

    name = REBALANCE

    def wanted(self, candidate: Candidate, _snapshot: Snapshot, _now: float) -> bool:
        """Return whether the node's removal is approved, and it has no other pods than were approved."""
        approval = read_approval(candidate.node)
        return approval is not None and not approval.stopped and not new_pods(candidate.node, approval.pods)

    def decide(self, given: MethodInput) -> Proposal:
        """Propose the next step of the plan approved first, or end it; make nodes of ended plans schedulable."""
        approved, busy = approvals(given.snapshot), engaged(given.snapshot)
        released = tuple(_released(given, approved, busy))
        left = _first_plan(given.snapshot, approved)
        if not left:
            return Proposal(annotations=released)
        because, proposal = _changed(left, approved, given), Proposal(eligible=len(left))
        if not because and not any(each.record.method == REBALANCE for each in recorded_commands(given.snapshot)):
            because, proposal = _next_step(left, given)
        stopped = [_stopped(given.snapshot, name, one, because, busy) for name, one in left.items() if because]
        return replace(proposal, annotations=(*released, *stopped))


def not_as_approved(removed: Sequence[Candidate], outcome: Outcome, saves: float, plan_saves: float) -> str:
    """Return why these nodes must not be removed together any more; empty if they may.

    saves: what their removal was approved to save; plan_saves: what the whole plan saves. Both in $ an hour.
    """
    own = {pod.key for node in removed for pod in node.pods}
    if outcome.solved is not None and any(pod.pod in own for pod in outcome.solved.plan.unplaced):
        return outcome.problem
    saved = sum(node.cost for node in removed) - outcome.cost
    if saved <= 0:
        return "nothing would be saved any more"
    if saved < saves - MOST_LOST * plan_saves:
        return f"the remaining nodes would save ${saved:.4f} an hour, and ${saves:.4f} were approved"
    return ""


def _first_plan(snapshot: Snapshot, approved: Mapping[str, Approval]) -> dict[str, Approval]:
    """Return the remaining nodes of the plan that was approved first, by name."""
    left = {name: one for name, one in approved.items() if not one.stopped and not snapshot.nodes[name].leaving}
    first = min(left.values(), key=lambda one: (one.at, one.plan), default=None)
    return {name: one for name, one in left.items() if first is not None and one.plan == first.plan}


def _changed(left: Mapping[str, Approval], approved: Mapping[str, Approval], given: MethodInput) -> str:
    """Return why the plan has to end, without a simulation; empty if it need not."""
    plan = next(iter(left.values()))
    for one in approved.values():
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
    """Return why the plan ends, or the command for those nodes of its next step that may go now."""
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
    """Return the nodes of a step that the gate lets be removed together now, and the others with the reason."""
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
    """Return the reason of the removal, as disruption budgets name it."""
    return UNDERUTILIZED if any(each.pods for each in nodes) else EMPTY_NODES


def _released(given: MethodInput, approved: Mapping[str, Approval], busy: Collection[str]) -> Iterator[NodeAnnotations]:
    """Yield what to write on nodes of ended plans: remove the cordon, and a day after the approval the annotation."""
    for name, one in approved.items():
        if one.stopped and one.cordoned and name not in busy:
            yield _stopped(given.snapshot, name, one, one.stopped, busy)
        elif one.stopped and not one.cordoned and given.now - one.at >= APPROVED_SECONDS:
            yield NodeAnnotations(given.snapshot.nodes[name], {APPROVAL_ANNOTATION: None})


def _stopped(snapshot: Snapshot, name: str, one: Approval, because: str, busy: Collection[str]) -> NodeAnnotations:
    """Return what to write on a node that stays. While a command is on record its cordon stays."""
    uncordon = one.cordoned and name not in busy
    value = write_approval(stop(one, because, uncordoned=uncordon))
    return NodeAnnotations(snapshot.nodes[name], {APPROVAL_ANNOTATION: value}, because, uncordon=uncordon)
