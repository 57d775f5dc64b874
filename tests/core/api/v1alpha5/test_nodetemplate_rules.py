"""Every rule of a node template refuses what breaks it, accepts what does not, and says where and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.nodetemplate import BlockDevice, BlockDeviceMapping, MetadataOptions
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.v1alpha5.nodetemplate_rules import (
    AMI_FAMILIES,
    SPEC_FIELDS,
    VOLUME_TYPES,
)
from controller.errors import ValidationError
from tests.core.api.test_parse_pod import JSON
from tests.factories import node_template_object

Spec = dict[str, Any]

parse, validate = V1ALPHA5.node_template.parse, V1ALPHA5.node_template.validate

UNMANAGED: Spec = {"securityGroupSelector": None, "launchTemplate": "mine"}


def device(**ebs: Any) -> Spec:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", **ebs}}]}


REJECTED: list[tuple[str, Spec, str]] = [
    ("launchTemplate", {"launchTemplate": "mine"}, "spec.securityGroupSelector"),
    ("launchTemplate", {**UNMANAGED, "metadataOptions": {}}, "spec.metadataOptions"),
    ("launchTemplate", {**UNMANAGED, "amiFamily": "AL2"}, "spec.amiFamily"),
    ("launchTemplate", {**UNMANAGED, "instanceProfile": "p"}, "spec.instanceProfile"),
    ("launchTemplate", {**UNMANAGED, **device()}, "spec.blockDeviceMappings"),
    ("launchTemplate beside userData", {**UNMANAGED, "userData": "x"}, "spec.userData"),
    ("launchTemplate beside amiSelector", {**UNMANAGED, "amiSelector": {"a": "b"}}, "spec.amiSelector"),
    ("subnetSelector", {"subnetSelector": None}, "spec.subnetSelector"),
    ("subnetSelector: an empty map selects nothing", {"subnetSelector": {}}, "spec.subnetSelector"),
    ("subnetSelector entry: key", {"subnetSelector": {"": "x"}}, 'spec.subnetSelector[""]'),
    ("subnetSelector entry: value", {"subnetSelector": {"a": ""}}, "spec.subnetSelector.a"),
    ("subnet ids", {"subnetSelector": {"aws-ids": "subnet-1,must-start-with-subnet"}}, "spec.subnetSelector.aws-ids"),
    ("subnet ids: matched whole", {"subnetSelector": {"aws-ids": "x-subnet-1"}}, "spec.subnetSelector.aws-ids"),
    ("subnet ids: matched whole", {"subnetSelector": {"aws-ids": "subnet-1 subnet-2"}}, "spec.subnetSelector.aws-ids"),
    ("securityGroupSelector", {"securityGroupSelector": None}, "spec.securityGroupSelector"),
    ("securityGroupSelector: empty", {"securityGroupSelector": {}}, "spec.securityGroupSelector"),
    ("securityGroupSelector: value", {"securityGroupSelector": {"a": ""}}, "spec.securityGroupSelector.a"),
    (
        "securityGroupSelector: ids",
        {"securityGroupSelector": {"aws-ids": "subnet-1"}},
        "spec.securityGroupSelector.aws-ids",
    ),
    ("tags", {"tags": {"": "x"}}, 'spec.tags[""]'),
    ("tags: ownership", {"tags": {"karpenter.sh/provisioner-name": "x"}}, 'spec.tags["karpenter.sh/provisioner-name"]'),
    ("tags: ownership", {"tags": {"karpenter.sh/managed-by": "x"}}, 'spec.tags["karpenter.sh/managed-by"]'),
    ("tags: ownership", {"tags": {"kubernetes.io/cluster/c": "owned"}}, 'spec.tags["kubernetes.io/cluster/c"]'),
    ("tags: AWS's own", {"tags": {"aws:x": "y"}}, 'spec.tags["aws:x"]'),
    ("tags: type", {"tags": {"a": 1}}, "spec.tags.a"),
    ("metadataOptions", {"metadataOptions": {"httpEndpoint": "on"}}, "spec.metadataOptions.httpEndpoint"),
    ("metadataOptions", {"metadataOptions": {"httpProtocolIPv6": "on"}}, "spec.metadataOptions.httpProtocolIPv6"),
    ("metadataOptions", {"metadataOptions": {"httpTokens": "enabled"}}, "spec.metadataOptions.httpTokens"),
    (
        "metadataOptions",
        {"metadataOptions": {"httpPutResponseHopLimit": 0}},
        "spec.metadataOptions.httpPutResponseHopLimit",
    ),
    (
        "metadataOptions",
        {"metadataOptions": {"httpPutResponseHopLimit": 65}},
        "spec.metadataOptions.httpPutResponseHopLimit",
    ),
    ("amiFamily", {"amiFamily": "al2"}, "spec.amiFamily"),
    ("amiFamily", {"amiFamily": "Windows2022"}, "spec.amiFamily"),
    (
        "block device: name",
        {"blockDeviceMappings": [{"ebs": {"volumeSize": "1Gi"}}]},
        "spec.blockDeviceMappings[0].deviceName",
    ),
    ("block device: ebs", {"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]}, "spec.blockDeviceMappings[0].ebs"),
    ("volumeType", device(volumeType="gp4"), "spec.blockDeviceMappings[0].ebs.volumeType"),
    ("volumeSize", device(volumeSize=None), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("volumeSize: small", device(volumeSize="999999999"), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("volumeSize: big", device(volumeSize="64000000000001"), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("volumeSize: no quantity", device(volumeSize="20 Gi"), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("amiSelector: key", {"amiSelector": {"": "x"}}, 'spec.amiSelector[""]'),
    ("amiSelector: value", {"amiSelector": {"a": ""}}, "spec.amiSelector.a"),
    ("amiSelector: ids", {"amiSelector": {"aws-ids": "ami-1,x"}}, "spec.amiSelector.aws-ids"),
    ("amiSelector: the other spelling", {"amiSelector": {"aws::ids": "x"}}, 'spec.amiSelector["aws::ids"]'),
    ("amiSelector: empty", {"amiSelector": {}}, "spec.amiSelector"),
    ("Custom without amiSelector", {"amiFamily": "Custom"}, "spec.amiSelector"),
    ("unknown field", {"amiFamly": "AL2"}, "spec.amiFamly"),
    ("unknown nested field", device(kmsKeyId="x"), "spec.blockDeviceMappings[0].ebs.kmsKeyId"),
    ("wrong type", {"userData": 1}, "spec.userData"),
    ("wrong type", {"detailedMonitoring": "true"}, "spec.detailedMonitoring"),
    ("wrong type", {"blockDeviceMappings": {}}, "spec.blockDeviceMappings"),
    ("wrong type", {"blockDeviceMappings": [None]}, "spec.blockDeviceMappings[0]"),
]

ACCEPTED: list[tuple[str, Spec]] = [
    ("launchTemplate", UNMANAGED),
    ("launchTemplate: an empty list of devices", {**UNMANAGED, "blockDeviceMappings": []}),
    ("userData and amiSelector", {"userData": "x", "amiSelector": {"a": "b"}}),
    ("subnetSelector", {"subnetSelector": {"a": "*", "b": "x,y"}}),
    ("subnet ids", {"subnetSelector": {"aws-ids": "subnet-1, subnet-0a2b"}}),
    ("securityGroupSelector", {"securityGroupSelector": {"aws-ids": "sg-1,sg-2"}}),
    ("tags", {"tags": {"a": "", "Name": "web", "karpenter.sh/discovery": "c", "kubernetes.io/role": "x"}}),
    (
        "metadataOptions",
        {
            "metadataOptions": {
                "httpEndpoint": "disabled",
                "httpProtocolIPv6": "enabled",
                "httpPutResponseHopLimit": 64,
                "httpTokens": "optional",
            }
        },
    ),
    *(("amiFamily", {"amiFamily": family, "amiSelector": {"a": "b"}}) for family in AMI_FAMILIES),
    *(("volumeType", device(volumeType=kind)) for kind in VOLUME_TYPES),
    ("volumeSize", device(volumeSize=None, snapshotID="snap-1")),
    ("volumeSize", device(volumeSize="1G")),
    ("volumeSize", device(volumeSize="64T")),
    ("volumeSize: a bare number", device(volumeSize=20_000_000_000)),
    ("amiSelector", {"amiSelector": {"aws-ids": "ami-1,ami-2"}}),
    ("amiSelector", {"amiSelector": {"aws::ids": "ami-1", "aws::owners": "self,123", "aws::name": "my-*"}}),
    ("artefacts", {"apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS"}),
]


@pytest.mark.parametrize(("rule", "spec", "path"), REJECTED)
def test_refused_at_its_path_with_a_remedy(rule: str, spec: Spec, path: str) -> None:
    problems = validate(node_template_object(spec=spec))
    assert path in [problem.path for problem in problems], (rule, problems)
    with pytest.raises(ValidationError) as caught:
        parse(node_template_object(spec=spec))
    assert caught.value.problems == problems


@pytest.mark.parametrize(("rule", "spec"), ACCEPTED)
def test_accepted(rule: str, spec: Spec) -> None:
    assert validate(node_template_object(spec=spec)) == (), rule


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ({"amiFamily": "al2"}, "did you mean 'AL2'?"),
        ({"amiFamily": "Windows2019"}, "use one of AL2, AL2023, Bottlerocket, Ubuntu, Custom"),
        ({"subnetSelector": {"a": ""}}, 'write "*" for any value'),
        ({"subnetSelecter": {"a": "b"}}, "did you mean 'subnetSelector'?"),
        (device(volumeType="GP3"), "did you mean 'gp3'?"),
    ],
)
def test_remedies_name_what_was_meant(spec: Spec, hint: str) -> None:
    assert hint in " ".join(problem.remedy for problem in validate(node_template_object(spec=spec)))


def test_windows_is_refused_by_name() -> None:
    (problem,) = validate(node_template_object(spec={"amiFamily": "Windows2022"}))
    assert "Windows nodes are not supported" in problem.message


def test_every_field_is_read() -> None:
    ebs = {
        "deleteOnTermination": True,
        "encrypted": False,
        "iops": 3000,
        "kmsKeyID": "arn:key",
        "snapshotID": "snap-1",
        "throughput": 125,
        "volumeSize": "20Gi",
        "volumeType": "gp3",
    }
    spec = {
        "amiFamily": "Bottlerocket",
        "amiSelector": {"aws-ids": "ami-1"},
        "subnetSelector": {"s": "1"},
        "securityGroupSelector": {"g": "2"},
        "instanceProfile": "profile",
        "userData": "data",
        "tags": {"t": "3"},
        "metadataOptions": {"httpEndpoint": "enabled", "httpPutResponseHopLimit": 1},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}, {"deviceName": "/dev/xvdb", "ebs": {**ebs}}],
        "context": "ctx",
        "detailedMonitoring": True,
        "apiVersion": "x",
        "kind": "y",
    }
    template = parse(node_template_object(name="t", spec=spec, deletionTimestamp="2026-01-02T03:04:05Z"))
    assert (template.name, template.ami_family, template.ami_selector) == ("t", "Bottlerocket", {"aws-ids": "ami-1"})
    assert (template.subnet_selector, template.security_group_selector) == ({"s": "1"}, {"g": "2"})
    assert (template.instance_profile, template.user_data, template.tags) == ("profile", "data", {"t": "3"})
    assert template.metadata_options == MetadataOptions(http_endpoint="enabled", http_put_response_hop_limit=1)
    volume = BlockDevice(True, False, 3000, "arn:key", "snap-1", 125, 20 * 2**30, "gp3")
    assert template.block_device_mappings == (
        BlockDeviceMapping("/dev/xvda", volume),
        BlockDeviceMapping("/dev/xvdb", volume),
    )
    assert (template.context, template.detailed_monitoring, template.deleted_at) == ("ctx", True, 1767323045.0)
    assert {*spec, "launchTemplate"} == set(SPEC_FIELDS)
    assert parse(node_template_object(spec=UNMANAGED)).launch_template == "mine"


def test_absent_fields_stay_unset() -> None:
    template = parse(node_template_object())
    assert (template.ami_family, template.block_device_mappings, template.detailed_monitoring) == (None, None, None)
    assert template.metadata_options == MetadataOptions()


@settings(max_examples=100, deadline=None)
@given(
    JSON
    | st.dictionaries(
        st.sampled_from(SPEC_FIELDS),
        JSON | st.lists(st.dictionaries(st.sampled_from(["deviceName", "ebs"]), JSON), max_size=2),
    )
)
def test_any_document_is_parsed_or_refused_with_problems(spec: object) -> None:
    document = {"metadata": {"name": "t"}, "spec": spec}
    problems = validate(document)
    if problems:
        with pytest.raises(ValidationError) as caught:
            parse(document)
        assert caught.value.problems == problems
    else:
        assert hash(parse(document)) == hash(parse(document))
