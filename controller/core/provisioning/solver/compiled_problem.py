"""Compile a problem into what the solver and the bound compute with: classes, relaxation steps, catalog, masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import PodKey, PodSpec, Resources
from controller.core.api.replicas import Pods, Replicas
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.limits import Limits, headroom
from controller.core.provisioning.offerings.mask_compiler import MaskCompiler
from controller.core.provisioning.offerings.option_table import Pool
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.packing.rounds import Step
from controller.core.provisioning.plan import Beside, SchedulingProblem, SolveOptions
from controller.core.provisioning.pods.daemons import with_ports
from controller.core.provisioning.pods.pod_classes import PodClass, classify
from controller.core.provisioning.pods.relaxation import Choice, levels
from controller.core.provisioning.pods.selector_index import SelectorIndex
from controller.core.provisioning.pods.slots import Slots
from controller.core.provisioning.pods.volume_needs import Volumes
from controller.core.provisioning.problem import pod_key, pool_requirements
from controller.core.provisioning.resource_space import ATTACHMENT, ResourceSpace
from controller.core.provisioning.solver.preferences import Preferences, wishes
from controller.core.provisioning.topology.domains import Domains, seed
from controller.core.provisioning.topology.groups import Topology
from controller.core.provisioning.topology.host_counts import HostCounts
from controller.core.provisioning.topology.running_pods import RunningPods, selector_keys


@dataclass(frozen=True, slots=True)
class Ladder:
    """A class with the steps by which its preferences are relaxed, at least one."""

    pod_class: PodClass
    steps: list[Step]


@dataclass(frozen=True)
class CompiledProblem:
    """A problem that many attempts may pack. Nothing here changes while they do, caches aside."""

    problem: SchedulingProblem
    options: SolveOptions
    snapshot_index: SnapshotIndex
    masks: MaskCompiler
    """Holds the compiled catalog (`masks.catalog`) and the existing nodes that may take pods (`masks.existing`)."""
    ladders: tuple[Ladder, ...]
    """The classes to place, in the order of their index."""
    unreadable: Mapping[PodKey, str]
    """Pods that no plan can place, whatever nodes there are (their spec or volumes make no sense), and why."""
    attached: Mapping[str, Sequence[int]]
    """By shared volume, the rows of existing nodes that have it attached."""
    ignored_preferences: Mapping[int, Sequence[tuple[str, float]]]
    """By class index: preferences ignored for their price, and the premium of each."""

    @cached_property
    def _batch(self) -> frozenset[PodKey]:
        return frozenset(map(pod_key, self.problem.pending))

    def limits(self) -> Limits:
        """Return what spec.limits leave of each pool before anything is planned."""
        catalog = self.masks.catalog
        return Limits([pool.headroom for pool in catalog.pools], catalog.types, catalog.pool_of)

    def topology(self, hosts: HostCounts, *, last_level_only: bool = False) -> tuple[Topology, Domains]:
        """Return the topology rules of all classes, with running pods counted (into `hosts` for
        kubernetes.io/hostname).

        The pods of all nodes that stay are counted, also on nodes that take no more pods. last_level_only: without
        rules that relaxation may give up.
        """
        gone = self.problem.without_nodes
        stays = np.array([node.name not in gone for node in self.snapshot_index.nodes], dtype=np.bool_)
        selectors = SelectorIndex(_namespace_labels(self.problem))
        topology = Topology(RunningPods(self.snapshot_index, stays, lambda: self._batch, selectors))
        for ladder in self.ladders:
            numbered = {number: level for number, level, _ in ladder.steps[-1 if last_level_only else 0 :]}
            for number, level in numbered.items():
                topology.add(ladder.pod_class, number, level)
        domains = Domains(self.masks, self.snapshot_index.cluster_nodes, stays)
        seed(topology, domains, hosts, self.masks.existing.rows)
        return topology, domains


def compile_problem(
    problem: SchedulingProblem, options: SolveOptions, snapshot_index: SnapshotIndex | None = None
) -> CompiledProblem:
    """Compile a problem. `snapshot_index` saves time where many problems are solved on one snapshot."""
    index = snapshot_index if snapshot_index is not None else SnapshotIndex(problem.snapshot)
    unreadable: dict[PodKey, str] = {}
    classes, slots = _classes(problem, index, unreadable)
    masks = _masks(problem, index, classes, slots, options.beside)
    preferences = Preferences(masks, options, _namespace_labels(problem))
    ladders = _ladders(classes, masks, preferences, unreadable)
    shared = {volume for c in classes for volume in c.volumes.shared}
    attached = slots.volumes.attached_shared(masks.existing.nodes, shared)
    return CompiledProblem(problem, options, index, masks, ladders, unreadable, attached, preferences.dear)


def _namespace_labels(problem: SchedulingProblem) -> dict[str, FrozenMap[str, str]]:
    return {name: namespace.labels for name, namespace in problem.snapshot.namespaces.items()}


def _classes(
    problem: SchedulingProblem, index: SnapshotIndex, unreadable: dict[PodKey, str]
) -> tuple[list[PodClass], Slots]:
    """Return the classes of readable pods with their requests (slots included), and the slots."""
    replicas: list[Replicas] = []
    for group in Pods.of(problem.pending).groups:
        spec = group.first.spec
        if spec.malformed or spec.unsupported:
            wrong, what = ("read", spec.malformed) if spec.malformed else ("served", spec.unsupported)
            reason = f"the pod cannot be {wrong}: {'; '.join(what)}"
            unreadable.update((pod.key, reason) for pod in group.pods)
        else:
            replicas.append(group)
    volumes = Volumes(problem.snapshot, sorted((r.first for r in replicas if r.first.volumes), key=pod_key))
    # Labels that no selector looks at do not tell classes apart.
    specs: dict[int, PodSpec] = {id(r.first.spec): r.first.spec for r in replicas}
    specs.update((id(running.pod.spec), running.pod.spec) for running in index.repelling)
    classes = classify(replicas, selector_keys(specs.values()), volumes.needs())
    with_ports_running = (running.pod.spec for running in index.with_ports)
    slots = Slots(
        problem.snapshot, (*(c.spec for c in classes), *(d.spec for d in index.daemons), *with_ports_running), volumes
    )
    for pod_class in classes:
        if pod_class.volumes.problem:
            unreadable.update((pod.key, pod_class.volumes.problem) for pod in pod_class.pods)
        else:
            pod_class.requests = slots.requests(pod_class.spec, pod_class.volumes.attachments)
    return [pod_class for pod_class in classes if not pod_class.volumes.problem], slots


def _masks(
    problem: SchedulingProblem, index: SnapshotIndex, classes: Sequence[PodClass], slots: Slots, beside: Beside
) -> MaskCompiler:
    daemons = with_ports(index.daemons, slots.requests)
    shared: Resources = FrozenMap({ATTACHMENT + driver: 1 for c in classes for driver, _ in c.volumes.shared})
    space = ResourceSpace([*(c.requests for c in classes), *(daemon.requests for daemon in daemons), shared])
    staying = [node for node in index.nodes if node.name not in problem.without_nodes]
    provisioners = sorted(problem.provisioners, key=lambda p: (-p.weight, p.name))
    pools = [Pool(p, pool_requirements(p), headroom(p, staying)) for p in provisioners]
    table = index.tables.table(pools, problem.catalog, beside)
    catalog = CompiledCatalog(pools, table, space, daemons, lambda name: slots.on_new(space, name))
    places = np.array(sorted(index.place[node.name] for node in problem.nodes), dtype=np.int64)
    return MaskCompiler(catalog, index.existing(places, space, daemons, slots.left_on))


def _ladders(
    classes: Sequence[PodClass], masks: MaskCompiler, preferences: Preferences, unreadable: dict[PodKey, str]
) -> tuple[Ladder, ...]:
    """Return the ladder of every class that has one.

    Classes of one spec share their steps, unless preferences are weighed, which depends on labels too.
    """
    taints = [pool.provisioner.taints for pool in masks.catalog.pools] + [node.taints for node in masks.existing.nodes]
    soft_taints = any(taint.effect == "PreferNoSchedule" for each in taints for taint in each)
    shared: dict[tuple[int, tuple[Choice, ...]], list[Step]] = {}
    ladders: list[Ladder] = []
    for pod_class in classes:
        key = (id(pod_class.spec), pod_class.volumes.choices)
        steps = shared.get(key)
        if steps is None:
            try:
                spec, avoid = preferences.weighed(pod_class, taints=soft_taints)
                relaxed = list(levels(spec, pod_class.volumes.choices, taints_may_be_preferences=avoid))
            except ValueError as error:
                reason = f"its node affinity cannot be read: {error}"
                unreadable.update((pod.key, reason) for pod in pod_class.pods)
                continue
            steps = [(n, level, choices) for n, level in enumerate(relaxed) for choices in masks.variants(level)]
            if steps and not soft_taints and not wishes(pod_class.spec):
                shared[key] = steps
        if steps:
            ladders.append(Ladder(pod_class, steps))
    return tuple(ladders)
