"""What is kept of plans, and when a pod counts as bound elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.labels import ZONE
from controller.core.api.pod import LabelSelector, Pod, PodAffinityTerm
from controller.core.state.snapshot import Snapshot
from controller.reconcilers.provisioning.expectations import BINDING_SECONDS, Expectations
from tests import factories


def test_nodes_that_are_gone_are_forgotten_although_some_pod_always_waits() -> None:
    expected = Expectations()
    stuck = replace(factories.pending_pod(name="stuck"), owners=(factories.replica_set_owner(),))
    for number in range(20):
        here = factories.snapshot(nodes=[factories.state_node(node=factories.node(name=f"node-{number}"))])
        expected.plan_anew([stuck], here)
        expected.expect(f"node-{number}", [stuck])
    assert len(expected.places) <= 2


@pytest.mark.parametrize(
    ("nodes", "stays"), [("ab", True), ("ba", True), ("aa", False)], ids=["as planned", "exchanged", "elsewhere"]
)
def test_which_of_an_owners_replicas_comes_to_which_of_their_nodes_makes_no_difference(nodes: str, stays: bool) -> None:
    """A pod with affinity waits for a node that boots. It is planned anew once others were bound elsewhere."""
    owner = (factories.replica_set_owner(),)
    replicas = [replace(factories.pending_pod(name=f"web-{n}"), owners=owner) for n in range(2)]
    near = PodAffinityTerm(ZONE, LabelSelector())
    waiting = factories.pending_pod(name="near", required_pod_affinity=(near,))

    def seen(*pods: Pod) -> Snapshot:
        ours = [factories.node(name=name, initialized=name != "boots") for name in ("a", "b", "boots")]
        nodes = [
            factories.state_node(node=each, pods=[pod for pod in pods if pod.node_name == each.name]) for each in ours
        ]
        return factories.snapshot(nodes=nodes, pending=[pod for pod in pods if not pod.node_name])

    expected = Expectations()
    expected.plan_anew([*replicas, waiting], seen(*replicas, waiting))
    for node, pod in zip(("a", "b", "boots"), (*replicas, waiting), strict=True):
        expected.expect(node, [pod])
    expected.planned(0.0)
    expected.observe(seen(*replicas, waiting), 3, (), 0.0)
    bound = [replace(pod, node_name=node, phase="Running") for pod, node in zip(replicas, nodes, strict=True)]
    expected.observe(seen(*bound, waiting), 1, (), 1.0)
    expected.observe(seen(*bound, waiting), 1, (), 1.0 + 2 * BINDING_SECONDS)
    assert (waiting.uid in expected.on_the_way) == stays
