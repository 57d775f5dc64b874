"""What an AWSNodeTemplate's selectors find now, for its status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from controller.aws.api.aws_errors import transient
from controller.aws.network.security_groups import SecurityGroups
from controller.aws.network.subnets import Subnets
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import CloudError, NodeTemplateError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TemplateStatus:
    """AWSNodeTemplate.status. An empty list: nothing matches. None: AWS did not say, what was known stands.

    `problems` are for the template's author, or whoever gives the controller its permissions; `unanswered` is what AWS
    gave no answer to, and may well answer in a while.
    """

    subnets: tuple[tuple[str, str], ...] | None = ()
    """(id, zone), most free addresses first."""
    security_groups: tuple[str, ...] | None = ()
    """Ids, sorted."""
    problems: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()

    def ids(self) -> tuple[frozenset[str], frozenset[str]]:
        """Of the subnets and of the security groups; none where they could not be resolved."""
        return frozenset(subnet_id for subnet_id, _ in self.subnets or ()), frozenset(self.security_groups or ())

    def document(self) -> dict[str, list[dict[str, str]]]:
        """What is known of the status, as the API server takes it."""
        found: dict[str, list[dict[str, str]]] = {}
        if self.subnets is not None:
            found["subnets"] = [{"id": subnet_id, "zone": zone} for subnet_id, zone in self.subnets]
        if self.security_groups is not None:
            found["securityGroups"] = [{"id": group_id} for group_id in self.security_groups]
        return found


def resolve_status(template: AWSNodeTemplate, subnets: Subnets, security_groups: SecurityGroups) -> TemplateStatus:
    """Ask for both, each on its own. A template that brings its own launch template needs no security groups."""
    problems: list[str] = []
    unanswered: list[str] = []

    def answer(ask: Callable[[], tuple[T, ...]]) -> tuple[T, ...] | None:
        try:
            return ask()
        except CloudError as error:
            (unanswered if transient(error) else problems).append(str(error))
            return () if isinstance(error, NodeTemplateError) else None

    found_subnets = answer(lambda: tuple((subnet.id, subnet.zone) for subnet in subnets.matching(template)))
    needs_groups = template.launch_template is None or bool(template.security_group_selector)
    found_groups = answer(lambda: security_groups.matching(template)) if needs_groups else ()
    return TemplateStatus(found_subnets, found_groups, tuple(problems), tuple(unanswered))
