"""Judge a plan: every constraint that kube-scheduler would enforce, derived again from the Kubernetes rules.

Independent of the packer on purpose: it shares none of its matching, arithmetic or order. Every plan of every test
passes through `audit`, and every plan of the running controller through `judge` (docs/adr/0040).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, PROVISIONER_NAME, ZONE
from controller.core.api.node import Taint
from controller.core.api.pod import HostPort, Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.audit.matching import expression_holds, label_of, node_accepted, ports_clash, untolerated
from controller.core.audit.topology_audit import Board, Place, TooMuchWorkError
from controller.core.audit.volume_audit import VolumeRules
from controller.core.cloud import InstanceType, Offering, PricedOffering
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, UnplacedPod
from controller.core.state.snapshot import StateNode

MOST_WORK = 5_000_000
"""Work units of a `Board` for one plan in the running controller: a few seconds. 5,000 mixed pods take 1.1 million."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    subject: str
    """A pod's `namespace/name`, an existing node's name, `planned[INDEX]` for a new node, or `provisioner NAME`."""
    rule: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.rule}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`plan` is what may be launched: the plan without the nodes that break a rule, with their pods unplaced."""

    plan: SchedulingPlan
    violations: tuple[Violation, ...] = ()
    topology_judged: bool = True
    """Whether spread and pod affinity were judged completely; False where that exceeded the work limit."""


def audit(plan: SchedulingPlan, problem: SchedulingProblem) -> tuple[Violation, ...]:
    """Return every rule that the plan breaks, in a fixed order; none when kube-scheduler would bind the pods so."""
    return tuple(_Audit(plan, problem).violations())


def judge(plan: SchedulingPlan, problem: SchedulingProblem, most_work: int = MOST_WORK) -> Verdict:
    """Audit a plan and take out the nodes, new and existing, that a violation concerns.

    Violations of a Provisioner's limits reject nothing here: each launch is checked against the limits again.
    """
    auditor = _Audit(plan, problem, most_work)
    violations, topology_judged = tuple(auditor.violations()), auditor.topology_judged
    if not violations:
        return Verdict(plan, topology_judged=topology_judged)
    first = {each.subject: each for each in reversed(violations)}

    def violation_on(node: str, pods: Sequence[PodKey]) -> Violation | None:
        return next((first[subject] for subject in (node, *map(_name, pods)) if subject in first), None)

    new = [violation_on(_planned_name(index), node.pods) for index, node in enumerate(plan.new_nodes)]
    existing = [violation_on(each.node, each.pods) for each in plan.existing]
    judged_pods = [
        *zip((node.pods for node in plan.new_nodes), new, strict=True),
        *zip((each.pods for each in plan.existing), existing, strict=True),
    ]
    rejected = tuple(
        UnplacedPod(key, f"the plan for it breaks a rule ({violation}); please report this")
        for pods, violation in judged_pods
        if violation is not None
        for key in pods
    )
    kept = replace(
        plan,
        new_nodes=tuple(node for node, why in zip(plan.new_nodes, new, strict=True) if why is None),
        existing=tuple(each for each, why in zip(plan.existing, existing, strict=True) if why is None),
        unplaced=(*plan.unplaced, *rejected),
        proof=None if rejected else plan.proof,
    )
    return Verdict(kept, violations, topology_judged)


class _Audit:
    def __init__(self, plan: SchedulingPlan, problem: SchedulingProblem, most_work: float = math.inf) -> None:
        self.plan = plan
        self.problem = problem
        self.pods = {pod.key: pod for pod in problem.pending}
        self.nodes = {node.name: node for node in problem.nodes}
        self.provisioners = {p.name: p for p in problem.provisioners}
        self.types = {(name, t.name): t for name, types in problem.catalog.items() for t in types}
        self.daemons = _daemon_pods(problem)
        self.volumes = VolumeRules(problem)
        self.type_labels: dict[tuple[str, str], dict[str, str]] = {}
        """By (Provisioner, instance type): the labels that follow from the type alone."""
        self.most_work = most_work
        self.topology_judged = True

    def violations(self) -> Iterator[Violation]:
        yield from self._bookkeeping()
        for placement in self.plan.existing:
            node = self.nodes.get(placement.node)
            if node is not None:
                yield from self._existing(node, self._known(placement.pods))
        for index, planned in enumerate(self.plan.new_nodes):
            provisioner = self.provisioners.get(planned.provisioner)
            if provisioner is None:
                yield Violation(_planned_name(index), f"its Provisioner {planned.provisioner} is not usable")
            else:
                yield from self._planned(_planned_name(index), planned, provisioner)
        yield from self._limits()
        try:
            yield from self._topology()
        except TooMuchWorkError:
            self.topology_judged = False

    def _known(self, keys: Iterable[PodKey]) -> list[Pod]:
        return [self.pods[key] for key in keys if key in self.pods]

    def _bookkeeping(self) -> Iterator[Violation]:
        seen: Counter[PodKey] = Counter(u.pod for u in self.plan.unplaced)
        for keys in (*(e.pods for e in self.plan.existing), *(n.pods for n in self.plan.new_nodes)):
            seen.update(keys)
        for key in sorted(set(seen) | set(self.pods)):
            if key not in self.pods:
                yield Violation(_name(key), "the plan names a pod that was not pending")
            elif seen[key] != 1:
                yield Violation(_name(key), f"the plan names it {seen[key]} times, not once")
        for unplaced in self.plan.unplaced:
            if not unplaced.reason:
                yield Violation(_name(unplaced.pod), "it is left pending without a reason")
        for placement in self.plan.existing:
            if placement.node not in self.nodes:
                yield Violation(placement.node, "the plan uses a node that may not take pods")
        for index, planned in enumerate(self.plan.new_nodes):
            if not planned.pods:
                yield Violation(_planned_name(index), "it would be launched for no pod")
            if not planned.reason:
                yield Violation(_planned_name(index), "it carries no reason")

    def _existing(self, node: StateNode, pods: list[Pod]) -> Iterator[Violation]:
        standing = [p for p in node.pods if p.key not in self.pods]
        used = _total(p.spec.requests for p in (*standing, *pods))
        yield from _overfull(node.name, used, node.allocatable, _total(p.spec.requests for p in pods))
        labels = _node_labels(node)
        for pod in pods:
            yield from self._admitted(pod, labels, node.name, node.taints)
            if node.node.unschedulable and untolerated((_CORDONED,), pod.spec.tolerations):
                yield Violation(_name(pod.key), f"node {node.name} is cordoned")
        yield from _ports(node.name, standing, pods)
        yield from (Violation(node.name, text) for text in self.volumes.over_limit(node.name, standing, pods))

    def _planned(self, subject: str, planned: PlannedNode, provisioner: Provisioner) -> Iterator[Violation]:
        pods = self._known(planned.pods)
        distinct = _distinct(pods)
        missing = [t for t in provisioner.taints if t not in planned.taints]
        if missing:
            yield Violation(subject, f"it leaves out the Provisioner's taint {missing[0].key}")
        asked = _total(p.spec.requests for p in pods)
        with_ports = [pod for pod in pods if pod.spec.host_ports]
        with_volumes = [pod for pod in pods if pod.volumes]
        labels_by_offering = []
        for offering in (planned.offering, *planned.alternatives):
            kind = self.types.get((planned.provisioner, offering.instance_type))
            if kind is None:
                yield Violation(subject, f"{offering.instance_type} is not in the Provisioner's catalog")
                continue
            yield from self._offered(subject, kind, offering)
            labels = self._planned_labels(planned, kind, offering, subject)
            labels_by_offering.append(labels)
            yield from _within_provisioner(subject, provisioner, labels, offering)
            daemons = self._daemons_on(planned, labels, subject)
            used = _total((asked, *(daemon.spec.requests for daemon in daemons)))
            yield from _overfull(subject, used, kind.allocatable, asked, f"as {kind.name}: ")
            yield from _ports(subject, daemons, with_ports)
            for text in self.volumes.over_limit_of_type(kind.name, with_volumes):
                yield Violation(subject, f"as {kind.name}: {text}")
            for pod in distinct:
                yield from self._admitted(pod, labels, subject, planned.taints)
        for key in sorted(_topology_keys(distinct)):
            if len({label_of(labels, key) for labels in labels_by_offering}) > 1:
                yield Violation(subject, f"its alternatives leave {key} open, on which its pods' topology rests")
        yield from (Violation(subject, text) for text in self.volumes.shared_host(pods))

    def _offered(self, subject: str, kind: InstanceType, offering: PricedOffering) -> Iterator[Violation]:
        known = [o for o in kind.offerings if (o.zone, o.capacity_type) == (offering.zone, offering.capacity_type)]
        if not known or not known[0].available:
            yield Violation(subject, f"{kind.name} is not available as {offering.capacity_type} in {offering.zone}")
        elif all(abs(price - offering.price) > 1e-9 for price in _prices(known[0])):
            yield Violation(subject, f"{kind.name} costs {known[0].price}, not {offering.price}")

    def _daemons_on(self, planned: PlannedNode, labels: Mapping[str, str], subject: str) -> list[Pod]:
        return [
            daemon
            for daemon in self.daemons
            if node_accepted(daemon.spec, labels, subject)
            and untolerated(planned.taints, daemon.spec.tolerations) is None
        ]

    def _admitted(
        self, pod: Pod, labels: Mapping[str, str], node_name: str, taints: tuple[Taint, ...]
    ) -> Iterator[Violation]:
        if pod.spec.malformed:
            yield Violation(_name(pod.key), f"it is malformed ({pod.spec.malformed[0]}) and may not be placed")
        if pod.spec.unsupported:
            yield Violation(_name(pod.key), f"it may not be placed: {pod.spec.unsupported[0]}")
        if pod.spec.gated:
            yield Violation(_name(pod.key), "it has scheduling gates")
        if not node_accepted(pod.spec, labels, node_name):
            yield Violation(_name(pod.key), f"{node_name} does not match its node selector or required node affinity")
        if (taint := untolerated(taints, pod.spec.tolerations)) is not None:
            yield Violation(
                _name(pod.key), f"it does not tolerate {taint.key}={taint.value}:{taint.effect} of {node_name}"
            )
        if refused := self.volumes.refusal(pod, labels, node_name):
            yield Violation(_name(pod.key), f"{node_name}: {refused}")

    def _limits(self) -> Iterator[Violation]:
        planned: dict[str, Counter[str]] = defaultdict(Counter)
        for node in self.plan.new_nodes:
            if (kind := self.types.get((node.provisioner, node.offering.instance_type))) is not None:
                planned[node.provisioner].update(kind.capacity)
        for name, added in sorted(planned.items()):
            provisioner = self.provisioners.get(name)
            if provisioner is None or provisioner.limits is None:
                continue
            used = _total(n.capacity for n in self.problem.nodes if n.provisioner_name == name and not n.leaving)
            for resource, limit in sorted(provisioner.limits.items()):
                if added[resource] and used[resource] + added[resource] > limit:
                    total = used[resource] + added[resource]
                    yield Violation(f"provisioner {name}", f"{resource} would be {total} of a limit of {limit}")

    def _topology(self) -> Iterator[Violation]:
        places: dict[str, Place] = {}
        for node in self._standing_nodes():
            standing = [pod for pod in node.pods if pod.key not in self.pods]
            places[node.name] = Place(node.name, _node_labels(node), node.taints, standing)
        waiting: list[tuple[Pod, Place]] = []
        for placement in self.plan.existing:
            if placement.node in places:
                waiting += [(pod, places[placement.node]) for pod in self._known(placement.pods)]
        for index, planned in enumerate(self.plan.new_nodes):
            if (kind := self.types.get((planned.provisioner, planned.offering.instance_type))) is None:
                continue
            name = _planned_name(index)
            place = Place(name, self._planned_labels(planned, kind, planned.offering, name), planned.taints)
            places[name] = place
            waiting += [(pod, place) for pod in self._known(planned.pods)]
        board = Board(places.values(), self.problem.snapshot.namespaces, self.most_work)
        yield from _stuck(board, waiting)

    def _planned_labels(
        self, planned: PlannedNode, kind: InstanceType, offering: PricedOffering, hostname: str
    ) -> dict[str, str]:
        """Return the labels that the node will have if the fleet gives this offering."""
        if (own := self.type_labels.get((planned.provisioner, kind.name))) is None:
            single = {
                key: next(iter(requirement.values))
                for key, requirement in kind.requirements.items()
                if not requirement.complement and len(requirement.values) == 1
            }
            own = self.type_labels[planned.provisioner, kind.name] = single
        return {
            **own,
            **planned.labels,
            INSTANCE_TYPE: kind.name,
            ZONE: offering.zone,
            CAPACITY_TYPE: offering.capacity_type,
            PROVISIONER_NAME: planned.provisioner,
            HOSTNAME: hostname,
        }

    def _standing_nodes(self) -> list[StateNode]:
        """Return nodes whose pods and domains count; kube-scheduler counts a leaving node until it is gone."""
        gone = self.problem.without_nodes
        known = {n.name: n for n in self.problem.snapshot.nodes.values() if n.name not in gone}
        known.update(self.nodes)
        return [known[name] for name in sorted(known)]


_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def _stuck(board: Board, waiting: list[tuple[Pod, Place]]) -> Iterator[Violation]:
    """Add the pods in any order that works; those that never can be added break a topology rule.

    Pods with rules of their own go first: kube-scheduler may bind those that have none, and only count, after them.
    Groups of pods whose spreads count each other can block an arbitrary order although another one works. Pods that
    only a spread refuses are therefore added together, and judged afterwards.
    """
    refused = _refused(board, [each for each in waiting if _has_rules(each[0])])
    refused = _refused(board, [*refused, *(each for each in waiting if not _has_rules(each[0]))])
    while refused:
        held_by_spread = [each for each in refused if board.refusal_but_for_spread(*each) is None]
        if not held_by_spread:
            for pod, place in refused:
                yield Violation(_name(pod.key), f"{place.name}: {board.refusal(pod, place)}")
            return
        for pod, place in held_by_spread:
            board.add(pod, place)
        for pod, place in held_by_spread:
            if reason := board.uneven(pod, place):
                yield Violation(_name(pod.key), f"{place.name}: {reason}")
        added = {pod.key for pod, _ in held_by_spread}
        refused = _refused(board, [each for each in refused if each[0].key not in added])


def _refused(board: Board, waiting: list[tuple[Pod, Place]]) -> list[tuple[Pod, Place]]:
    """Add pods until no more can be added; return those that are left."""
    while waiting:
        refused = [(pod, place) for pod, place in waiting if not _added(board, pod, place)]
        if len(refused) == len(waiting):
            break
        waiting = refused
    return waiting


def _has_rules(pod: Pod) -> bool:
    spec = pod.spec
    return bool(spec.topology_spread or spec.required_pod_affinity or spec.required_pod_anti_affinity)


def _added(board: Board, pod: Pod, place: Place) -> bool:
    if board.refusal(pod, place) is not None:
        return False
    board.add(pod, place)
    return True


def _name(key: PodKey) -> str:
    return f"{key[0]}/{key[1]}"


def _planned_name(index: int) -> str:
    return f"planned[{index}]"


def _distinct(pods: Iterable[Pod]) -> list[Pod]:
    """Return one of all pods that share a spec and have no volumes, and each pod that has some."""
    distinct: dict[object, Pod] = {}
    for pod in pods:
        distinct.setdefault(pod.key if pod.volumes else id(pod.spec), pod)
    return list(distinct.values())


def _topology_keys(pods: Iterable[Pod]) -> set[str]:
    """Node labels by which the pods' hard spreads and required pod (anti-)affinity count, hostnames aside."""
    keys: set[str] = set()
    for spec in (pod.spec for pod in pods):
        keys |= {c.topology_key for c in spec.topology_spread if c.when_unsatisfiable == "DoNotSchedule"}
        keys |= {t.topology_key for t in (*spec.required_pod_affinity, *spec.required_pod_anti_affinity)}
    return keys - {HOSTNAME}


