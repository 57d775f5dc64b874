"""Scale-ins with and without pod deletion costs: evictions and price, in virtual time.

A cluster of Deployments is scaled out, comes to rest, and is scaled in by random shares: twice from the same state,
once without deletion costs, once after they were written as the controller writes them. Both ways have the same rules:

- ReplicaSets choose their victims as kube-controller-manager does (pkg/controller, ActivePodsWithRanks): unassigned,
  phase, readiness, deletion cost, pods of the ReplicaSet on the node, time of readiness (as log2 of seconds), restarts,
  age. Here every pod runs, is ready and never restarts, so that deletion costs, pods on the node and age decide.
- New pods are bound as kube-scheduler's default scores would: the node with the fewest of their ReplicaSet's pods, then
  the one with the largest free share. Pods without room get new nodes by a plan, as provisioning makes it.
- Consolidation is the controller's own method, asked until it finds nothing more. An eviction is a pod that one of its
  commands moves, to where the command's simulation put it; empty nodes go without one. Cool-downs are left out: they
  spread the moves over time.

The way without costs goes on to the next cycle.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.consolidation import SPECS, instance_types
from bench.rebalance_runs.least_moves import least_moves
from controller.core.api import labels
from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import OwnerReference, Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.consolidation import Consolidation
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.removal_command import Command
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.scale_in.deletion_costs import COST_ANNOTATION, CostChange, changes
from controller.core.deprovisioning.scale_in.emptying_order import emptying_order
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SolveOptions
from controller.core.provisioning.problem import build
from controller.core.provisioning.solver.solver import solve
from controller.core.state.snapshot import Snapshot, StateNode
from controller.reconcilers.deprovisioning import deletion_cost_reconciler

DEPLOYMENTS = 10
MOST_REPLICAS = 24
CYCLES = 5
"""In the life of one cluster: out, and in again."""
PASS_SECONDS = 20.0
"""Between two passes of consolidation: longer than a removal has to settle."""
QUIET_PASSES = 3
"""Passes without a command after which consolidation has found all that there is."""
CALM_SECONDS = 1_800.0
"""Between two changes of the targets."""
MINUTE = 60.0
OPTIONS = SolveOptions(budget_seconds=0.0)
POOL = "default"


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a cycle. `steps`: evictions of each command, and $ an hour after it; `start`: $ before."""

    start: float
    steps: tuple[tuple[int, float], ...]
    nodes: int

    @property
    def evictions(self) -> int:
        """All of them."""
        return sum(moved for moved, _ in self.steps)

    @property
    def price(self) -> float:
        """$ an hour, when consolidation has come to rest."""
        return self.steps[-1][1] if self.steps else self.start

    def evictions_to(self, price: float) -> int:
        """Those until the fleet first cost no more than this."""
        moved, now = 0, self.start
        for more, after in self.steps:
            if now <= price:
                break
            moved, now = moved + more, after
        return moved


@dataclass(frozen=True, slots=True)
class Cycle:
    """A scale-in both ways. `gone`: how many pods each Deployment deletes; `writes`: annotations written before it."""

    gone: tuple[int, ...]
    writes: int
    without: Way
    with_costs: Way
    least: tuple[int, int]
    """The fewest evictions with which any fleet reaches the common price, both ways."""

    @property
    def common_price(self) -> float:
        """$ an hour that both ways reach."""
        return common_price(self.without, self.with_costs)

    @property
    def deleted(self) -> int:
        """Pods of all Deployments."""
        return sum(self.gone)


def common_price(*ways: Way) -> float:
    """Return the $ an hour that all of these ways reach."""
    return max(way.price for way in ways) + 1e-9


