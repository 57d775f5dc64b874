"""Record the results of one plan in the decision ledger: launches, pods left pending, launches that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import PodKey
from controller.core.decisions.decision import Decision, digest, launch_details
from controller.core.decisions.launch_outcome import LaunchOutcome
from controller.core.decisions.standing import Standing
from controller.core.provisioning.plan import PlannedNode, Proof, SchedulingProblem
from controller.runtime.executors import Lock
from controller.runtime.metrics import PLANNED_AHEAD
from controller.telemetry.decision_ledger import Ledger

METHOD = "provisioning"


class PlanRecord:
    """One plan. Thread-safe, as its launches run concurrently. Digest and price are computed when first needed."""

    def __init__(
        self,
        ledger: Ledger,
        problem: SchedulingProblem,
        ahead: frozenset[PodKey] = frozenset(),
        proof: Proof | None = None,
    ) -> None:
        """`ahead`: those of its pods that kube-scheduler had not tried yet. `proof`: the plan's."""
        self._ledger = ledger
        self._problem = problem
        self._ahead = ahead
        self._proof = proof
        self._lock = Lock()
        self._launched_price = 0.0

    @cached_property
    def _inputs(self) -> str:
        return digest(self._problem)

    @cached_property
    def _price(self) -> float:
        """$ per hour of our nodes when the plan was made, without those whose removal is on record."""
        standing = Standing(self._problem.snapshot, self._problem.catalog, "")
        return sum(standing.prices(self._ledger.removed()).values())

    def launched(self, planned: PlannedNode, outcome: LaunchOutcome) -> None:
        """Record a launched node of the plan."""
        details, ahead = launch_details(outcome), self.ahead_of(planned.pods)
        if ahead:
            self._ledger.recorder.count(PLANNED_AHEAD, "launched", amount=ahead)
            details = FrozenMap({**details, "planned_ahead": f"{ahead} of {len(planned.pods)} pods"})
        if self._proof is not None:
            details = FrozenMap({**details, "plan": str(self._proof)})
        with self._lock:
            before = self._price + self._launched_price
            self._launched_price += outcome.price_per_hour or 0.0
            inputs = self._inputs
        decision = Decision(
            kind="launch",
            method=METHOD,
            subject=f"Node/{outcome.node_name or outcome.instance_id}",
            reason=planned.reason,
            provisioner=planned.provisioner,
            inputs=inputs,
            price_before=before,
            price_after=None if outcome.price_per_hour is None else before + outcome.price_per_hour,
            pods=_names(planned.pods),
            details=details,
        )
        self._ledger.record(decision)

    def taken_back(self, pods: Sequence[PodKey], provisioner: str = "") -> None:
        """Record planned pods that get no node: they stopped waiting while the plan was computed."""
        ahead = self.ahead_of(pods)
        if ahead:
            self._ledger.recorder.count(PLANNED_AHEAD, "taken-back", amount=ahead)
        counted = f", {ahead} of them planned ahead," if ahead else ""
        self.skipped(pods, f"Taken back before the launch: {len(pods)} pods{counted} do not wait any more", provisioner)

    def ahead_of(self, pods: Iterable[PodKey]) -> int:
        """Count those of these pods that were planned ahead."""
        return sum(key in self._ahead for key in pods) if self._ahead else 0

    def skipped(self, pods: Iterable[PodKey], reason: str, provisioner: str = "") -> None:
        """Record pods that get no node now."""
        names = _names(pods)
        if not names:
            return
        with self._lock:
            price, inputs = self._price + self._launched_price, self._inputs
        self._ledger.record(
            Decision(
                kind="skip",
                method=METHOD,
                subject=f"Pod/{names[0]}",
                reason=reason,
                provisioner=provisioner,
                inputs=inputs,
                price_before=price,
                price_after=price,
                pods=names,
            )
        )


def _names(pods: Iterable[PodKey]) -> tuple[str, ...]:
    return tuple("/".join(key) for key in sorted(pods))
