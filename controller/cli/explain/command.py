"""Flags and output of `nodeless explain`."""

from __future__ import annotations

import time

import click

from controller.cli import output
from controller.cli.cluster.cluster_view import ClusterLocation, read_cluster_view
from controller.cli.explain.answer import show
from controller.cli.explain.subjects import complete, node_name, subject
from controller.cli.output import Command, location_options, output_option


@click.command(cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="KIND NAME", shell_complete=complete)
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's or Service's namespace.")
@location_options
@output_option()
def explain(words: tuple[str, ...], namespace: str, form: str, **where: str) -> None:
    """Why a pod is pending, a node stays or goes, a Provisioner launches nothing, or a Service has no hints.

    KIND NAME is `pod web-1`, `pod/web-1`, `pod shop/web-1`, `node ip-10-0-0-1` (a node's first label is enough), a
    `provisioner` or a `service`; plurals and kubectl's short names work, too.

    Uses the controller's own rules on the present state: the plan for pending pods, the removal gate, limits and
    disruption budgets; for a Service, kube-controller-manager's rules of topology hints.
    """
    from controller.cli.explain.explain_node import explain_node
    from controller.cli.explain.explain_pod import explain_pod
    from controller.cli.explain.explain_provisioner import explain_provisioner
    from controller.cli.explain.explain_service import explain_service

    kind, own_namespace, name = subject(words, namespace)
    named = own_namespace, name
    with output.progress("Reading the cluster"):
        now = time.time()
        cluster = read_cluster_view(ClusterLocation(**where), now)
        if kind == "pod":
            answer = explain_pod(cluster, *named, now)
        elif kind == "service":
            answer = explain_service(cluster, *named, now)
        elif kind == "node":
            answer = explain_node(cluster, node_name(cluster, name), now)
        else:
            answer = explain_provisioner(cluster, name, now)
    if form == "table":
        show(answer, output.console())
    else:
        output.structured(answer.document(), form)
