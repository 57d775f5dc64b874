"""A slow, obvious reference scheduler: one pod at a time against every node, without arrays, classes or caches.

It shares only values with the solver. Rules are kube-scheduler's; every offering is a possible new node. Domains of a
spread are those of existing nodes and of every node that the pod's selectors allow (as in the solver and in Karpenter
v0.27); the minimum count over hostnames is 0. It ignores preferences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from controller.core.api import labels as keys
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import LabelSelector, Pod, PodAffinityTerm, PodKey, SelectorRequirement, Toleration
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, PricedOffering
from controller.core.provisioning.plan import (
    ExistingPlacement,
    PlannedNode,
    SchedulingPlan,
    SchedulingProblem,
    UnplacedPod,
)
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import StateNode

MODEL = "fresh"
"""Name of a machine that nobody has launched."""


@dataclass
class Machine:
    """A node, or one that could be launched."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    room: Mapping[str, int]
    pods: list[Pod] = field(default_factory=list)
    pool: Provisioner | None = None
    """The Provisioner that launches it; None: an existing node."""
    kind: InstanceType | None = None
    price: float = 0.0
    leaving: bool = False
    """It takes no pods; topology counts the pods it has."""


class Reference:
    """Places the problem's pods, largest first, each where the first machine accepts it."""

    def __init__(self, problem: SchedulingProblem) -> None:
        self.problem = problem
        self.fresh = itertools.count()
        self.daemons = [each.template for each in problem.snapshot.daemon_sets.values()]
        self.models = [self.reserving(each, self.daemons) for each in self.offered()]
        """What can be launched, a name and a hostname short."""
        self.machines = [self.existing(node) for node in problem.nodes]
        names = {*(machine.name for machine in self.machines), *problem.without_nodes}
        leaving = (self.existing(node) for node in problem.snapshot.nodes.values() if node.name not in names)
        self.machines += [replace(machine, leaving=True) for machine in leaving]

    def existing(self, node: StateNode) -> Machine:
        """A node, with room reserved for the daemons that it will run."""
        machine = Machine(node.name, node.node.labels, node.taints, node.allocatable, list(node.pods))
        running = {owner.uid for pod in node.pods for owner in pod.owners}
        return self.reserving(machine, [d for d in self.daemons if d.owners[0].uid not in running])

    def reserving(self, machine: Machine, daemons: Iterable[Pod]) -> Machine:
        """The machine with its room reduced by its daemons' requests."""
        for daemon in daemons:
            if selected(machine, daemon) and all(tolerated(taint, daemon) for taint in machine.taints):
                taken = daemon.spec.requests
                machine.room = {name: amount - taken.get(name, 0) for name, amount in machine.room.items()}
        return machine

    def placed(self) -> set[PodKey]:
        """The pods that found a place: largest first, and again as long as one more finds one."""
        placed: set[PodKey] = set()
        waiting = sorted(self.problem.pending, key=lambda p: (-p.spec.requests["cpu"], p.name))
        while waiting:
            left = [pod for pod in waiting if not self.place(pod)]
            placed |= {pod.key for pod in waiting if pod not in left}
            if len(left) == len(waiting):
                break
            waiting = left
        return placed

    def plan(self) -> SchedulingPlan:
        """Its own placement as a plan, for the auditor to judge."""
        placed = self.placed()
        mine = {machine.name: tuple(p.key for p in machine.pods if p.key in placed) for machine in self.machines}
        return SchedulingPlan(
            tuple(planned_node(m, mine[m.name]) for m in self.machines if m.pool is not None),
            tuple(
                ExistingPlacement(m.name, mine[m.name], "it has room")
                for m in self.machines
                if mine[m.name] and m.pool is None
            ),
            tuple(UnplacedPod(pod.key, "no place") for pod in self.problem.pending if pod.key not in placed),
        )

    def within_limits(self, pool: Provisioner, kind: InstanceType) -> bool:
        """Whether the Provisioner's limits allow one more node of the type."""
        own = [n.capacity for n in self.problem.nodes if n.provisioner_name == pool.name]
        own += [m.kind.capacity for m in self.machines if m.kind is not None and m.pool is pool]
        return all(
            sum(capacity.get(name, 0) for capacity in (*own, kind.capacity)) <= limit
            for name, limit in (pool.limits or {}).items()
        )

    def adopt(self, plan: SchedulingPlan) -> None:
        """Take over what a plan placed."""
        pods = {pod.key: pod for pod in self.problem.pending}
        for existing in plan.existing:
            machine = next(m for m in self.machines if m.name == existing.node)
            machine.pods.extend(pods[key] for key in existing.pods)
        for planned in plan.new_nodes:
            machine = next(
                m
                for m in self.launchable()
                if m.labels[keys.PROVISIONER_NAME] == planned.provisioner
                and m.labels[keys.INSTANCE_TYPE] == planned.offering.instance_type
                and (m.labels[keys.ZONE], m.labels[keys.CAPACITY_TYPE])
                == (planned.offering.zone, planned.offering.capacity_type)
            )
            machine.pods.extend(pods[key] for key in planned.pods)
            self.machines.append(machine)

    def fits_anywhere(self, pod: Pod) -> bool:
        """Whether some machine, existing or new, would take the pod now."""
        machines = [*self.machines, *self.affordable()]
        return any(self.accepts(machine, pod) and not crowds(machine, pod) for machine in machines)

    def place(self, pod: Pod) -> bool:
        """Put one pod somewhere, launching a machine if need be."""
        for machine in self.machines:
            if self.accepts(machine, pod):
                machine.pods.append(pod)
                return True
        for machine in self.affordable():
            if self.accepts(machine, pod):
                self.machines.append(machine)
                machine.pods.append(pod)
                return True
        return False

    def affordable(self) -> Iterator[Machine]:
        """What could be launched within the limits."""
        return (m for m in self.launchable() if m.pool and m.kind and self.within_limits(m.pool, m.kind))

    def launchable(self) -> Iterator[Machine]:
        """One empty machine of each model, with a hostname of its own."""
        for model in self.models:
            name = f"fresh-{next(self.fresh)}"
            yield replace(model, name=name, labels={**model.labels, keys.HOSTNAME: name}, pods=[])

    def offered(self) -> Iterator[Machine]:
        """A machine of every offering of every Provisioner, for every value of its own labels."""
        for pool in sorted(self.problem.provisioners, key=lambda p: -p.weight):
            for kind in self.problem.catalog[pool.name]:
                for offering, chosen in itertools.product(kind.offerings, choices(pool)):
                    labels = {
                        **{key: next(iter(r.values)) for key, r in kind.requirements.items() if r.values},
                        **pool.labels,
                        **chosen,
                        keys.ZONE: offering.zone,
                        keys.CAPACITY_TYPE: offering.capacity_type,
                        keys.PROVISIONER_NAME: pool.name,
                        keys.HOSTNAME: MODEL,
                    }
                    if offering.available and all(holds(r, labels) for r in pool.requirements):
                        yield Machine(MODEL, labels, pool.taints, kind.allocatable, [], pool, kind, offering.price)

    def accepts(self, machine: Machine, pod: Pod) -> bool:
        """Every filter of kube-scheduler that the problem's pods can touch."""
        used = {name: sum(p.spec.requests.get(name, 0) for p in machine.pods) for name in pod.spec.requests}
        return (
            not machine.leaving
            and all(amount + used[name] <= machine.room.get(name, 0) for name, amount in pod.spec.requests.items())
            and all(tolerated(taint, pod) for taint in machine.taints)
            and selected(machine, pod)
            and not any(p.spec.host_ports and set(p.spec.host_ports) & set(pod.spec.host_ports) for p in machine.pods)
            and self.spread(machine, pod)
            and self.affinity(machine, pod)
            and self.anti_affinity(machine, pod)
        )

    def spread(self, machine: Machine, pod: Pod) -> bool:
        """PodTopologySpread."""
        for rule in pod.spec.topology_spread:
            if rule.when_unsatisfiable != "DoNotSchedule":
                continue
            domain = machine.labels.get(rule.topology_key)
            if domain is None:
                return False
            counts: dict[str, int] = {}
            for other in [*self.machines, *self.launchable()]:
                if rule.topology_key in other.labels and selected(other, pod):
                    matching = sum(match(rule.label_selector, p) and p.namespace == pod.namespace for p in other.pods)
                    value = other.labels[rule.topology_key]
                    counts[value] = counts.get(value, 0) + matching
            least = 0 if rule.topology_key == keys.HOSTNAME else min(counts.values(), default=0)
            if rule.min_domains and len(counts) < rule.min_domains:
                least = 0
            if counts.get(domain, 0) + match(rule.label_selector, pod) - least > rule.max_skew:
                return False
        return True

    def affinity(self, machine: Machine, pod: Pod) -> bool:
        """InterPodAffinity, required terms: every term's domain has a pod that matches all terms."""
        terms = pod.spec.required_pod_affinity
        beside = [m for m in self.machines for p in m.pods if all(wants(pod, t, p) for t in terms)]
        if not beside and all(wants(pod, t, pod) for t in terms):
            return all(t.topology_key in machine.labels for t in terms)
        return all(any(same(m, machine, t.topology_key) for m in beside) for t in terms)

    def anti_affinity(self, machine: Machine, pod: Pod) -> bool:
        """InterPodAffinity, anti-affinity of the pod and of all that stand."""
        for other in [*self.machines, machine]:
            for existing in other.pods:
                for one, two in ((pod, existing), (existing, pod)):
                    for term in one.spec.required_pod_anti_affinity:
                        if wants(one, term, two) and same(other, machine, term.topology_key):
                            return False
        return True


