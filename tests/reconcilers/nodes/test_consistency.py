"""The loop that tells of nodes that are not what they should be: on the node, once, and counted."""

from __future__ import annotations

from dataclasses import replace

from structlog.testing import capture_logs

from controller.core.api.labels import INITIALIZED, INSTANCE_TYPE, PROVISIONER_NAME
from controller.core.deprovisioning.drift import TEMPLATE_HASH, hashes
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


def test_a_node_is_not_compared_with_a_template_that_has_changed_since_its_launch(world: World) -> None:
    """Its pods were counted by the Provisioner's kubelet settings of then; its cpu is the type's whatever they say."""
    world.add_provisioner()
    snapshot = world.caught_up()
    marks = hashes(snapshot.provisioners["default"], snapshot.node_templates["default"])
    labels = {PROVISIONER_NAME: "default", INITIALIZED: "true", INSTANCE_TYPE: "m5.4xlarge"}
    world.add_node({"metadata": {"name": "same", "labels": labels, "annotations": marks}})
    changed = {**marks, TEMPLATE_HASH: "v1-another"}
    world.add_node({"metadata": {"name": "changed", "labels": labels, "annotations": changed}})
    with capture_logs() as logs:
        ConsistencyReconciler(world.context).reconcile(world.caught_up())
    said = {
        (line["node"], line["because"].split(":")[0]) for line in logs if line["event"] == "Consistency check failed"
    }
    assert ("same", "resource pods") in said
    assert {name for name, about in said if about == "resource cpu"} == {"same", "changed"}
    assert ("changed", "resource pods") not in said
