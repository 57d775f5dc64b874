"""The boto3 clients: bounded timeouts, standard retries, endpoints from botocore's configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config

from controller.aws.api.aws_times import timestamp
from controller.aws.api.instance_answers import read_instances
from controller.errors import CloudUnauthorizedError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_eks import EKSClient
    from mypy_boto3_pricing import PricingClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 30
MAX_ATTEMPTS = 4
"""One call and three retries, as in Karpenter v0.27's SDK."""

REGION_VARIABLE = "AWS_REGION"
"""Of AWS's own commands and SDKs, before AWS_DEFAULT_REGION, which is the only one that boto3 reads."""
REGION_REMEDY = "set AWS_REGION, or AWS_PROFILE to a profile with a region (in the cluster: on the controller's pod)"

IMPATIENT = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
"""Of what is read each minute and may have no route: a VPC without an endpoint of the service waits for no answer."""

MAX_CONNECTIONS = 50
"""Launches run in parallel; botocore's default of 10 connections would queue them."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The AWS APIs that the controller calls, and the region that it works in."""

    region: str
    ec2: EC2Client
    eks: EKSClient
    ssm: SSMClient
    pricing: PricingClient
    sqs: SQSClient
    arc_zonal_shift: Any


def pricing_region(region: str) -> str:
    """The nearest of the regions that serve the Pricing API (Price List Query API endpoints)."""
    if region.startswith("cn-"):
        return "cn-northwest-1"
    if region.startswith("ap-"):
        return "ap-south-1"
    if region.startswith("eu-"):
        return "eu-central-1"
    return "us-east-1"


def make_clients(version: str = "", region: str = "") -> Clients:
    """Clients of `region`, else of AWS_REGION, AWS_DEFAULT_REGION or the profile.

    Raises CloudUnauthorizedError when no region is configured.
    """
    reading = botocore.session.get_session()
    reading.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
    session = boto3.Session(botocore_session=reading, region_name=region or os.environ.get(REGION_VARIABLE) or None)
    region = session.region_name
    if not region:
        raise CloudUnauthorizedError(f"No AWS region is configured; {REGION_REMEDY}")
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
        max_pool_connections=MAX_CONNECTIONS,
        user_agent_extra=f"nodeless/{version}" if version else "nodeless",
    )
    ec2 = session.client("ec2", config=config)
    ec2.meta.events.register("before-parse.ec2.DescribeInstances", read_instances)
    return Clients(
        region=region,
        ec2=ec2,
        eks=session.client("eks", config=config),
        ssm=session.client("ssm", config=config),
        pricing=session.client("pricing", region_name=pricing_region(region), config=config),
        sqs=session.client("sqs", config=config),
        arc_zonal_shift=session.client("arc-zonal-shift", config=config.merge(IMPATIENT)),
    )
