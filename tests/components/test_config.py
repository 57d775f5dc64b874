"""Stack configuration: what is accepted, what is refused, and that everything wrong is said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from components.config.checks import warnings
from components.config.load import Stack, load, parse, values
from components.nodeless import stack_arguments
from controller.errors import ValidationError
from tests.components.stacks import ROOT, STACKS, minimal, stack


def read(document: dict[str, Any], folder: Path = ROOT) -> Stack:
    return parse(document, folder)


def problems(document: dict[str, Any], folder: Path = ROOT) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        parse(document, folder)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", STACKS)
def test_every_committed_stack_is_valid(name: str) -> None:
    assert stack(name).config.cluster.name
    assert {each["kind"] for each in stack(name).objects} == {"AWSNodeTemplate", "Provisioner"}


def test_names_derive_from_the_clusters_name() -> None:
    config = read(minimal()).config
    assert config.node_role_name == "KarpenterNodeRole-myeks"
    assert config.instance_profile_name == "KarpenterNodeInstanceProfile-myeks"
    assert config.controller_role_name == "KarpenterControllerRole-myeks"
    assert config.queue_name == "myeks"


def test_all_problems_are_said_at_once_with_path_value_and_remedy() -> None:
    said = problems(
        {
            "cluster": {"name": "bad name", "craete": {}},
            "controller": {"image": "a", "replicas": "2"},
            "interruption": {"enabled": "yes"},
            "nope": 1,
        }
    )
    assert said[0].startswith("nope: unknown key; known: addons, adopt, cluster,")
    assert said[1:] == [
        "cluster.craete: unknown key; did you mean 'create'?",
        "cluster.name: 'bad name' is malformed; write letters, digits, - and _, at most 100",
        "controller.replicas: must be an integer, not '2'",
        "interruption.enabled: must be true or false, not 'yes'",
    ]


def test_a_missing_or_unreadable_key_hides_no_problem_of_the_others_and_makes_none() -> None:
    said = problems(
        {
            "controller": {"build": {}, "image": "a", "namespace": "kube-system", "replicas": 9},
            "identity": {"nodePolicyArns": ["policy/A"]},
            "fargate": {"profiles": [{"name": "eks-a", "selectors": [{}]}]},
            "provisioners": [3, {"spec": {"weight": 101, "providerRef": {"name": "default"}}}],
            "nodeTemplates": "none",
        }
    )
    assert [each.partition(": ")[0] for each in said] == [
        "cluster",
        "identity.nodePolicyArns[0]",
        "fargate.profiles[0].selectors[0].namespace",
        "controller.replicas",
        "provisioners[0]",
        "provisioners[1].name",
        "nodeTemplates",
        "controller.namespace",
        "controller.image",
        "fargate.profiles[0].name",
        "provisioners[1].spec.weight",
    ]


def test_policies_of_aws_itself_are_taken_by_their_arns() -> None:
    arn = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"
    assert read(minimal(identity={"nodePolicyArns": [arn]})).config.identity.node_policy_arns == (arn,)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (1.35, 'must be a string, not 1.35; quote it: "1.35"'),
        (1.30, 'must be a string, not 1.3; write major.minor in quotes, such as "1.35"'),
    ],
)
def test_a_number_where_a_string_belongs_is_to_be_quoted(version: float, said: str) -> None:
    document = minimal(cluster={"name": "myeks", "create": {"version": version, "subnetIds": ["subnet-0123abcd"] * 2}})
    assert problems(document) == [f"cluster.create.version: {said}"]


def test_null_counts_as_absent_and_a_required_key_is_missed() -> None:
    assert read(minimal(addons=None, identity={"path": None})).config.identity.path == "/"
    assert problems({"cluster": {"name": None}, "controller": {"image": "a"}}) == [
        "cluster.name: is missing; Name of the EKS cluster; all other names derive from it."
    ]


def test_a_name_too_long_for_iam_says_which_key_shortens_it() -> None:
    said = problems(minimal(cluster={"name": "x" * 60}))
    assert [each.split(":")[0] for each in said] == [
        "identity.nodeRoleName",
        "identity.controllerRoleName",
        "fargate.podExecutionRoleName",
    ]
    short = {"nodeRoleName": "n", "controllerRoleName": "c"}
    long_but_fine = minimal(cluster={"name": "x" * 60}, identity=short, fargate={"podExecutionRoleName": "f"})
    assert read(long_but_fine).config.node_role_name == "n"


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"controller": {}}, "controller.image"),
        ({"controller": {"image": "a", "build": {}}}, "controller.image"),
        ({"controller": {"image": "a", "namespace": "kube-system"}}, "controller.namespace: 'kube-system' has other"),
        ({"controller": {"image": "a", "namespace": "default"}}, "controller.namespace"),
        ({"controller": {"image": "a", "namespace": "monitoring"}}, "controller.namespace"),
        ({"controller": {"image": "a", "placement": "nodeGroup"}}, "controller.nodeGroup"),
        ({"controller": {"image": "a", "nodeGroup": "ng"}}, "controller.nodeGroup"),
        ({"fargate": {"enabled": False}}, "controller.placement"),
        ({"fargate": {"profiles": [{"name": "karpenter", "selectors": [{"namespace": "a"}]}]}}, "fargate.profiles"),
        ({"fargate": {"profiles": [{"name": "eks-a", "selectors": [{"namespace": "a"}]}]}}, "fargate.profiles"),
        ({"fargate": {"profiles": [{"name": "a", "selectors": []}]}}, "fargate.profiles[0].selectors"),
        ({"fargate": {"profiles": [{"name": "a", "selectors": [{"namespace": "a"}] * 6}]}}, "fargate.profiles[0]"),
        ({"discovery": {"subnetIds": ["subnet-0123abcd"], "subnetTags": {"a": "b"}}}, "discovery.subnetTags"),
        ({"discovery": {"securityGroup": "my-group"}}, "discovery.securityGroup"),
        ({"addons": {"grafana": {}}}, "addons.grafana"),
        (
            {"addons": {"overprovisioning": {"timezone": "UTC", "start": "a", "end": "b", "replicas": 1}}},
            "addons.overprovisioning",
        ),
        ({"settings": {"tags": {"karpenter.sh/provisioner-name": "x"}}}, "settings.tags"),
        ({"settings": {"vmMemoryOverheadPercent": 7.5}}, "settings.vmMemoryOverheadPercent"),
        ({"settings": {"batchMaxDuration": "10"}}, "settings.batchMaxDuration: '10' is not a duration"),
        ({"settings": {"clusterEndpoint": "example.com"}}, "settings.clusterEndpoint"),
        ({"settings": {"nodeNameConvention": "ip"}}, "settings.nodeNameConvention"),
        ({"settings": {"spotPoolShare": 0}}, "settings.spotPoolShare"),
        ({"identity": {"permissionsBoundaryArn": "Boundary"}}, "identity.permissionsBoundaryArn"),
        ({"interruption": {"queueName": "a" * 81}}, "interruption.queueName"),
    ],
)
def test_rules_between_keys_name_the_key_to_change(keys: dict[str, Any], path: str) -> None:
    said = problems(minimal(**keys))
    assert len(said) == 1, said
    assert said[0].startswith(path)
    assert "; " in said[0], "a problem without a remedy"


def test_a_new_cluster_cannot_lean_on_node_groups() -> None:
    created = {"name": "new", "create": {"version": "1.33", "subnetIds": ["subnet-0123abcd"]}}
    said = problems(
        minimal(
            cluster=created,
            discovery={"nodeGroups": ["ng"], "securityGroup": "nodeGroup/ng"},
            identity={"nodeJoin": "awsAuth"},
            controller={"image": "a", "placement": "nodeGroup", "nodeGroup": "ng"},
        )
    )
    assert [each.split(":")[0] for each in said] == [
        "cluster.create.subnetIds",
        "discovery.nodeGroups",
        "discovery.securityGroup",
        "controller.placement",
        "identity.nodeJoin",
    ]


def test_a_bad_provisioner_fails_with_the_controllers_own_words_under_its_key_path() -> None:
    requirement = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["two"]}
    said = problems(
        minimal(
            nodeTemplates=[{"name": "default", "spec": {"subnetSelector": {"a": "b"}}}],
            provisioners=[
                {"name": "a", "spec": {"requirements": [requirement], "providerRef": {"name": "defalt"}}},
                {"name": "a", "spec": {"weight": 101, "providerRef": {"name": "default"}}},
            ],
        )
    )
    assert [each.partition(": ")[0] for each in said] == [
        "nodeTemplates[0].spec.securityGroupSelector",
        "provisioners[0].spec.requirements[0].values[0]",
        "provisioners[1].spec.weight",
        "provisioners[1]",
        "provisioners[0].spec.providerRef.name",
    ]
    assert said[-1].endswith("did you mean 'default'?")


GUIDES_GPU = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  - {key: node.kubernetes.io/instance-type, operator: In, values: [p2.xlarge, p3.2xlarge, p3.8xlarge, p3.16xlarge]}
  - {key: kubernetes.io/arch, operator: In, values: [nvidia, amd64]}
  limits: {resources: {cpu: 1000, memory: 1000Gi, nvidia.com/gpu: 10}}
  ttlSecondsAfterEmpty: 30
  providerRef: {name: default}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default, labels: {app: karpenter, version: v0.25.0}}
spec:
  amiFamily: AL2
  subnetSelector: {karpenter.sh/discovery: myeks}
  securityGroupSelector: {karpenter.sh/discovery: myeks}
"""


