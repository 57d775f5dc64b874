"""The policy pack: each rule with what breaks it, and that the committed stacks keep to all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pulumi_policy import ResourceValidationArgs, ResourceValidationPolicy

from policy.pack import policies
from policy.rules import RULES
from tests.components.engine import DECLARES, run_stack
from tests.components.golden import run_of
from tests.components.stacks import STACKS, raw_config

pytestmark = DECLARES

SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
TYPES = "node.kubernetes.io/instance-type"
LIMITS = {"resources": {"cpu": 100}}


def types(*names: str) -> dict[str, Any]:
    return {"key": TYPES, "operator": "In", "values": list(names)}


def category(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "karpenter.k8s.aws/instance-category", "operator": operator, "values": list(values)}


CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("provisioner-limits", {}, False),
    ("provisioner-limits", {"limits": {"resources": {"nvidia.com/gpu": 1}}}, False),
    ("provisioner-limits", {"limits": LIMITS}, True),
    ("no-wildcard-instances", {"requirements": [category("Exists")]}, False),
    ("no-wildcard-instances", {"requirements": [category("NotIn", "t")]}, False),
    ("no-wildcard-instances", {"requirements": [category("NotIn", "t"), types("m5.large")]}, True),
    ("no-wildcard-instances", {}, True),
    ("spot-with-enough-types", {"requirements": [SPOT, types("m5.large", "m5.xlarge")]}, False),
    ("spot-with-enough-types", {"requirements": [SPOT, types(*"abcde")]}, True),
    ("spot-with-enough-types", {"requirements": [types("m5.large")]}, True),
    ("imdsv2", {"metadataOptions": {"httpTokens": "optional"}}, False),
    ("imdsv2", {"metadataOptions": {"httpPutResponseHopLimit": 1}}, True),
    ("encrypted-volumes", {"blockDeviceMappings": [{"ebs": {"encrypted": True}}, {"ebs": {}}]}, False),
    ("encrypted-volumes", {"blockDeviceMappings": [{"ebs": {"encrypted": True}}]}, True),
]


def violations(name: str, type_: str, properties: dict[str, Any]) -> list[str]:
    """What a policy of the pack reports, called as the engine would."""
    (policy,) = [each for each in policies() if each.name == name]
    args = cast("ResourceValidationArgs", SimpleNamespace(resource_type=type_, props=properties))
    said: list[str] = []

    def report(message: str, urn: str | None = None) -> None:
        said.append(message)

    validate = cast("ResourceValidationPolicy", policy).validate
    assert callable(validate)
    validate(args, report)
    return said


@pytest.mark.parametrize(("name", "spec", "kept"), CASES)
def test_each_rule_names_what_breaks_it(name: str, spec: dict[str, Any], kept: bool) -> None:
    (rule,) = [each for each in RULES if each.name == name]
    assert (violations(name, rule.resource_type, {"spec": spec}) == []) is kept
    assert violations(name, "aws:s3/bucket:Bucket", {"spec": spec}) == [], "of another type"


def test_every_rule_is_broken_by_some_case() -> None:
    assert {name for name, _, kept in CASES if not kept} | {"terminate-own-instances"} == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", STACKS)
def test_the_committed_stacks_keep_to_every_rule(name: str) -> None:
    checked = 0
    for each in run_of(name).declared.values():
        for rule in RULES:
            if rule.resource_type == each.type:
                checked += 1
                assert violations(rule.name, each.type, dict(each.inputs)) == [], each.name
    assert checked >= 7


def test_a_role_that_may_end_every_instance_is_refused() -> None:
    run = run_stack("test", {**raw_config("dev"), "nodeless:identity": '{"terminateScope": "any"}'})
    said = [
        each.name
        for each in run.of_type("aws:iam/policy:Policy")
        if violations("terminate-own-instances", each.type, dict(each.inputs))
    ]
    assert said == ["controller-identity-KarpenterControllerPolicy-myeks"]
