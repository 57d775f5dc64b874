"""On destroy, remove what a cluster's nodes may have left behind in AWS."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_command as command


class SweepArgs(TypedDict):
    """How the cluster is cleaned up after."""

    command: str
    """scripts/sweep.py for a shell, with the cluster, its account and the provider's credentials."""
    folder: NotRequired[str]
    """Where it is run, from the program's folder; the program's own by default."""


class Sweep(pulumi.ComponentResource):
    """Run scripts/sweep.py on destroy, and only then.

    Provisioners depend on it, and it depends on what nodes need: so it runs after the Provisioners are deleted and
    before roles, subnet tags and the like are.
    """

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Sweep", name, {}, opts)
        folder = args.get("folder", ".")
        command.local.Command(
            f"{name}-leftovers",
            delete=args["command"],
            dir=None if folder == "." else folder,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
