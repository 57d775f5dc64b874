"""Approved plans: one step after the other, each checked; what changed meanwhile ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import LabelSelector, Pod, SelectorRequirement
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.deprovisioning.backoff import FAILURE_ANNOTATION, Failure, write_failure
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.rebalance.approval import (
    APPROVAL_ANNOTATION,
    Approval,
    parse_approval,
    pod_digest,
    read_approval,
    write_approval,
)
from controller.core.deprovisioning.rebalance.approved_removal import ApprovedRebalance
from controller.core.deprovisioning.rebalance.approving import NodeToGo, PlanToApprove, approvals_of, refusals
from controller.core.deprovisioning.rebalance.planner import plan_rebalance
from controller.core.deprovisioning.rebalance.rebalance_plan import Launch, PodMove, RebalancePlan, Step
from controller.core.deprovisioning.rebalance.steps_in_place import after, with_launches
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from controller.core.deprovisioning.removal_command import Command
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning import builders
from tests.core.deprovisioning.builders import NOW, standing, types_of, with_budget

MARKET = types_of(("c5.large", "2", "4Gi", 0.1), ("c5.4xlarge", "16", "32Gi", 0.5))
HALF = {"cpu": "900m", "memory": "1Gi"}
LATER = NOW + 120.0
"""When no node's approval is still being written."""
METHOD = ApprovedRebalance()


def asked(view: Snapshot, now: float = LATER, **fields: Any) -> MethodInput:
    given = builders.method_input(view, MARKET, **fields)
    return replace(given, now=now, gate=replace(given.gate, now=now))


def cluster(count: int = 4, budget: str = "1", **fields: Any) -> Snapshot:
    nodes = [standing(f"n{number}", "c5.large", HALF, types=MARKET) for number in range(count)]
    return factories.snapshot(nodes=nodes, provisioners=[with_budget(f'[{{"nodes": "{budget}"}}]')], **fields)


def to_approve(plan: RebalancePlan) -> PlanToApprove:
    nodes = tuple(
        NodeToGo(
            each.name,
            each.node.node.uid,
            number,
            frozenset(map(pod_digest, each.pods)),
            step.saved / len(step.removes),
        )
        for number, step in enumerate(plan.steps, start=1)
        for each in step.removes
    )
    return PlanToApprove(nodes, len(plan.steps))


def with_nodes(view: Snapshot, nodes: Iterable[StateNode]) -> Snapshot:
    return replace(view, nodes=FrozenMap({**view.nodes, **{node.name: node for node in nodes}}))


def annotated(node: StateNode, key: str, value: str, **fields: Any) -> StateNode:
    annotations = FrozenMap({**node.node.annotations, key: value})
    return replace(node, node=replace(node.node, annotations=annotations, **fields))


def approved(view: Snapshot) -> tuple[Snapshot, PlanToApprove]:
    """The cluster when its plan has just been approved, and the plan."""
    plan = to_approve(plan_rebalance(asked(view, NOW)))
    assert refusals(plan, asked(view, NOW)) == []
    written = {name: write_approval(one) for name, one in approvals_of(plan, view, NOW).items()}
    nodes = [
        annotated(view.nodes[name], APPROVAL_ANNOTATION, text, unschedulable=True) for name, text in written.items()
    ]
    return with_nodes(view, nodes), plan


def stopped(proposal: Proposal) -> dict[str, tuple[str, bool]]:
    """Why each node stays, and whether it is made schedulable."""
    texts = {one.node.name: (one.values[APPROVAL_ANNOTATION], one.uncordon) for one in proposal.annotations}
    return {name: (parse_approval(text or "").stopped, uncordon) for name, (text, uncordon) in texts.items()}


def changed(view: Snapshot, name: str, **fields: Any) -> Snapshot:
    approval = read_approval(view.nodes[name])
    assert approval is not None
    return with_nodes(
        view, [annotated(view.nodes[name], APPROVAL_ANNOTATION, write_approval(replace(approval, **fields)))]
    )


def test_all_steps_are_carried_out_in_their_order_with_the_nodes_that_were_approved() -> None:
    view, plan = approved(cluster(8, "2"))
    steps, saved = [], 0.0
    for _ in range(plan.steps):
        (command,) = METHOD.decide(asked(view)).commands
        assert all(METHOD.wanted(each, view, LATER) for each in command.candidates)
        steps.append({each.name for each in command.candidates})
        saved += sum(each.cost for each in command.candidates)
        saved -= sum(node.offering.cost for node in command.replacements)
        view = done(view, command)
    assert steps == [{node.name for node in plan.nodes if node.step == at} for at in range(1, plan.steps + 1)]
    assert len(steps) > 1
    assert 0 < saved == pytest.approx(plan.saves)
    assert METHOD.decide(asked(view)) == Proposal()


