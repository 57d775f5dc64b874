"""On destroy, remove what a cluster's nodes may have left behind in AWS."""

from typing import TypedDict

import pulumi
import pulumi_command as command

from components.documents.credentials import Credentials, sweep_command


class SweepArgs(TypedDict):
    """The cluster to clean up after."""

    cluster_name: str
    """Name of the cluster."""
    credentials: Credentials
    """Where it is, and whose rights the provider acts with."""


class Sweep(pulumi.ComponentResource):
    """Run scripts/sweep.py on destroy, and only then.

    Provisioners depend on it, and it depends on what nodes need: so it runs after the Provisioners are deleted and
    before roles, subnet tags and the like are.
    """

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Sweep", name, {}, opts)
        command.local.Command(
            f"{name}-leftovers",
            delete=sweep_command(args["cluster_name"], args["credentials"]),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
