"""The gate that every voluntary removal passes, whichever method asks for it.

Karpenter v0.27 lets emptiness bypass it, later versions let expiration bypass disruption budgets; here none does.
Repair is not voluntary: it passes `repair_refusal` alone.

Disruption budgets are the pool's own, else those of the setting `disruptionBudgets`. The strictest budget that is
active and names the reason decides. If none names it, 10 % is allowed, as in later Karpenter versions; empty nodes have
no such default. Budgets that cannot be read allow nothing until they are corrected.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.disruption import Budget
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.records import engaged, recorded_commands
from controller.core.scheduling.label_selectors import matches
from controller.core.state.snapshot import Snapshot, StateNode

_TEMPORARY: Final = frozenset({"leaving", "engaged", "nominated", "starting", "zone-left"})
DEFAULT_BUDGET: Final = Budget(count=None, share=0.10)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node must not be removed now. `kind`: leaving, engaged, nominated, starting, zone-left, pdb, do-not-evict
    or budget."""

    kind: str
    reason: str

    @property
    def temporary(self) -> bool:
        """Whether it ends by itself: no event is published for it."""
        return self.kind in _TEMPORARY


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many nodes may leave at the same time; `because` names the rule that set it."""

    nodes: int
    because: str


@dataclass(slots=True)
class Gate:
    """The gate for one snapshot; it counts the nodes granted. `now` is Unix seconds.

    `budgets`: disruption budgets of Provisioners without their own. `zones_left`: zones that a zonal shift leaves;
    their nodes are needed again when it ends.
    """

    snapshot: Snapshot
    now: float
    budgets: tuple[Budget, ...] = ()
    zones_left: frozenset[str] = frozenset()
    _engaged: frozenset[str] = frozenset()
    _total: Counter[str] = field(default_factory=Counter)
    _going: Counter[str] = field(default_factory=Counter)
    """Nodes, and nodes that are leaving or in a command, by Provisioner."""
    _pod_budgets: defaultdict[str, list[PodDisruptionBudget]] = field(default_factory=lambda: defaultdict(list))
    """By namespace."""

    def __post_init__(self) -> None:
        self._engaged = engaged(self.snapshot)
        carriers = {node.name for command in recorded_commands(self.snapshot) for node in command.carriers}
        for node in self.snapshot.nodes.values():
            self._total[node.provisioner_name] += 1
            self._going[node.provisioner_name] += node.leaving or node.name in carriers
        for budget in self.snapshot.budgets.values():
            self._pod_budgets[budget.namespace].append(budget)

    def refusal(self, candidate: Candidate, *, own_command: bool = False) -> Refusal | None:
        """Return why the node must not be removed by any method. `own_command`: the command on record for it asks."""
        node = candidate.node
        if (taken := self._taken(node, own_command)) is not None:
            return taken
        if (zone := node.node.zone) in self.zones_left:
            return Refusal("zone-left", f"a zonal shift leaves {zone}: its nodes stay until it ends")
        if not node.initialized:
            return Refusal("starting", "the node is not initialized")
        if node.nominated_until > self.now:
            return Refusal("nominated", "pods are expected on the node")
        return self._pods_refuse(candidate.pods)

    def removal_refusal(self, candidate: Candidate, reason: str) -> Refusal | None:
        """Return why the node must not be removed alone for `reason` (one of REASONS), disruption budgets included."""
        return self.refusal(candidate) or self.over_budget([candidate], reason)

    def repair_refusal(self, candidate: Candidate) -> Refusal | None:
        """Return why a broken node must not be removed. Its pods may refuse only if it is Ready: else none serves."""
        node = candidate.node
        return self._taken(node) or (self._pods_refuse(candidate.pods) if node.node.ready else None)

    def _taken(self, node: StateNode, own_command: bool = False) -> Refusal | None:
        if node.leaving:
            return Refusal("leaving", "the node is leaving")
        if node.name in self._engaged and not own_command:
            return Refusal("engaged", "a command on record removes it or has launched it")
        return None

    def _pods_refuse(self, pods: Iterable[Pod]) -> Refusal | None:
        for pod in pods:
            if pod.annotations.get(V1ALPHA5.keys.do_not_evict) == "true":
                key = V1ALPHA5.keys.do_not_evict
                return Refusal("do-not-evict", f"pod {pod.full_name} has annotation {key}")
            if (held := self.eviction_refusal(pod)) is not None:
                return held
        return None

    def pod_budgets(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the PodDisruptionBudgets that count the pod."""
        return [b for b in self._pod_budgets.get(pod.namespace, ()) if matches(b.selector, pod.labels)]

    def eviction_refusal(self, pod: Pod) -> Refusal | None:
        """Return why the API server would refuse the pod's eviction now."""
        covering = self.pod_budgets(pod)
        if len(covering) > 1:
            names = ", ".join(sorted(f"{b.namespace}/{b.name}" for b in covering))
            return Refusal(
                "pdb", f"pod {pod.full_name} has several PodDisruptionBudgets ({names}); it cannot be evicted"
            )
        for budget in covering:
            if budget.disruptions_allowed <= 0:
                of = f"{budget.namespace}/{budget.name}"
                return Refusal("pdb", f"PodDisruptionBudget {of} allows no disruption; it holds pod {pod.full_name}")
        return None

    def over_budget(self, candidates: Sequence[Candidate], reason: str) -> Refusal | None:
        """Return why these must not be removed together for `reason` (one of REASONS); None: the budgets allow it."""
        by_name = {candidate.provisioner.name: candidate.provisioner for candidate in candidates}
        for name, count in sorted(Counter(candidate.provisioner.name for candidate in candidates).items()):
            allowed, going = self.allowance(by_name[name], reason), self._going[name]
            if going + count > allowed.nodes:
                text = f"{allowed.because}: {allowed.nodes} at once for {reason}, {going} are leaving"
                return Refusal("budget", text)
        return None

    def allowance(self, provisioner: Provisioner, reason: str) -> Allowance:
        """Return how many of its nodes may leave at the same time for `reason`."""
        return allowance(provisioner, reason, self._total[provisioner.name], self.now, self.budgets)

    def grant(self, candidates: Iterable[Candidate]) -> None:
        """Count these against the budgets, and refuse them to other commands."""
        for candidate in candidates:
            self._going[candidate.provisioner.name] += 1
            self._engaged = self._engaged | {candidate.name}

    def engaged(self, node: StateNode) -> bool:
        """Return whether a command removes the node or has launched it."""
        return node.name in self._engaged


def allowance(
    provisioner: Provisioner, reason: str, nodes: int, now: float, setting: tuple[Budget, ...] = ()
) -> Allowance:
    """Return how many of a Provisioner's `nodes` may leave for `reason` at `now`, including those that are leaving.

    `setting`: budgets of Provisioners without their own.
    """
    policy, key = provisioner.disruption, V1ALPHA5.keys.disruption_budgets
    if policy.budgets_problem:
        return Allowance(0, f"annotation {key} of Provisioner {provisioner.name}: {policy.budgets_problem}")
    stated, where = policy.budgets, f"disruption budget of Provisioner {provisioner.name}"
    if stated is None:
        stated, where = setting, "setting disruptionBudgets"
    named = [budget for budget in stated if not budget.reasons or reason in budget.reasons]
    active = [budget.allows(nodes) for budget in named if budget.active(now)]
    if active:
        return Allowance(min(active), where)
    if named or reason == "empty":
        return Allowance(nodes, f"no disruption budget of Provisioner {provisioner.name} is active")
    return Allowance(DEFAULT_BUDGET.allows(nodes), f"default disruption budget of 10 % (set {key} to change it)")