def done(view: Snapshot, command: Command) -> Snapshot:
    """The cluster when the command is done, its pods where its plan put them."""
    names = {number: f"new-{len(view.nodes)}-{number}" for number, _ in enumerate(command.replacements)}
    targets = {key: names[number] for number, node in enumerate(command.replacements) for key in node.pods}
    for placed in command.solved.plan.existing if command.solved else ():
        targets.update(dict.fromkeys(placed.pods, placed.node))
    moves = [PodMove(pod.key, each.name, targets[pod.key]) for each in command.candidates for pod in each.pods]
    launches = [Launch(names[number], node) for number, node in enumerate(command.replacements)]
    step = Step(command.candidates, tuple(launches), tuple(moves), command.reason)
    return after(with_launches(view, launches, dict.fromkeys(view.provisioners, MARKET)), step)


def with_pod(view: Snapshot, name: str, pod: Pod) -> Snapshot:
    node = view.nodes[name]
    more = replace(node, pods=(*node.pods, pod))
    return replace(with_nodes(view, [more]), pods=FrozenMap({**view.pods, pod.key: pod}))


def failed(view: Snapshot, name: str, at: float) -> Snapshot:
    return with_nodes(
        view, [annotated(view.nodes[name], FAILURE_ANNOTATION, write_failure(Failure("rebalance", 1, at)))]
    )


def last(plan: PlanToApprove) -> str:
    """A node of the last step: what changes there ends the plan before its first step."""
    return plan.nodes[-1].name


CHANGES: dict[str, tuple[Callable[[Snapshot, str], Snapshot], float]] = {
    "has changed since the approval: it has other pods, default/late": (
        lambda view, name: with_pod(view, name, factories.running_pod(node=name, name="late", requests=HALF)), LATER,
    ),
    "do-not-consolidate is set": (
        lambda view, name: with_nodes(
            view, [annotated(view.nodes[name], V1ALPHA5.keys.do_not_consolidate, "true")]
        ), LATER,
    ),
    "somebody said so": (lambda view, name: changed(view, name, stopped="somebody said so", cordoned=False), LATER),
    "within a day": (lambda view, _: view, NOW + 86_400.0),
    "a step of it was taken back": (lambda view, name: failed(view, name, NOW + 1.0), LATER),
    "were approved": (lambda view, name: changed(view, name, saves=1.0), LATER),
}  # fmt: skip


@pytest.mark.parametrize("because", CHANGES)
def test_what_has_changed_since_the_approval_ends_the_plan_and_its_nodes_take_pods_again(because: str) -> None:
    view, plan = approved(cluster(8, "2"))
    change, now = CHANGES[because]
    proposal = METHOD.decide(asked(change(view, last(plan)), now))
    assert proposal.commands == ()
    told = stopped(proposal)
    said = last(plan) if because == "somebody said so" else ""
    assert told.keys() == {node.name for node in plan.nodes} - {said}
    assert all(because in reason and uncordon for reason, uncordon in told.values())


def test_a_failure_before_the_approval_and_pods_that_are_gone_end_nothing() -> None:
    view, plan = approved(cluster(8, "2"))
    view = failed(view, last(plan), NOW - 1.0)
    view = with_nodes(view, [replace(view.nodes[last(plan)], pods=())])
    assert METHOD.decide(asked(view)).commands


def test_nodes_of_a_plan_that_is_being_written_are_waited_for_a_minute() -> None:
    view, plan = approved(cluster(8, "2"))
    node = view.nodes[last(plan)]
    bare = replace(node, node=replace(node.node, annotations=FrozenMap(), unschedulable=False))
    partly = with_nodes(view, [bare])
    assert METHOD.decide(asked(partly, NOW + 59.0)) == Proposal(eligible=len(plan.nodes) - 1)
    assert METHOD.decide(asked(partly, NOW + 61.0)).commands
    assert METHOD.decide(asked(view, NOW + 1.0)).commands


