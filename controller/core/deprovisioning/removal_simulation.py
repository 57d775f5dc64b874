"""Simulate the removal of nodes: where their pods would go, and which nodes would have to be launched.

Pods of nodes that leave already, of nodes that other commands remove, and pending pods are placed too, so that the room
they will take does not count as free. A pending pod that cannot be placed never blocks a removal (Karpenter v0.27 stops
all consolidation for it).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Pod, PodKey
from controller.core.cloud import Catalog, CpuCredits
from controller.core.decisions.fleet_cost import added_surplus
from controller.core.machines.opening import is_closed, with_startup_taints
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SolvedProblem, SolveOptions, UnplacedPod
from controller.core.provisioning.problem import build, leaving_pods
from controller.core.provisioning.solver.isolation import solve_around
from controller.core.provisioning.solver.solver import solve
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import SearchInterruptedError

MOST_NAMED = 5
"""Limit on the pods or nodes that a message names."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a removal leads to: `replacements` are new nodes for the removed nodes' pods, `targets` names of existing
    nodes that take some of them, `surplus` in $ an hour what that adds there beyond the baselines of burstable and flex
    types. `problem` says why the removal is impossible now; empty when it is possible."""

    replacements: tuple[PlannedNode, ...] = ()
    targets: tuple[str, ...] = ()
    problem: str = ""
    solved: SolvedProblem | None = field(default=None, compare=False, repr=False)
    """The problem and plan of the replacements."""

    surplus: float = 0.0

    @property
    def launches(self) -> bool:
        """Whether any pod needs a new node: one of these, one that waits, or one of another node that leaves."""
        return self.solved is not None and bool(self.solved.plan.new_nodes)

    @property
    def cost(self) -> float:
        """$ an hour that replace the removed nodes' cost."""
        return sum(node.offering.cost for node in self.replacements) + self.surplus


