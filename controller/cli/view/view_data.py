"""The data of the view: nodes with use and price, limits, pending pods with reasons, decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.cli.cluster import costs_report
from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.cluster.dry_run import dry_run
from controller.cli.cluster.limits_report import LimitStatus, limit_statuses
from controller.cli.cluster.node_facts import NodeFacts, node_facts
from controller.cli.cluster.workload_costs import Costs, costs_of, workload_of
from controller.cli.formatting import HOURS_A_MONTH
from controller.core.api.pod import Pod, PodKey
from controller.core.api.quantity import format_quantity
from controller.core.decisions.decision import Entry
from controller.core.provisioning.problem import provisionable
from controller.core.provisioning.solver.reasons import NO_PROVISIONER

ALWAYS = ("cpu", "memory")
SORTS = ("price", "name", "age", "type", "zone", "owner", "pods", *ALWAYS)
MOST_PLANNED = 2000
"""With more pending pods than this no plan is made, so that the view stays responsive: reasons are left out."""


@dataclass(frozen=True, slots=True)
class Waiting:
    workload: str
    pods: int
    reason: str


@dataclass(frozen=True, slots=True)
class View:
    """The cluster at one moment. `resources`: those to show, cpu and memory first."""

    nodes: tuple[NodeFacts, ...]
    waiting: tuple[Waiting, ...]
    decisions: tuple[Entry, ...]
    resources: tuple[str, ...]
    now: float
    notes: tuple[str, ...] = ()
    limits: tuple[LimitStatus, ...] = ()
    warnings: tuple[str, ...] = ()
    """Problems of reading: no answer, missing rights, lists that have not come yet."""
    costs: Costs | None = None
    """Of the nodes that `-l` selects; None while the pods are not known."""
    listing: bool = False
    """Whether the first lists are not complete yet."""

    @property
    def price_per_hour(self) -> float:
        """$/hour of the nodes whose price is known."""
        return sum(node.price_per_hour for node in self.nodes if node.price_per_hour is not None)

    @property
    def unpriced(self) -> int:
        return sum(node.price_per_hour is None for node in self.nodes)

    def use(self, resource: str) -> float:
        """Return requested / allocatable of all nodes together."""
        have = sum(node.allocatable.get(resource, 0) for node in self.nodes)
        return sum(node.requested.get(resource, 0) for node in self.nodes) / have if have else 0.0


@dataclass(frozen=True, slots=True)
class Assessment:
    """What planning says about a state: why pods are pending, and how far limits are used."""

    waiting: tuple[Waiting, ...] = ()
    limits: tuple[LimitStatus, ...] = ()


def assess(cluster: ClusterView, now: float) -> Assessment:
    """Assess a cluster by the controller's own first plan (budget 0). `now` in Unix seconds."""
    pods = [pod for pod in cluster.snapshot.pods.values() if provisionable(pod, cluster.snapshot)]
    if not 0 < len(pods) <= MOST_PLANNED:
        return Assessment(tuple(_waiting(pods, {})), limit_statuses(cluster, now))
    plan = cluster.first_plan(cluster.problem())
    outcome = dry_run(cluster, plan, now)
    reasons = outcome.reasons()
    if not cluster.snapshot.provisioners:  # not our cluster: show only what its existing nodes lack
        reasons = {pod: reason.removeprefix(f"{NO_PROVISIONER}. ") for pod, reason in reasons.items()}
    return Assessment(tuple(_waiting(pods, reasons)), limit_statuses(cluster, now, outcome.guards))


def view_of(
    cluster: ClusterView,
    assessment: Assessment,
    decisions: tuple[Entry, ...],
    now: float,
    names: Collection[str] | None = None,
    warnings: tuple[str, ...] = (),
    *,
    listing: bool = False,
) -> View:
    """Return the view of a cluster at `now`; `names`: only these nodes (None: all). `listing`: more is to come."""
    prices = cluster.prices
    chosen = [node for node in cluster.snapshot.nodes.values() if names is None or node.name in names]
    nodes = tuple(node_facts(node, prices, now) for node in chosen)
    notes = (*warnings, *cluster.price_notes)
    costs = None if listing else costs_of(chosen, prices)
    return View(
        nodes, assessment.waiting, decisions, _resources(nodes), now, notes, assessment.limits, warnings, costs, listing
    )


def _resources(nodes: Iterable[NodeFacts]) -> tuple[str, ...]:
    """Return cpu, memory and the nodes' extended resources."""
    others = {name for node in nodes for name in node.allocatable if "/" in name and not name.startswith("hugepages")}
    return (*ALWAYS, *sorted(others))


def _waiting(pods: Iterable[Pod], reasons: Mapping[PodKey, str]) -> Iterable[Waiting]:
    """Yield the pending pods by workload and reason; most pods first."""
    counted = Counter((workload_of(pod), reasons.get(pod.key, "pending")) for pod in pods)
    for (workload, reason), number in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0])):
        yield Waiting(workload, number, reason)


def ordered(view: View, by: str, *, reverse: bool = False) -> tuple[NodeFacts, ...]:
    """Return the nodes in one of SORTS: numbers descending, words ascending."""
    keys: Mapping[str, Any] = {
        "price": lambda n: -(n.price_per_hour or 0.0),
        "name": lambda n: n.name,
        "age": lambda n: -n.age_seconds,
        "type": lambda n: n.instance_type,
        "zone": lambda n: n.zone,
        "owner": lambda n: n.owner,
        "pods": lambda n: -n.pods,
    }
    key = keys.get(by, lambda n: -n.use(by))
    nodes = sorted(view.nodes, key=lambda n: (key(n), n.name))
    return tuple(reversed(nodes)) if reverse else tuple(nodes)


def document(view: View, by: str = "price", *, reverse: bool = False) -> dict[str, Any]:
    kinds = Counter(node.capacity_type for node in view.nodes)
    return {
        "summary": {
            "nodes": len(view.nodes),
            "nodesByCapacityType": dict(sorted(kinds.items())),
            "pods": sum(node.pods for node in view.nodes),
            "waiting": sum(each.pods for each in view.waiting),
            "pricePerHour": round(view.price_per_hour, 6),
            "pricePerMonth": round(view.price_per_hour * HOURS_A_MONTH, 2),
            "nodesOfUnknownPrice": view.unpriced,
            "use": {name: round(view.use(name), 4) for name in view.resources},
        },
        "nodes": [node_document(view, node) for node in ordered(view, by, reverse=reverse)],
        "waiting": [{"workload": w.workload, "pods": w.pods, "reason": w.reason} for w in view.waiting],
        "costs": None if view.costs is None else costs_report.document(view.costs),
        "limits": [each.document() for each in view.limits],
        "decisions": [entry.document() for entry in view.decisions],
        "notes": list(view.notes),
    }


def node_document(view: View, node: NodeFacts) -> dict[str, Any]:
    price = node.price_per_hour
    return {
        "name": node.name,
        "instanceType": node.instance_type,
        "capacityType": node.capacity_type,
        "zone": node.zone,
        "owner": node.owner,
        "state": node.state,
        "ageSeconds": round(node.age_seconds),
        "pods": node.pods,
        "podsAllocatable": node.allocatable.get("pods", 0),
        "pricePerHour": price,
        "pricePerMonth": None if price is None else round(price * HOURS_A_MONTH, 2),
        "requested": {name: format_quantity(name, node.requested.get(name, 0)) for name in view.resources},
        "allocatable": {name: format_quantity(name, node.allocatable.get(name, 0)) for name in view.resources},
        "use": {name: round(node.use(name), 4) for name in view.resources},
    }
