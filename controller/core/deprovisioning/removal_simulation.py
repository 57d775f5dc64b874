"""What would follow from the removal of nodes: where their pods would go, and which nodes would have to be launched.

Pods of nodes that leave already, and of nodes that other commands remove, are placed too: their new homes are no free
room. Pods that are pending are placed along, so that no target is counted on that they are about to fill; but what they
want for themselves is provisioning's business, and a pod that nobody can place never holds anything back (the peer
stops all consolidation for it).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Pod, PodKey
from controller.core.cloud import Catalog
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SolveOptions, UnplacedPod
from controller.core.provisioning.problem import build, leaving_pods
from controller.core.provisioning.solver.solver import solve
from controller.core.state.snapshot import Snapshot, StateNode


@dataclass(frozen=True, slots=True)
class Stage:
    """What simulations run on. `going` are nodes that commands remove; `skipped` Provisioners that cannot be used.

    `snapshot_index` is built once for all simulations: `replace` hands it on.
    """

    snapshot: Snapshot
    catalog: Catalog
    going: frozenset[str] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    options: SolveOptions = field(default_factory=SolveOptions)
    snapshot_index: SnapshotIndex = field(default_factory=lambda: SnapshotIndex(Snapshot()), compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "snapshot_index", self.snapshot_index.at(self.snapshot))


@dataclass(frozen=True, slots=True)
class Outcome:
    """`replacements` are new nodes that hold pods of the removed ones; `targets` existing nodes that take some.

    `problem` says why it cannot be done now, empty when it can.
    """

    replacements: tuple[PlannedNode, ...] = ()
    targets: tuple[str, ...] = ()
    problem: str = ""

    @property
    def price(self) -> float:
        """$ an hour of the replacements."""
        return sum(node.offering.price for node in self.replacements)


def simulate(stage: Stage, removed: Collection[StateNode]) -> Outcome:
    """Remove these nodes together, in thought."""
    own = [pod for node in removed for pod in leaving_pods(node)]
    if not own:
        return Outcome()
    names = stage.going | {node.name for node in removed}
    others = _others(stage, {node.name for node in removed})
    pending = stage.snapshot_index.pending
    keys = {pod.key for pod in own}
    plan = _solve(stage, [*own, *others, *pending], names)
    if pending and _mixed(plan, keys):
        plan = _solve(stage, [*own, *others], names)
    if _mixed(plan, keys):
        return Outcome(problem="its pods would share a new node with those of another command; that one goes first")
    return _outcome(stage, plan, keys)


def _others(stage: Stage, removed: AbstractSet[str]) -> list[Pod]:
    """Pods of all other nodes that go."""
    going = {node.name for node in stage.snapshot_index.leaving} | stage.going
    others = (stage.snapshot.nodes.get(name) for name in sorted(going - removed))
    return [pod for node in others if node is not None for pod in leaving_pods(node)]


def _solve(stage: Stage, pods: list[Pod], without: frozenset[str]) -> SchedulingPlan:
    problem = build(stage.snapshot, stage.catalog, pods=pods, without_nodes=without, skipped=stage.skipped)
    return solve(problem, stage.options, stage.snapshot_index)


def _mixed(plan: SchedulingPlan, keys: Collection[PodKey]) -> bool:
    ours = ([key in keys for key in node.pods] for node in plan.new_nodes)
    return any(any(each) and not all(each) for each in ours)


def _outcome(stage: Stage, plan: SchedulingPlan, keys: AbstractSet[PodKey]) -> Outcome:
    replacements = tuple(node for node in plan.new_nodes if any(key in keys for key in node.pods))
    targets = tuple(sorted({p.node for p in plan.existing if any(key in keys for key in p.pods)}))
    failed = [pod for pod in plan.unplaced if pod.pod in keys]
    placed = {key for node in plan.new_nodes for key in node.pods}
    placed.update(key for target in plan.existing for key in target.pods)
    ignored = sorted(keys - placed - {pod.pod for pod in failed})
    problems = [_not_all_fit(failed)] if failed else []
    if ignored:
        named = ", ".join("/".join(key) for key in ignored[:5])
        problems.append(f"pods that ask not to be served would have no place: {named}")
    starting = [name for name in targets if _not_ready(stage.snapshot.nodes[name])]
    if starting:
        problems.append(f"not all pods fit: target {', '.join(starting[:5])} is not initialized")
    return Outcome(replacements, targets, "; ".join(problems))


def _not_ready(node: StateNode) -> bool:
    """One of ours that is not initialized, or anybody's that is not Ready."""
    return not (node.initialized if node.provisioner_name else node.node.ready)


def _not_all_fit(failed: list[UnplacedPod]) -> str:
    shown = "; ".join(f"{'/'.join(each.pod)}: {each.reason}" for each in failed[:5])
    more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""
    return f"not all pods fit elsewhere: {shown}{more}"
