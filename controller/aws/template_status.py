"""Resolve the selectors of an AWSNodeTemplate, for its status."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from controller.aws.api.aws_errors import transient
from controller.aws.network.security_groups import SecurityGroups
from controller.aws.network.subnets import Subnets
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.cloud import TemplateStatus
from controller.errors import CloudError, NodeTemplateError

T = TypeVar("T")


def resolve_status(template: AWSNodeTemplate, subnets: Subnets, security_groups: SecurityGroups) -> TemplateStatus:
    """Resolve each selector on its own. A template that names a launch template needs no security groups."""
    problems: list[str] = []
    unanswered: list[str] = []

    def answer(ask: Callable[[], tuple[T, ...]]) -> tuple[T, ...] | None:
        try:
            return ask()
        except CloudError as error:
            (unanswered if transient(error) else problems).append(str(error))
            return () if isinstance(error, NodeTemplateError) else None

    matching = answer(lambda: subnets.matching(template))
    matching_subnets = None if matching is None else tuple((subnet.id, subnet.zone) for subnet in matching)
    zones = {subnet.zone for subnet in matching or ()}
    for_pods = answer(lambda: tuple(each for zone, each in subnets.for_pods().items() if zone in zones)) or ()
    free = FrozenMap({subnet.id: subnet.free_addresses for subnet in (*(matching or ()), *for_pods)})
    needs_groups = template.launch_template is None or bool(template.security_group_selector)
    matching_groups = answer(lambda: security_groups.matching(template)) if needs_groups else ()
    closed = frozenset(subnet.id for subnet in matching or () if subnets.closed(subnet))
    return TemplateStatus(
        matching_subnets,
        matching_groups,
        tuple(problems),
        tuple(unanswered),
        free_addresses=free,
        pod_subnets=tuple((subnet.id, subnet.zone) for subnet in for_pods),
        closed_subnets=closed,
    )
