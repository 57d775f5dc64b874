"""The solver: a problem in, a plan out. Deterministic, whatever order the objects came in (invariant 1)."""

from __future__ import annotations

import numpy as np

from controller.core.api.pod import Pod, PodKey
from controller.core.provisioning.assembly import Assembler
from controller.core.provisioning.catalog import CompiledCatalog, Pool, pool_requirements
from controller.core.provisioning.classes import Classifier, PodClass
from controller.core.provisioning.daemons import daemons
from controller.core.provisioning.demands import Demand, MaskCompiler
from controller.core.provisioning.levels import Level, levels
from controller.core.provisioning.limits import Limits, headroom
from controller.core.provisioning.nodes import ExistingNodes
from controller.core.provisioning.packing import Packer
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, SolveOptions, UnplacedPod
from controller.core.provisioning.reasons import Reasons
from controller.core.provisioning.resources import Floats, ResourceSpace

DEFAULTS = SolveOptions()


def solve(problem: SchedulingProblem, options: SolveOptions = DEFAULTS) -> SchedulingPlan:
    """Place the pending pods on the nodes there are and on new ones, for little money. Never raises for a bad pod."""
    return Solver(problem, options).solve()


class Solver:
    """One problem being solved."""

    def __init__(self, problem: SchedulingProblem, options: SolveOptions) -> None:
        self.problem = problem
        self.options = options
        self.unplaced: dict[PodKey, str] = {}
        good = [pod for pod in sorted(problem.pending, key=lambda p: (p.namespace, p.name)) if self._readable(pod)]
        self.daemons = daemons(problem.snapshot)
        self.classes = Classifier().classes(good, {})
        self.space = ResourceSpace(
            [c.spec.requests for c in self.classes] + [daemon.requests for daemon in self.daemons]
        )
        self._compile()

    def _readable(self, pod: Pod) -> bool:
        if pod.spec.malformed:
            self.unplaced[pod.key] = "the pod cannot be read: " + "; ".join(pod.spec.malformed)
        return not pod.spec.malformed

    def _compile(self) -> None:
        problem = self.problem
        provisioners = sorted(problem.provisioners, key=lambda p: (-p.weight, p.name))
        pools = [Pool(p, pool_requirements(p), headroom(p, problem.snapshot.nodes)) for p in provisioners]
        self.catalog = CompiledCatalog(pools, problem.catalog, self.space, self.daemons)
        nodes = tuple(sorted(problem.nodes, key=lambda node: node.name))
        self.existing = ExistingNodes(nodes, self.space, self.daemons)
        self.masks = MaskCompiler(self.catalog, self.existing, self.space)
        self.limits = Limits([pool.headroom for pool in pools], self.catalog.types, self.catalog.pool_of)
        self.packer = Packer(self.catalog, self.existing, self.masks.signatures, self.limits, self.options)
        self._soft_taints = any(
            taint.effect == "PreferNoSchedule"
            for taints in ([p.taints for p in provisioners] + [node.taints for node in nodes])
            for taint in taints
        )

    def solve(self) -> SchedulingPlan:
        """Pack level by level: what a level leaves over is asked for again at the next."""
        ladders = {c.index: self._ladder(c) for c in self.classes}
        remaining = {c.index: len(c.pods) for c in self.classes}
        step = dict.fromkeys(ladders, 0)
        last: dict[int, Demand] = {}
        waiting = [c for c in self.classes if ladders[c.index]]
        while waiting:
            demands = self._demands(waiting, ladders, step, remaining)
            self.packer.pack(demands)
            again = []
            for demand in demands:
                index = demand.pod_class.index
                remaining[index], last[index] = demand.count, demand
                step[index] += 1
                if demand.count and step[index] < len(ladders[index]):
                    again.append(demand.pod_class)
            waiting = again
        return self._plan(last, remaining)

    def _ladder(self, pod_class: PodClass) -> list[Level]:
        try:
            return list(levels(pod_class.spec, (), taints_may_be_preferences=self._soft_taints))
        except ValueError as problem:
            for pod in pod_class.pods:
                self.unplaced[pod.key] = f"its node affinity cannot be read: {problem}"
            return []

    def _demands(
        self, waiting: list[PodClass], ladders: dict[int, list[Level]], step: dict[int, int], remaining: dict[int, int]
    ) -> list[Demand]:
        demands = []
        for pod_class in waiting:
            level = ladders[pod_class.index][step[pod_class.index]]
            mask = self.masks.mask(level, self.masks.variants(level)[0])
            demands.append(self.masks.demand(pod_class, level, mask, remaining[pod_class.index]))
        scale = self._scale()
        demands.sort(key=lambda d: (-float(np.max(d.request * scale, initial=0.0)), d.pod_class.name))
        return demands

    def _scale(self) -> Floats:
        """One over the largest amount that a node may have, by resource: makes sizes comparable."""
        largest = np.maximum(
            self.catalog.allocatable.max(axis=1, initial=0.0), self.existing.free.max(axis=1, initial=0.0)
        )
        return np.asarray(np.divide(1.0, largest, out=np.full(len(largest), 1e9), where=largest > 0))

    def _plan(self, last: dict[int, Demand], remaining: dict[int, int]) -> SchedulingPlan:
        assembler = Assembler(self.packer, self.existing)
        reasons = Reasons(self.catalog, self.existing, self.limits)
        for pod_class in self.classes:
            if remaining[pod_class.index] and pod_class.index in last:
                reason = reasons.explain(last[pod_class.index], dict(self.problem.skipped))
                placed = assembler.placed.get(pod_class.index, 0)
                self.unplaced.update((pod.key, reason) for pod in pod_class.pods[placed:])
        return SchedulingPlan(
            new_nodes=assembler.new_nodes(),
            existing=assembler.existing_placements(),
            unplaced=tuple(UnplacedPod(key, reason) for key, reason in sorted(self.unplaced.items())),
        )