@dataclass(frozen=True, slots=True)
class Simulator:
    """Simulate removals on one snapshot. `going`: names of nodes that commands remove; `skipped`: Provisioners that
    cannot be used, with the reason; `interrupted`: whether to stop for more urgent work; `place_as_planned`: the
    setting.

    `snapshot_index` belongs to the snapshot and is shared by all simulations on it, across `dataclasses.replace` too.
    """

    snapshot: Snapshot
    catalog: Catalog
    going: frozenset[str] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    options: SolveOptions = field(default_factory=SolveOptions)
    snapshot_index: SnapshotIndex = field(default_factory=lambda: SnapshotIndex(Snapshot()), compare=False, repr=False)
    interrupted: Callable[[], bool] = field(default=lambda: False, compare=False, repr=False)
    place_as_planned: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "snapshot_index", self.snapshot_index.at(self.snapshot))

    def within(self, most_seconds: float) -> Simulator:
        """Return the same simulator with so many seconds of work a simulation at most; 0: the first plan alone."""
        seconds = min(self.options.budget_seconds, most_seconds)
        return replace(self, options=replace(self.options, budget_seconds=seconds))

    def simulate(self, removed: Collection[StateNode]) -> Outcome:
        """Return the outcome if these nodes are removed together. Raises SearchInterruptedError."""
        if self.interrupted():
            raise SearchInterruptedError("the search for removals stops: pods wait for their plan")
        own = [pod for node in removed for pod in leaving_pods(node)]
        if not own:
            return Outcome()
        names = frozenset(node.name for node in removed)
        others = self._pods_of_other_leaving_nodes(names)
        by_key = {pod.key: pod for pod in own}
        solved = self._solve([*own, *others, *self.snapshot_index.pending], names)
        if self.snapshot_index.pending and _shares_new_node(solved.plan, by_key):
            solved = self._solve([*own, *others], names)
        if _shares_new_node(solved.plan, by_key):
            return Outcome(problem="its pods would share a new node with those of another command, which comes first")
        return self._outcome(solved, by_key)

    def _pods_of_other_leaving_nodes(self, removed: AbstractSet[str]) -> list[Pod]:
        names = {node.name for node in self.snapshot_index.leaving} | self.going
        nodes = (self.snapshot.nodes.get(name) for name in sorted(names - removed))
        return [pod for node in nodes if node is not None for pod in leaving_pods(node)]

    def _solve(self, pods: list[Pod], removed: frozenset[str]) -> SolvedProblem:
        without = self.going | removed
        problem = build(self.snapshot, self.catalog, pods=pods, without_nodes=without, skipped=self.skipped)
        solver = partial(solve, snapshot_index=self.snapshot_index)
        first_plan = partial(solver, options=replace(self.options, budget_seconds=0.0))
        plan, _ = solve_around(problem, partial(solver, options=self.options), first_plan)
        return SolvedProblem(problem, plan)

    def _outcome(self, solved: SolvedProblem, own: Mapping[PodKey, Pod]) -> Outcome:
        """Return the outcome of the plan for these pods."""
        plan = solved.plan
        replacements = tuple(node for node in plan.new_nodes if any(key in own for key in node.pods))
        targets = tuple(sorted({p.node for p in plan.existing if any(key in own for key in p.pods)}))
        unplaced = [pod for pod in plan.unplaced if pod.pod in own]
        placed = {key for node in plan.new_nodes for key in node.pods}
        placed.update(key for target in plan.existing for key in target.pods)
        ignored = sorted(own.keys() - placed - {pod.pod for pod in unplaced})
        starting = [name for name in targets if not self._takes_pods(self.snapshot.nodes[name])]
        problems = [_unplaced_text(unplaced)] if unplaced else []
        if ignored:
            named = ", ".join("/".join(key) for key in ignored[:MOST_NAMED])
            problems.append(f"pods that opt out of provisioning would have no place: {named}")
        if starting:
            problems.append(f"not all pods fit: target {', '.join(starting[:MOST_NAMED])} is not initialized")
        return Outcome(replacements, targets, "; ".join(problems), solved, self._surplus(plan, own))

    def _takes_pods(self, node: StateNode) -> bool:
        """Return whether a node of a Provisioner is initialized, or closed and Ready, and any other node Ready."""
        if is_closed(node.node):
            return node.node.ready and not any(with_startup_taints([node.node], self.snapshot.provisioners))
        return node.initialized if node.provisioner_name else node.node.ready

    def _surplus(self, plan: SchedulingPlan, own: Mapping[PodKey, Pod]) -> float:
        """Return the $ an hour of surplus CPU that these pods add on existing nodes."""
        more = 0.0
        for placed in plan.existing if self.options.cpu_use else ():
            asked = sum(own[key].spec.requests.get("cpu", 0) for key in placed.pods if key in own)
            node = self.snapshot.nodes[placed.node]
            if asked and (credits := self._credits(node)) is not None:
                more += added_surplus(node, credits, asked / 1000.0, self.options.cpu_use)
        return more

    def _credits(self, node: StateNode) -> CpuCredits | None:
        types = self.catalog.get(node.provisioner_name, ())
        return next((entry.credits for entry in types if entry.name == node.node.instance_type), None)


def _shares_new_node(plan: SchedulingPlan, keys: Collection[PodKey]) -> bool:
    """Return whether some new node holds pods in `keys` and others."""
    ours = ([key in keys for key in node.pods] for node in plan.new_nodes)
    return any(any(each) and not all(each) for each in ours)


def _unplaced_text(unplaced: list[UnplacedPod]) -> str:
    shown = "; ".join(f"{'/'.join(each.pod)}: {each.reason}" for each in unplaced[:MOST_NAMED])
    more = f"; and {len(unplaced) - MOST_NAMED} more" if len(unplaced) > MOST_NAMED else ""
    return f"not all pods fit elsewhere: {shown}{more}"
