"""AMI families: which image an instance type gets, and the user data that makes it a node."""

from __future__ import annotations

from controller.aws.amifamily.al2023 import AL2023
from controller.aws.amifamily.bottlerocket import BOTTLEROCKET
from controller.aws.amifamily.eks_bootstrap import AL2, UBUNTU
from controller.aws.amifamily.family import AMIFamily
from controller.core.api.nodetemplate import AWSNodeTemplate, default_ami_family
from controller.errors import NodeTemplateError

CUSTOM = AMIFamily("Custom", aliases=(), user_data=lambda boot: boot.custom or "", ignored_kubelet_fields=("*",))
"""An image of the user's own, named by spec.amiSelector; its user data is spec.userData, byte for byte."""
FAMILIES = {family.name: family for family in (AL2, AL2023, BOTTLEROCKET, UBUNTU, CUSTOM)}


def family_of(template: AWSNodeTemplate, version: str = "") -> AMIFamily:
    """Return the template's family. Raises NodeTemplateError for one that is not supported.

    A template that names none has the default of the cluster's Kubernetes version. Nodes of AL2 and AL2023 have the
    same devices and capacity: who asks about those alone needs no version.
    """
    name = template.ami_family or default_ami_family(version)
    family = FAMILIES.get(name)
    if family is None:
        why = "Windows nodes are not run by this controller" if name.startswith("Windows") else "it is not supported"
        raise NodeTemplateError(
            f"AWSNodeTemplate {template.name}: spec.amiFamily {name!r}: {why}; use one of {', '.join(FAMILIES)}"
        )
    return family
