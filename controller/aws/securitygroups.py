"""Security groups by selector: every match is attached to the node's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.aws.caching import Cache
from controller.aws.errors import translated
from controller.aws.selectors import filters, shown
from controller.clock import Clock
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import NodeTemplateError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

CACHE_SECONDS = 60.0


class SecurityGroups:
    """Security groups of node templates. Safe for many threads."""

    def __init__(self, ec2: EC2Client, clock: Clock, cache_seconds: float = CACHE_SECONDS) -> None:
        self._ec2 = ec2
        self._cache: Cache[tuple[tuple[str, str], ...], tuple[str, ...]] = Cache(clock, cache_seconds)

    def matching(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        """Ids of the template's groups, sorted. Raises NodeTemplateError when none matches, and other CloudErrors."""
        key = tuple(sorted(template.security_group_selector.items()))
        groups = self._cache.get(key, lambda: self._describe(template))
        if not groups:
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: spec.securityGroupSelector "
                f"{shown(template.security_group_selector)} matches no security group; tag the groups so "
                "(karpenter.sh/discovery: CLUSTER is the convention) or correct the selector"
            )
        return groups

    def _describe(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        if not template.security_group_selector:
            return ()
        with translated("ec2:DescribeSecurityGroups", f"AWSNodeTemplate {template.name}"):
            pages = self._ec2.get_paginator("describe_security_groups").paginate(
                Filters=filters(template.security_group_selector, "group-id")
            )
            return tuple(sorted(group["GroupId"] for page in pages for group in page["SecurityGroups"]))
