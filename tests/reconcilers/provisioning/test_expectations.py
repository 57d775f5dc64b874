"""What is kept of plans: a controller runs for months."""

from __future__ import annotations

from dataclasses import replace

from controller.reconcilers.provisioning.expectations import Expectations
from tests import factories


def test_nodes_that_are_gone_are_forgotten_although_some_pod_always_waits() -> None:
    expected = Expectations()
    stuck = replace(factories.pending_pod(name="stuck"), owners=(factories.replica_set_owner(),))
    for number in range(20):
        here = factories.snapshot(nodes=[factories.state_node(node=factories.node(name=f"node-{number}"))])
        expected.plan_anew([stuck], here)
        expected.expect(f"node-{number}", [stuck])
    assert len(expected.nodes_of[stuck.owners[0].uid]) <= 2
