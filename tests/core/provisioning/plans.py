"""Parts of problems for the tests of this folder, and checks and views of plans."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from controller.core.api import labels as keys
from controller.core.api.pod import (
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodKey,
    PreferredTerm,
    TopologySpreadConstraint,
)
from controller.core.api.workloads import DaemonSet
from controller.core.audit.plan_audit import audit
from controller.core.provisioning import SchedulingPlan, SolveOptions, solve
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SchedulingProblem
from tests.factories import node_affinity, pod, requirement, selector

DEFAULTS = SolveOptions()
WEB = {"app": "web"}
"""Labels of the pods that `spread` and `near` select by default."""
OF_WEB = selector(**WEB)
SMALL = {"cpu": "100m"}
FIRST = SolveOptions(budget_seconds=0.0)
"""The first plan, without refinement."""
BRIEFLY = SolveOptions(budget_seconds=0.05)
"""A twentieth of the default budget, for rules that every plan keeps, however far it is refined."""


def solved(
    posed: SchedulingProblem, options: SolveOptions = DEFAULTS, tables: TableCache | None = None
) -> SchedulingPlan:
    """The plan, after `judged`. `tables`: catalogs compiled before; None: plan and bound alone share theirs."""
    index = SnapshotIndex(posed.snapshot, tables)
    return judged(solve(posed, options, index), posed, options, index)


def judged(
    plan: SchedulingPlan,
    posed: SchedulingProblem,
    options: SolveOptions = DEFAULTS,
    index: SnapshotIndex | None = None,
) -> SchedulingPlan:
    """Assert that the audit passes and that it costs no less than the bound of what it places; return it."""
    assert [str(violation) for violation in audit(plan, posed)] == []
    left_out = frozenset(unplaced.pod for unplaced in plan.unplaced)
    least = bound(posed, options, left_out, index)
    assert least.cost_per_hour <= plan.cost_per_hour * (1 + 1e-9) + 1e-6
    assert least.unplaced <= 1e-6
    return plan


def spread(
    key: str = keys.ZONE,
    *,
    skew: int = 1,
    soft: bool = False,
    of: LabelSelector | None = OF_WEB,
    min_domains: int | None = None,
    match_label_keys: tuple[str, ...] = (),
    affinity_policy: str = "Honor",
    taints_policy: str = "Ignore",
) -> TopologySpreadConstraint:
    """A spread constraint over pods labelled app=web."""
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    return TopologySpreadConstraint(skew, key, when, of, min_domains, match_label_keys, affinity_policy, taints_policy)


def near(key: str = keys.ZONE, of: LabelSelector | None = OF_WEB, namespaces: tuple[str, ...] = ()) -> PodAffinityTerm:
    """A pod (anti-)affinity term towards pods labelled app=web."""
    return PodAffinityTerm(key, of, namespaces)


def in_zones(*names: str) -> tuple[NodeSelectorTerm, ...]:
    """Required node affinity to these zones, as one term."""
    return node_affinity(requirement(keys.ZONE, "In", *names))


def preferring(key: str, *values: str, weight: int = 1) -> tuple[PreferredTerm, ...]:
    """Preferred node affinity, as one term."""
    return (PreferredTerm(weight, NodeSelectorTerm((requirement(key, "In", *values),))),)


def daemon_sets(**fields: Any) -> dict[tuple[str, str], DaemonSet]:
    """One DaemonSet, `kube-system/agent`, whose pods have these fields."""
    template = pod(name="agent", namespace="kube-system", **fields)
    return {("kube-system", "agent"): DaemonSet("kube-system", "agent", "uid-agent", template)}


def homes(plan: SchedulingPlan, posed: SchedulingProblem, key: str = keys.ZONE) -> dict[PodKey, str]:
    """The domain of each placed pod; for the hostname, a name per node."""
    domains: dict[PodKey, str] = {}
    nodes = {node.name: node.node for node in posed.nodes}
    for placement in plan.existing:
        node = nodes[placement.node]
        value = placement.node if key == keys.HOSTNAME else node.labels[key]
        domains.update(dict.fromkeys(placement.pods, value))
    for number, planned in enumerate(plan.new_nodes):
        value = {
            keys.HOSTNAME: f"new-{number}",
            keys.ZONE: planned.offering.zone,
            keys.CAPACITY_TYPE: planned.offering.capacity_type,
            keys.INSTANCE_TYPE: planned.offering.instance_type,
        }.get(key) or planned.labels.get(key, "")
        domains.update(dict.fromkeys(planned.pods, value))
    return domains


def skew(plan: SchedulingPlan, posed: SchedulingProblem, key: str = keys.ZONE) -> list[int]:
    """Placed pods per domain, fewest first."""
    return sorted(Counter(homes(plan, posed, key).values()).values())


def aged(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """The same pods, each a second younger than the one before."""
    return tuple(replace(each, created=float(age)) for age, each in enumerate(pods))
