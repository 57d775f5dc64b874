"""Audit plans before any of their nodes is launched (docs/adr/0040)."""

from __future__ import annotations

from typing import Final

import structlog

from controller.core.audit.plan_audit import judge
from controller.core.decisions.decision import digest
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem
from controller.runtime.metrics import PLAN_AUDIT_VIOLATIONS, Recorder

VIOLATION: Final = "violation"
AUDIT_FAILED: Final = "audit-failed"
"""Values of the label `result`."""


class PlanJudge:
    """Audit the plans of one loop; `method` names the loop in logs and metrics."""

    def __init__(self, method: str, recorder: Recorder) -> None:
        self._method = method
        self._recorder = recorder
        self._log = structlog.get_logger(method)
        for result in (VIOLATION, AUDIT_FAILED):  # an alert sees an increase only in an existing series
            recorder.count(PLAN_AUDIT_VIOLATIONS, method, result, amount=0.0)

    def permitted(self, plan: SchedulingPlan, problem: SchedulingProblem) -> SchedulingPlan:
        """Return the plan without the nodes that break a rule: their pods are unplaced, with the rule as the reason.

        If the audit itself fails, the whole plan is permitted: a bug in the audit must not keep pods pending.
        """
        try:
            verdict = judge(plan, problem)
        except Exception:  # noqa: BLE001 - logged with its trace; see above
            self._recorder.count(PLAN_AUDIT_VIOLATIONS, self._method, AUDIT_FAILED)
            self._log.exception("Audit of a plan failed; the plan is carried out", plan=digest(problem))
            return plan
        if not verdict.topology_judged:
            self._log.info("Plan too large to judge its topology", plan=digest(problem), pods=len(problem.pending))
        if verdict.violations:
            plan_id = digest(problem)
            for violation in verdict.violations:
                self._recorder.count(PLAN_AUDIT_VIOLATIONS, self._method, VIOLATION)
                self._log.error(
                    "Plan breaks a rule; the node is not launched",
                    plan=plan_id,
                    subject=violation.subject,
                    rule=violation.rule,
                )
        return verdict.plan
