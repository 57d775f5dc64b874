"""Which nodes kube-scheduler is to leave to pods that must be on demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND, SPOT
from controller.core.api.node import Node, Taint
from controller.core.api.pod import NodeSelectorTerm, Pod, PreferredTerm, SelectorRequirement
from controller.core.cloud import PricedOffering
from controller.core.machines.launching import node_taints
from controller.core.machines.opening import closing_taint
from controller.core.provisioning.plan import PlannedNode
from controller.core.scheduling.requirements import Requirements
from controller.core.scheduling.taints import ON_DEMAND_TAINT
from controller.core.state.effective import effective_taints
from tests import factories
from tests.core.machines.test_launching import planned


def term(operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((SelectorRequirement(CAPACITY_TYPE, operator, values),))


FREE = factories.pending_pod()
MUST = factories.pending_pod(node_selector={CAPACITY_TYPE: ON_DEMAND})
NOT_SPOT = factories.pending_pod(required_node_affinity=(term("NotIn", SPOT),))
EITHER = factories.pending_pod(required_node_affinity=(term("In", ON_DEMAND), term("In", SPOT)))
PREFERS = factories.pending_pod(preferred_node_affinity=(PreferredTerm(100, term("In", ON_DEMAND)),))


def node(capacity_type: str, allowed: tuple[str, ...], *pods: Pod) -> PlannedNode:
    requirement = SelectorRequirement(CAPACITY_TYPE, "In", allowed)
    return replace(
        planned("m5.large"),
        offering=PricedOffering(0.1, "m5.large", "eu-west-1a", capacity_type),
        requirements=Requirements.of((requirement,)),
        pods=tuple(each.key for each in pods),
    )


@pytest.mark.parametrize(
    ("capacity_type", "allowed", "pods", "tainted"),
    [
        (ON_DEMAND, (ON_DEMAND,), (MUST,), True),
        (ON_DEMAND, (ON_DEMAND,), (FREE, NOT_SPOT), True),
        (ON_DEMAND, (ON_DEMAND, SPOT), (FREE,), False),  # for an on-demand base, or as spot has no capacity
        (ON_DEMAND, (ON_DEMAND,), (FREE, EITHER, PREFERS), False),  # the Provisioner has no spot
        (SPOT, (ON_DEMAND, SPOT), (FREE,), False),
    ],
)
def test_a_node_that_is_on_demand_because_pods_must_be_is_left_to_them(
    capacity_type: str, allowed: tuple[str, ...], pods: tuple[Pod, ...], *, tainted: bool
) -> None:
    found = node_taints(node(capacity_type, allowed, *pods), {each.key: each for each in pods})
    assert found == ((ON_DEMAND_TAINT,) if tainted else ())


def test_plans_ignore_the_taints_for_kube_scheduler_but_no_other() -> None:
    others = Taint("mine", effect="PreferNoSchedule"), Taint("karpenter.sh/other", "command")
    for initialized in (True, False):
        node = Node("one", taints=(ON_DEMAND_TAINT, closing_taint("command"), *others))
        assert effective_taints(node, (), initialized) == others
