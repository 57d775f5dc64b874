"""What provisioning makes, consolidation leaves: a freshly provisioned cluster is a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod
from controller.core.cloud import InstanceType
from controller.core.deprovisioning.budgets import BUDGETS_ANNOTATION
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation import find
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.simulation import Stage
from controller.core.provisioning.plan import PlannedNode
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.provisioning.plans import near, solved, spread

NOW = 1_700_000_000.0
WEB = {"labels": {"app": "web"}}
SIZES = (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16))
MARKET = tuple(
    factories.instance_type(
        name=f"{family}.{size}",
        cpu=cpu,
        memory=f"{cpu * ratio}Gi",
        price=price * cpu,
        pods=58,
        overhead={"cpu": "80m", "memory": "400Mi"},
    )
    for family, ratio, price in (("c5", 2, 0.0425), ("m5", 4, 0.048), ("r5", 8, 0.063))
    for size, cpu in SIZES
)
OWNER = factories.provisioner(
    consolidation_enabled=True, object_annotations=FrozenMap({BUDGETS_ANNOTATION: '[{"nodes": "100%"}]'})
)


def launched(number: int, planned: PlannedNode, pods: dict[Any, Pod], types: Sequence[InstanceType]) -> StateNode:
    """The planned node as it stands when its instance came up as planned and its pods were bound."""
    kind = next(each for each in types if each.name == planned.offering.instance_type)
    name = f"node-{number}"
    own = {
        **{key: next(iter(r.values)) for key, r in kind.requirements.items() if r.values and not r.complement},
        **planned.labels,
        keys.ZONE: planned.offering.zone,
        keys.CAPACITY_TYPE: planned.offering.capacity_type,
        keys.HOSTNAME: name,
        keys.INITIALIZED: "true",
    }
    node = factories.node(name=name, instance_type=kind.name, created=NOW - 9000)
    node = replace(node, labels=FrozenMap(own), capacity=kind.capacity, allocatable=kind.allocatable)
    bound = [
        replace(pods[key], node_name=name, phase="Running", unschedulable=False, ready=True) for key in planned.pods
    ]
    made = factories.state_node(node=node, pods=bound)
    return replace(made, capacity=kind.capacity, allocatable=kind.allocatable)


def undone(pods: Sequence[Pod], types: Sequence[InstanceType] = MARKET) -> list[str]:
    """What consolidation would do to the cluster that a plan for these pods makes."""
    plan = solved(factories.problem(pending=pods, provisioners=[OWNER], catalog=types))
    assert plan.unplaced == ()
    by_key = {pod.key: pod for pod in pods}
    nodes = [launched(number, planned, by_key, types) for number, planned in enumerate(plan.new_nodes)]
    view = factories.snapshot(nodes=nodes, provisioners=[OWNER])
    catalog = {OWNER.name: tuple(types)}
    looked = candidates(view, catalog, NOW)
    assert len(looked) == len(nodes)
    found = find(looked, Stage(view, catalog), Gate(view, NOW))
    judged = {candidate.name for candidate, _ in found.kept}
    assert judged == {node.name for node in nodes} or found.commands
    return [command.because for command in found.commands]


SHAPES = {
    "small pods": factories.pending_pods(60, requests={"cpu": "250m", "memory": "512Mi"}),
    "memory and cpu": (
        *factories.pending_pods(20, requests={"cpu": "1500m", "memory": "1Gi"}),
        *factories.pending_pods(20, requests={"cpu": "300m", "memory": "7Gi"}),
    ),
    "spread over zones": factories.pending_pods(
        21, requests={"cpu": "700m", "memory": "1Gi"}, topology_spread=(spread(),), **WEB
    ),
    "apart over hosts": (
        *factories.pending_pods(
            8, requests={"cpu": "500m", "memory": "1Gi"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), **WEB
        ),
        *factories.pending_pods(30, requests={"cpu": "400m", "memory": "900Mi"}),
    ),
    "one node each": factories.pending_pods(5, requests={"cpu": "3500m", "memory": "6Gi"}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_consolidation_finds_nothing_to_do_in_a_fresh_cluster(shape: str) -> None:
    assert undone(SHAPES[shape]) == []


@given(
    st.lists(
        st.tuples(
            st.integers(1, 12),
            st.sampled_from(("100m", "300m", "800m", "1700m", "3")),
            st.sampled_from(("128Mi", "700Mi", "2Gi", "5Gi", "11Gi")),
        ),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=8, deadline=None)
def test_nor_in_a_fresh_cluster_of_any_mix(mix: list[tuple[int, str, str]]) -> None:
    pods = [
        pod
        for count, cpu, memory in mix
        for pod in factories.pending_pods(count, requests={"cpu": cpu, "memory": memory})
    ]
    assert undone(pods) == []