@dataclass(slots=True)
class Fleet:
    """A cluster in virtual time. `writes_a_minute`: 0 without deletion costs."""

    types: dict[str, InstanceType]
    writes_a_minute: int
    now: float = 1_000_000.0
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[PodKey, Pod] = field(default_factory=dict)
    made: int = 0
    version: int = 0
    tables: TableCache = field(default_factory=TableCache)
    method: Consolidation = field(default_factory=Consolidation)

    @property
    def catalog(self) -> dict[str, tuple[InstanceType, ...]]:
        return {POOL: tuple(self.types.values())}

    @property
    def price(self) -> float:
        """$ an hour."""
        return sum(self.types[node.labels[labels.INSTANCE_TYPE]].offerings[0].price for node in self.nodes.values())

    def snapshot(self) -> Snapshot:
        """The cluster as the controller sees it."""
        self.version += 1
        on = {name: list[Pod]() for name in self.nodes}
        for key in sorted(self.pods):
            pod = self.pods[key]
            if pod.node_name:
                on[pod.node_name].append(pod)
        pool = Provisioner(POOL, uid=POOL, disruption=DisruptionPolicy(consolidation=True))
        state = {
            name: StateNode(node, tuple(on[name]), node.capacity, node.allocatable, ())
            for name, node in sorted(self.nodes.items())
        }
        return Snapshot(
            version=self.version,
            synced=True,
            nodes=FrozenMap(state),
            pods=FrozenMap(dict(sorted(self.pods.items()))),
            provisioners=FrozenMap({POOL: pool}),
        )

    def priced(self) -> list[Candidate]:
        """The nodes, at their price alone."""
        return list(candidates(self.snapshot(), self.catalog, self.now))

    def scale(self, app: int, replicas: int) -> int:
        """Give a ReplicaSet so many pods; return how many were deleted. New ones are not bound yet."""
        own = [pod for pod in self.pods.values() if pod.labels["app"] == str(app)]
        for _ in range(replicas - len(own)):
            self._create(app)
        victims = self._victims(own)[: max(0, len(own) - replicas)]
        for pod in victims:
            del self.pods[pod.key]
        return len(victims)

    def _create(self, app: int) -> None:
        self.made += 1
        name = f"app-{app}-{self.made}"
        owner = OwnerReference("apps/v1", "ReplicaSet", f"app-{app}", f"uid-{app}")
        spec, own = SPECS[app % len(SPECS)], FrozenMap({"app": str(app)})
        pod = Pod("default", name, name, spec, labels=own, owners=(owner,), created=self.now, unschedulable=True)
        self.pods[pod.key] = pod

    def _victims(self, pods: Sequence[Pod]) -> list[Pod]:
        """Pods of one ReplicaSet, those that it deletes first before the others."""
        beside = Counter(pod.node_name for pod in pods)

        def order(pod: Pod) -> tuple[bool, int, int, float, str]:
            cost = int(pod.annotations.get(COST_ANNOTATION, "0"))
            age = math.floor(math.log2(max(1.0, self.now - pod.created)))
            return (bool(pod.node_name), cost, -beside[pod.node_name], age, pod.uid)

        return sorted(pods, key=order)

    def settle(self) -> None:
        """Bind what waits, on new nodes where there is no room."""
        self._bind()
        while waiting := [pod for pod in self.pods.values() if not pod.node_name]:
            plan = solve(build(self.snapshot(), self.catalog, pods=waiting), OPTIONS)
            for one in plan.new_nodes:
                self._launch(one.offering.instance_type, one.offering.zone)
            self._bind()

    def _launch(self, kind: str, zone: str) -> str:
        self.made += 1
        name, capacity = f"node-{self.made:05}", self.types[kind].capacity
        own = {labels.INSTANCE_TYPE: kind, labels.ZONE: zone, labels.CAPACITY_TYPE: labels.ON_DEMAND}
        own |= {labels.HOSTNAME: name, labels.PROVISIONER_NAME: POOL, labels.INITIALIZED: "true"}
        own |= {labels.ARCH: "amd64", labels.OS: "linux"}
        self.nodes[name] = Node(
            name, uid=name, labels=FrozenMap(own), capacity=capacity, allocatable=capacity, created=self.now, ready=True
        )
        return name

    def _bind(self) -> None:
        free = {name: dict(node.allocatable) for name, node in self.nodes.items()}
        beside = Counter((pod.node_name, pod.labels["app"]) for pod in self.pods.values())
        for pod in self.pods.values():
            if pod.node_name:
                _take(free[pod.node_name], pod)
        for pod in list(self.pods.values()):
            fitting = [name for name in free if _fits(free[name], pod)] if not pod.node_name else []
            if fitting:
                scored = (
                    (beside[name, pod.labels["app"]], -_free_share(free[name], self.nodes[name]), name)
                    for name in fitting
                )
                name = min(scored)[2]
                _take(free[name], pod)
                beside[name, pod.labels["app"]] += 1
                self.pods[pod.key] = _bound(pod, name)

    def calm(self) -> int:
        """Let time pass, minute by minute, in which deletion costs are written; return how many were."""
        end, written = self.now + CALM_SECONDS, 0
        self.now += MINUTE
        while self.now < end and (now_written := sum(1 for _ in self._write_costs())):
            written += now_written
            self.now += MINUTE
        self.now = max(self.now, end)
        return written

    def _write_costs(self) -> Iterator[CostChange]:
        if not self.writes_a_minute:
            return
        snapshot = self.snapshot()
        ranked = emptying_order(
            candidates(snapshot, self.catalog, self.now, beside=OPTIONS.beside), Gate(snapshot, self.now)
        )
        for change in changes(snapshot, [each.name for each in ranked], self.now)[: self.writes_a_minute]:
            notes = {**change.pod.annotations, **change.annotations}
            kept = FrozenMap({key: value for key, value in notes.items() if value is not None})
            self.pods[change.pod.key] = replace(change.pod, annotations=kept)
            yield change

    def consolidate(self) -> Way:
        """Remove nodes until nothing more is worth it."""
        start, steps, quiet = self.price, list[tuple[int, float]](), 0
        while quiet < QUIET_PASSES:
            self.now += PASS_SECONDS
            snapshot = self.snapshot()
            simulator = Simulator(
                snapshot, self.catalog, options=OPTIONS, snapshot_index=SnapshotIndex(snapshot, self.tables)
            )
            proposal = self.method.decide(
                MethodInput(
                    simulator=simulator,
                    gate=Gate(snapshot, self.now),
                    candidates=candidates(snapshot, self.catalog, self.now, beside=OPTIONS.beside),
                    now=self.now,
                    monotonic=self.now,
                )
            )
            quiet = 0 if proposal.commands else quiet + 1
            steps += [(self._carry_out(command), self.price) for command in proposal.commands]
        return Way(start, tuple(steps), len(self.nodes))

    def copy(self, writes_a_minute: int) -> Fleet:
        """The same cluster, to go another way from here."""
        return replace(
            self,
            writes_a_minute=writes_a_minute,
            nodes=dict(self.nodes),
            pods=dict(self.pods),
            method=Consolidation(),
        )

    def _carry_out(self, command: Command) -> int:
        """Launch, evict, remove, and make the pods anew where the command's simulation put them."""
        goal = self._goal(command)
        evicted = [pod for candidate in command.candidates for pod in candidate.pods]
        for candidate in command.candidates:
            del self.nodes[candidate.name]
        for pod in evicted:
            del self.pods[pod.key]
            self._create(int(pod.labels["app"]))
            made = next(reversed(self.pods.values()))
            if (name := goal.get(pod.key)) is not None:
                self.pods[made.key] = _bound(made, name)
        self.settle()
        return len(evicted)

    def _goal(self, command: Command) -> dict[PodKey, str]:
        """The node of each pod that moves; launches the replacements."""
        goal: dict[PodKey, str] = {}
        if command.solved is None:
            return goal
        for placement in command.solved.plan.existing:
            goal.update(dict.fromkeys(placement.pods, placement.node))
        for one in command.replacements:
            name = self._launch(one.offering.instance_type, one.offering.zone)
            goal.update(dict.fromkeys(one.pods, name))
        return goal


