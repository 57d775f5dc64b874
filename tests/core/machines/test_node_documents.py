"""The Node of a launched instance, and what an existing Node lacks of it."""

from __future__ import annotations

import pytest

from controller.aws.api import tags as tagging
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.parse import parse_node
from controller.core.machines.node_documents import LAUNCH_TOKEN, missing_metadata, node_document, ttl_seconds
from controller.core.machines.registration import joined
from tests import factories
from tests.core.instances import cloud_instance

PROVISIONER = factories.provisioner(
    labels={"team": "web"},
    annotations=FrozenMap({"note": "hello"}),
    taints=(Taint("dedicated", "web"),),
    startup_taints=(Taint("cilium", effect="NoExecute"),),
)
INSTANCE = cloud_instance(labels={"karpenter.k8s.aws/instance-size": "large"})


def test_the_document_carries_all_that_pods_and_we_need() -> None:
    document = node_document(INSTANCE, PROVISIONER, {"shard": "7"}, "token-1")
    node = parse_node(document)
    assert node.name == INSTANCE.node_name
    assert node.provider_id == INSTANCE.provider_id
    assert node.labels == {
        "team": "web",
        "shard": "7",
        "karpenter.k8s.aws/instance-size": "large",
        keys.HOSTNAME: INSTANCE.node_name,
        keys.PROVISIONER_NAME: "default",
        keys.INSTANCE_TYPE: "m5.large",
        keys.ZONE: "eu-west-1a",
        keys.CAPACITY_TYPE: "spot",
        "beta.kubernetes.io/instance-type": "m5.large",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1a",
    }
    assert node.annotations == {"note": "hello", LAUNCH_TOKEN: "token-1", keys.ATTACH_DETACH: "true"}
    assert node.finalizers == (keys.TERMINATION_FINALIZER,)
    assert node.taints == (Taint("dedicated", "web"), Taint("cilium", effect="NoExecute"))
    assert document["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "name": "default",
            "uid": "uid-default",
            "blockOwnerDeletion": True,
        }
    ]


def test_a_node_is_not_ready_from_its_launch_until_its_kubelet_says_otherwise() -> None:
    """kube-controller-manager takes the taint not-ready off a Node without a Ready condition."""
    document = node_document(cloud_instance(launched_at=1_700_000_000.0), PROVISIONER)
    (ready,) = document["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["lastTransitionTime"]) == ("Ready", "False", "2023-11-14T22:13:20Z")
    node = parse_node(document)
    assert not node.ready
    assert not joined(node)


def test_neither_the_kubelet_nor_kubernetes_controllers_have_labels_or_annotations_to_add() -> None:
    instance = cloud_instance(labels={keys.ARCH: "arm64", keys.OS: "linux", keys.REGION: "eu-west-1"})
    metadata = node_document(instance, PROVISIONER)["metadata"]
    assert metadata["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
    assert {key: value for key, value in metadata["labels"].items() if "beta" in key} == {
        "beta.kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/instance-type": "m5.large",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1a",
    }


def test_what_the_cloud_says_wins_over_the_plan_and_the_provisioner() -> None:
    provisioner = factories.provisioner(labels={keys.ZONE: "elsewhere"})
    document = node_document(INSTANCE, provisioner, {keys.CAPACITY_TYPE: "on-demand"})
    assert document["metadata"]["labels"][keys.ZONE] == "eu-west-1a"
    assert document["metadata"]["labels"][keys.CAPACITY_TYPE] == "spot"


def test_an_adopted_instance_keeps_its_launch_token() -> None:
    document = node_document(cloud_instance(tags={LAUNCH_TOKEN: "from-tag"}), PROVISIONER)
    assert document["metadata"]["annotations"][LAUNCH_TOKEN] == "from-tag"


def test_a_node_that_opens_together_with_others_is_created_cordoned() -> None:
    document = node_document(INSTANCE, PROVISIONER, marks={keys.OPENS_WITH: "plan"})
    assert document["spec"]["unschedulable"] is True
    assert document["metadata"]["annotations"][keys.OPENS_WITH] == "plan"
    assert "unschedulable" not in node_document(INSTANCE, PROVISIONER)["spec"]


def test_a_node_whose_kubelet_was_faster_is_open_and_stays_so() -> None:
    document = node_document(INSTANCE, PROVISIONER, marks={keys.OPENS_WITH: "plan"})
    patch = missing_metadata(Node(name=INSTANCE.node_name), document)
    assert keys.OPENS_WITH not in patch["metadata"].get("annotations", {})
    assert "unschedulable" not in patch.get("spec", {})


def test_a_complete_node_lacks_nothing() -> None:
    document = node_document(INSTANCE, PROVISIONER)
    assert missing_metadata(parse_node(document), document) == {}


def test_a_node_that_its_kubelet_made_gets_all_but_taints() -> None:
    document = node_document(INSTANCE, PROVISIONER)
    bare = Node(name=INSTANCE.node_name, finalizers=("other/finalizer",), resource_version="7")
    patch = missing_metadata(bare, document)
    assert patch["metadata"]["labels"] == document["metadata"]["labels"]
    assert patch["metadata"]["finalizers"] == ["other/finalizer", keys.TERMINATION_FINALIZER]
    assert patch["metadata"]["ownerReferences"] == document["metadata"]["ownerReferences"]
    assert patch["metadata"]["resourceVersion"] == "7", "a list is replaced only if nobody wrote it meanwhile"
    assert patch["spec"] == {"providerID": INSTANCE.provider_id}


def test_values_that_exist_are_kept() -> None:
    document = node_document(INSTANCE, PROVISIONER)
    node = parse_node({**document, "metadata": {**document["metadata"], "labels": {"team": "other"}}})
    assert "team" not in missing_metadata(node, document)["metadata"]["labels"]


def test_no_finalizer_is_added_to_a_node_that_is_being_deleted() -> None:
    node = Node(name=INSTANCE.node_name, deleted_at=1.0)
    assert "finalizers" not in missing_metadata(node, node_document(INSTANCE, PROVISIONER))["metadata"]


def test_the_tag_that_the_cloud_writes_is_the_one_that_adoption_reads() -> None:
    assert tagging.LAUNCH_TOKEN == LAUNCH_TOKEN


@pytest.mark.parametrize(
    ("nodes", "seconds"), [(1, 0), (100, 0), (101, 15), (500, 15), (1_000, 30), (1_001, 60), (9_999, 300)]
)
def test_a_nodes_ttl_is_the_one_that_kube_controller_manager_gives_it(nodes: int, seconds: int) -> None:
    assert ttl_seconds(nodes) == seconds
