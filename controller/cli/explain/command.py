"""Flags and output of `nodeless explain`."""

from __future__ import annotations

import time

import click

from controller.cli import output
from controller.cli.cluster.cluster_view import ClusterLocation, read_cluster_view
from controller.cli.explain.answer import show
from controller.cli.output import Command, location_options, output_option

KINDS = ("pod", "node", "provisioner", "service")


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(KINDS), metavar="|".join(KINDS))
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's or Service's namespace.")
@location_options
@output_option()
def explain(kind: str, name: str, namespace: str, form: str, **where: str) -> None:
    """Why a pod is pending, a node stays or goes, a Provisioner launches nothing, or a Service has no hints.

    Uses the controller's own rules on the present state: the plan for pending pods, the removal gate, limits and
    disruption budgets; for a Service, kube-controller-manager's rules of topology hints. NAME of a pod or Service may
    be NAMESPACE/NAME.
    """
    from controller.cli.explain.explain_node import explain_node
    from controller.cli.explain.explain_pod import explain_pod
    from controller.cli.explain.explain_provisioner import explain_provisioner
    from controller.cli.explain.explain_service import explain_service

    with output.progress("Reading the cluster"):
        now = time.time()
        cluster = read_cluster_view(ClusterLocation(**where), now)
        before, slash, last = name.partition("/")
        named = (before, last) if slash else (namespace, name)
        if kind == "pod":
            answer = explain_pod(cluster, *named, now)
        elif kind == "service":
            answer = explain_service(cluster, *named, now)
        elif kind == "node":
            answer = explain_node(cluster, name, now)
        else:
            answer = explain_provisioner(cluster, name, now)
    if form == "table":
        show(answer, output.console())
    else:
        output.structured(answer.document(), form)
