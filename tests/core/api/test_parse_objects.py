"""Nodes, DaemonSets, budgets and volumes are read as the API server sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api import parse
from controller.core.api.labels import OPENS_WITH
from controller.core.api.node import Taint
from controller.core.api.pod import LabelSelector, NodeSelectorTerm, PodVolume, SelectorRequirement, Toleration
from tests.core.api.test_parse_pod import JSON
from tests.factories import metadata, node_object

ZONE = SelectorRequirement("zone", "In", ("a", "b"))


def test_node() -> None:
    node = parse.parse_node(
        node_object(
            name="n",
            labels={"a": "b"},
            finalizers=["karpenter.sh/termination"],
            spec={"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            status={
                "capacity": {"cpu": "2", "memory": "7977Mi", "pods": "29", "odd": "1 x"},
                "images": [{"names": ["a@sha256:1", "a:1"]}, {"names": ["b"]}],
            },
        )
    )
    assert (node.name, node.provider_id, node.labels) == ("n", "aws:///eu-west-1a/i-0123456789abcdef0", {"a": "b"})
    assert node.taints == (Taint("k", "v", "NoExecute"),)
    assert node.capacity == {"cpu": 2000, "memory": 7977 * 2**20, "pods": 29}
    assert node.allocatable == {"cpu": 2000, "memory": 8 * 2**30, "pods": 29}
    assert (node.ready, node.unschedulable, node.deleted_at) == (True, True, None)
    assert (node.finalizers, node.images) == (("karpenter.sh/termination",), ("a@sha256:1", "a:1", "b"))


def test_a_node_that_has_said_nothing_yet_is_not_ready_and_has_no_room() -> None:
    node = parse.parse_node({"metadata": {"name": "n"}})
    assert (node.ready, node.capacity, node.allocatable, node.taints) == (False, {}, {}, ())


def test_a_node_that_is_about_to_be_opened_counts_as_open() -> None:
    """It was created cordoned, and is uncordoned with the other nodes of its plan: plans count on it."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-23T12:00:00Z"}
    spec = {"unschedulable": True, "taints": [cordon, {"key": "dedicated", "effect": "NoSchedule"}]}
    closed = parse.parse_node({"metadata": {"name": "n", "annotations": {OPENS_WITH: "plan"}}, "spec": spec})
    assert (closed.unschedulable, [taint.key for taint in closed.taints]) == (False, ["dedicated"])
    cordoned = parse.parse_node({"metadata": {"name": "n"}, "spec": spec})
    assert (cordoned.unschedulable, [taint.key for taint in cordoned.taints]) == (True, [cordon["key"], "dedicated"])


def test_daemon_set_gives_the_pod_that_its_controller_would_make() -> None:
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "hostNetwork": True,
            "containers": [{"resources": {"limits": {"cpu": "100m"}}}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    }
    daemon = parse.parse_daemon_set(
        {"metadata": metadata(name="agent", namespace="kube-system"), "spec": {"template": template}}
    )
    pod = daemon.template
    assert (daemon.namespace, daemon.name, pod.namespace, pod.name, pod.node_name) == (
        *("kube-system", "agent"),
        *("kube-system", "", ""),
    )
    assert pod.daemon
    assert pod.labels == {"app": "agent"}
    assert pod.spec.requests == {"cpu": 100, "pods": 1}
    assert pod.volumes == (PodVolume("v", "c"),)
    assert Toleration("gpu", "Exists") in pod.spec.tolerations
    assert Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule") in pod.spec.tolerations
    assert Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute") in pod.spec.tolerations
    assert Toleration("node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule") in pod.spec.tolerations


def test_only_host_network_daemons_tolerate_a_missing_network() -> None:
    daemon = parse.parse_daemon_set({"metadata": {"name": "d"}, "spec": {"template": {"spec": {}}}})
    keys = {each.key for each in daemon.template.spec.tolerations}
    assert "node.kubernetes.io/network-unavailable" not in keys
    assert "node.kubernetes.io/disk-pressure" in keys


@pytest.mark.parametrize(
    ("rule", "spec", "status", "generation", "selector", "allowed"),
    [
        ("as the status says", {"selector": {"matchLabels": {"a": "b"}}}, {"disruptionsAllowed": 2}, 0, 1, 2),
        ("no selector matches nothing", {}, {"disruptionsAllowed": 1}, 0, None, 1),
        ("an empty selector matches all", {"selector": {}}, {}, 0, 0, 0),
        ("a status behind the spec allows nothing", {"selector": {}}, {"disruptionsAllowed": 2}, 2, 0, 0),
        ("never negative", {"selector": {}}, {"disruptionsAllowed": -1}, 0, 0, 0),
    ],
)
def test_budget(
    rule: str, spec: dict[str, Any], status: dict[str, Any], generation: int, selector: int | None, allowed: int
) -> None:
    budget = parse.parse_budget({"metadata": metadata(name="b", generation=generation), "spec": spec, "status": status})
    expected = {None: None, 0: LabelSelector(), 1: LabelSelector((SelectorRequirement("a", "In", ("b",)),))}[selector]
    assert (budget.selector, budget.disruptions_allowed) == (expected, allowed), rule


