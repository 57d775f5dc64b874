"""`nodeless convert`: what both versions can say survives the way there and back, and what one cannot is told."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controller.cli.convert.from_v1 import FromV1
from controller.cli.convert.to_v1 import ToV1
from controller.core.api.v1alpha5 import V1ALPHA5
from tests.cli.conftest import TEMPLATE, Run, Write, provisioner

SPOT = ("karpenter.sh/capacity-type", "In", ["spot"])
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "later"},
    "spec": {"template": {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}}},
}
CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@v20260101"}],
        "role": "nodes",
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}, {"id": "sg-2"}],
    },
}


def by_kind(objects: tuple[dict[str, Any], ...], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"ttlSecondsAfterEmpty": 30, "ttlSecondsUntilExpired": 2592000},
        {"consolidation": {"enabled": True}, "weight": 7, "limits": {"resources": {"cpu": "100", "memory": "1Ti"}}},
        {
            "labels": {"team": "a"},
            "annotations": {"example.com/x": "y"},
            "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cilium", "effect": "NoExecute"}],
        },
        {"kubeletConfiguration": {"maxPods": 20, "kubeReserved": {"cpu": "100m"}}},
    ],
)
def test_provisioner_means_the_same_after_the_way_there_and_back(spec: dict[str, Any]) -> None:
    before = provisioner("default", SPOT, **spec)
    before["metadata"]["annotations"] = {"karpenter.sh/disruption-budgets": '[{"nodes": "20%"}]'}
    there = ToV1("nodes").convert([TEMPLATE, before])
    assert there.losses == ()
    back = FromV1().convert(there.objects)
    after = by_kind(back.objects, "Provisioner")[0]
    one, two = V1ALPHA5.pool.parse(before), V1ALPHA5.pool.parse(after)
    assert sorted(two.requirements, key=repr) == sorted(one.requirements, key=repr)
    for name in ("labels", "annotations", "taints", "startup_taints", "kubelet", "provider_ref", "limits", "weight",
                 "disruption", "object_annotations"):  # fmt: skip
        assert getattr(two, name) == getattr(one, name), name
    template = V1ALPHA5.node_template.parse(by_kind(back.objects, "AWSNodeTemplate")[0])
    assert template.subnet_selector == V1ALPHA5.node_template.parse(TEMPLATE).subnet_selector


def test_defaults_that_the_versions_do_not_share_are_written_out() -> None:
    pool = by_kind(ToV1().convert([TEMPLATE, provisioner()]).objects, "NodePool")[0]["spec"]
    assert pool["template"]["spec"]["expireAfter"] == "Never", "v1 would expire nodes after 720h"
    assert pool["disruption"] == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    keys = {each["key"]: each["values"] for each in pool["template"]["spec"]["requirements"]}
    assert keys["karpenter.sh/capacity-type"] == ["on-demand"]
    assert keys["karpenter.k8s.aws/instance-category"] == ["c", "m", "r"]


def test_a_family_that_is_not_set_is_written_as_al2023_and_said() -> None:
    spec = {key: value for key, value in TEMPLATE["spec"].items() if key != "amiFamily"}
    converted = ToV1("nodes").convert([{**TEMPLATE, "spec": spec}])
    assert by_kind(converted.objects, "EC2NodeClass")[0]["spec"]["amiSelectorTerms"] == [{"alias": "al2023@latest"}]
    assert "AL2 up to Kubernetes 1.32" in converted.losses[0]


def test_what_v1_leaves_open_stays_open() -> None:
    made = by_kind(FromV1().convert([CLASS, POOL]).objects, "Provisioner")[0]
    requirements = {each.key: each for each in V1ALPHA5.pool.parse(made).requirements}
    assert requirements["karpenter.sh/capacity-type"].values == ("on-demand", "spot")
    assert requirements["kubernetes.io/arch"].values == ("amd64", "arm64")
    assert requirements["karpenter.k8s.aws/instance-category"].operator == "Exists"
    assert "karpenter.k8s.aws/instance-generation" not in requirements
    assert made["spec"]["ttlSecondsUntilExpired"] == 720 * 3600, "v1's default"
    assert made["spec"]["consolidation"] == {"enabled": True}, "v1's default"


def test_kubelet_settings_move_to_a_class_of_their_own_for_each_provisioner() -> None:
    plain, dense = provisioner("plain"), provisioner("dense", kubeletConfiguration={"maxPods": 250})
    converted = ToV1("nodes").convert([TEMPLATE, plain, dense])
    classes = {each["metadata"]["name"]: each["spec"] for each in by_kind(converted.objects, "EC2NodeClass")}
    assert set(classes) == {"default", "default-dense"}
    assert classes["default-dense"]["kubelet"] == {"maxPods": 250}
    references = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        for each in by_kind(converted.objects, "NodePool")
    }
    assert references == {"plain": "default", "dense": "default-dense"}


def test_selectors_with_alternatives_become_terms_and_back() -> None:
    spec = {
        **TEMPLATE["spec"],
        "subnetSelector": {"tier": "a,b", "env": "prod"},
        "securityGroupSelector": {"aws-ids": "sg-1,sg-2"},
    }
    there = ToV1("nodes").convert([{**TEMPLATE, "spec": spec}])
    made = by_kind(there.objects, "EC2NodeClass")[0]["spec"]
    assert made["subnetSelectorTerms"] == [
        {"tags": {"tier": "a", "env": "prod"}},
        {"tags": {"tier": "b", "env": "prod"}},
    ]
    assert made["securityGroupSelectorTerms"] == [{"id": "sg-1"}, {"id": "sg-2"}]
    back = by_kind(FromV1().convert(there.objects).objects, "AWSNodeTemplate")[0]["spec"]
    assert back["subnetSelector"] == {"tier": "a,b", "env": "prod"}
    assert back["securityGroupSelector"] == {"aws-ids": "sg-1,sg-2"}


def test_what_is_lost_is_said_on_the_way_there() -> None:
    spec = {"subnetSelector": {"a": "b"}, "launchTemplate": "own"}
    annotated = provisioner(kubeletConfiguration={"containerRuntime": "containerd"})
    annotated["metadata"]["annotations"] = {"karpenter.sh/consolidation-threshold": "2"}
    lost = " ".join(ToV1().convert([{**TEMPLATE, "spec": spec}, annotated]).losses)
    for word in ("launchTemplate own", "containerRuntime", "consolidation-threshold", "a role or an instance profile"):
        assert word in lost


def test_what_is_lost_is_said_on_the_way_back() -> None:
    rich = yaml.safe_load(yaml.safe_dump(POOL))
    rich["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved", "spot"], "minValues": 2}
    ]
    rich["spec"]["disruption"] = {"consolidateAfter": "5m", "budgets": [{"nodes": "1"}]}
    rich["spec"]["limits"] = {"cpu": "10", "nodes": "3"}
    converted = FromV1().convert([CLASS, rich])
    lost = " ".join(converted.losses)
    for word in (
        "role nodes",
        "al2023@v20260101: the version",
        "minValues",
        "reserved",
        "consolidateAfter 5m",
        "limits.nodes",
    ):
        assert word in lost
    made = V1ALPHA5.pool.parse(by_kind(converted.objects, "Provisioner")[0])
    assert [e.values for e in made.requirements if e.key == "karpenter.sh/capacity-type"] == [("spot",)]
    assert made.object_annotations["karpenter.sh/disruption-budgets"] == '[{"nodes": "1"}]'


def test_command_prints_objects_and_says_losses_apart(run: Run, write: Write) -> None:
    result = run("convert", write(TEMPLATE, provisioner("default", SPOT)), "--strict")
    assert [each["kind"] for each in yaml.safe_load_all(result.stdout)] == ["EC2NodeClass", "NodePool"]
    assert "Lost or changed: AWSNodeTemplate default: the nodes' identity" in result.stderr
    assert result.exit_code == 3
    assert run("convert", write(TEMPLATE, provisioner("default", SPOT)), "--strict", "--role", "nodes").exit_code == 0


def test_command_refuses_what_is_wrong_mixed_or_empty(run: Run, write: Write) -> None:
    assert "hold both versions" in run("convert", write(TEMPLATE, POOL)).stderr
    wrong = run("convert", write(TEMPLATE, provisioner("default", ("x", "Inn", []))))
    assert wrong.exit_code == 2
    assert "spec.requirements[0]" in wrong.stderr
    assert "hold nothing to convert" in run("convert", write({"kind": "Service", "metadata": {"name": "s"}})).stderr


def test_what_breaks_a_rule_of_v1alpha5_is_said() -> None:
    inner = {"nodeClassRef": {"name": "default"}, "requirements": [{"key": "team", "operator": "Gt", "values": "2"}]}
    wrong = {**POOL, "spec": {"template": {"metadata": {"labels": ["a"]}, "spec": inner}}}
    said = FromV1().convert([wrong, CLASS]).losses
    assert 'Provisioner later: spec.requirements[0].values: Gt needs exactly one value, not 0; such as ["2"]' in said
