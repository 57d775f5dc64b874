"""Drifted nodes are replaced, one canary first; what nobody can say is no drift."""

from __future__ import annotations

from typing import Any

from controller.core.cloud import TemplateStatus
from controller.core.deprovisioning.drift import PROVISIONER_HASH
from controller.errors import CloudError
from controller.kube.resources import (
    NODES,
    PROVISIONERS,
)
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import (
    annotate_provisioner,
    come_up,
    leader,
    old_node,
    record_of,
    replacements,
    set_image,
    untouched,
)


def test_nodes_of_an_old_ami_are_replaced_one_canary_first(world: World) -> None:
    """aws#3979: while no node of the new AMI has come up, no second one is touched."""
    world.add_provisioner()
    annotate_provisioner(world, disruption_budgets='[{"nodes": "100%"}]')
    for name in ("old", "older"):
        old_node(world, name, pods=2)
        set_image(world, name, "ami-old")
    one = leader(world, images=lambda _template: ("ami-new",))
    (new,) = replacements(one.passes(replacements, "the canary's replacement"))
    seen = one.some_passes()
    assert len([name for name in ("old", "older") if record_of(seen, name)]) == 1
    set_image(world, new, "ami-new")
    come_up(world, new)
    one.passes(lambda s: all(s.nodes[n].leaving or record_of(s, n) for n in ("old", "older")), "the other follows")


def test_a_canary_that_does_not_join_stops_the_rollout(world: World) -> None:
    world.add_provisioner()
    for name in ("old", "older"):
        old_node(world, name, pods=2)
        set_image(world, name, "ami-old")
    one = leader(world, images=lambda _template: ("ami-bad",))
    one.passes(replacements, "the canary's replacement")
    world.clock.ahead_seconds += 700.0
    one.passes(lambda s: untouched(s, "old") and untouched(s, "older"), "rolled back")
    seen = one.some_passes()
    assert untouched(seen, "old")
    assert untouched(seen, "older")
    assert len(world.cloud.requests) == 1


def test_a_node_gets_its_hashes_and_drifts_when_the_provisioner_changes(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    one = leader(world, images=lambda _template: ())
    one.passes(lambda s: PROVISIONER_HASH in s.nodes["old"].node.annotations, "stamped")
    assert untouched(one.some_passes())
    world.kube.patch(PROVISIONERS, "default", {"spec": {"labels": {"team": "web"}}})
    world.until(lambda s: s.provisioners["default"].labels)
    one.passes(lambda s: record_of(s), "replaced")
    one.passes(lambda _: world.cloud.requests, "launched")
    assert world.cloud.requests[0].labels["team"] == "web"


def test_a_node_whose_subnet_is_not_selected_any_more_is_replaced(world: World) -> None:
    """Somebody moved a tag in AWS. While nobody can say what is selected, nobody goes."""
    world.add_provisioner()
    old_node(world)
    provider_id = world.node("old")["spec"]["providerID"]
    world.cloud.add(cloud_instance(provider_id=provider_id, id="i-old", node_name="old", subnet_id="subnet-1"))
    world.cloud.status = TemplateStatus(None)
    one = leader(world, images=lambda _template: ())
    assert untouched(one.some_passes())
    world.cloud.status = TemplateStatus((("subnet-2", "eu-west-1a"),))
    world.clock.ahead_seconds += 61.0
    one.passes(record_of, "replaced")
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "deleted")


def test_without_the_feature_gate_nothing_drifts(world: World) -> None:
    world.add_provisioner()
    old_node(world)
    set_image(world, "old", "ami-old")
    world.kube.patch(NODES, "old", {"metadata": {"annotations": {"karpenter.sh/voluntary-disruption": "drifted"}}})
    assert untouched(leader(world).some_passes())


def test_images_that_cannot_be_read_remove_no_node(world: World) -> None:
    """Nothing is removed because data is absent."""

    def fails(_template: Any) -> tuple[str, ...]:
        raise CloudError("ssm is down")

    world.add_provisioner()
    old_node(world)
    set_image(world, "old", "ami-old")
    assert untouched(leader(world, images=fails).some_passes())
