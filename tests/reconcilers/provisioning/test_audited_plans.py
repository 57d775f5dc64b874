"""Every plan is judged before its launches: a node that breaks a rule is not launched, the others are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.provisioning import solve
from controller.core.provisioning.optimize.linear_program import UnsolvedProgramError
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions
from controller.machines import plan_judge
from controller.reconcilers.provisioning import provisioning_reconciler
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import HOST_APART, nodes_are, reconciler, settled_passes

APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOST_APART]}}}


def doctored(change: Callable[[PlannedNode], PlannedNode]) -> Callable[..., SchedulingPlan]:
    """The solver, with a fault in the node of pod `bad`."""

    def solve_wrongly(*args: Any, **kwargs: Any) -> SchedulingPlan:
        plan = solve(*args, **kwargs)
        nodes = tuple(change(node) if ("default", "bad") in node.pods else node for node in plan.new_nodes)
        return replace(plan, new_nodes=nodes)

    return solve_wrongly


def at_half_the_price(node: PlannedNode) -> PlannedNode:
    return replace(node, offering=replace(node.offering, price=node.offering.price / 2))


def two_pods_apart(world: World) -> None:
    world.add_provisioner()
    for name in ("good", "bad"):
        world.add_pod(name, spec=APART, labels={"app": "x"})


def test_a_node_that_breaks_a_rule_is_not_launched_and_the_rest_of_the_plan_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provisioning_reconciler, "solve", doctored(at_half_the_price))
    two_pods_apart(world)
    metrics = Metrics(world.clock)
    ledger = Ledger(world.clock, metrics)
    loop = reconciler(world, ledger=ledger)
    with capture_logs() as logs:
        world.passes(loop, nodes_are(1), "the other node")
        settled_passes(world, loop)
    assert [request.requests["cpu"] for request in world.cloud.requests] == [1000]
    assert "costs" in world.await_event("FailedScheduling")["message"]
    (skip,) = ledger.entries(kind="skip", subject="default/bad")
    line = next(entry for entry in logs if entry["event"] == "Plan breaks a rule; the node is not launched")
    assert line["log_level"] == "error"
    assert line["plan"] == skip.decision.inputs, "by this digest the ledger and the log tell of one plan"
    assert "costs" in line["rule"]
    text = metrics.page({}).body.decode()
    assert 'nodeless_plan_audit_violations{method="provisioning",result="violation"}' in text


def test_an_audit_that_fails_itself_stops_no_launch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a fault of the judge")

    monkeypatch.setattr(plan_judge, "judge", fail)
    world.add_provisioner()
    world.add_pod("a")
    metrics = Metrics(world.clock)
    world.passes(reconciler(world, ledger=Ledger(world.clock, metrics)), nodes_are(1), "a node")
    assert 'result="audit-failed"} 1.0' in metrics.page({}).body.decode()


def test_where_only_the_optimised_plan_breaks_a_rule_the_first_plan_is_launched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal problems get equal plans: the pods would stay pending."""

    def wrong_if_optimised(problem: SchedulingProblem, options: SolveOptions, **more: Any) -> SchedulingPlan:
        wrong = options.budget_seconds > 0
        return doctored(at_half_the_price if wrong else lambda node: node)(problem, options, **more)

    monkeypatch.setattr(provisioning_reconciler, "solve", wrong_if_optimised)
    two_pods_apart(world)
    world.passes(reconciler(world), nodes_are(2), "the nodes of both pods")


def test_where_the_plan_cannot_be_optimised_the_first_plan_is_launched_and_the_failure_logged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(problem: SchedulingProblem, options: SolveOptions, **more: Any) -> SchedulingPlan:
        if options.budget_seconds > 0:
            raise UnsolvedProgramError("no optimum")
        return solve(problem, options, **more)

    monkeypatch.setattr(provisioning_reconciler, "solve", failing)
    two_pods_apart(world)
    with capture_logs() as logs:
        world.passes(reconciler(world), nodes_are(2), "their nodes")
    (line,) = (entry for entry in logs if entry["log_level"] == "error")
    assert line["event"] == "Solver failed; the plan is not optimised, or lacks the pods to blame"