def test_claim() -> None:
    claim = parse.parse_claim(
        {
            "metadata": metadata(
                name="c", namespace="ns", annotations={"volume.kubernetes.io/selected-node": "n", "x": "y"}
            ),
            "spec": {
                "volumeName": "pv",
                "storageClassName": "",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "20Gi"}},
            },
        }
    )
    assert claim.key == ("ns", "c")
    assert (claim.volume_name, claim.storage_class_name, claim.selected_node) == ("pv", "", "n")
    assert (claim.access_modes, claim.requested_bytes) == (("ReadWriteOnce",), 20 * 2**30)


def test_a_claims_class_is_unset_or_in_the_older_annotation() -> None:
    assert parse.parse_claim({"metadata": {"name": "c"}, "spec": {}}).storage_class_name is None
    older = {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "slow"}}
    assert parse.parse_claim({"metadata": older, "spec": {}}).storage_class_name == "slow"


@pytest.mark.parametrize(
    ("source", "driver", "local"),
    [
        ({"csi": {"driver": "ebs.csi.aws.com"}}, "ebs.csi.aws.com", False),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, "kubernetes.io/aws-ebs", False),
        ({"nfs": {}}, "", False),
        ({"local": {"path": "/"}}, "", True),
        ({"hostPath": {"path": "/"}}, "", True),
    ],
)
def test_volume(source: dict[str, Any], driver: str, local: bool) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}
    volume = parse.parse_volume(
        {
            "metadata": metadata(name="pv"),
            "spec": {
                **source,
                "nodeAffinity": {"required": required},
                "claimRef": {"namespace": "ns", "name": "c"},
                "capacity": {"storage": "1Gi"},
                "storageClassName": "gp3",
            },
            "status": {"phase": "Bound"},
        }
    )
    assert (volume.driver, volume.local, volume.claim, volume.phase) == (driver, local, ("ns", "c"), "Bound")
    assert volume.node_affinity == (NodeSelectorTerm((ZONE,)),)
    assert (volume.capacity_bytes, volume.storage_class_name) == (2**30, "gp3")


def test_a_volume_without_affinity_or_claim() -> None:
    volume = parse.parse_volume({"metadata": {"name": "pv"}, "spec": {}})
    assert (volume.node_affinity, volume.claim) == (None, None)


def test_storage_class() -> None:
    parsed = parse.parse_storage_class(
        {
            "metadata": metadata(name="gp3", annotations={"storageclass.kubernetes.io/is-default-class": "true"}),
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
        }
    )
    assert (parsed.provisioner, parsed.binding_mode, parsed.default) == (
        "ebs.csi.aws.com",
        "WaitForFirstConsumer",
        True,
    )
    assert parsed.allowed_topologies == (NodeSelectorTerm((ZONE,)),)
    plain = parse.parse_storage_class({"metadata": {"name": "x"}, "provisioner": "p"})
    assert (plain.binding_mode, plain.allowed_topologies, plain.default) == ("Immediate", None, False)


def test_csi_node_limits_are_absent_where_there_is_no_limit() -> None:
    drivers = [
        {"name": "ebs.csi.aws.com", "allocatable": {"count": 25}},
        {"name": "efs"},
        {"name": "x", "allocatable": {}},
    ]
    assert parse.parse_csi_node({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}).limits == {
        "ebs.csi.aws.com": 25
    }


def test_namespace() -> None:
    assert parse.parse_namespace({"metadata": {"name": "n", "labels": {"team": "a"}}}).labels == {"team": "a"}


PARSERS: list[Callable[[Any], object]] = [
    parse.parse_node,
    parse.parse_daemon_set,
    parse.parse_budget,
    parse.parse_claim,
    parse.parse_volume,
    parse.parse_storage_class,
    parse.parse_csi_node,
    parse.parse_namespace,
]
ODD_NAMES = ["selector", "template", "taints", "drivers", "nodeAffinity", "csi", "capacity", "images", "conditions"]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: str(parser.__name__))
@settings(max_examples=30, deadline=None)
@given(JSON, st.dictionaries(st.sampled_from(ODD_NAMES), JSON), st.dictionaries(st.sampled_from(ODD_NAMES), JSON))
def test_odd_documents_never_raise(
    parser: Callable[[Any], object], meta: object, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    parser({"metadata": meta, "spec": spec, "status": status, "allowedTopologies": meta})