def test_manifests_of_the_guides_are_taken_unchanged_from_files(tmp_path: Path) -> None:
    (tmp_path / "gpu.yaml").write_text(GUIDES_GPU)
    objects = read(minimal(manifests=["gpu.yaml"]), tmp_path).objects
    assert [dict(each) for each in objects] == sorted(yaml.safe_load_all(GUIDES_GPU), key=lambda each: each["kind"])


def test_files_that_cannot_be_used_are_said_with_what_else_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "other.yaml").write_text("kind: Deployment\n---\n- 1\n---\nkind: Provisioner\napiVersion: v1\n")
    said = problems(minimal(manifests=["missing.yaml", "broken.yaml", "other.yaml"]), tmp_path)
    assert [each.partition(": ")[0] for each in said] == [
        "manifests[0]",
        "manifests[1]",
        "manifests[2] (other.yaml, document 1).kind",
        "manifests[2] (other.yaml, document 2)",
        "manifests[2] (other.yaml, document 3).apiVersion",
    ]


def test_the_language_hosts_environment_is_read_and_what_is_set_goes_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {f"nodeless:{name}": json.dumps(value) for name, value in minimal().items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({**keys, "aws:region": "eu-west-1"}))
    assert load(stack_arguments(), ROOT).config.cluster.name == "myeks"
    pulumi.runtime.set_all_config({"nodeless:cluster": '{"name": "other"}'})
    try:
        assert load(stack_arguments(), ROOT).config.cluster.name == "other"
    finally:
        pulumi.runtime.set_all_config({})


