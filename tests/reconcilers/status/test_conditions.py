"""Bad objects say what is wrong with them, with every reason, once."""

from __future__ import annotations

from typing import Any

from controller.core.api.labels import PROVISIONER_NAME
from controller.errors import NodeTemplateError
from controller.kube.resources import AWS_NODE_TEMPLATES, PROVISIONERS
from controller.reconcilers.status.conditions_reconciler import ConditionsReconciler
from tests.reconcilers.conftest import World


def reconciler(world: World) -> ConditionsReconciler:
    return ConditionsReconciler(world.context)


def active(world: World, name: str = "default") -> dict[str, Any]:
    conditions = world.kube.get(PROVISIONERS, name).get("status", {}).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == "Active"), {})


def test_a_provisioner_that_works_is_active(world: World) -> None:
    world.add_provisioner()
    world.passes(reconciler(world), lambda _: active(world).get("status") == "True")
    assert world.said("NotUsable") == []


def test_every_broken_rule_is_in_the_condition_and_in_one_event(world: World) -> None:
    """The CRD's schema lets these through; our rules do not."""
    bad = [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["x"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["many"]},
    ]
    world.add_provisioner("bad", requirements=bad)
    world.add_provisioner("good")
    loop = reconciler(world)
    world.passes(loop, lambda _: active(world, "bad").get("status") == "False")
    message = active(world, "bad")["message"]
    assert "spec.requirements[0].key" in message
    assert "spec.requirements[1].values" in message
    event = world.await_event("NotUsable")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Provisioner", "bad")
    assert event["type"] == "Warning"
    assert active(world, "good")["status"] == "True"


def test_it_is_said_once_a_generation_also_by_the_next_process(world: World) -> None:
    world.add_provisioner("bad", requirements=[{"key": "kubernetes.io/hostname", "operator": "Exists"}])
    world.passes(reconciler(world), lambda _: active(world, "bad").get("status") == "False")
    version = world.kube.get(PROVISIONERS, "bad")["metadata"]["resourceVersion"]
    again = reconciler(world)
    for _ in range(3):
        again.reconcile(world.caught_up())
    assert world.kube.get(PROVISIONERS, "bad")["metadata"]["resourceVersion"] == version
    world.await_event("NotUsable")
    assert len(world.said("NotUsable")) == 1


def test_a_template_that_resolves_to_nothing_is_told_on_the_provisioner_until_it_does(world: World) -> None:
    world.add_provisioner()
    world.cloud.types_errors["default"] = NodeTemplateError("spec.subnetSelector matches no subnet")
    loop = reconciler(world)
    world.passes(loop, lambda _: active(world).get("status") == "False")
    assert "matches no subnet" in active(world)["message"]
    world.cloud.types_errors.clear()
    world.clock.ahead_seconds = 31.0
    world.passes(loop, lambda _: active(world).get("status") == "True")


def test_a_provisioner_that_names_no_existing_template_says_which(world: World) -> None:
    world.add_provisioner("lost", providerRef={"name": "nowhere"})
    world.passes(reconciler(world), lambda _: active(world, "lost").get("status") == "False")
    assert "AWSNodeTemplate nowhere does not exist" in active(world, "lost")["message"]


def test_a_node_template_that_breaks_rules_has_an_event(world: World) -> None:
    discovery = {"karpenter.sh/discovery": "test"}
    spec = {"subnetSelector": discovery, "securityGroupSelector": discovery, "tags": {PROVISIONER_NAME: "mine"}}
    world.kube.create(
        AWS_NODE_TEMPLATES,
        {
            "apiVersion": AWS_NODE_TEMPLATES.api_version,
            "kind": "AWSNodeTemplate",
            "metadata": {"name": "bad"},
            "spec": spec,
        },
    )
    world.until(lambda s: ("AWSNodeTemplate", "bad") in s.invalid)
    loop = reconciler(world)
    loop.reconcile(world.informers.snapshot())
    event = world.await_event("NotUsable")
    assert event["involvedObject"]["kind"] == "AWSNodeTemplate"
    assert "spec.tags" in event["message"]
