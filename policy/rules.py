"""Rules on Provisioners, node templates and the controller's role, as values: properties in, violations out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Properties = Mapping[str, Any]

PROVISIONER: Final = "kubernetes:karpenter.sh/v1alpha5:Provisioner"
NODE_TEMPLATE: Final = "kubernetes:karpenter.k8s.aws/v1alpha1:AWSNodeTemplate"
ROLE_POLICY: Final = "aws:iam/policy:Policy"
TYPE: Final = "node.kubernetes.io/instance-type"
BOUNDS: Final = (TYPE, "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-category")
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
SPOT_TYPES: Final = 5
"""Fewer instance types than this are few spot pools: AWS advises ten pools and more, zones times types."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule on resources of one type."""

    name: str
    description: str
    resource_type: str
    violations: Callable[[Properties], Iterator[str]]


def _limits(properties: Properties) -> Iterator[str]:
    resources = _spec(properties).get("limits", {}).get("resources") or {}
    if "cpu" not in resources and "memory" not in resources:
        yield "spec.limits.resources has neither cpu nor memory: nothing bounds what it may launch"


def _wildcards(properties: Properties) -> Iterator[str]:
    """A key without requirement has the controller's default: c, m and r types newer than the second generation."""
    given = {each["key"]: each for each in _requirements(properties) if each.get("key") in BOUNDS}
    if given and not any(each.get("operator") == "In" and each.get("values") for each in given.values()):
        yield f"{', '.join(sorted(given))}: none names types, families or categories by In"


def _spot(properties: Properties) -> Iterator[str]:
    bought = [each for each in _requirements(properties) if each.get("key") == CAPACITY_TYPE]
    spot = any(
        each.get("operator") in ("In", "Exists") and "spot" in (each.get("values") or ["spot"]) for each in bought
    )
    named = [each for each in _requirements(properties) if each.get("key") == TYPE and each.get("operator") == "In"]
    for each in named if spot else ():
        if len(set(each["values"])) < SPOT_TYPES:
            yield f"spot with {len(set(each['values']))} instance types: name {SPOT_TYPES} at least, or families"


def _imds(properties: Properties) -> Iterator[str]:
    options = _spec(properties).get("metadataOptions") or {}
    if options.get("httpTokens") == "optional":
        yield "spec.metadataOptions.httpTokens is optional: IMDSv2 is required"


def _encrypted(properties: Properties) -> Iterator[str]:
    """Without mappings the controller's own are encrypted."""
    for index, each in enumerate(_spec(properties).get("blockDeviceMappings") or ()):
        if (each.get("ebs") or {}).get("encrypted") is not True:
            yield f"spec.blockDeviceMappings[{index}].ebs.encrypted is not true"


def _terminate(properties: Properties) -> Iterator[str]:
    """terminateScope `any`: the controller's role may end every instance of the account."""
    document = properties.get("policy")
    statements = json.loads(document)["Statement"] if isinstance(document, str) and document.startswith("{") else []
    for each in statements:
        if each["Effect"] == "Allow" and "ec2:TerminateInstances" in each["Action"] and not each.get("Condition"):
            yield "ec2:TerminateInstances is allowed without a condition: use identity.terminateScope owned"


RULES: Final = (
    Rule("provisioner-limits", "Every Provisioner has limits.", PROVISIONER, _limits),
    Rule("no-wildcard-instances", "A Provisioner names its types, families or categories.", PROVISIONER, _wildcards),
    Rule("spot-with-enough-types", "A spot Provisioner names enough types.", PROVISIONER, _spot),
    Rule("imdsv2", "Nodes require IMDSv2.", NODE_TEMPLATE, _imds),
    Rule("encrypted-volumes", "Nodes' volumes are encrypted.", NODE_TEMPLATE, _encrypted),
    Rule("terminate-own-instances", "Roles end their own instances alone.", ROLE_POLICY, _terminate),
)


def _spec(properties: Properties) -> Mapping[str, Any]:
    return properties.get("spec") or {}


def _requirements(properties: Properties) -> list[Mapping[str, Any]]:
    return list(_spec(properties).get("requirements") or ())
