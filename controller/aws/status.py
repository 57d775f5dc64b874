"""What an AWSNodeTemplate's selectors find now, for its status."""

from __future__ import annotations

from dataclasses import dataclass

from controller.aws.securitygroups import SecurityGroups
from controller.aws.subnets import Subnets
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import CloudError


@dataclass(frozen=True, slots=True)
class TemplateStatus:
    """AWSNodeTemplate.status. A list that could not be resolved is empty, and `problems` says why; the other stands."""

    subnets: tuple[tuple[str, str], ...] = ()
    """(id, zone), most free addresses first."""
    security_groups: tuple[str, ...] = ()
    """Ids, sorted."""
    problems: tuple[str, ...] = ()

    def document(self) -> dict[str, list[dict[str, str]]]:
        """The status as the API server takes it."""
        return {
            "subnets": [{"id": subnet_id, "zone": zone} for subnet_id, zone in self.subnets],
            "securityGroups": [{"id": group_id} for group_id in self.security_groups],
        }


def resolve_status(template: AWSNodeTemplate, subnets: Subnets, security_groups: SecurityGroups) -> TemplateStatus:
    """Ask for both, each on its own. A template that brings its own launch template needs no security groups."""
    problems: list[str] = []
    found_subnets: tuple[tuple[str, str], ...] = ()
    found_groups: tuple[str, ...] = ()
    try:
        found_subnets = tuple((subnet.id, subnet.zone) for subnet in subnets.matching(template))
    except CloudError as error:
        problems.append(str(error))
    if template.launch_template is None or template.security_group_selector:
        try:
            found_groups = security_groups.matching(template)
        except CloudError as error:
            problems.append(str(error))
    return TemplateStatus(found_subnets, found_groups, tuple(problems))
