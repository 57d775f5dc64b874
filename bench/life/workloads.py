"""The workloads: ReplicaSets, a DaemonSet, PodDisruptionBudgets, and kubelets that start and end pods and nodes."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from bench.life.day import Day, Object
from bench.life.memory_kube import Document, MemoryKube, timestamp
from bench.life.virtual_time import VirtualTime
from controller.core.cloud import CloudInstance, InstanceType
from controller.errors import TooManyRequestsError
from controller.kube.resources import DAEMON_SETS, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from sandbox.world.controllers.replicaset import deletion_rank
from sandbox.world.scheduling.selectors import LabelSelector

READY_SECONDS = (7.5, 10.5)
"""From launch to Ready, at least and at most: nodes that are launched together are not Ready together."""
START_SECONDS = 1.0
"""From binding to running."""
END_SECONDS = 1.0
"""terminationGracePeriodSeconds of every pod."""
WRITES_A_SECOND = 200.0
"""Pods that the workload controllers make or delete."""
LAG_SECONDS = 0.02
"""Until a controller has seen a change and answered it."""

DAEMON = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]
"""Tolerations that the DaemonSet controller adds to its pods."""


@dataclass(slots=True)
class Waits:
    """Seconds from creation to binding, one for each pod that was bound: (when it was bound, seconds)."""

    bound: list[tuple[float, float]] = field(default_factory=list)
    created: dict[str, float] = field(default_factory=dict)
    """Of pods that wait, by uid."""


class Workloads:
    """The workload controllers and the kubelets. `chance` draws how long a node takes to become Ready."""

    def __init__(self, day: Day, kube: MemoryKube, time: VirtualTime, chance: random.Random) -> None:
        self.day, self.kube, self.time, self.chance = day, kube, time, chance
        self.wanted: Counter[str] = Counter()
        self.waits = Waits()
        self.evictions: list[tuple[float, str]] = []
        """(when, uid of the pod) of evictions that were accepted."""
        self.refused_evictions = 0
        self.lost = 0
        """Pods that ended although nobody scaled them down."""
        self._own: defaultdict[str, dict[str, Document]] = defaultdict(dict)
        """Pods of each Deployment by uid, ended ones left out."""
        self._numbers = itertools.count(1)
        self._next_write = 0.0
        self._templates = {each["metadata"]["name"]: each["spec"]["template"] for each in day.deployments}
        self._selectors = {each["metadata"]["name"]: _selector(each) for each in day.budgets}
        self._budgets_due = False
        self._daemon_sets: list[Document] = []
        kube.end_pod, kube.evict_pod, kube.bind_pod = self._end, self._evict, self.bind
        kube.listeners.append(self._heard)

    def begin(self) -> None:
        """Make what is there before the first second."""
        self._daemon_sets = [self.kube.put(DAEMON_SETS, each) for each in self.day.daemon_sets]
        for name in self._templates:
            self.kube.put(REPLICA_SETS, {"metadata": {"name": name, "namespace": self.day.namespace}})
        for each in self.day.budgets:
            self.kube.put(POD_DISRUPTION_BUDGETS, each)
        self._update_budgets()

    def scale(self, replicas: dict[str, int]) -> None:
        """Ask for these replicas; the controllers write in turn."""
        self.wanted = Counter(replicas)
        missing = {name: count - len(self._active(name)) for name, count in replicas.items()}
        for name in _in_turn({name: count for name, count in missing.items() if count > 0}):
            self._soon(lambda name=name: self._fill(name, 1))
        for name, count in missing.items():
            for _ in range(-count):
                self._soon(lambda name=name: self._shrink(name))

    def bind(self, pod: Document, node: str) -> None:
        """What a binding does, kube-scheduler's or the controller's."""
        now, uid = self.time.clock.now(), pod["metadata"]["uid"]
        created = self.waits.created.pop(uid, None)
        if created is not None:
            self.waits.bound.append((now, now - created))
        self.kube.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})
        self.time.at(now + START_SECONDS, lambda: self._run(uid, pod["metadata"]["name"]))

    def instance_launched(self, instance: CloudInstance, kind: InstanceType) -> None:
        """Its kubelet joins later."""
        ready_at = self.time.clock.now() + self.chance.uniform(*READY_SECONDS)
        self.time.at(ready_at, lambda: self._join(instance, kind))

    def waiting(self) -> list[Document]:
        """Pods without a node, oldest first."""
        return [p for p in self.kube.all(PODS) if not p["spec"].get("nodeName") and not _ends(p)]

    # ReplicaSets

    def _active(self, name: str) -> list[Document]:
        return [pod for pod in self._own[name].values() if not _ends(pod)]

    def _soon(self, write: Any) -> None:
        self._next_write = max(self._next_write, self.time.clock.now() + LAG_SECONDS) + 1.0 / WRITES_A_SECOND
        self.time.at(self._next_write, write)

    def _fill(self, name: str, most: int) -> None:
        for _ in range(min(most, self.wanted[name] - len(self._active(name)))):
            self._make(name)

    def _make(self, name: str) -> None:
        template, number, now = self._templates[name], next(self._numbers), self.time.clock.now()
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"set-{name}", "controller": True}
        metadata = {
            **template["metadata"],
            "name": f"{name}-{number}",
            "namespace": self.day.namespace,
            "uid": f"pod-{number}",
            "ownerReferences": [owner],
        }
        self.waits.created[f"pod-{number}"] = now
        self.kube.put(PODS, {"metadata": metadata, "spec": template["spec"], "status": {"phase": "Pending"}})

    def _shrink(self, name: str) -> None:
        active = self._active(name)
        if len(active) > self.wanted[name]:
            self._end(min(active, key=lambda pod: deletion_rank(pod, active)))

    # Pods and nodes

    def _run(self, uid: str, name: str) -> None:
        pod = self.kube.find(PODS, name, self.day.namespace)
        if pod is not None and pod["metadata"]["uid"] == uid and not _ends(pod):
            since = timestamp(self.time.clock.now())
            conditions = [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
                {"type": "Ready", "status": "True", "lastTransitionTime": since},
            ]
            self.kube.put(PODS, {**pod, "status": {"phase": "Running", "conditions": conditions, "startTime": since}})

    def _end(self, pod: Document) -> None:
        if _ends(pod):
            return
        if not pod["spec"].get("nodeName"):
            self._gone(pod)
            return
        now = self.time.clock.now()
        going = {"deletionTimestamp": timestamp(now + END_SECONDS), "deletionGracePeriodSeconds": int(END_SECONDS)}
        self.kube.put(PODS, {**pod, "metadata": {**pod["metadata"], **going}})
        self.time.at(now + END_SECONDS, lambda: self._gone(pod))

    def _gone(self, pod: Document) -> None:
        present = self.kube.find(PODS, pod["metadata"]["name"], self.day.namespace)
        if present is not None and present["metadata"]["uid"] == pod["metadata"]["uid"]:
            self.waits.created.pop(pod["metadata"]["uid"], None)
            self.kube.remove(PODS, present)

    def _join(self, instance: CloudInstance, kind: InstanceType) -> None:
        """The kubelet says what it has; the not-ready taint goes; the DaemonSets' pods come."""
        node = self.kube.find(NODES, instance.node_name)
        if node is None or instance.provider_id != node["spec"].get("providerID"):
            return
        spec = node["spec"]
        taints = [each for each in spec.get("taints") or () if each["key"] != "node.kubernetes.io/not-ready"]
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        ready["lastTransitionTime"] = timestamp(self.time.clock.now())
        status = {"capacity": _written(kind.capacity), "allocatable": _written(kind.allocatable), "conditions": [ready]}
        self.kube.put(NODES, {**node, "spec": {**spec, "taints": taints}, "status": status})
        for each in self._daemon_sets:
            template, name, uid = each["spec"]["template"], each["metadata"]["name"], each["metadata"]["uid"]
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid}
            metadata = {
                **template["metadata"],
                "name": f"{name}-{instance.id}",
                "namespace": self.day.namespace,
                "ownerReferences": [{**owner, "controller": True}],
            }
            spec_of_pod = {**template["spec"], "tolerations": [*(template["spec"].get("tolerations") or ()), *DAEMON]}
            made = self.kube.put(PODS, {"metadata": metadata, "spec": spec_of_pod, "status": {"phase": "Pending"}})
            self.bind(made, instance.node_name)

    def _heard(self, kind: str, change: str, document: Document) -> None:
        if kind == NODES.kind and change == "DELETED":
            self._node_gone(document["metadata"]["name"])
        elif kind == PODS.kind and (name := _deployment(document)):
            if change == "DELETED":
                self._own[name].pop(document["metadata"]["uid"], None)
            else:
                self._own[name][document["metadata"]["uid"]] = document
            if not self._budgets_due:
                self._budgets_due = True
                self.time.at(self.time.clock.now() + LAG_SECONDS, self._update_budgets)

    def _node_gone(self, node: str) -> None:
        for pod in self.kube.all(PODS):
            if pod["spec"].get("nodeName") == node:
                name = _deployment(pod)
                self.lost += bool(name) and not _ends(pod)
                self.kube.remove(PODS, pod)
                if name:
                    self._soon(lambda name=name: self._fill(name, 1))

    # Budgets

    def _evict(self, pod: Document) -> None:
        if _ends(pod):
            return
        for budget in self.kube.all(POD_DISRUPTION_BUDGETS):
            if not self._covers(budget, pod) or pod["status"].get("phase") == "Pending":
                continue
            allowed = budget["status"]["disruptionsAllowed"]
            if allowed <= 0:
                self.refused_evictions += 1
                raise TooManyRequestsError("Cannot evict pod as it would violate the pod's disruption budget.", 429)
            status = {**budget["status"], "disruptionsAllowed": allowed - 1}
            self.kube.put(POD_DISRUPTION_BUDGETS, {**budget, "status": status})
        self.evictions.append((self.time.clock.now(), pod["metadata"]["uid"]))
        self._end(pod)
        if name := _deployment(pod):
            self.lost += 1
            self._soon(lambda: self._fill(name, 1))

    def _update_budgets(self) -> None:
        self._budgets_due = False
        for budget in self.kube.all(POD_DISRUPTION_BUDGETS):
            expected = healthy = 0
            for name, template in self._templates.items():
                if self._covers(budget, template):
                    expected += self.wanted[name]
                    healthy += sum(map(_ready, self._active(name)))
            most = budget["spec"].get("maxUnavailable", 0)
            unavailable = math.ceil(expected * int(most[:-1]) / 100) if isinstance(most, str) else most
            status = {"disruptionsAllowed": max(0, healthy - (expected - unavailable)), "observedGeneration": 1}
            if status != budget.get("status"):
                self.kube.put(POD_DISRUPTION_BUDGETS, {**budget, "status": status})

    def _covers(self, budget: Document, pod: Object) -> bool:
        selector = self._selectors[budget["metadata"]["name"]]
        return selector is not None and selector.matches(pod["metadata"].get("labels") or {})


def _in_turn(counts: dict[str, int]) -> list[str]:
    """Each name as often as its count, the names in turn."""
    rounds = max(counts.values(), default=0)
    return [name for number in range(rounds) for name, count in counts.items() if number < count]


def _selector(budget: Object) -> LabelSelector | None:
    return LabelSelector.parse(budget["spec"]["selector"])


def _ends(pod: Document) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _ready(pod: Document) -> bool:
    return any(each["type"] == "Ready" for each in pod["status"].get("conditions") or ())


def _deployment(pod: Document) -> str:
    """The name of its ReplicaSet; empty without one."""
    owner = (pod["metadata"].get("ownerReferences") or [{}])[0]
    return str(owner["name"]) if owner.get("kind") == "ReplicaSet" else ""


def _written(resources: Any) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in resources.items()}