def _total(many: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for resources in many:
        total.update(resources)
    return total


def _overfull(
    subject: str, used: Mapping[str, int], allocatable: Mapping[str, int], asked: Mapping[str, int], where: str = ""
) -> Iterator[Violation]:
    for resource in sorted(asked):
        if asked[resource] > 0 and used[resource] > allocatable.get(resource, 0):
            yield Violation(subject, f"{where}{resource}: {used[resource]} used of {allocatable.get(resource, 0)}")


def _node_labels(node: StateNode) -> Mapping[str, str]:
    """Return a node's labels; one that has not registered yet will get its name as hostname label from its kubelet."""
    labels = node.node.labels
    if HOSTNAME in labels or node.initialized:
        return labels
    return {**labels, HOSTNAME: node.name}


def _prices(offering: Offering) -> tuple[float, ...]:
    """Return what an offering may cost in a plan: beyond a commitment it is another price."""
    return (offering.price,) if offering.commitment is None else (offering.price, offering.commitment.otherwise)


def _within_provisioner(
    subject: str, provisioner: Provisioner, labels: Mapping[str, str], offering: PricedOffering
) -> Iterator[Violation]:
    where = f"{offering.instance_type}/{offering.zone}/{offering.capacity_type}"
    for expression in provisioner.requirements:
        if not expression_holds(expression, label_of(labels, expression.key)):
            yield Violation(
                subject, f"{where} breaks {expression.key} {expression.operator} of Provisioner {provisioner.name}"
            )
    for key, value in provisioner.labels.items():
        if labels.get(key) != value:
            yield Violation(subject, f"it lacks the label {key}={value} of Provisioner {provisioner.name}")


def _ports(subject: str, standing: Iterable[Pod], pods: Iterable[Pod]) -> Iterator[Violation]:
    taken: list[tuple[HostPort, Pod]] = [(port, pod) for pod in standing for port in pod.spec.host_ports]
    for pod in pods:
        for port in pod.spec.host_ports:
            for other, holder in taken:
                if ports_clash(port, other):
                    yield Violation(subject, f"host port {port.port} of {_name(pod.key)} is {_name(holder.key)}'s")
        taken += [(port, pod) for port in pod.spec.host_ports]


def _daemon_pods(problem: SchedulingProblem) -> list[Pod]:
    """Return one pod for each DaemonSet: its newest live pod, as admission changed it, else that of its template.

    A live pod's node affinity names its own node (the DaemonSet controller pins it), so placement rules are the
    template's and only the requests and ports are the live pod's.
    """
    newest: dict[str, Pod] = {}
    for pod in problem.snapshot.pods.values():
        for owner in pod.owners:
            held = newest.get(owner.uid)
            if owner.kind == "DaemonSet" and (held is None or (pod.created, pod.key) > (held.created, held.key)):
                newest[owner.uid] = pod
    return [_as_it_runs(d.template, newest.get(d.uid)) for d in problem.snapshot.daemon_sets.values()]


def _as_it_runs(template: Pod, live: Pod | None) -> Pod:
    if live is None:
        return template
    return replace(template, spec=replace(template.spec, requests=live.spec.requests, host_ports=live.spec.host_ports))
