"""Security groups by selector: every match is attached to the node's interface.

Exception: of several groups with the tag kubernetes.io/cluster/NAME only one is attached. The AWS cloud controller and
the load balancer controller refuse an interface with two ("expected exactly one securityGroup tagged").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from controller.aws.api.aws_errors import translated
from controller.aws.api.tags import as_dict, cluster_tag
from controller.aws.api.ttl_cache import Cache
from controller.aws.network.selector_filters import filters, shown
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import NodeTemplateError
from controller.runtime.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

CACHE_SECONDS = 60.0
EKS_GROUP_TAG = "aws:eks:cluster-name"
"""EKS sets it on the security group that it creates for a cluster."""


class SecurityGroups:
    """Security groups of node templates. Safe for many threads."""

    def __init__(
        self, ec2: EC2Client, cluster_name: str, clock: Clock, logger: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._ec2 = ec2
        self._cluster_tag = cluster_tag(cluster_name)
        self._log = logger
        self._logged: set[tuple[str, ...]] = set()
        self._cache: Cache[tuple[tuple[str, str], ...], tuple[str, ...]] = Cache(clock, CACHE_SECONDS)

    def matching(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        """Return the ids of the template's groups, sorted. Raises NodeTemplateError when none matches,
        and other CloudErrors."""
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
            groups = {g["GroupId"]: as_dict(g.get("Tags", [])) for page in pages for g in page["SecurityGroups"]}
        surplus = surplus_tagged(groups, self._cluster_tag)
        if surplus and surplus not in self._logged:
            self._logged.add(surplus)
            self._log.warning(
                "Security groups are left out: load balancers accept only one tagged group",
                node_template=template.name,
                left_out=list(surplus),
                tag=self._cluster_tag,
                remedy="remove the tag from all groups but one",
            )
        return tuple(sorted(set(groups) - set(surplus)))


def surplus_tagged(groups: Mapping[str, Mapping[str, str]], tag: str) -> tuple[str, ...]:
    """Return all but one of the groups (tags by id) with the tag: EKS's own cluster group stays, else the first id."""
    tagged = sorted((EKS_GROUP_TAG not in tags, group_id) for group_id, tags in groups.items() if tag in tags)
    return tuple(group_id for _, group_id in tagged[1:])
