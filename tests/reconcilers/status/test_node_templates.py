"""The status of node templates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.core.api.frozen import FrozenMap
from controller.core.cloud import TemplateStatus
from controller.kube.resources import AWS_NODE_TEMPLATES
from controller.reconcilers.status.node_template_reconciler import NodeTemplatesReconciler
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World
from tests.telemetry.test_registry import values

MATCHED = TemplateStatus((("subnet-2", "eu-west-1b"), ("subnet-1", "eu-west-1a")), ("sg-1",))


def reconciler(world: World) -> NodeTemplatesReconciler:
    return NodeTemplatesReconciler(world.context)


def status(world: World) -> dict[str, Any]:
    return dict(world.kube.get(AWS_NODE_TEMPLATES, "default").get("status") or {})


def test_what_the_selectors_find_is_written_in_their_order(world: World) -> None:
    world.add_provisioner()
    world.cloud.status = MATCHED
    reconciler(world).reconcile(world.informers.snapshot())
    assert status(world)["subnets"] == [
        {"id": "subnet-2", "zone": "eu-west-1b"},
        {"id": "subnet-1", "zone": "eu-west-1a"},
    ]
    assert status(world)["securityGroups"] == [{"id": "sg-1"}]
    assert status(world)["conditions"][0]["status"] == "True"


def test_free_addresses_are_told_and_kept_while_aws_gives_no_answer(world: World) -> None:
    world.add_provisioner()
    metrics = Metrics(world.clock)
    loop = NodeTemplatesReconciler(replace(world.context, ledger=Ledger(world.clock, metrics)))
    world.cloud.status = replace(MATCHED, free_addresses=FrozenMap({"subnet-1": 20, "subnet-2": 4000}))
    for answer in (world.cloud.status, TemplateStatus(None, (), (), ("RequestLimitExceeded",))):
        world.cloud.status = answer
        loop.reconcile(world.caught_up())
        world.clock.ahead_seconds += 301.0
        told = values(metrics.page({}).body, "nodeless_subnet_free_addresses", "subnet", "zone")
        assert told == {("subnet-1", "eu-west-1a"): 20, ("subnet-2", "eu-west-1b"): 4000}


def test_a_zone_that_a_zonal_shift_leaves_is_told_once_when_it_begins_and_once_when_it_ends(world: World) -> None:
    world.add_provisioner()
    world.cloud.status = MATCHED
    metrics = Metrics(world.clock)
    loop = NodeTemplatesReconciler(replace(world.context, ledger=Ledger(world.clock, metrics)))
    for left, reason in ((frozenset({"eu-west-1a"}), "ZoneLeft"), (frozenset(), "ZoneBack")):
        world.cloud.left = left
        for _ in range(2):
            assert loop.reconcile(world.caught_up()) <= 30.0, "a shift is told soon, whenever templates are read"
        assert "eu-west-1a" in world.await_event(reason)["message"]
        assert values(metrics.page({}).body, "nodeless_zone_left", "zone") == {(zone,): 1 for zone in left}
    assert [(len(said), said[0].get("count", 1)) for said in map(world.said, ("ZoneLeft", "ZoneBack"))] == [(1, 1)] * 2


def test_what_is_not_found_is_cleared_and_said_once(world: World) -> None:
    world.add_provisioner()
    world.cloud.status = MATCHED
    loop = reconciler(world)
    loop.reconcile(world.informers.snapshot())
    world.cloud.status = TemplateStatus((), ("sg-1",), ("spec.subnetSelector matches no subnet",))
    world.clock.ahead_seconds = 301.0
    loop.reconcile(world.caught_up())
    assert status(world)["subnets"] == []
    assert status(world)["securityGroups"] == [{"id": "sg-1"}]
    assert "matches no subnet" in status(world)["conditions"][0]["message"]
    assert world.await_event("NotUsable")["involvedObject"]["kind"] == "AWSNodeTemplate"


def test_what_aws_gives_no_answer_to_stays_as_it_was_and_is_asked_again_soon(world: World) -> None:
    world.add_provisioner()
    world.cloud.status = MATCHED
    loop = reconciler(world)
    loop.reconcile(world.informers.snapshot())
    before = status(world)
    world.cloud.status = TemplateStatus(None, (), ("no group",), ("ec2:DescribeSubnets: RequestLimitExceeded",))
    world.clock.ahead_seconds = 301.0
    assert loop.reconcile(world.caught_up()) < 1.0
    assert status(world)["subnets"] == before["subnets"], "no answer is not nothing"
    assert status(world)["securityGroups"] == []
    assert status(world)["conditions"][0]["message"] == "no group"
    world.cloud.status = TemplateStatus(None, None, (), ("ec2: RequestLimitExceeded",))
    world.clock.ahead_seconds = 303.0
    after = status(world)
    loop.reconcile(world.caught_up())
    assert status(world) == after, "whether the template can be used is not known: nothing is said of it"
    world.cloud.status = MATCHED
    world.clock.ahead_seconds = 310.0
    loop.reconcile(world.caught_up())
    assert status(world)["securityGroups"] == before["securityGroups"]
    assert status(world)["conditions"][0]["status"] == "True"


def test_aws_is_asked_when_the_template_changes_and_every_five_minutes(world: World) -> None:
    world.add_provisioner()
    world.cloud.status = MATCHED
    loop = reconciler(world)
    for _ in range(3):
        loop.reconcile(world.caught_up())
    assert len(world.cloud.status_requests) == 1, "our own status write is no reason to ask again"
    world.kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": {"amiFamily": "Bottlerocket"}})
    world.until(lambda s: s.node_templates["default"].generation == 2)
    loop.reconcile(world.informers.snapshot())
    assert len(world.cloud.status_requests) == 2
    world.clock.ahead_seconds = 301.0
    loop.reconcile(world.informers.snapshot())
    assert len(world.cloud.status_requests) == 3


def test_a_status_that_stands_is_not_written_again(world: World) -> None:
    world.add_provisioner()
    world.cloud.status = MATCHED
    loop = reconciler(world)
    loop.reconcile(world.caught_up())
    version = world.kube.get(AWS_NODE_TEMPLATES, "default")["metadata"]["resourceVersion"]
    world.clock.ahead_seconds = 301.0
    loop.reconcile(world.caught_up())
    assert world.kube.get(AWS_NODE_TEMPLATES, "default")["metadata"]["resourceVersion"] == version