def test_a_step_waits_for_pod_disruption_budgets_and_for_the_step_before_it() -> None:
    view, plan = approved(cluster(8, "2"))
    first = sorted(node.name for node in plan.nodes if node.step == 1)
    selector = LabelSelector((SelectorRequirement("app", "DoesNotExist"),))
    held = replace(view, budgets=FrozenMap({("default", "all"): PodDisruptionBudget("default", "all", selector, 0)}))
    proposal = METHOD.decide(asked(held))
    assert (proposal.commands, proposal.annotations) == ((), ())
    assert sorted(each.name for each, _ in proposal.blocked) == first
    record = write_record(Record("c", "rebalance", "approved", (first[0],), (), LATER))
    begun = with_nodes(view, [annotated(view.nodes[first[0]], COMMAND_ANNOTATION, record)])
    assert METHOD.decide(asked(begun)) == Proposal(eligible=len(plan.nodes))


def test_nodes_of_an_ended_plan_are_given_back_when_no_command_needs_the_cordon_and_forgotten_after_a_day() -> None:
    view, plan = approved(cluster())
    name = plan.nodes[0].name
    ended = view
    for node in plan.nodes:
        ended = changed(ended, node.name, stopped="enough", cordoned=node.name == name)
    assert stopped(METHOD.decide(asked(ended))) == {name: ("enough", True)}
    record = write_record(Record("c", "rebalance", "approved", (name,), (), LATER))
    assert (
        METHOD.decide(asked(with_nodes(ended, [annotated(ended.nodes[name], COMMAND_ANNOTATION, record)])))
        == Proposal()
    )
    busy = with_nodes(view, [annotated(view.nodes[name], COMMAND_ANNOTATION, record)])
    kept = {each for each, (_, uncordon) in stopped(METHOD.decide(asked(busy, NOW + 86_400.0))).items() if not uncordon}
    assert kept == {name}, "a plan that ends now leaves the cordon to the command, too"
    ended = changed(ended, name, cordoned=False)
    old = METHOD.decide(asked(ended, NOW + 86_400.0)).annotations
    assert {one.node.name: one.values for one in old} == {n.name: {APPROVAL_ANNOTATION: None} for n in plan.nodes}


def test_a_removal_that_has_begun_is_not_wanted_when_the_plan_was_ended_or_the_node_has_another_pod() -> None:
    view, plan = approved(cluster())
    name = plan.nodes[0].name

    def wanted(present: Snapshot) -> bool:
        (candidate,) = (each for each in asked(present).candidates if each.name == name)
        return METHOD.wanted(candidate, present, LATER)

    assert wanted(view)
    assert not wanted(changed(view, name, stopped="enough"))
    assert not wanted(with_pod(view, name, factories.running_pod(node=name, requests=HALF)))
    assert not wanted(with_nodes(view, [annotated(view.nodes[name], APPROVAL_ANNOTATION, "{")]))


FULL = FrozenMap({"cpu": 900, "memory": 2**30, "pods": 1})
"""Room for one pod."""
REFUSED: dict[str, Callable[[Snapshot, str], Snapshot]] = {
    "is gone": lambda view, name: replace(
        view, nodes=FrozenMap({each: node for each, node in view.nodes.items() if each != name})
    ),
    "is another one": lambda view, name: with_nodes(
        view, [replace(view.nodes[name], node=replace(view.nodes[name].node, uid="another"))]
    ),
    "has other pods: default/late": lambda view, name: with_pod(
        view, name, factories.running_pod(node=name, name="late", requests=HALF)
    ),
    "is leaving": lambda view, name: with_nodes(view, [replace(view.nodes[name], marked_for_deletion=True)]),
    "nothing would be saved": lambda view, name: with_nodes(
        view, [replace(node, allocatable=FULL) for each, node in view.nodes.items() if each != name]
    ),
}  # fmt: skip


@pytest.mark.parametrize("because", REFUSED)
def test_a_plan_is_not_approved_for_a_cluster_that_has_changed(because: str) -> None:
    view = cluster(2)
    plan = to_approve(plan_rebalance(asked(view, NOW)))
    (reason,) = refusals(plan, asked(REFUSED[because](view, last(plan)), NOW))
    assert because in reason


def test_no_plan_is_approved_beside_one_that_is_under_way() -> None:
    view, plan = approved(cluster())
    (reason,) = refusals(plan, asked(view))
    assert "is under way" in reason


def test_approvals_are_read_as_they_were_written() -> None:
    one = Approval("p", NOW, 1, 2, 3, frozenset({"aa", "bb"}), -0.5, 2.0, False, "why", FrozenMap({"later": 1}))
    assert parse_approval(write_approval(one)) == one
