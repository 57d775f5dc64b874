"""Flags and output of `nodeless rebalance`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from controller.cli import output
from controller.cli.cluster.cluster_view import ClusterLocation, ClusterView, read_cluster_view
from controller.cli.output import Command, location_options, output_option
from controller.cli.rebalance import rebalance_page, rebalance_report
from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.planner import plan_rebalance
from controller.core.deprovisioning.records import recorded_commands
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.guards.mix import needed


@click.command(cls=Command)
@click.option("--plan", is_flag=True, required=True, help="Print the plan; nothing is changed.")
@click.option(
    "--within",
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    type=click.FloatRange(0, 1000),
    help="How much dearer than the lower bound the fleet may stay.",
)
@click.option("--html", "page", default="", metavar="FILE", help="Write the plan as a self-contained page.")
@location_options
@output_option()
def rebalance(plan: bool, within: float, page: str, form: str, **where: str) -> None:  # noqa: ARG001
    """Which nodes would have to go for a fleet near the cheapest one, by few moved pods, and in which steps.

    Each step leaves every pod on a node: one may stop after any of them. Steps keep to disruption budgets and
    PodDisruptionBudgets; nodes that must stay are listed with the reason. Nothing is changed.
    """
    now = time.time()
    with output.progress("Reading the cluster and planning"):
        cluster = read_cluster_view(ClusterLocation(**where), now)
        planned = plan_rebalance(asked_of(cluster, now), 1 + within / 100)
    if page:
        Path(page).write_text(rebalance_page.page(planned, cluster.price_notes))
        output.note(f"Written: {page}")
    if form == "table":
        rebalance_report.show(planned, output.console())
        for each in cluster.price_notes:
            output.note(f"Note: {each}")
    else:
        output.structured(rebalance_report.document(planned), form)


def asked_of(cluster: ClusterView, now: float) -> MethodInput:
    """What a rebalance of the cluster is planned from, at `now` (Unix seconds)."""
    snapshot = cluster.snapshot
    going = frozenset(node.name for command in recorded_commands(snapshot) for node in command.carriers)
    simulator = Simulator(
        snapshot,
        cluster.view.types,
        going,
        FrozenMap(cluster.view.problems),
        cluster.options,
        cluster.index(snapshot),
    )
    everyone = candidates(snapshot, cluster.view.types, now, beside=simulator.options.beside)
    gate = Gate(snapshot, now, cluster.settings.disruption_budgets)
    return MethodInput(simulator, gate, everyone, now, required=needed(snapshot))
