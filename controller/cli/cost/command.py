"""Flags and output of `nodeless cost`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from controller.cli import output
from controller.cli.cluster.cluster_view import ClusterLocation, read_cluster_view
from controller.cli.cost.workload_costs import Cost, Costs, costs_of
from controller.cli.formatting import HOURS_A_MONTH, count, money, month, percent, titled_table
from controller.cli.output import Command, location_options, output_option


@click.command(cls=Command)
@click.option("-n", "--namespace", default="", metavar="NAME", help="The workloads of this namespace alone.")
@click.option("--by", default="", type=click.Choice(["", "namespace", "workload"]), metavar="namespace|workload",
              help="One line for each. [default: namespace; with -n, workload]")  # fmt: skip
@location_options
@output_option()
def cost(namespace: str, by: str, form: str, **where: str) -> None:
    """What each namespace and workload of a cluster costs.

    A node's price is divided among its pods: by the mean of their shares of its CPU and memory, as requested. What no
    pod requests is shown as idle. Prices are those by which nodes are chosen.
    """
    with output.progress("Reading the cluster"):
        cluster = read_cluster_view(ClusterLocation(**where), time.time())
        costs = costs_of(cluster.snapshot, cluster.prices)
    if form == "table":
        show(
            costs,
            output.console(),
            namespace,
            workloads=(by or ("workload" if namespace else "namespace")) == "workload",
        )
        for each in cluster.price_notes:
            output.note(f"Note: {each}")
    else:
        output.structured(document(costs, namespace), form)


def show(costs: Costs, console: Console, namespace: str = "", *, workloads: bool = False) -> None:
    """Print the dearest first, what is idle, and the total."""
    rows: Mapping[str, Cost] = costs.namespaces
    if workloads:
        rows = {f"{space}/{name}": cost for (space, name), cost in costs.workloads.items()}
    if namespace:
        rows = {name: cost for name, cost in rows.items() if name.partition("/")[0] == namespace}
    what = "Workload" if workloads else "Namespace"
    table = titled_table("", what, "Pods", "$/h", "$/month", "Share", right=("Pods", "$/h", "$/month", "Share"))
    table.title = None
    whole = costs.price_per_hour or 1.0
    for name, cost in sorted(rows.items(), key=lambda item: (-item[1].price_per_hour, item[0])):
        table.add_row(Text(name), f"{cost.pods:,}", *_money(cost.price_per_hour), percent(cost.price_per_hour / whole))
    if not namespace:
        table.add_row("(idle)", "", *_money(costs.idle_per_hour), percent(costs.idle_per_hour / whole), style="dim")
        table.add_row("in all", "", *_money(costs.price_per_hour), "", style="bold")
    console.print(table)
    if costs.unpriced:
        console.print(
            f"{count(len(costs.unpriced), 'node')} of unknown price left out: {', '.join(costs.unpriced[:5])}"
        )


def _money(dollars_per_hour: float) -> tuple[str, str]:
    return money(dollars_per_hour), month(dollars_per_hour)


def document(costs: Costs, namespace: str = "") -> dict[str, Any]:
    """As JSON values."""
    chosen = sorted(key for key in costs.workloads if namespace in ("", key[0]))
    return {
        "pricePerHour": round(costs.price_per_hour, 6),
        "idlePerHour": round(costs.idle_per_hour, 6),
        "workloads": [
            {
                "namespace": key[0],
                "workload": key[1],
                "pods": costs.workloads[key].pods,
                "pricePerHour": round(costs.workloads[key].price_per_hour, 6),
                "pricePerMonth": round(costs.workloads[key].price_per_hour * HOURS_A_MONTH, 2),
            }
            for key in chosen
        ],
        "unpricedNodes": list(costs.unpriced),
    }