def _bound(pod: Pod, node: str) -> Pod:
    return replace(pod, node_name=node, phase="Running", ready=True, unschedulable=False)


def _take(free: dict[str, int], pod: Pod) -> None:
    for name, amount in pod.spec.requests.items():
        free[name] = free.get(name, 0) - amount


def _fits(free: dict[str, int], pod: Pod) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in pod.spec.requests.items())


def _free_share(free: dict[str, int], node: Node) -> float:
    return sum(free[name] / node.allocatable[name] for name in ("cpu", "memory"))


def alike(chance: random.Random) -> list[float]:
    """The share of each Deployment's pods that stays when the load of all falls alike."""
    return [chance.uniform(0.2, 0.9)] * DEPLOYMENTS


def nearly_alike(chance: random.Random) -> list[float]:
    """The same, within 10 % of a common share."""
    common = chance.uniform(0.2, 0.9)
    return [min(1.0, common * chance.uniform(0.9, 1.1)) for _ in range(DEPLOYMENTS)]


def each_its_own(chance: random.Random) -> list[float]:
    """The share of each Deployment's pods that stays when each load is its own."""
    return [chance.uniform(0.2, 1.0) for _ in range(DEPLOYMENTS)]


WRITES_A_MINUTE = round(60.0 / deletion_cost_reconciler.PASS_SECONDS * deletion_cost_reconciler.MOST_WRITES)

