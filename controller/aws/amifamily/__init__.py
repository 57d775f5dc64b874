"""AMI families: which image an instance type gets, and the user data that makes it a node."""

from __future__ import annotations

from controller.aws.amifamily.al2 import AL2
from controller.aws.amifamily.family import AMIFamily
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import NodeTemplateError

FAMILIES = {family.name: family for family in (AL2,)}
DEFAULT_FAMILY = AL2.name


def family_of(template: AWSNodeTemplate) -> AMIFamily:
    """The template's family. Raises NodeTemplateError for one that we do not run."""
    name = template.ami_family or DEFAULT_FAMILY
    family = FAMILIES.get(name)
    if family is None:
        raise NodeTemplateError(
            f"AWSNodeTemplate {template.name}: spec.amiFamily {name!r} is not supported; use one of "
            + ", ".join(sorted(FAMILIES))
        )
    return family
