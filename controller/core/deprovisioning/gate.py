"""The one gate that every voluntary removal passes: emptiness, expiration, drift and consolidation alike.

The peer lets emptiness and, in later versions, expiry past its budgets; here nothing of our own will goes past any of
it. The reason it gives is the true one of this moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.api.labels import DO_NOT_EVICT
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.deprovisioning.budgets import Allowance, Budget, allowance
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.records import engaged, recorded
from controller.core.scheduling.label_selectors import matches
from controller.core.state.snapshot import Snapshot, StateNode

NOT_EVENTS = frozenset({"leaving", "engaged", "nominated", "starting"})
"""Kinds of refusal that pass by themselves and are no news to a user."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node may not go now. `kind`: leaving, engaged, nominated, starting, pdb, do-not-evict or budget."""

    kind: str
    reason: str


@dataclass(slots=True)
class Gate:
    """The gate over one snapshot; it counts what is granted. `now` is Unix seconds.

    `budgets` are those of Provisioners without their own.
    """

    snapshot: Snapshot
    now: float
    budgets: tuple[Budget, ...] = ()
    _engaged: frozenset[str] = frozenset()
    _total: dict[str, int] = field(default_factory=dict)
    _going: dict[str, int] = field(default_factory=dict)
    _budgets: dict[str, list[PodDisruptionBudget]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._engaged = engaged(self.snapshot)
        carriers = {node.name for command in recorded(self.snapshot) for node in command.carriers}
        for node in self.snapshot.nodes.values():
            name = node.provisioner_name
            self._total[name] = self._total.get(name, 0) + 1
            if node.leaving or node.name in carriers:
                self._going[name] = self._going.get(name, 0) + 1
        for budget in self.snapshot.budgets.values():
            self._budgets.setdefault(budget.namespace, []).append(budget)

    def refusal(self, candidate: Candidate, *, own_command: bool = False) -> Refusal | None:
        """Why the node may not go, whatever the reason. `own_command`: it is its own command's that asks."""
        node = candidate.node
        if node.leaving:
            return Refusal("leaving", "the node is leaving")
        if node.name in self._engaged and not own_command:
            return Refusal("engaged", "a command on record removes it or has launched it")
        if not node.initialized:
            return Refusal("starting", "the node is not initialized")
        if node.nominated_until > self.now:
            return Refusal("nominated", "pods are expected on the node")
        return self._pods_refuse(candidate.pods)

    def _pods_refuse(self, pods: Iterable[Pod]) -> Refusal | None:
        for pod in pods:
            name = f"{pod.namespace}/{pod.name}"
            if pod.annotations.get(DO_NOT_EVICT) == "true":
                return Refusal("do-not-evict", f"pod {name} has annotation {DO_NOT_EVICT}")
            covering = [b for b in self._budgets.get(pod.namespace, ()) if matches(b.selector, pod.labels)]
            if len(covering) > 1:
                names = ", ".join(sorted(f"{b.namespace}/{b.name}" for b in covering))
                return Refusal("pdb", f"pod {name} has several PodDisruptionBudgets ({names}); it cannot be evicted")
            for budget in covering:
                if budget.disruptions_allowed <= 0:
                    return Refusal("pdb", f"PodDisruptionBudget {budget.namespace}/{budget.name} allows no disruption")
        return None

    def over_budget(self, candidates: Iterable[Candidate], reason: str) -> Refusal | None:
        """Why these may not go together for `reason` (one of budgets.REASONS); None: there is room for all of them."""
        wanted: dict[str, int] = {}
        by_name = {candidate.provisioner.name: candidate.provisioner for candidate in candidates}
        for candidate in candidates:
            wanted[candidate.provisioner.name] = wanted.get(candidate.provisioner.name, 0) + 1
        for name, count in sorted(wanted.items()):
            allowed = self.allowance(by_name[name], reason)
            going = self._going.get(name, 0)
            if going + count > allowed.nodes:
                return Refusal("budget", f"{allowed.because}: {allowed.nodes} at once for {reason}, {going} are going")
        return None

    def allowance(self, provisioner: Provisioner, reason: str) -> Allowance:
        """How many of its nodes may be on their way out for `reason`."""
        return allowance(provisioner, reason, self._total.get(provisioner.name, 0), self.now, self.budgets)

    def grant(self, candidates: Iterable[Candidate]) -> None:
        """These go: they count against the budgets, and no other command takes them."""
        for candidate in candidates:
            name = candidate.provisioner.name
            self._going[name] = self._going.get(name, 0) + 1
            self._engaged = self._engaged | {candidate.name}

    def engaged(self, node: StateNode) -> bool:
        """Whether a command on record removes the node or has launched it."""
        return node.name in self._engaged
