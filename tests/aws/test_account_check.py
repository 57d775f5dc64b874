"""What `nodeless check` asks of an account, and what it says of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.aws.account_check import SPOT_ROLE, family_class, running_vcpus
from controller.aws.provider import AWSProvider
from controller.cli.check.check_aws import AwsCheck, mean_addresses
from controller.cli.check.findings import Finding, Level, collect
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import TemplateStatus
from controller.core.state.snapshot import Snapshot
from sandbox.aws.faults import Fault
from tests.aws.conftest import SETTINGS, Cloud, provisioner, request, template
from tests.factories import node as make_node
from tests.factories import state_node


@pytest.mark.parametrize(
    ("instance_type", "family"),
    [
        ("m5.large", "standard"), ("c6in.2xlarge", "standard"), ("t3.micro", "standard"), ("im4gn.large", "standard"),
        ("g5.xlarge", "g"), ("vt1.3xlarge", "g"), ("p3.2xlarge", "p"),
        ("inf2.xlarge", ""), ("trn1.2xlarge", ""), ("hpc7a.12xlarge", ""), ("u-6tb1.metal", ""), ("x2idn.metal", ""),
    ],
)  # fmt: skip
def test_families_are_counted_as_service_quotas_counts_them(instance_type: str, family: str) -> None:
    assert family_class(instance_type) == family


def looked(cloud: Cloud, loaded: AWSProvider, *, queue: str = "nowhere", **changes: object) -> dict[str, list[Finding]]:
    snapshot = Snapshot(provisioners={"default": provisioner()}, node_templates={"default": template(**changes)})
    settings = replace(SETTINGS, interruption_queue_name=queue)
    asked = AwsCheck(cloud.clients, cloud.restarted(loaded, settings), settings, snapshot)
    by_subject: dict[str, list[Finding]] = {}
    for each in (asked.identity(), *collect(asked.checks())):
        by_subject.setdefault(each.subject, []).append(each)
    return by_subject


def test_account_is_told_apart_by_what_works_and_what_does_not(cloud: Cloud, loaded: AWSProvider) -> None:
    findings = looked(cloud, loaded)
    assert findings["AWS"][0].text.startswith("arn:aws:sts::")
    assert findings["Permissions"][0].level is Level.OK
    assert findings["AWSNodeTemplate default"][0].level is Level.OK
    assert findings["Queue"][0].level is Level.PROBLEM
    assert "nowhere" in findings["Queue"][0].text
    assert findings["Spot"][0].level is Level.WARNING
    assert "create-service-linked-role" in findings["Spot"][0].remedy


def test_a_region_that_is_not_the_clusters_is_told_once(cloud: Cloud, loaded: AWSProvider) -> None:
    node = state_node(node=make_node(labels=FrozenMap({keys.REGION: "eu-west-1"})))
    found = AwsCheck(cloud.clients, loaded, SETTINGS, Snapshot(nodes={"n": node})).identity()
    assert found == Finding(
        Level.PROBLEM,
        "AWS",
        f"the region here is {cloud.clients.region}, and the cluster's nodes are in eu-west-1",
        "name the cluster's: --region, AWS_REGION, or the region of AWS_PROFILE",
    )


def test_template_that_selects_nothing_says_so_for_each_selector(cloud: Cloud, loaded: AWSProvider) -> None:
    nothing = FrozenMap({"no": "such"})
    findings = looked(cloud, loaded, subnet_selector=nothing, security_group_selector=nothing)[
        "AWSNodeTemplate default"
    ]
    assert [each.level for each in findings] == [Level.PROBLEM, Level.PROBLEM]
    assert "subnetSelector" in findings[0].text
    assert "securityGroupSelector" in findings[1].text


@pytest.mark.parametrize(
    ("own", "of_pods", "said"),
    [
        (20, None, ["20 free addresses: room for 1 node like the existing ones (20 each)"]),
        (59, None, ["59 free addresses: room for 2 nodes"]),
        (60, None, []),
        (40, 30, ["subnet subnet-p in a (of pods) has 30 free addresses: room for 1 node"]),
        (31, 600, ["31 free addresses: room for 31 nodes like the existing ones (1 each)"]),
    ],
)
def test_a_subnet_in_which_few_nodes_fit_is_named_with_how_many(
    cloud: Cloud, loaded: AWSProvider, own: int, of_pods: int | None, said: list[str]
) -> None:
    labels = FrozenMap({keys.PROVISIONER_NAME: "default", keys.INSTANCE_TYPE: "m5.large"})
    check = AwsCheck(cloud.clients, loaded, SETTINGS, Snapshot(nodes={"n": state_node(node=make_node(labels=labels))}))
    status = TemplateStatus(
        (("subnet-1", "a"),),
        free_addresses={"subnet-1": own} | ({} if of_pods is None else {"subnet-p": of_pods}),
        pod_subnets=() if of_pods is None else (("subnet-p", "a"),),
    )
    told = list(check.addresses("t", status))
    assert [text in each.text for each, text in zip(told, said, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(("reserved", "taken"), [(0, 20), (2, 10)])
def test_a_node_takes_the_addresses_of_a_warm_interface_too_where_none_is_reserved(reserved: int, taken: int) -> None:
    labels = FrozenMap({keys.PROVISIONER_NAME: "default", keys.INSTANCE_TYPE: "m5.large"})
    snapshot = Snapshot(nodes={"n": state_node(node=make_node(labels=labels))})
    assert mean_addresses(snapshot, replace(SETTINGS, reserved_enis=reserved), "ap-northeast-2") == taken


@pytest.fixture
def quotas(cloud: Cloud) -> Iterator[dict[str, float]]:
    """vCPUs by code of Service Quotas, to change; they are put back."""
    values = cloud.aws.world.quotas.values
    before = dict(values)
    yield values
    values.update(before)


def test_quotas_that_leave_room_are_read_and_shown_with_what_runs(cloud: Cloud, loaded: AWSProvider) -> None:
    types = loaded.instance_types(provisioner(), template())
    loaded.create(request(types, names=["m5.2xlarge"], capacity_types=[keys.ON_DEMAND]))
    findings = looked(cloud, loaded)
    assert findings["Quota standard on-demand"] == [
        Finding(Level.OK, "Quota standard on-demand", "8 of 1152 vCPUs run")
    ]
    assert {each for each in findings if each.startswith("Quota")} == {
        f"Quota {family} {kind}" for family in ("standard", "g", "p") for kind in ("on-demand", "spot")
    }


@pytest.mark.parametrize(("limit", "level"), [(9.0, Level.WARNING), (8.0, Level.WARNING), (11.0, Level.OK)])
def test_quota_that_is_nearly_used_up_says_where_to_ask_for_more(
    cloud: Cloud, loaded: AWSProvider, quotas: dict[str, float], limit: float, level: Level
) -> None:
    types = loaded.instance_types(provisioner(), template())
    loaded.create(request(types, names=["m5.2xlarge"], capacity_types=[keys.ON_DEMAND]))
    quotas["L-1216C47A"] = limit
    (finding,) = looked(cloud, loaded)["Quota standard on-demand"]
    assert finding.level is level
    assert ("Service Quotas" in finding.remedy) is (level is Level.WARNING)


def test_what_may_not_be_asked_is_unknown_and_no_problem(cloud: Cloud, loaded: AWSProvider) -> None:
    cloud.aws.faults.add(Fault(service="servicequotas", code="AccessDeniedException", message="not yours"))
    (finding,) = looked(cloud, loaded)["Quotas"]
    assert finding.level is Level.UNKNOWN
    assert "servicequotas:GetServiceQuota" in finding.text


def test_permission_that_is_refused_is_named_with_the_statement_that_allows_it(
    cloud: Cloud, loaded: AWSProvider
) -> None:
    cloud.aws.faults.add(Fault(service="ec2", action="DescribeSubnets", code="UnauthorizedOperation", message="no"))
    (finding,) = looked(cloud, loaded)["Permissions"]
    assert finding.level is Level.PROBLEM
    assert "ec2:DescribeSubnets" in finding.text
    assert "controller's pod" in finding.remedy


@pytest.mark.parametrize(
    ("service", "action", "remedy"),
    [("ec2", "CreateFleet", "launch templates alone"), ("pricing", "GetProducts", "aws.isolatedVPC")],
)
def test_permission_that_may_be_refused_is_a_warning_that_says_when_it_is_none(
    cloud: Cloud, loaded: AWSProvider, service: str, action: str, remedy: str
) -> None:
    cloud.aws.faults.add(Fault(service=service, action=action, code="AccessDeniedException", message="no"))
    (finding,) = looked(cloud, loaded)["Permissions"]
    assert finding.level is Level.WARNING
    assert finding.text.startswith(f"{service}:{action} is refused")
    assert remedy in finding.remedy


def test_queue_that_is_there_is_told_by_name_and_none_is_a_warning(cloud: Cloud, loaded: AWSProvider) -> None:
    cloud.clients.sqs.create_queue(QueueName="checked")
    (finding,) = looked(cloud, loaded, queue="checked")["Queue"]
    assert (finding.level, finding.text) == (Level.OK, "checked")
    (finding,) = looked(cloud, loaded, queue="")["Queue"]
    assert finding.level is Level.WARNING
    assert "aws.interruptionQueueName" in finding.remedy


def test_spot_role_that_is_there_is_enough(cloud: Cloud, loaded: AWSProvider) -> None:
    iam = cloud.aws.client("iam")
    iam.create_role(RoleName=SPOT_ROLE, Path="/aws-service-role/spot.amazonaws.com/", AssumeRolePolicyDocument="{}")
    try:
        (finding,) = looked(cloud, loaded)["Spot"]
        assert finding.level is Level.OK
    finally:
        iam.delete_role(RoleName=SPOT_ROLE)


def test_subnets_of_one_zone_alone_are_a_warning(cloud: Cloud, loaded: AWSProvider) -> None:
    (subnet, _), *_ = loaded.template_status(template()).subnets or ()
    findings = looked(cloud, loaded, subnet_selector=FrozenMap({"aws-ids": subnet}))["AWSNodeTemplate default"]
    assert findings[0].level is Level.WARNING
    assert "tag subnets of another zone" in findings[0].remedy


def test_running_vcpus_are_counted_by_class_and_capacity_type(cloud: Cloud, loaded: AWSProvider) -> None:
    types = loaded.instance_types(provisioner(), template())
    loaded.create(request(types, names=["m5.2xlarge"], capacity_types=[keys.ON_DEMAND]))
    assert running_vcpus(cloud.clients)[("standard", "on-demand")] == 8
