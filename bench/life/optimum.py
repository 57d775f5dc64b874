"""What a day's fleet could cost: a bound, and a fresh plan, for the pods of each phase."""

from __future__ import annotations

from dataclasses import dataclass

from bench.life.day import Day, Phase
from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.parse import parse_daemon_set, parse_pod
from controller.core.api.pod import SelectorRequirement
from controller.core.api.provisioner import Provisioner
from controller.core.provisioning import SchedulingProblem, SolveOptions, solve
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Optimum:
    """$ an hour of a phase's pods: `bound` no fleet undercuts; `fresh` is our plan for a cluster without nodes."""

    bound: float
    fresh: float
    fresh_nodes: int


def optimum(day: Day, phase: Phase, options: SolveOptions | None = None) -> Optimum:
    """The bound and a fresh plan for the pods of a phase."""
    if not phase.pods:
        return Optimum(0.0, 0.0, 0)
    problem = posed(day, phase)
    plan = solve(problem, options or SolveOptions())
    return Optimum(
        bound(problem, SolveOptions().of_prices_alone()).cost_per_hour,
        plan.price_per_hour,
        len(plan.new_nodes),
    )


def posed(day: Day, phase: Phase) -> SchedulingProblem:
    """All pods of the phase, and no node."""
    pods = {}
    for each in day.deployments:
        name, template = each["metadata"]["name"], each["spec"]["template"]
        for number in range(phase.replicas.get(name, 0)):
            metadata = {**template["metadata"], "name": f"{name}-{number}", "namespace": day.namespace}
            pod = parse_pod({"metadata": {**metadata, "uid": f"{name}-{number}"}, "spec": template["spec"]})
            pods[pod.key] = pod
    daemons = [parse_daemon_set(each) for each in day.daemon_sets]
    snapshot = Snapshot(
        synced=True,
        pods=FrozenMap(pods),
        provisioners=FrozenMap({"default": _provisioner()}),
        daemon_sets=FrozenMap({(each.namespace, each.name): each for each in daemons}),
    )
    return build(snapshot, {"default": day.types}, pods=pods.values())


def _provisioner() -> Provisioner:
    return Provisioner(
        name="default",
        requirements=(SelectorRequirement(labels.CAPACITY_TYPE, "In", (labels.SPOT, labels.ON_DEMAND)),),
    )
