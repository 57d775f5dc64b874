"""The stack's Provisioners and AWSNodeTemplates."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi

from components.objects import declare
from controller.core.api.duration import duration_seconds

FOREGROUND = {"pulumi.com/deletionPropagationPolicy": "foreground"}
"""Deleting a Provisioner takes until its nodes are gone: `pulumi destroy` waits while the controller still runs."""


GRACE_PERIOD_ANNOTATION = "karpenter.sh/termination-grace-period"
UNHURRIED_SECONDS = 24 * 3600
"""How long a destroy waits for drains that nothing bounds: PodDisruptionBudgets and finishing Jobs may hold a node."""
TERMINATION_SECONDS = 3600
"""How long it waits beyond a bounded drain: budgets let a few nodes go at a time, instances take minutes to end."""


def deletion_seconds(provisioner: Mapping[str, Any], grace_period: str) -> float:
    """How long the deletion of a Provisioner may take, its nodes' drains included.

    `grace_period`: the setting terminationGracePeriod, empty where it is unset; the Provisioner's own wins.
    """
    annotations = provisioner["metadata"].get("annotations") or {}
    bound = annotations.get(GRACE_PERIOD_ANNOTATION) or grace_period
    return duration_seconds(bound) + TERMINATION_SECONDS if bound else UNHURRIED_SECONDS


class ProvisioningArgs(TypedDict):
    """Provisioners and node templates."""

    templates: Sequence[Mapping[str, Any]]
    """AWSNodeTemplates."""
    provisioners: Sequence[Mapping[str, Any]]
    """Provisioners."""
    grace_period: NotRequired[str]
    """The setting terminationGracePeriod."""


class Provisioning(pulumi.ComponentResource):
    """Templates before the Provisioners that refer to them; on destroy in reverse."""

    def __init__(self, name: str, args: ProvisioningArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Provisioning", name, {}, opts)
        templates = [
            declare(f"{name}-template-{each['metadata']['name']}", each, pulumi.ResourceOptions(parent=self))
            for each in args["templates"]
        ]
        for each in args["provisioners"]:
            annotations = {**each["metadata"].get("annotations", {}), **FOREGROUND}
            document = {**each, "metadata": {**each["metadata"], "annotations": annotations}}
            seconds = deletion_seconds(each, args.get("grace_period", ""))
            after = pulumi.ResourceOptions(
                parent=self,
                depends_on=templates,
                custom_timeouts=pulumi.CustomTimeouts(delete=f"{seconds:.0f}s"),
            )
            declare(f"{name}-provisioner-{each['metadata']['name']}", document, after)
        self.register_outputs({})
