"""Consistency checks on nodes, reported to users; nothing is removed for them.

The three checks, their names and thresholds are Karpenter v0.27's: nodes that registered and do not initialize, nodes
whose termination is blocked, and nodes smaller than their instance type. Nodes that never register are removed by
garbage collection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.machines.registration import not_initialized_because
from controller.core.provisioning.problem import leaving_pods
from controller.core.scheduling.label_selectors import matches
from controller.core.state.snapshot import StateNode

FAILED_INIT = "FailedInit"
TERMINATION = "Termination"
NODE_SHAPE = "NodeShape"
INITIALIZES_WITHIN_SECONDS = 3600.0
LEAST_SHARE = 0.90
"""Share of its instance type's capacity that a node must have, of every resource."""
FROM_TEMPLATE = frozenset({"ephemeral-storage", "pods"})
"""Resources of which the node template's disks and the Provisioner's kubelet settings decide how much a type has."""


@dataclass(frozen=True, slots=True)
class Issue:
    """`check` is one of the three names above; `message` names the object that is at fault."""

    check: str
    message: str


def issues(
    node: StateNode,
    provisioner: Provisioner,
    expected: Resources | None,
    budgets: Collection[PodDisruptionBudget],
    now: float,
    *,
    as_launched: bool = True,
) -> tuple[Issue, ...]:
    """Return what is wrong at `now` (Unix seconds). `expected` is the capacity of its instance type; None: not known.

    `as_launched`: Provisioner and node template are known to be those that the node was launched from. Otherwise the
    resources that they decide are not compared: `expected` is that of a node launched today.
    """
    if node.node.deleted_at is not None:
        return tuple(_held(node, budgets))
    if node.initialized:
        known = expected or EMPTY
        comparable = {name: want for name, want in known.items() if as_launched or name not in FROM_TEMPLATE}
        return tuple(_smaller(node, comparable))
    if now - node.node.created < INITIALIZES_WITHIN_SECONDS:
        return ()
    if expected is None:
        name = node.node.instance_type
        return (Issue(FAILED_INIT, f"instance type {name!r} is not one that its Provisioner can launch"),)
    because = not_initialized_because(node.node, provisioner, expected)
    return (Issue(FAILED_INIT, because),) if because else ()


def _held(node: StateNode, budgets: Collection[PodDisruptionBudget]) -> Iterable[Issue]:
    for pod in leaving_pods(node):
        for budget in budgets:
            covers = budget.namespace == pod.namespace and matches(budget.selector, pod.labels)
            if covers and budget.disruptions_allowed <= 0:
                name = f"{budget.namespace}/{budget.name}"
                text = f"PodDisruptionBudget {name} allows no disruption; it holds pod {pod.full_name}"
                yield Issue(TERMINATION, text)


def _smaller(node: StateNode, expected: Mapping[str, int]) -> Iterable[Issue]:
    for name in sorted(expected):
        want, have = expected[name], node.node.capacity.get(name, 0)
        if want > 0 and have < LEAST_SHARE * want:
            share = f"{100 * have / want:.1f} % of what its instance type has" if have else "none of it is registered"
            yield Issue(NODE_SHAPE, f"resource {name}: {share} (expected {want}, found {have})")
