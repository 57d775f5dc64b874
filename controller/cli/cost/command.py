"""Flags and output of `nodeless cost`."""

from __future__ import annotations

import time

import click

from controller.cli import output
from controller.cli.cluster import costs_report
from controller.cli.cluster.cluster_view import ClusterLocation, read_cluster_view
from controller.cli.cluster.workload_costs import costs_of
from controller.cli.formatting import count
from controller.cli.output import Command, choice_option, location_options, output_option


@click.command(cls=Command)
@click.option("-n", "--namespace", default="", metavar="NAME", help="The workloads of this namespace alone.")
@choice_option("--by", "namespace", "workload", text="One line for each. [default: namespace; with -n, workload]")
@location_options
@output_option()
def cost(namespace: str, by: str, form: str, **where: str) -> None:
    """What each namespace and workload of a cluster costs.

    A node's price is divided among its pods: by the mean of their shares of its CPU and memory, as requested. What no
    pod requests is shown as idle. Prices are those by which nodes are chosen.
    """
    with output.progress("Reading the cluster"):
        cluster = read_cluster_view(ClusterLocation(**where), time.time())
        costs = costs_of(cluster.snapshot.nodes.values(), cluster.prices)
    if form != "table":
        output.structured(costs_report.document(costs, namespace), form)
        return
    workloads = (by or ("workload" if namespace else "namespace")) == "workload"
    console = output.console()
    if namespace and not any(space == namespace for space, _ in costs.workloads):
        console.print(f"No pod of the namespace {namespace} is on a node of known price")
    else:
        console.print(costs_report.costs_table(costs, "", namespace, workloads=workloads))
    if costs.unpriced:
        nodes = count(len(costs.unpriced), "node")
        console.print(f"{nodes} of unknown price left out: {', '.join(costs.unpriced[:5])}")
    for each in cluster.price_notes:
        output.note(f"Note: {each}")
