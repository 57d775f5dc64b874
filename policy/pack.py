"""The rules as policies of Pulumi."""

from __future__ import annotations

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)

from policy.rules import RULES, Rule

NAME = "nodeless"


def policies() -> list[Policy]:
    """One for each rule; each is mandatory, and a team's configuration of the pack may say otherwise."""
    return [_policy(rule) for rule in RULES]


def _policy(rule: Rule) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type == rule.resource_type:
            for violation in rule.violations(args.props):
                report(violation, None)

    return ResourceValidationPolicy(
        name=rule.name,
        description=rule.description,
        enforcement_level=EnforcementLevel.MANDATORY,
        validate=validate,
    )
