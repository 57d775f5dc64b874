"""A search through all plans for a few pods, to hold the solver's proofs against.

It shares only values with the solver, and knows node selectors on zone and capacity type, tolerations of everything,
DaemonSets that run everywhere, and spread, affinity and anti-affinity over zones and hosts. Rules must hold once all
pods are placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from controller.core.api import labels as keys
from controller.core.api.pod import LabelSelector, Pod
from controller.core.api.provisioner import Provisioner
from controller.core.provisioning.plan import SchedulingProblem, SolveOptions


@dataclass
class Machine:
    """A node. room: of an existing one. pool: launches a new one, of the cheapest type that holds its pods."""

    name: str
    zone: str
    room: Mapping[str, int] = field(default_factory=dict)
    running: tuple[Pod, ...] = ()
    pool: Provisioner | None = None
    pods: list[Pod] = field(default_factory=list)


def cheaper_plan(problem: SchedulingProblem, options: SolveOptions, than: float) -> list[Machine] | None:
    """A plan for all pending pods that costs less than this ($/hour), if there is one."""
    return _Search(problem, options).below(than)


class _Search:
    """Places one pod after the other; of equal pods each goes to the same machine as the one before it, or a later."""

    def __init__(self, problem: SchedulingProblem, options: SolveOptions) -> None:
        self.problem = problem
        self.options = options
        self.pods = sorted(problem.pending, key=lambda pod: pod.labels["app"])
        self.daemons = [each.template for each in problem.snapshot.daemon_sets.values()]
        self.zones = sorted({o.zone for types in problem.catalog.values() for t in types for o in t.offerings})
        self.machines = [
            Machine(node.name, node.node.labels[keys.ZONE], _without(node.allocatable, node.pods), node.pods)
            for node in problem.nodes
        ]
        self.costs: dict[object, float] = {}

    def below(self, most: float) -> list[Machine] | None:
        return self._place(0, 0, most)

    def _place(self, number: int, first: int, most: float) -> list[Machine] | None:
        if sum(map(self._cost, self.machines)) >= most:
            return None
        if number == len(self.pods):
            return [replace(each, pods=[*each.pods]) for each in self.machines] if self._holds() else None
        pod, known = self.pods[number], len(self.machines)
        start = first if number and pod.labels == self.pods[number - 1].labels else 0
        for place, machine in enumerate([*self.machines, *self._fresh(known)]):
            if place < start or not _admits(machine, pod):
                continue
            if place >= known:
                self.machines.append(machine)
            machine.pods.append(pod)
            found = self._place(number + 1, min(place, known), most)
            machine.pods.pop()
            del self.machines[known:]
            if found:
                return found
        return None

    def _fresh(self, number: int) -> Iterator[Machine]:
        for pool in self.problem.provisioners:
            yield from (Machine(f"new-{number}", zone, pool=pool) for zone in self.zones)

    def _cost(self, machine: Machine) -> float:
        """$/hour of the cheapest type that holds the machine's pods; infinite if there is none."""
        if machine.pool is None:
            return 0.0 if _fits(machine.room, machine.pods) else float("inf")
        key = (machine.pool.name, machine.zone, tuple(sorted(pod.labels["app"] for pod in machine.pods)))
        if key not in self.costs:
            wanted = {pod.spec.node_selector.get(keys.CAPACITY_TYPE) for pod in machine.pods} - {None}
            load = [*machine.pods, *self.daemons]
            used = self.options.cpu_use * _total(load)["cpu"] / 1000
            prices = [
                offering.price + (kind.credits.surplus(used) if kind.credits else 0.0)
                for kind in self.problem.catalog[machine.pool.name]
                if _fits(kind.allocatable, load)
                for offering in kind.offerings
                if offering.zone == machine.zone and wanted <= {offering.capacity_type}
            ]
            self.costs[key] = min(prices, default=float("inf")) + self.options.node_cost_per_hour
        return self.costs[key]

    def _holds(self) -> bool:
        """Whether every rule between pods holds."""
        return all(self._holds_for(pod) for pod in {pod.labels["app"]: pod for pod in self.pods}.values())

    def _holds_for(self, pod: Pod) -> bool:
        app = pod.labels["app"]
        for rule in pod.spec.topology_spread:
            counts, own = self._counts(rule.topology_key, rule.label_selector, app)
            least = 0 if rule.topology_key == keys.HOSTNAME else min(counts[zone] for zone in self.zones)
            if any(counts[domain] > least + rule.max_skew for domain in own):
                return False
        for term in pod.spec.required_pod_anti_affinity:
            counts, own = self._counts(term.topology_key, term.label_selector, app)
            if any(counts[domain] > 1 for domain in own):
                return False
        for term in pod.spec.required_pod_affinity:
            counts, own = self._counts(term.topology_key, term.label_selector, app)
            if len(own) > 1 and any(counts[domain] <= own[domain] for domain in own):
                return False
            if any(counts[other] for other in counts if other not in own) and any(
                counts[domain] <= own[domain] for domain in own
            ):
                return False
        return True

    def _counts(self, key: str, selector: LabelSelector | None, app: str) -> tuple[Counter[str], Counter[str]]:
        """By domain, the pods that a selector matches, and the planned ones of an application."""
        matched, own = Counter[str](), Counter[str]()
        for machine in self.machines:
            domain = machine.zone if key == keys.ZONE else machine.name
            own[domain] += sum(pod.labels["app"] == app for pod in machine.pods)
            matched[domain] += sum(_matches(selector, pod) for pod in (*machine.pods, *machine.running))
        return matched, +own


def _matches(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector is not None and all(pod.labels.get(each.key) in each.values for each in selector.expressions)


def _admits(machine: Machine, pod: Pod) -> bool:
    taints = machine.pool.taints if machine.pool else ()
    return pod.spec.node_selector.get(keys.ZONE, machine.zone) == machine.zone and (
        not taints or bool(pod.spec.tolerations)
    )


def _without(room: Mapping[str, int], pods: tuple[Pod, ...]) -> dict[str, int]:
    used = _total(pods)
    return {name: amount - used[name] for name, amount in room.items()}


def _fits(room: Mapping[str, int], pods: list[Pod]) -> bool:
    return all(room.get(name, 0) >= amount for name, amount in _total(pods).items())


def _total(pods: list[Pod] | tuple[Pod, ...]) -> Counter[str]:
    total = Counter[str]()
    for pod in pods:
        total.update(dict(pod.spec.requests))
    return total
