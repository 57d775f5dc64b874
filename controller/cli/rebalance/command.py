"""Flags and output of `nodeless rebalance`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from controller.cli import output
from controller.cli.cluster.cluster_view import ClusterLocation, ClusterView, read_cluster_view
from controller.cli.formatting import count
from controller.cli.output import Command, location_options, output_option
from controller.cli.rebalance import approvals, rebalance_page, rebalance_report
from controller.cli.rebalance.plan_file import read_plan
from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.planner import plan_rebalance
from controller.core.deprovisioning.rebalance.rebalance_plan import RebalancePlan
from controller.core.deprovisioning.records import recorded_commands
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.guards.mix import needed


@click.command(cls=Command)
@click.option("--plan", is_flag=True, help="Print the plan; nothing is changed.")
@click.option("--apply", "approved", default="", metavar="PLAN", help="Approve a plan that -o json printed.")
@click.option("--status", "shown", is_flag=True, help="Print how far the approved plan has come.")
@click.option("--undo", is_flag=True, help="End the approved plan: nodes that are not leaving yet stay.")
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
def rebalance(
    plan: bool, approved: str, shown: bool, undo: bool, within: float, page: str, form: str, **where: str
) -> None:
    """Which nodes would have to go for a fleet near the cheapest one, by few moved pods, and in which steps.

    Each step leaves every pod on a node: one may stop after any of them. Steps keep to disruption budgets and
    PodDisruptionBudgets; nodes that must stay are listed with the reason. --plan changes nothing.

    --apply approves a plan: its nodes are cordoned, and the controller removes them step by step as consolidation
    would. The plan is refused if the cluster has changed under it, now or before any step. --undo ends it: what is not
    leaving yet stays and takes pods again; nodes that are gone are not brought back.
    """
    if [plan, bool(approved), shown, undo].count(True) != 1:
        raise click.UsageError("Choose one of --plan, --apply PLAN, --status and --undo.")
    if where["file"] and (approved or undo):
        raise click.UsageError("--from is a dump: a plan is applied to a cluster.")
    now = time.time()
    document = read_plan(approved) if approved else None
    with output.progress("Reading the cluster and planning" if plan else "Reading the cluster"):
        cluster = read_cluster_view(ClusterLocation(**where), now)
        planned = plan_rebalance(asked_of(cluster, now), 1 + within / 100) if plan else None
    if planned is not None:
        _show_plan(planned, cluster, page, form, within / 100)
    elif shown or cluster.kube is None:
        _show_status(cluster, form)
    elif document is not None:
        number = approvals.approve(document, asked_of(cluster, now), cluster.kube)
        click.echo(f"Approved as {number}: {count(len(document.nodes), 'node')} in {count(document.steps, 'step')}")
    else:
        click.echo(f"{count(approvals.undo(cluster.snapshot, cluster.kube), 'node')} given back")


def _show_plan(planned: RebalancePlan, cluster: ClusterView, page: str, form: str, within: float) -> None:
    if page:
        Path(page).write_text(rebalance_page.page(planned, cluster.price_notes))
        output.note(f"Written: {page}")
    if form == "table":
        rebalance_report.show(planned, output.console(), within)
        for each in cluster.price_notes:
            output.note(f"Note: {each}")
    else:
        output.structured(rebalance_report.document(planned), form)


def _show_status(cluster: ClusterView, form: str) -> None:
    plans = approvals.status(cluster.snapshot)
    if form == "table":
        click.echo("\n".join(approvals.status_lines(plans)))
    else:
        output.structured({"plans": plans}, form)


def asked_of(cluster: ClusterView, now: float) -> MethodInput:
    """Return what a rebalance of the cluster is planned from, at `now` (Unix seconds)."""
    snapshot = cluster.snapshot
    going = frozenset(node.name for command in recorded_commands(snapshot) for node in command.carriers)
    simulator = Simulator(
        snapshot, cluster.view.types, going, FrozenMap(cluster.view.problems), cluster.options, cluster.index(snapshot)
    )
    everyone = candidates(snapshot, cluster.view.types, now, beside=simulator.options.beside)
    gate = Gate(snapshot, now, cluster.settings.disruption_budgets)
    return MethodInput(simulator, gate, everyone, now, required=needed(snapshot))
