"""On destroy, remove what a cluster's nodes may have left behind in AWS."""

from typing import TypedDict

import pulumi
import pulumi_command as command


class SweepArgs(TypedDict):
    """How the cluster is cleaned up after."""

    command: str
    """scripts/sweep.py for a shell, with the cluster, its account and the provider's credentials."""


class Sweep(pulumi.ComponentResource):
    """Run scripts/sweep.py on destroy, and only then.

    Provisioners depend on it, and it depends on what nodes need: so it runs after the Provisioners are deleted and
    before roles, subnet tags and the like are.
    """

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Sweep", name, {}, opts)
        command.local.Command(
            f"{name}-leftovers",
            delete=args["command"],
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
