"""Check at start-up which of its AWS calls the controller's role is allowed to make.

EC2 calls are made as dry runs; the few calls that have none are reads. iam:PassRole, and TerminateInstances of
instances that do not exist yet, cannot be checked in advance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

from controller.aws.api import tags as tagging
from controller.aws.api.aws_errors import UNAUTHORIZED_CODES, error_code, transient, translate
from controller.aws.api.clients import Clients
from controller.errors import CloudUnauthorizedError
from controller.settings import Settings

Check = tuple[str, Callable[[], Any]]
"""An IAM action, and the call that needs it."""

NAME = "karpenter.k8s.aws/dry-run"
PARAMETER = "/aws/service/eks/optimized-ami/1.30/amazon-linux-2/recommended/image_id"
"""Any public parameter: it need not exist."""


_DESCRIBES = (
    "DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSubnets", "DescribeSecurityGroups",
    "DescribeImages", "DescribeInstances", "DescribeFleets", "DescribeLaunchTemplates", "DescribeSpotPriceHistory",
)  # fmt: skip


def check_permissions(clients: Clients, settings: Settings) -> tuple[str, ...]:
    """Try every action; returns the refused ones that the controller can do without.

    These are the Pricing API, which the shipped prices replace, and CreateFleet: a policy that allows it for this
    cluster's launch templates alone may refuse a dry run that has none.

    Raises CloudUnauthorizedError naming all vital actions that are refused, with the policy statement that allows
    them, or when the credentials are not valid; other CloudErrors when AWS does not answer.
    """
    refused = [action for action, call in _vital(clients, settings) if not _allowed(action, call)]
    if refused:
        statement = {"Effect": "Allow", "Action": refused, "Resource": "*"}
        raise CloudUnauthorizedError(
            f"The controller's role in region {clients.region} may not do {', '.join(refused)}; add to its policy "
            f"{json.dumps(statement)}, narrowed to this cluster's resources where the action allows it"
        )
    return tuple(action for action, call in _advisory(clients, settings) if not _allowed(action, call))


def _vital(clients: Clients, settings: Settings) -> Iterator[Check]:
    ec2 = clients.ec2
    tags = tagging.as_list(tagging.ownership(settings.cluster_name, "dry-run"))
    for action in _DESCRIBES:
        owners = {"Owners": ["self"]} if action == "DescribeImages" else {}
        yield f"ec2:{action}", partial(getattr(ec2, xform_name(action)), DryRun=True, **owners)
    yield (
        "ec2:CreateLaunchTemplate",
        lambda: ec2.create_launch_template(
            DryRun=True,
            LaunchTemplateName=NAME,
            LaunchTemplateData={"InstanceType": "m5.large"},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
        ),
    )
    yield "eks:DescribeCluster", lambda: clients.eks.describe_cluster(name=settings.cluster_name)
    yield "ssm:GetParameter", lambda: clients.ssm.get_parameter(Name=PARAMETER)


def _advisory(clients: Clients, settings: Settings) -> Iterator[Check]:
    tags = tagging.as_list(tagging.ownership(settings.cluster_name, "dry-run"))
    yield (
        "ec2:CreateFleet",
        lambda: clients.ec2.create_fleet(
            DryRun=True,
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": NAME, "Version": "$Latest"}}],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            TagSpecifications=[
                {"ResourceType": "fleet", "Tags": tags},
                {"ResourceType": "instance", "Tags": tags},
                {"ResourceType": "volume", "Tags": tags},
            ],
        ),
    )
    if not settings.isolated_vpc:
        yield "pricing:GetProducts", lambda: clients.pricing.get_products(ServiceCode="AmazonEC2", MaxResults=1)


def _allowed(action: str, call: Callable[[], Any]) -> bool:
    """Return False when IAM refuses the call. An error about the request itself shows that IAM allowed it."""
    try:
        call()
    except ClientError as error:
        if error_code(error) in UNAUTHORIZED_CODES:
            return False
        translated = translate(error, action)
        if isinstance(translated, CloudUnauthorizedError) or transient(translated):
            raise translated from error
    except BotoCoreError as error:
        raise translate(error, action) from error
    return True
