"""Adoption and garbage collection: what to do about instances without a Node and Nodes without an instance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.node import Node
from controller.core.cloud import CloudInstance
from controller.core.machines.collection import CollectionPlan, CollectionTimes, instance_gone, plan_collection
from controller.core.state.snapshot import InvalidObject, StateNode
from tests import factories
from tests.core.instances import cloud_instance

TIMES = CollectionTimes(registration_seconds=900, consistency_seconds=30)
PROVISIONER = factories.provisioner()
INSTANCE = cloud_instance(launched_at=1000.0)


def node_of(instance: CloudInstance, **fields: object) -> StateNode:
    return factories.state_node(
        node=factories.node(name=instance.node_name, provider_id=instance.provider_id, **fields)  # type: ignore[arg-type]
    )


def plan(now: float, *instances: CloudInstance, nodes: tuple[StateNode, ...] = (), **fields: object) -> CollectionPlan:
    view = factories.snapshot(**{"nodes": nodes, "provisioners": (PROVISIONER,), **fields})  # type: ignore[arg-type]
    return plan_collection(view, instances, now, TIMES)


def test_an_instance_with_its_node_is_left_alone() -> None:
    assert plan(5000.0, INSTANCE, nodes=(node_of(INSTANCE),)) == CollectionPlan()


def test_a_young_instance_without_a_node_is_adopted() -> None:
    assert plan(1001.0, INSTANCE).adopt == (INSTANCE,)


def test_an_instance_without_a_name_is_adopted_when_it_has_one() -> None:
    assert plan(1001.0, cloud_instance(launched_at=1000.0, node_name="")) == CollectionPlan()


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_an_instance_on_its_way_out_is_nobodys_business(state: str) -> None:
    assert plan(5000.0, cloud_instance(state=state)) == CollectionPlan()


def test_an_instance_that_never_joined_is_terminated_after_the_registration_time() -> None:
    assert plan(1899.0, INSTANCE).terminate == ()
    collection = plan(1900.0, INSTANCE)
    assert collection.adopt == ()
    assert [removal.provider_id for removal in collection.terminate] == [INSTANCE.provider_id]


def test_an_instance_whose_provisioner_is_gone_is_terminated_once_absence_proves_something() -> None:
    assert plan(1029.0, INSTANCE, provisioners=()) == CollectionPlan()
    assert "Provisioner default" in plan(1030.0, INSTANCE, provisioners=()).terminate[0].reason


def test_an_instance_whose_provisioner_is_invalid_waits() -> None:
    """A user's typing error must not cost a node."""
    invalid = {("Provisioner", "default"): InvalidObject("Provisioner", "default", "uid", 2, "spec: wrong")}
    assert plan(1100.0, INSTANCE, provisioners=(), invalid=invalid) == CollectionPlan()


def test_a_node_whose_instance_is_not_listed_is_asked_for_and_not_deleted_for_that() -> None:
    assert plan(1030.0, nodes=(node_of(INSTANCE, created=1001.0),)) == CollectionPlan()
    collection = plan(1031.0, nodes=(node_of(INSTANCE, created=1001.0),))
    assert collection.delete_nodes == ()
    assert [node.name for node in collection.unlisted] == [INSTANCE.node_name]


@pytest.mark.parametrize(
    ("ready", "instance", "goes"),
    [
        (True, None, False),
        (True, replace(INSTANCE, state="terminated"), False),
        (False, None, True),
        (False, replace(INSTANCE, state="terminated"), True),
        (False, INSTANCE, False),
        (False, replace(INSTANCE, owned=False), False),
    ],
)
def test_a_node_goes_when_its_kubelet_is_silent_and_its_instance_gone_by_its_bare_id(
    ready: bool, instance: CloudInstance | None, goes: bool
) -> None:
    assert bool(instance_gone(node_of(INSTANCE, ready=ready), instance)) is goes


@pytest.mark.parametrize("state", ["stopping", "stopped"])
def test_nobody_waits_for_the_adoption_of_a_stopped_instance(state: str) -> None:
    """It would freeze provisioning for as long as a registration may take."""
    stopped = replace(INSTANCE, state=state)
    assert plan(1001.0, stopped) == CollectionPlan()
    assert [removal.provider_id for removal in plan(1900.0, stopped).terminate] == [INSTANCE.provider_id]


def test_a_node_that_is_not_ours_is_never_deleted() -> None:
    stranger = factories.state_node(node=factories.node(provisioner="", created=0.0))
    assert plan(5000.0, nodes=(stranger,)) == CollectionPlan()


def test_a_node_that_leaves_already_is_left_to_its_termination() -> None:
    assert plan(5000.0, nodes=(node_of(INSTANCE, deleted_at=4000.0),)) == CollectionPlan()


def test_a_node_whose_kubelet_never_registered_is_deleted_after_the_registration_time() -> None:
    made_by_us = factories.state_node(
        node=Node(
            name=INSTANCE.node_name,
            provider_id=INSTANCE.provider_id,
            created=1001.0,
            labels=FrozenMap({PROVISIONER_NAME: "default"}),
        )
    )
    assert plan(1899.0, INSTANCE, nodes=(made_by_us,)) == CollectionPlan()
    collection = plan(1900.0, INSTANCE, nodes=(made_by_us,))
    assert "did not register" in collection.delete_nodes[0].reason
    assert collection.terminate == ()


def test_a_node_of_that_name_counts_before_it_has_a_provider_id() -> None:
    bare = factories.state_node(node=factories.node(name=INSTANCE.node_name, provider_id=""))
    assert plan(1001.0, INSTANCE, nodes=(bare,)) == CollectionPlan()