def crowds(machine: Machine, pod: Pod) -> bool:
    """Whether a host spread of pods that stand there would no longer hold, were they bound after this one."""
    return any(
        rule.topology_key == keys.HOSTNAME
        and match(rule.label_selector, pod)
        and sum(match(rule.label_selector, p) for p in machine.pods) >= rule.max_skew
        for existing in machine.pods
        for rule in existing.spec.topology_spread
    )


def choices(pool: Provisioner) -> list[dict[str, str]]:
    """The values that a node may get for labels that the Provisioner leaves open (In, of keys of its own)."""
    own = [r for r in pool.requirements if "/" not in r.key and r.operator == "In" and r.key not in pool.labels]
    return [
        dict(zip((r.key for r in own), values, strict=True)) for values in itertools.product(*(r.values for r in own))
    ]


def planned_node(machine: Machine, pods: tuple[PodKey, ...]) -> PlannedNode:
    """A machine to launch as a plan has it."""
    assert machine.pool is not None
    labels, settled = machine.labels, {*machine.pool.labels, *(r.key for r in machine.pool.requirements)}
    kind, zone, capacity_type = (labels[key] for key in (keys.INSTANCE_TYPE, keys.ZONE, keys.CAPACITY_TYPE))
    return PlannedNode(
        provisioner=machine.pool.name,
        offering=PricedOffering(machine.price, kind, zone, capacity_type),
        alternatives=(),
        requirements=Requirements(),
        labels=FrozenMap({key: value for key, value in labels.items() if key in settled}),
        taints=machine.pool.taints,
        startup_taints=machine.pool.startup_taints,
        pods=pods,
        requests=EMPTY,
        reason="the first that would do",
    )


def same(one: Machine, two: Machine, key: str) -> bool:
    return key in one.labels and one.labels.get(key) == two.labels.get(key)


def wants(owner: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    return other.namespace in (term.namespaces or (owner.namespace,)) and match(term.label_selector, other)


def match(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector is not None and all(holds(e, pod.labels) for e in selector.expressions)


def tolerated(taint: Taint, pod: Pod) -> bool:
    return taint.effect == "PreferNoSchedule" or any(covers(t, taint) for t in pod.spec.tolerations)


def covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def selected(machine: Machine, pod: Pod) -> bool:
    """NodeAffinity: nodeSelector, and any of the required terms."""
    if any(machine.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    terms = pod.spec.required_node_affinity
    return terms is None or any(
        term.match_expressions and all(holds(e, machine.labels) for e in term.match_expressions) for term in terms
    )


def holds(expression: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdecimal() and int(value) > int(expression.values[0])
        case _:
            return value is not None and value.isdecimal() and int(value) < int(expression.values[0])