KINDS: dict[str, Callable[[random.Random], list[float]]] = {
    "all Deployments by the same share": alike,
    "all Deployments within 10 % of a common share": nearly_alike,
    "each Deployment by a share of its own": each_its_own,
}


def live(seed: int, shares: Callable[[random.Random], list[float]]) -> Iterator[Cycle]:
    """One cluster's life of CYCLES scale-ins."""
    chance = random.Random(seed)
    fleet = Fleet({kind.name: kind for kind in instance_types()}, 0)
    for _ in range(CYCLES):
        for app in range(DEPLOYMENTS):
            fleet.scale(app, chance.randint(MOST_REPLICAS // 2, MOST_REPLICAS))
        fleet.settle()
        fleet.consolidate()
        told = fleet.copy(WRITES_A_MINUTE)
        writes, _ = told.calm(), fleet.calm()
        gone = list[int]()
        for app, share in enumerate(shares(chance)):
            own = sum(pod.labels["app"] == str(app) for pod in fleet.pods.values())
            gone.append(fleet.scale(app, max(1, round(own * share))))
            told.scale(app, max(1, round(own * share)))
        before = (fleet.priced(), told.priced())
        without, with_costs = fleet.consolidate(), told.consolidate()
        price = common_price(without, with_costs)
        least = [least_moves(nodes, list(fleet.types.values()), 0.0, price).moves for nodes in before]
        yield Cycle(tuple(gone), writes, without, with_costs, (least[0], least[1]))


def run(cycles: int, shares: Callable[[random.Random], list[float]]) -> list[Cycle]:
    """So many scale-ins, over as many clusters as that takes."""
    seeds = range(1, math.ceil(cycles / CYCLES) + 1)
    return [cycle for seed in seeds for cycle in live(seed, shares)][:cycles]


def row(name: str, cycles: Sequence[Cycle]) -> str:
    """A row of the table."""
    ways = [[cycle.without for cycle in cycles], [cycle.with_costs for cycle in cycles]]
    every = [sum(way.evictions for way in side) for side in ways]
    equal = [sum(cycle.without.evictions_to(cycle.common_price) for cycle in cycles)]
    equal.append(sum(cycle.with_costs.evictions_to(cycle.common_price) for cycle in cycles))
    price = [sum(way.price for way in side) / len(cycles) for side in ways]
    nodes = [sum(way.nodes for way in side) / len(cycles) for side in ways]
    least = [sum(cycle.least[way] for cycle in cycles) for way in (0, 1)]
    deleted, writes = sum(cycle.deleted for cycle in cycles), sum(cycle.writes for cycle in cycles)
    return (
        f"| {name} | {len(cycles)} | {deleted:,} | {equal[0]:,} → {equal[1]:,} ({_less(equal)}) | "
        f"{least[0]:,} → {least[1]:,} ({_less(least)}) | "
        f"{every[0]:,} → {every[1]:,} ({_less(every)}) | {price[0]:.3f} → {price[1]:.3f} | "
        f"{nodes[0]:.1f} → {nodes[1]:.1f} | {writes / len(cycles):.0f} |"
    )


def _less(two: Sequence[int]) -> str:
    return f"{two[1] / two[0] - 1:+.0%}".replace("-", "−") if two[0] else "none"


def report(cycles: int) -> str:
    """The page."""
    rows = [row(name, run(cycles, shares)) for name, shares in KINDS.items()]
    return HEAD.format(cycles=cycles, deployments=DEPLOYMENTS, replicas=MOST_REPLICAS) + "\n".join(rows) + "\n"


HEAD = """# Scale-ins with pod deletion costs

`python -m bench scale-in --cycles {cycles}`: {deployments} Deployments of up to {replicas} replicas are scaled out,
come to rest, and are scaled in by random shares; twice from the same state, without deletion costs and with those that
the controller writes (setting `podDeletionCost`). ReplicaSets choose their victims by kube-controller-manager's rules,
consolidation is the controller's own, and time is virtual (`bench/scale_in_runs` says what is simplified). Without →
with; "to the same price": until the fleet first cost no more than the dearer of both in the end; "the least": the
fewest that lead to that price, by an exact program that knows it beforehand (`bench/rebalance_runs/least_moves.py`).

| scale-in of | scale-ins | deleted | evictions to the same price | the least | in all | $ an hour | nodes | writes |
|---|---|---|---|---|---|---|---|---|
"""
