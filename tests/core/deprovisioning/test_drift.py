"""Drift: what makes a node another one than would be launched today, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.nodetemplate import AWSNodeTemplate, MetadataOptions
from controller.core.api.provisioner import KubeletConfiguration, Provisioner
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.drift import (
    PROVISIONER_HASH,
    TEMPLATE_HASH,
    drift_reason,
    due_nodes,
    hashes,
    missing_hashes,
    network_reason,
)
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from tests import factories
from tests.core.instances import cloud_instance

OWNER = factories.provisioner()
TEMPLATE = factories.node_template()
IMAGES = ("ami-new",)


def launched(image: str = "ami-new", **fields: Any) -> Node:
    marks = FrozenMap({**hashes(OWNER, TEMPLATE), **fields.pop("annotations", {})})
    return factories.node(labels={keys.INSTANCE_AMI_ID: image}, annotations=marks, **fields)


def reason(node: Node, owner: Provisioner = OWNER, template: AWSNodeTemplate = TEMPLATE, **fields: Any) -> str:
    return drift_reason(node, owner, template, fields.get("images", IMAGES))


def test_a_node_as_it_would_be_launched_today_has_not_drifted() -> None:
    assert reason(launched()) == ""


def test_another_ami_is_drift() -> None:
    assert "ami-old" in reason(launched("ami-old"))


@pytest.mark.parametrize(
    ("subnets", "groups", "expected"),
    [
        ({"subnet-1", "subnet-2"}, {"sg-1"}, ""),
        ({"subnet-2"}, {"sg-1"}, "subnet subnet-1"),
        ({"subnet-1"}, {"sg-1", "sg-2"}, "security groups sg-1"),
        ({"subnet-1"}, {"sg-2"}, "security groups sg-1"),
        (set(), set(), ""),
    ],
)
def test_an_instance_in_a_subnet_or_groups_that_are_not_selected_any_more_has_drifted(
    subnets: set[str], groups: set[str], expected: str
) -> None:
    """Tags moved: the selector finds something else, although it did not change. What nobody knows is no drift."""
    instance = cloud_instance(subnet_id="subnet-1", security_group_ids=("sg-1",))
    reason = network_reason(instance, TEMPLATE, subnets, groups)
    assert reason.startswith(expected) if expected else reason == ""


def test_a_launch_template_of_the_users_own_brings_its_own_groups() -> None:
    instance = cloud_instance(subnet_id="subnet-1", security_group_ids=("sg-1",))
    assert network_reason(instance, replace(TEMPLATE, launch_template="mine"), {"subnet-1"}, {"sg-2"}) == ""


@pytest.mark.parametrize("images", [None, ()])
def test_images_that_nobody_knows_are_no_drift(images: Any) -> None:
    assert reason(launched("ami-old"), images=images) == ""


def test_a_launch_template_of_the_users_own_has_no_ami_drift() -> None:
    own = replace(TEMPLATE, launch_template="mine")
    node = replace(launched("ami-old"), annotations=FrozenMap(hashes(OWNER, own)))
    assert reason(node, template=own) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"subnet_selector": FrozenMap({"a": "b"})},
        {"security_group_selector": FrozenMap({"a": "b"})},
        {"tags": FrozenMap({"a": "b"})},
        {"user_data": "#!/bin/sh"},
        {"metadata_options": MetadataOptions(http_tokens="optional")},
        {"detailed_monitoring": True},
    ],
)
def test_a_changed_template_is_drift(change: dict[str, Any]) -> None:
    assert TEMPLATE.name in reason(launched(), template=replace(TEMPLATE, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"labels": FrozenMap({"team": "web"})},
        {"taints": (Taint("a"),)},
        {"startup_taints": (Taint("a"),)},
        {"kubelet": KubeletConfiguration(max_pods=20)},
    ],
)
def test_a_changed_provisioner_is_drift(change: dict[str, Any]) -> None:
    assert "Provisioner" in reason(launched(), replace(OWNER, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"disruption": DisruptionPolicy(expire_after_seconds=5)},
        {"weight": 9},
        {"limits": FrozenMap({"cpu": 5})},
        {"disruption": DisruptionPolicy(consolidation=True)},
        {"requirements": (factories.requirement(keys.INSTANCE_TYPE, "In", "m5.large", "m5.xlarge"),)},
    ],
)
def test_what_does_not_concern_the_node_is_no_drift(change: dict[str, Any]) -> None:
    """A requirement that the node satisfies anyway moves nothing."""
    assert reason(launched(), replace(OWNER, **change)) == ""


def test_a_requirement_that_the_node_breaks_is_drift() -> None:
    strict = replace(OWNER, requirements=(factories.requirement(keys.INSTANCE_TYPE, "In", "c5.large"),))
    assert "m5.large" in reason(launched(), strict)


def test_a_label_that_a_user_took_off_is_no_drift() -> None:
    strict = replace(OWNER, requirements=(factories.requirement("team", "In", "web"),))
    assert reason(launched(), strict) == ""


def test_a_mark_of_the_users_own_is_honoured() -> None:
    assert "drifted" in reason(launched(annotations={V1ALPHA5.keys.voluntary_disruption: "drifted"}))
    assert reason(launched(annotations={V1ALPHA5.keys.voluntary_disruption: "expired"})) == ""


def test_a_node_without_hashes_or_of_another_version_gets_them_and_has_not_drifted() -> None:
    """An upgrade of the controller never replaces the fleet."""
    bare = factories.node()
    assert missing_hashes(bare, OWNER, TEMPLATE) == hashes(OWNER, TEMPLATE)
    older = factories.node(annotations=FrozenMap({PROVISIONER_HASH: "v0-abc", TEMPLATE_HASH: "v0-abc"}))
    assert missing_hashes(older, OWNER, TEMPLATE) == hashes(OWNER, TEMPLATE)
    assert reason(bare) == reason(older) == ""
    assert missing_hashes(launched(), OWNER, TEMPLATE) == {}


def test_what_is_not_set_does_not_count() -> None:
    """So that a field that a later version adds changes no hash."""
    assert hashes(OWNER, replace(TEMPLATE, tags=FrozenMap())) == hashes(OWNER, TEMPLATE)
    assert hashes(OWNER, replace(TEMPLATE, user_data=None)) == hashes(OWNER, TEMPLATE)


def test_false_is_not_the_same_as_unset() -> None:
    assert hashes(OWNER, replace(TEMPLATE, detailed_monitoring=False)) != hashes(
        OWNER, replace(TEMPLATE, detailed_monitoring=True)
    )
    options = [MetadataOptions(), MetadataOptions(http_put_response_hop_limit=1)]
    assert len({hashes(OWNER, replace(TEMPLATE, metadata_options=each))[TEMPLATE_HASH] for each in options}) == 2


def test_one_canary_at_a_time_until_a_node_is_as_it_should_be() -> None:
    record = write_record(Record("id", "drift", "AMI", ("a",), (), 0.0))
    nodes = {
        "a": factories.node(name="a", annotations=FrozenMap({COMMAND_ANNOTATION: record})),
        "b": factories.node(name="b", created=5.0),
        "c": factories.node(name="c", created=4.0),
    }
    view = factories.snapshot(nodes=[factories.state_node(node=node) for node in nodes.values()], provisioners=[OWNER])
    everyone = candidates(view, {}, 100.0)
    assert due_nodes(everyone, everyone, view) == []
    assert [candidate.name for candidate in due_nodes(everyone[1:2], everyone, view)] == ["b"], "c is proof"
    quiet = factories.snapshot(
        nodes=[factories.state_node(node=nodes[name]) for name in ("b", "c")], provisioners=[OWNER]
    )
    everyone = candidates(quiet, {}, 100.0)
    assert [candidate.name for candidate in due_nodes(everyone, everyone, quiet)] == ["c", "b"], "the oldest first"
