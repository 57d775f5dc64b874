"""The solver: a problem in, a plan out. Deterministic, whatever order the objects came in (invariant 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from controller.core.api.pod import PodKey, PodSpec
from controller.core.api.replicas import Pods, Replicas
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.limits import Limits, headroom
from controller.core.provisioning.offerings.mask_compiler import MaskCompiler
from controller.core.provisioning.offerings.option_table import Pool
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.optimize.refine import refine
from controller.core.provisioning.packing.packer import Packer, weight_premiums
from controller.core.provisioning.packing.rounds import Progress, Rounds, Step, size_scale
from controller.core.provisioning.packing_style import PackingStyle, alternative_styles
from controller.core.provisioning.plan import (
    DearPreference,
    SchedulingPlan,
    SchedulingProblem,
    SolveOptions,
    UnplacedPod,
)
from controller.core.provisioning.pods.daemons import with_ports
from controller.core.provisioning.pods.pod_classes import PodClass, classify
from controller.core.provisioning.pods.relaxation import Choice, levels
from controller.core.provisioning.pods.selector_index import SelectorIndex
from controller.core.provisioning.pods.slots import Slots
from controller.core.provisioning.pods.volume_needs import Volumes
from controller.core.provisioning.problem import pod_key, pool_requirements
from controller.core.provisioning.resource_space import Bools, ResourceSpace
from controller.core.provisioning.solver.assembly import Assembler
from controller.core.provisioning.solver.commitments import within_commitments
from controller.core.provisioning.solver.partners import Partners
from controller.core.provisioning.solver.pool_sharing import share_pools
from controller.core.provisioning.solver.preferences import Preferences, wishes
from controller.core.provisioning.solver.reasons import Question, Reasons, topology_reason
from controller.core.provisioning.topology.bundles import BundleMember, unit_rules
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import Topology
from controller.core.provisioning.topology.running_pods import RunningPods, selector_keys
from controller.core.provisioning.topology.seeding import seed

DEFAULTS = SolveOptions()


def solve(
    problem: SchedulingProblem, options: SolveOptions = DEFAULTS, snapshot_index: SnapshotIndex | None = None
) -> SchedulingPlan:
    """Place the pending pods on existing and new nodes for the least money found. Never raises for a bad pod.

    `around`: what the problem's snapshot comes to, for those who solve many problems on one.
    """
    known = snapshot_index if snapshot_index is not None else SnapshotIndex(problem.snapshot)
    return within_commitments(problem, lambda each: Solver(each, options, known).solve())


class Solver:
    """One problem being solved."""

    def __init__(
        self, problem: SchedulingProblem, options: SolveOptions, snapshot_index: SnapshotIndex | None = None
    ) -> None:
        self.problem = problem
        self.options = options
        self.snapshot_index = snapshot_index if snapshot_index is not None else SnapshotIndex(problem.snapshot)
        self.unplaced: dict[PodKey, str] = {}
        gone = problem.without_nodes
        self.stays: Bools = np.array([node.name not in gone for node in self.snapshot_index.nodes], dtype=np.bool_)
        alike = Pods.of(problem.pending).groups
        good = [one for one in alike if not one.first.spec.malformed]
        for one in alike:
            if one.first.spec.malformed:
                reason = "the pod cannot be read: " + "; ".join(one.first.spec.malformed)
                self.unplaced.update((pod.key, reason) for pod in one.pods)
        found = self.snapshot_index.daemons
        with_volumes = [one.first for one in good if one.first.volumes]
        volumes = Volumes(problem.snapshot, sorted(with_volumes, key=pod_key))
        classes = classify(good, self._label_keys(good), volumes.needs())
        running = (one.pod.spec for one in self.snapshot_index.with_ports)
        specs = (*(c.spec for c in classes), *(d.spec for d in found), *running)
        self.slots = Slots(problem.snapshot, specs, volumes)
        self.daemons = with_ports(found, self.slots.requests)
        self.classes = [c for c in classes if self._resolved(c)]
        for pod_class in self.classes:
            pod_class.requests = self.slots.requests(pod_class.spec, pod_class.volumes.attachments)
        requests = [c.requests for c in self.classes] + [daemon.requests for daemon in self.daemons]
        self.space = ResourceSpace(requests)
        self._compile()
        self.namespaces = {name: space.labels for name, space in problem.snapshot.namespaces.items()}
        self.preferences = Preferences(self.masks, options, self.namespaces)
        self.ladders = self._ladders()

    def _resolved(self, pod_class: PodClass) -> bool:
        if pod_class.volumes.problem:
            self.unplaced.update((pod.key, pod_class.volumes.problem) for pod in pod_class.pods)
        return not pod_class.volumes.problem

    @cached_property
    def batch(self) -> frozenset[PodKey]:
        """The keys of the pods to place."""
        return frozenset(map(pod_key, self.problem.pending))

    def _label_keys(self, pending: list[Replicas]) -> frozenset[str]:
        """Labels that some selector looks at: only these tell classes apart."""
        specs: dict[int, PodSpec] = {id(one.first.spec): one.first.spec for one in pending}
        specs.update((id(one.pod.spec), one.pod.spec) for one in self.snapshot_index.repelling)
        return selector_keys(specs.values())

    def _compile(self) -> None:
        problem = self.problem
        provisioners = sorted(problem.provisioners, key=lambda p: (-p.weight, p.name))
        staying = [node for node in self.snapshot_index.nodes if node.name not in problem.without_nodes]
        self.pools = [Pool(p, pool_requirements(p), headroom(p, staying)) for p in provisioners]
        weights = [provisioner.weight for provisioner in provisioners]
        self.premiums = weight_premiums(weights, self.options.weight_premium).tolist()
        table = self.snapshot_index.tables.table(self.pools, problem.catalog)
        self.catalog = CompiledCatalog(
            self.pools, table, self.space, self.daemons, lambda name: self.slots.on_new(self.space, name)
        )
        may_take = sorted(self.snapshot_index.place[node.name] for node in problem.nodes)
        self.existing = self.snapshot_index.existing(
            np.array(may_take, np.int64), self.space, self.daemons, self.slots.left_on
        )
        self.masks = MaskCompiler(self.catalog, self.existing)
        self.soft_taints = any(
            taint.effect == "PreferNoSchedule"
            for taints in ([p.taints for p in provisioners] + [node.taints for node in self.existing.nodes])
            for taint in taints
        )

    def running_pods(self, index: SelectorIndex) -> RunningPods:
        """The pods of all nodes that stay, those that take no more included: topology counts what runs there."""
        return RunningPods(self.snapshot_index, self.stays, lambda: self.batch, index)

    def domains(self) -> Domains:
        """The values of topology keys, on nodes that stay and on new ones."""
        return Domains(self.masks, self.snapshot_index.cluster_nodes, self.stays)

    def _ladders(self) -> dict[int, list[Step]]:
        """The steps of every class that has any. Classes of one spec share them, unless preferences are weighed: that
        depends on labels too."""
        shared: dict[tuple[int, tuple[Choice, ...]], list[Step]] = {}
        found: dict[int, list[Step]] = {}
        for one in self.classes:
            key = (id(one.spec), one.volumes.choices)
            steps = shared.get(key)
            if steps is None:
                steps = self._steps(one)
                if steps and not self.soft_taints and not wishes(one.spec):
                    shared[key] = steps
            if steps:
                found[one.index] = steps
        return found

    def _steps(self, pod_class: PodClass) -> list[Step]:
        try:
            spec, avoid = self.preferences.weighed(pod_class, taints=self.soft_taints)
            ladder = list(levels(spec, pod_class.volumes.choices, taints_may_be_preferences=avoid))
        except ValueError as problem:
            for pod in pod_class.pods:
                self.unplaced[pod.key] = f"its node affinity cannot be read: {problem}"
            return []
        return [(n, level, choices) for n, level in enumerate(ladder) for choices in self.masks.variants(level)]

    def solve(self) -> SchedulingPlan:
        """The first plan, or the refined one where that leaves fewer pods out, or as many for less money."""
        attempt = self.attempt(PackingStyle())
        if not attempt[0].sound():
            attempt = self.attempt(PackingStyle(), careful=True)
        plan = self._plan(*attempt)
        if len(plan.unplaced) > len(self.unplaced) and self._tied():
            for style in alternative_styles(unsettled=attempt[0].unsettled):
                other = self.attempt(style)
                placed = self._plan(*other)
                if other[0].sound() and len(placed.unplaced) < len(plan.unplaced):
                    attempt, plan = other, placed
        if self.options.budget_seconds > 0:
            plan = min((plan, *self._refined(*attempt)), key=self._rank)
        return self._with_dear(share_pools(plan, self.problem, self.options, self.snapshot_index))

    def _rank(self, plan: SchedulingPlan) -> tuple[int, float, int]:
        """Fewest pods left out first, then the least cost, then the fewest pods on new nodes."""
        on_new_nodes = sum(len(node.pods) for node in plan.new_nodes)
        return len(plan.unplaced), self._cost(plan), on_new_nodes

    def _refined(self, rounds: Rounds, progress: list[Progress]) -> Iterable[SchedulingPlan]:
        """The same units packed anew by what they are worth, and those that found no room."""
        packer = refine(rounds, progress, self._limits(), self.options.budget_seconds)
        if packer is not None:
            rounds.packer = packer
            yield self._plan(rounds, progress)

    def _limits(self) -> Limits:
        return Limits([pool.headroom for pool in self.pools], self.catalog.types, self.catalog.pool_of)

    def _tied(self) -> bool:
        """Whether rules tie pods to each other: then what is placed depends on who goes first."""
        specs = [pod_class.spec for pod_class in self.classes]
        return any(s.topology_spread or s.required_pod_affinity or s.required_pod_anti_affinity for s in specs)

    def _cost(self, plan: SchedulingPlan) -> float:
        """$/hour, with what nodes cost beside their price, and what it is worth to use a heavier Provisioner."""
        premium = dict(zip((p.provisioner.name for p in self.pools), self.premiums, strict=True))
        paid = sum(node.offering.price * premium[node.provisioner] for node in plan.new_nodes)
        return float(paid + len(plan.new_nodes) * self.options.node_cost_per_hour)

    def attempt(self, style: PackingStyle, *, careful: bool = False) -> tuple[Rounds, list[Progress]]:
        """A first packing in one style, and how far each class came. `careful`: unit by unit."""
        packer = Packer(self.catalog, self.existing, self.masks.signatures, self._limits(), self.options, style)
        index = SelectorIndex(self.namespaces)
        topology = Topology(self.running_pods(index))
        progress = [Progress(c, self.ladders[c.index], len(c)) for c in self.classes if c.index in self.ladders]
        for one in progress:
            for number, level in {number: level for number, level, _ in one.steps}.items():
                topology.add(one.pod_class, number, level)
        domains = self.domains()
        seed(topology, domains, packer.hosts, self.existing.rows)
        scale = size_scale(self.catalog.allocatable, self.existing.free)
        rounds = Rounds(topology, self.masks, domains, packer, scale)
        rounds.run(progress, careful=careful)
        return rounds, progress

    def _plan(self, rounds: Rounds, progress: list[Progress]) -> SchedulingPlan:
        assembler = Assembler(rounds.packer, self.existing)
        unplaced = dict(self.unplaced)
        reasons = Reasons(self.catalog, self.existing, rounds.packer.limits)
        partners = Partners(rounds.topology.running_pods, self.existing, rounds.packer.table.free, self.space)
        for one in progress:
            placed = assembler.placed.get(one.pod_class.index, 0)
            if placed < len(one.pod_class):
                number, level, choices = one.steps[-1]
                request = self.space.vector(one.pod_class.requests)
                question = Question(level, self.masks.mask(level, choices), request)
                rules = unit_rules(rounds.topology, (BundleMember(one.pod_class, 1, number),))
                told = topology_reason(rules, partial(partners.reason, mask=question.mask, request=request))
                reason = reasons.explain(question, dict(self.problem.skipped), told)
                unplaced.update((pod.key, reason) for pod in one.pod_class.pods[placed:])
        return SchedulingPlan(
            new_nodes=assembler.new_nodes(),
            existing=assembler.existing_placements(),
            unplaced=tuple(UnplacedPod(key, reason) for key, reason in sorted(unplaced.items())),
        )

    def _with_dear(self, plan: SchedulingPlan) -> SchedulingPlan:
        """The plan with the preferences that were too dear; pods that existing nodes take may have theirs there."""
        if not self.preferences.dear:
            return plan
        new = {key for planned in plan.new_nodes for key in planned.pods}
        found = []
        for pod_class in self.classes:
            dear = self.preferences.dear.get(pod_class.index, ())
            pods = tuple(pod.key for pod in pod_class.pods if pod.key in new) if dear else ()
            found += [DearPreference(preference, premium, pods) for preference, premium in dear if pods]
        return replace(plan, too_dear=tuple(found))
