"""`nodeless explain`: why a pod waits, why a node is of this type and stays or goes, what a Provisioner can launch."""

from __future__ import annotations

import time

import click

from controller.cli import output
from controller.cli.answer import give
from controller.cli.cluster.cluster_view import Where, look
from controller.cli.output import Command, cluster_options, output_option

KINDS = ("pod", "node", "provisioner")


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(KINDS), metavar="pod|node|provisioner")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's namespace.")
@cluster_options
@click.option("--from", "file", default="", metavar="FILE", help="A dump to look at, in place of a cluster.")
@click.option(
    "--catalog", default="", type=click.Choice(["", "shipped", "live"]), metavar="shipped|live",
    help="Types and prices: of this release, or of AWS now. [default: the dump's, else shipped]",
)  # fmt: skip
@output_option()
def explain(kind: str, name: str, namespace: str, form: str, **where: str) -> None:
    """Why a pod waits, a node is what it is, or a Provisioner launches nothing.

    It asks the controller's own rules about the cluster as it is now: the plan for waiting pods, the gate for removals,
    the limits, the budgets. NAME of a pod may be NAMESPACE/NAME.
    """
    from controller.cli.explain.explain_node import explain_node
    from controller.cli.explain.explain_pod import explain_pod
    from controller.cli.explain.explain_provisioner import explain_provisioner

    with output.progress("Reading the cluster"):
        present, now = look(Where(**where)), time.time()
        if kind == "pod":
            before, slash, last = name.partition("/")
            answer = explain_pod(present, before if slash else namespace, last if slash else name, now)
        elif kind == "node":
            answer = explain_node(present, name, now)
        else:
            answer = explain_provisioner(present, name, now)
    give(answer, form)
