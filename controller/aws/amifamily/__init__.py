"""AMI families: which image an instance type gets, and the user data that makes it a node."""

from __future__ import annotations

from controller.aws.amifamily.al2 import AL2
from controller.aws.amifamily.al2023 import AL2023
from controller.aws.amifamily.bottlerocket import BOTTLEROCKET
from controller.aws.amifamily.custom import CUSTOM
from controller.aws.amifamily.family import AMIFamily
from controller.aws.amifamily.ubuntu import UBUNTU
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import NodeTemplateError

FAMILIES = {family.name: family for family in (AL2, AL2023, BOTTLEROCKET, UBUNTU, CUSTOM)}
DEFAULT_FAMILY = AL2.name


def family_of(template: AWSNodeTemplate) -> AMIFamily:
    """The template's family. Raises NodeTemplateError for one that we do not run."""
    name = template.ami_family or DEFAULT_FAMILY
    family = FAMILIES.get(name)
    if family is None:
        why = "Windows nodes are not run by this controller" if name.startswith("Windows") else "it is not supported"
        raise NodeTemplateError(
            f"AWSNodeTemplate {template.name}: spec.amiFamily {name!r}: {why}; use one of {', '.join(FAMILIES)}"
        )
    return family
