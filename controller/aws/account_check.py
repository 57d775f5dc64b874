"""Facts of the AWS account for `nodeless check`: the caller, vCPU quotas, the spot role.

The controller itself needs none of this. The caller needs sts, iam and servicequotas permissions; CloudErrors name
the one that is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import boto3

from controller.aws.api.aws_errors import translated
from controller.aws.api.clients import Clients
from controller.core.api.labels import ON_DEMAND, SPOT
from controller.errors import CloudError

SPOT_ROLE = "AWSServiceRoleForEC2Spot"
STANDARD = "acdhimrtz"
"""First letters of the families in the quota "Running On-Demand Standard instances" (Service Quotas, Amazon EC2)."""

NOT_STANDARD = ("inf", "trn", "hpc", "dl", "mac")
_LETTERS = re.compile(r"[a-z]+")

QUOTAS = {
    ("standard", ON_DEMAND): "L-1216C47A",
    ("standard", SPOT): "L-34B43A08",
    ("g", ON_DEMAND): "L-DB2E81BA",
    ("g", SPOT): "L-3819A6DF",
    ("p", ON_DEMAND): "L-417A185B",
    ("p", SPOT): "L-7212CCBC",
}
"""vCPU quotas by class of family and capacity type: codes of Service Quotas, service ec2."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit on running vCPUs, and how many run."""

    family: str
    """`standard`, `g` or `p`."""
    capacity_type: str
    limit_vcpus: float
    used_vcpus: int


def family_class(instance_type: str) -> str:
    """Return `standard`, `g` (VT is counted with it), `p`, or empty for families with a quota of their own."""
    category = _LETTERS.match(instance_type)
    letters = category[0] if category else ""
    if letters in ("g", "gr", "vt"):
        return "g"
    if letters == "p":
        return letters
    return "standard" if letters and letters[0] in STANDARD and letters not in NOT_STANDARD else ""


def caller(region: str) -> str:
    """Return the caller's ARN. Raises CloudError."""
    with translated("sts:GetCallerIdentity"):
        identity: dict[str, Any] = boto3.Session(region_name=region).client("sts").get_caller_identity()
    return str(identity["Arn"])


def has_spot_role(region: str) -> bool:
    """Return whether the account has the role that spot requests need, in the region's partition. Raises CloudError."""
    try:
        with translated("iam:GetRole"):
            boto3.Session(region_name=region).client("iam").get_role(RoleName=SPOT_ROLE)
    except CloudError as error:
        if error.code == "NoSuchEntity":
            return False
        raise
    return True


def running_vcpus(clients: Clients) -> Counter[tuple[str, str]]:
    """Return the vCPUs of the region's running instances by class and capacity type. Raises CloudError."""
    vcpus_by_class: Counter[tuple[str, str]] = Counter()
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    with translated("ec2:DescribeInstances"):
        pages = clients.ec2.get_paginator("describe_instances").paginate(Filters=states)  # type: ignore[arg-type]
        for instance in (i for page in pages for r in page["Reservations"] for i in r["Instances"]):
            cpu = instance.get("CpuOptions", {})
            vcpus = cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 1)
            capacity_type = SPOT if instance.get("InstanceLifecycle") == "spot" else ON_DEMAND
            vcpus_by_class[(family_class(instance["InstanceType"]), capacity_type)] += vcpus
    return vcpus_by_class


def quotas(clients: Clients) -> tuple[Quota, ...]:
    """Return the region's vCPU quotas, each with the vCPUs that run. Raises CloudError."""
    service: Any = boto3.Session(region_name=clients.region).client("service-quotas")
    used, checked = running_vcpus(clients), []
    for (family, capacity_type), code in QUOTAS.items():
        with translated("servicequotas:GetServiceQuota"):
            answer = service.get_service_quota(ServiceCode="ec2", QuotaCode=code)
        checked.append(Quota(family, capacity_type, float(answer["Quota"]["Value"]), used[(family, capacity_type)]))
    return tuple(checked)
