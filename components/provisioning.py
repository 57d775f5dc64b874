"""The stack's Provisioners and AWSNodeTemplates."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import pulumi

from components.objects import declare

FOREGROUND = {"pulumi.com/deletionPropagationPolicy": "foreground"}
"""Deleting a Provisioner takes until its nodes are gone: `pulumi destroy` waits while the controller still runs."""


class ProvisioningArgs(TypedDict):
    """Provisioners and node templates."""

    templates: Sequence[Mapping[str, Any]]
    """AWSNodeTemplates."""
    provisioners: Sequence[Mapping[str, Any]]
    """Provisioners."""


class Provisioning(pulumi.ComponentResource):
    """Templates before the Provisioners that refer to them; on destroy in reverse."""

    def __init__(self, name: str, args: ProvisioningArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Provisioning", name, {}, opts)
        templates = [
            declare(f"{name}-template-{each['metadata']['name']}", each, pulumi.ResourceOptions(parent=self))
            for each in args["templates"]
        ]
        after = pulumi.ResourceOptions(parent=self, depends_on=templates)
        for each in args["provisioners"]:
            annotations = {**each["metadata"].get("annotations", {}), **FOREGROUND}
            document = {**each, "metadata": {**each["metadata"], "annotations": annotations}}
            declare(f"{name}-provisioner-{each['metadata']['name']}", document, after)
        self.register_outputs({})
