"""Every rule of a node template refuses what breaks it, accepts what does not, and says where and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.nodetemplate import BlockDevice, BlockDeviceMapping, MetadataOptions
from controller.core.api.v1alpha5.nodetemplate_rules import (
    AMI_FAMILIES,
    SPEC_FIELDS,
    VOLUME_TYPES,
    parse_node_template,
    validate_node_template,
)
from controller.errors import ValidationError
from tests.core.api.test_parse_pod import JSON
from tests.factories import node_template_object

Spec = dict[str, Any]

UNMANAGED: Spec = {"securityGroupSelector": None, "launchTemplate": "mine"}


def device(**ebs: Any) -> Spec:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", **ebs}}]}


REJECTED: list[tuple[str, Spec, str]] = [
    ("R40", {"launchTemplate": "mine"}, "spec.securityGroupSelector"),
    ("R40", {**UNMANAGED, "metadataOptions": {}}, "spec.metadataOptions"),
    ("R40", {**UNMANAGED, "amiFamily": "AL2"}, "spec.amiFamily"),
    ("R40", {**UNMANAGED, "instanceProfile": "p"}, "spec.instanceProfile"),
    ("R40", {**UNMANAGED, **device()}, "spec.blockDeviceMappings"),
    ("R41", {**UNMANAGED, "userData": "x"}, "spec.userData"),
    ("R42", {**UNMANAGED, "amiSelector": {"a": "b"}}, "spec.amiSelector"),
    ("R43", {"subnetSelector": None}, "spec.subnetSelector"),
    ("R43 an empty map selects nothing", {"subnetSelector": {}}, "spec.subnetSelector"),
    ("R44 key", {"subnetSelector": {"": "x"}}, 'spec.subnetSelector[""]'),
    ("R44 value", {"subnetSelector": {"a": ""}}, "spec.subnetSelector.a"),
    ("R45", {"subnetSelector": {"aws-ids": "subnet-1,must-start-with-subnet"}}, "spec.subnetSelector.aws-ids"),
    ("R45 matched whole", {"subnetSelector": {"aws-ids": "x-subnet-1"}}, "spec.subnetSelector.aws-ids"),
    ("R45 matched whole", {"subnetSelector": {"aws-ids": "subnet-1 subnet-2"}}, "spec.subnetSelector.aws-ids"),
    ("R46", {"securityGroupSelector": None}, "spec.securityGroupSelector"),
    ("R46 empty", {"securityGroupSelector": {}}, "spec.securityGroupSelector"),
    ("R46 value", {"securityGroupSelector": {"a": ""}}, "spec.securityGroupSelector.a"),
    ("R46 ids", {"securityGroupSelector": {"aws-ids": "subnet-1"}}, "spec.securityGroupSelector.aws-ids"),
    ("R47", {"tags": {"": "x"}}, 'spec.tags[""]'),
    ("R47 ownership", {"tags": {"karpenter.sh/provisioner-name": "x"}}, 'spec.tags["karpenter.sh/provisioner-name"]'),
    ("R47 ownership", {"tags": {"karpenter.sh/managed-by": "x"}}, 'spec.tags["karpenter.sh/managed-by"]'),
    ("R47 ownership", {"tags": {"kubernetes.io/cluster/c": "owned"}}, 'spec.tags["kubernetes.io/cluster/c"]'),
    ("R47 AWS's own", {"tags": {"aws:x": "y"}}, 'spec.tags["aws:x"]'),
    ("R47 type", {"tags": {"a": 1}}, "spec.tags.a"),
    ("R48", {"metadataOptions": {"httpEndpoint": "on"}}, "spec.metadataOptions.httpEndpoint"),
    ("R48", {"metadataOptions": {"httpProtocolIPv6": "on"}}, "spec.metadataOptions.httpProtocolIPv6"),
    ("R48", {"metadataOptions": {"httpTokens": "enabled"}}, "spec.metadataOptions.httpTokens"),
    ("R48", {"metadataOptions": {"httpPutResponseHopLimit": 0}}, "spec.metadataOptions.httpPutResponseHopLimit"),
    ("R48", {"metadataOptions": {"httpPutResponseHopLimit": 65}}, "spec.metadataOptions.httpPutResponseHopLimit"),
    ("R49", {"amiFamily": "al2"}, "spec.amiFamily"),
    ("R49", {"amiFamily": "Windows2022"}, "spec.amiFamily"),
    ("R50 name", {"blockDeviceMappings": [{"ebs": {"volumeSize": "1Gi"}}]}, "spec.blockDeviceMappings[0].deviceName"),
    ("R50 ebs", {"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]}, "spec.blockDeviceMappings[0].ebs"),
    ("R51", device(volumeType="gp4"), "spec.blockDeviceMappings[0].ebs.volumeType"),
    ("R52", device(volumeSize=None), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("R52 small", device(volumeSize="999999999"), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("R52 big", device(volumeSize="64000000000001"), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("R52 no quantity", device(volumeSize="20 Gi"), "spec.blockDeviceMappings[0].ebs.volumeSize"),
    ("R53 key", {"amiSelector": {"": "x"}}, 'spec.amiSelector[""]'),
    ("R53 value", {"amiSelector": {"a": ""}}, "spec.amiSelector.a"),
    ("R53 ids", {"amiSelector": {"aws-ids": "ami-1,x"}}, "spec.amiSelector.aws-ids"),
    ("R53 the other spelling", {"amiSelector": {"aws::ids": "x"}}, 'spec.amiSelector["aws::ids"]'),
    ("R53 empty", {"amiSelector": {}}, "spec.amiSelector"),
    ("R54", {"amiFamily": "Custom"}, "spec.amiSelector"),
    ("unknown field", {"amiFamly": "AL2"}, "spec.amiFamly"),
    ("unknown nested field", device(kmsKeyId="x"), "spec.blockDeviceMappings[0].ebs.kmsKeyId"),
    ("wrong type", {"userData": 1}, "spec.userData"),
    ("wrong type", {"detailedMonitoring": "true"}, "spec.detailedMonitoring"),
    ("wrong type", {"blockDeviceMappings": {}}, "spec.blockDeviceMappings"),
    ("wrong type", {"blockDeviceMappings": [None]}, "spec.blockDeviceMappings[0]"),
]

ACCEPTED: list[tuple[str, Spec]] = [
    ("R40", UNMANAGED),
    ("R40 an empty list of devices", {**UNMANAGED, "blockDeviceMappings": []}),
    ("R41, R42", {"userData": "x", "amiSelector": {"a": "b"}}),
    ("R43, R44", {"subnetSelector": {"a": "*", "b": "x,y"}}),
    ("R45", {"subnetSelector": {"aws-ids": "subnet-1, subnet-0a2b"}}),
    ("R46", {"securityGroupSelector": {"aws-ids": "sg-1,sg-2"}}),
    ("R47", {"tags": {"a": "", "Name": "web", "karpenter.sh/discovery": "c", "kubernetes.io/role": "x"}}),
    (
        "R48",
        {
            "metadataOptions": {
                "httpEndpoint": "disabled",
                "httpProtocolIPv6": "enabled",
                "httpPutResponseHopLimit": 64,
                "httpTokens": "optional",
            }
        },
    ),
    *(("R49", {"amiFamily": family, "amiSelector": {"a": "b"}}) for family in AMI_FAMILIES),
    *(("R51", device(volumeType=kind)) for kind in VOLUME_TYPES),
    ("R52", device(volumeSize=None, snapshotID="snap-1")),
    ("R52", device(volumeSize="1G")),
    ("R52", device(volumeSize="64T")),
    ("R52 a bare number", device(volumeSize=20_000_000_000)),
    ("R53", {"amiSelector": {"aws-ids": "ami-1,ami-2"}}),
    ("R53", {"amiSelector": {"aws::ids": "ami-1", "aws::owners": "self,123", "aws::name": "my-*"}}),
    ("artefacts", {"apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS"}),
]


@pytest.mark.parametrize(("rule", "spec", "path"), REJECTED)
def test_refused_at_its_path_with_a_remedy(rule: str, spec: Spec, path: str) -> None:
    problems = validate_node_template(node_template_object(spec=spec))
    assert path in [problem.path for problem in problems], (rule, problems)
    with pytest.raises(ValidationError) as caught:
        parse_node_template(node_template_object(spec=spec))
    assert caught.value.problems == problems


@pytest.mark.parametrize(("rule", "spec"), ACCEPTED)
def test_accepted(rule: str, spec: Spec) -> None:
    assert validate_node_template(node_template_object(spec=spec)) == (), rule


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
    assert hint in " ".join(problem.remedy for problem in validate_node_template(node_template_object(spec=spec)))


def test_windows_is_refused_by_name() -> None:
    (problem,) = validate_node_template(node_template_object(spec={"amiFamily": "Windows2022"}))
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
    template = parse_node_template(node_template_object(name="t", spec=spec, deletionTimestamp="2026-01-02T03:04:05Z"))
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
    assert parse_node_template(node_template_object(spec=UNMANAGED)).launch_template == "mine"


def test_absent_fields_stay_unset() -> None:
    template = parse_node_template(node_template_object())
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
    problems = validate_node_template(document)
    if problems:
        with pytest.raises(ValidationError) as caught:
            parse_node_template(document)
        assert caught.value.problems == problems
    else:
        assert hash(parse_node_template(document)) == hash(parse_node_template(document))
