"""Plans for the problems that `make judge` makes up: regression cases, judged by the auditor instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.made_up import attachments, spreads
from bench.problems import Document
from bench.runs import timed
from controller.core.audit.plan_audit import audit
from controller.core.provisioning import SolveOptions
from tests.examples import examples

FIRST = SolveOptions(budget_seconds=0.0)
REFINED = SolveOptions(budget_seconds=0.2)


def violations(posed: Document, options: SolveOptions = FIRST, *, complete: bool = False) -> list[str]:
    """What the auditor says; with `complete`, also the pods that were left out."""
    solved = timed(posed, options)
    left = [f"{each.pod}: {each.reason}" for each in solved.plan.unplaced] if complete else []
    return [*left, *(str(each) for each in audit(solved.plan, solved.problem))]


@pytest.mark.parametrize(
    ("seed", "pods", "workloads", "left"),
    [(1, 400, 16, 57), (4, 400, 16, 114), (15, 400, 16, 52), (48, 40, 6, 0), (1, 20, 4, 2)],
)
def test_pods_with_several_spreads_are_planned_where_kube_scheduler_can_bind_them(
    seed: int, pods: int, workloads: int, left: int
) -> None:
    """Of 400 pods, 1: nodes lack room for what was allocated; 4: spreads count others' pods; 15: nodes without a label.
    Of 40: only in turn have all a place. Of 20: only where those left out then come before the others.

    left: pods that kube-scheduler finds no place for beside this plan (`make judge`).
    """
    solved = timed(spreads.problem(seed, pods, workloads), FIRST)
    assert [str(each) for each in audit(solved.plan, solved.problem)] == []
    assert len(solved.plan.unplaced) <= left


@examples(12)
@given(st.integers(0, 10_000))
def test_however_spreads_count_each_other_s_pods_the_plan_holds(seed: int) -> None:
    assert violations(spreads.problem(seed, pods=60, workloads=6)) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_pods_that_share_claims_are_all_placed_within_attach_limits(seed: int) -> None:
    """Seed 1: nodes nearly full; 2: every type that is sold attaches fewer volumes than are shared in all."""
    assert violations(attachments.problem(seed), REFINED, complete=True) == []


@examples(6)
@given(st.integers(0, 10_000))
def test_whatever_claims_pods_share_attach_limits_hold_after_refinement_too(seed: int) -> None:
    posed = attachments.problem(seed, pods=60, workloads=6)
    assert violations(posed, REFINED, complete=True) == []
