"""The loop that tells of nodes that are not what they should be: on the node, once, and counted."""

from __future__ import annotations

from dataclasses import replace

from controller.core.api.labels import INITIALIZED, INSTANCE_TYPE, PROVISIONER_NAME
from controller.reconcilers.nodes.consistency_reconciler import ConsistencyReconciler
from controller.runtime.metrics import CONSISTENCY_CHECKS
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World
from tests.telemetry.test_registry import values


def test_a_node_that_is_smaller_than_its_type_has_an_event(world: World) -> None:
    world.add_provisioner()
    labels = {PROVISIONER_NAME: "default", INITIALIZED: "true", INSTANCE_TYPE: "m5.4xlarge"}
    world.add_node({"metadata": {"name": "small", "labels": labels}})
    world.add_node({"metadata": {"name": "stranger", "labels": {INSTANCE_TYPE: "m5.4xlarge"}}})
    metrics = Metrics(world.clock)
    loop = ConsistencyReconciler(replace(world.context, ledger=Ledger(world.clock, metrics)))
    for _ in range(3):
        loop.reconcile(world.caught_up())
    event = world.await_event("FailedConsistencyCheck")
    assert event["involvedObject"]["name"] == "small"
    assert event["type"] == "Warning"
    told = {each["message"] for each in world.said("FailedConsistencyCheck")}
    assert any("resource cpu: 12.5 %" in message for message in told)
    assert all(each["involvedObject"]["name"] == "small" for each in world.said("FailedConsistencyCheck"))
    counted = values(metrics.page({}).body, "karpenter_consistency_errors_total", "check")  # as the parser calls it
    assert {check for (check,) in counted} == {"NodeShape"}
    assert {"NodeShape"} < set(CONSISTENCY_CHECKS)