def test_a_structured_key_that_is_no_json_is_a_problem_not_a_crash() -> None:
    document = values({"nodeless:cluster": "myeks", "nodeless:controller": '{"image": "a"}', "aws:region": "eu-west-1"})
    assert problems(document) == ["cluster: must be an object, not a string"]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({}, "settings.priceRules[0]: changes no price"),
        ({"discountPercent": 10, "pricePerHour": 1}, "settings.priceRules[0]: has discountPercent and pricePerHour"),
        ({"discountPercent": 100}, "settings.priceRules[0].discountPercent: 100.0 is out of range"),
        ({"pricePerHour": 0}, "settings.priceRules[0].pricePerHour: 0.0 is out of range; write a number from 1e-06 on"),
        (
            {"discountPercent": 1, "capacityTypes": ["reserved"]},
            "settings.priceRules[0].capacityTypes[0]: 'reserved' is not supported",
        ),
    ],
)
def test_a_price_rule_that_the_controller_would_refuse_is_refused_at_preview(
    rule: dict[str, Any], problem: str
) -> None:
    (said,) = problems(minimal() | {"settings": {"priceRules": [rule]}})
    assert said.startswith(problem)


def test_links_that_lead_nowhere_are_said_where_something_shows_them() -> None:
    def said(**addons: Any) -> list[str]:
        return [each.partition(":")[0] for each in warnings(read(minimal() | {"addons": addons}).config)]

    assert said(prometheus={}) == ["addons.runbooks"]
    assert said() == said(prometheus={}, runbooks="https://git.example.com/runbooks.md") == []
