"""What a cluster's nodes may leave behind is looked for when the stack goes."""

from typing import TypedDict

import pulumi
import pulumi_command as command


class SweepArgs(TypedDict):
    """Whose leftovers."""

    cluster_name: str
    """Name of the cluster: letters, digits, - and _, so that it needs no quoting in a shell."""
    region: str
    """Its region."""


class Sweep(pulumi.ComponentResource):
    """Runs scripts/sweep.py on destroy, and nothing before.

    Provisioners depend on it, and it on what nodes need: so it runs when they are gone and nothing of theirs is yet.
    """

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Sweep", name, {}, opts)
        command.local.Command(
            f"{name}-leftovers",
            delete="uv run --locked python scripts/sweep.py "
            f"--cluster {args['cluster_name']} --region {args['region']}",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
