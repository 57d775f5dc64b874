"""Initialization by Karpenter v0.27's rules, and what a node that registered by itself gets."""

from __future__ import annotations

from dataclasses import replace

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.pod import OwnerReference
from controller.core.api.quantity import resources
from controller.core.machines.node_documents import LAUNCH_TOKEN, node_document, owner_reference
from controller.core.machines.registration import joined, needs_instance, not_initialized_because, registration_patch
from tests import factories
from tests.core.instances import cloud_instance

PROVISIONER = factories.provisioner(labels={"team": "web"}, startup_taints=(Taint("cilium", "waiting", "NoExecute"),))
EXPECTED = resources({"cpu": "2", "nvidia.com/gpu": 1, "amd.com/gpu": 0})
GPU = {"cpu": "2", "nvidia.com/gpu": 1}


def fresh(**fields: object) -> Node:
    """As our launch made it, and its kubelet brought it up."""
    owner = owner_reference(PROVISIONER)
    own = OwnerReference(owner["apiVersion"], owner["kind"], owner["name"], owner["uid"])
    return factories.node(initialized=False, owners=(own,), labels={"team": "web"}, **fields)  # type: ignore[arg-type]


def test_a_ready_node_with_everything_is_initialized() -> None:
    node = fresh(allocatable=GPU)
    assert not_initialized_because(node, PROVISIONER, EXPECTED) == ""
    assert registration_patch(node, PROVISIONER, EXPECTED) == {"metadata": {"labels": {keys.INITIALIZED: "true"}}}


def test_a_node_that_is_not_ready_is_not() -> None:
    assert "Ready" in not_initialized_because(fresh(ready=False, allocatable=GPU), PROVISIONER, EXPECTED)
    assert registration_patch(fresh(ready=False), PROVISIONER) == {}


def test_a_startup_taint_holds_it_back_whatever_its_value() -> None:
    node = fresh(allocatable=GPU, taints=(Taint("cilium", "still", "NoExecute"),))
    assert "cilium:NoExecute" in not_initialized_because(node, PROVISIONER, EXPECTED)


def test_the_cloud_controllers_taint_holds_it_back() -> None:
    node = fresh(taints=(Taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),))
    assert "uninitialized:NoSchedule is still there" in not_initialized_because(node, PROVISIONER)


def test_a_node_that_is_not_open_to_pods_is_not() -> None:
    """It is opened soon, together with the other nodes of its plan."""
    node = fresh(allocatable=GPU, annotations={keys.OPENS_WITH: "plan"})
    assert "opened to pods together" in not_initialized_because(node, PROVISIONER, EXPECTED)


def test_a_taint_of_the_same_key_and_another_effect_does_not() -> None:
    node = fresh(allocatable=GPU, taints=(Taint("cilium", "", "NoSchedule"),))
    assert not_initialized_because(node, PROVISIONER, EXPECTED) == ""


def test_a_resource_of_its_type_that_is_not_allocatable_holds_it_back() -> None:
    """The device plugin has not registered: capacity alone does not do."""
    node = fresh(allocatable={"cpu": "2", "nvidia.com/gpu": 0}, capacity=GPU)
    assert "nvidia.com/gpu" in not_initialized_because(node, PROVISIONER, EXPECTED)


def test_of_an_unknown_type_nothing_is_expected() -> None:
    assert not_initialized_because(fresh(), PROVISIONER) == ""


def test_an_initialized_node_stays_so_and_keeps_what_users_took_off() -> None:
    node = replace(fresh(ready=False), labels=FrozenMap({keys.INITIALIZED: "true"}))
    assert registration_patch(node, PROVISIONER, EXPECTED) == {}


def test_a_self_registered_node_gets_finalizer_owner_and_the_labels_of_its_instance() -> None:
    node = Node(
        name="ip-10-0-0-1.eu-west-1.compute.internal",
        labels=FrozenMap({keys.PROVISIONER_NAME: "default"}),
        finalizers=("other/finalizer",),
        provider_id="aws:///eu-west-1a/i-00000000000000001",
    )
    assert needs_instance(node)
    patch = registration_patch(node, PROVISIONER, EXPECTED, node_document(cloud_instance(), PROVISIONER))
    assert patch["metadata"]["finalizers"] == ["other/finalizer", keys.TERMINATION_FINALIZER]
    assert patch["metadata"]["ownerReferences"] == [owner_reference(PROVISIONER)]
    assert patch["metadata"]["labels"][keys.CAPACITY_TYPE] == "spot"
    assert patch["metadata"]["labels"]["team"] == "web"
    assert keys.INITIALIZED not in patch["metadata"]["labels"]


def test_a_foreign_owner_is_replaced_by_the_provisioner() -> None:
    node = replace(fresh(), owners=(OwnerReference("v1", "ConfigMap", "x", "uid-x"),))
    patch = registration_patch(node, PROVISIONER)
    assert patch["metadata"]["ownerReferences"] == [owner_reference(PROVISIONER)]


def test_only_a_kubelet_reports_capacity() -> None:
    assert joined(fresh())
    assert not joined(Node(name="made-by-us"))


def test_a_starting_node_without_its_launch_token_is_looked_up() -> None:
    """A kubelet that registered while the controller was dead: a command knows its replacement by the token alone."""
    starting = factories.node(initialized=False)
    assert needs_instance(starting)
    assert not needs_instance(factories.node(initialized=False, annotations=FrozenMap({LAUNCH_TOKEN: "token"})))
    assert not needs_instance(factories.node()), "in service: what is missing stays missing"
