"""Flags and output of `nodeless simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from controller.cli import output
from controller.cli.cluster import simulation, simulation_report
from controller.cli.cluster.node_facts import capacity_type
from controller.cli.cluster.simulation import Simulation
from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.objects import Objects, kube_client, read_cluster, read_objects
from controller.cli.inputs.scenario import Scenario, scenario
from controller.cli.inputs.sources import ASSUMED_SPOT_SHARE, LIVE, Source, choose_region, source_for
from controller.cli.inputs.workload_pods import ReplicaOverrides
from controller.cli.output import Command, catalog_option, choice_option, cluster_options, output_option
from controller.cli.simulate import comparison, simulation_page
from controller.cli.simulate.repack import ALL, OURS, repacked
from controller.core.api.document import mapping
from controller.core.api.labels import SPOT
from controller.core.api.strict import Report
from controller.errors import Problem, ValidationError


@dataclass(frozen=True, slots=True)
class Request:
    files: tuple[str, ...]
    compare: tuple[str, ...]
    live: bool
    kubeconfig: str
    context: str
    catalog: str
    region: str
    zones: tuple[str, ...]
    spot_share: float
    overrides: ReplicaOverrides
    repack: str
    budget_seconds: float
    gap: bool


@click.command(cls=Command)
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER|-]...")
@click.option("--compare", multiple=True, metavar="FILE", help="Present configuration to compare with; repeat.")
@click.option("--live", is_flag=True, help="Also read the kubeconfig's cluster: nodes, pods, Provisioners.")
@cluster_options
@catalog_option
@click.option(
    "--region",
    default="",
    metavar="NAME",
    help="Region of the catalog. [default: the stack's or the nodes', else us-east-1]",
)
@click.option("--zone", "zones", multiple=True, metavar="NAME", help="A zone with subnets; repeat. [default: all]")
@click.option(
    "--spot-share",
    default=ASSUMED_SPOT_SHARE,
    show_default=True,
    type=click.FloatRange(0.05, 1.0),
    help="Spot price over on-demand price, where the catalog has no spot prices.",
)
@click.option("--replicas", multiple=True, metavar="NAME=N", help="Plan with N replicas of NAME; repeat.")
@click.option(
    "--autoscaled",
    default="declared",
    show_default=True,
    type=click.Choice(["declared", "min", "max"]),
    help="Replicas of workloads with a HorizontalPodAutoscaler.",
)
@choice_option("--repack", OURS, ALL, text="Remove our nodes (or all but Fargate's) and plan new nodes for their pods.")
@click.option(
    "--budget", default=1.0, show_default=True, type=click.FloatRange(0, 60), help="Time for the solver, in seconds."
)
@click.option("--html", "page", default="", metavar="FILE", help="Write a self-contained page that draws the packing.")
@click.option("--gap", is_flag=True, help="Explain the difference to the lower bound.")
@output_option("wide", "markdown")
def simulate(form: str, page: str, budget: float, replicas: Sequence[str], autoscaled: str, **given: object) -> None:
    """Which nodes a workload would get, what they cost, and what cannot be placed.

    FILEs hold Provisioners, AWSNodeTemplates and workloads in any mixture: manifests, stack configuration
    (stacks/Pulumi.NAME.yaml), dumps (`nodeless dump`). AWS and a cluster are used only with --catalog live and --live.

    Exit code: 0 all pods placed, 3 some cannot be placed, 2 files or flags are wrong, 1 AWS or the cluster failed.
    """
    overrides = ReplicaOverrides(_replicas(replicas), "" if autoscaled == "declared" else autoscaled)
    with output.progress("Reading and packing"):
        after, before = run(Request(overrides=overrides, budget_seconds=budget, **given))  # type: ignore[arg-type]
    if page:
        Path(page).write_text(simulation_page.page(after, before))
        output.note(f"Written: {page}")
    _print(after, before, form)
    if after.plan.unplaced:
        click.get_current_context().exit(output.FOUND)


def run(request: Request) -> tuple[Simulation, Simulation | None]:
    """Return (simulation, simulation of --compare). Raises ValidationError, KubeError, CloudError."""
    report = Report()
    objects = read_objects(request.files, report)
    other = read_objects(request.compare, report)
    if request.live:
        objects = _with_cluster(objects, read_cluster(kube_client(request.kubeconfig, request.context)))
    if not objects.located and not report.problems:
        report.add("FILE", "nothing to simulate", "name files with Provisioners and workloads, or give --live")
    wanted = [("after" if request.compare else "simulated", objects.configuration, objects.workload)]
    if request.compare:
        wanted.append(("before", other.configuration, other.workload or objects.workload))
    made = [
        scenario(name, repacked((*conf, *work), request.repack), report, request.overrides)
        for name, conf, work in wanted
    ]
    if report.problems:
        raise ValidationError("Files", report.problems)
    scenarios = [each for each in made if each is not None]
    named = (*objects.regions, *other.regions)
    region = "" if request.catalog == LIVE else choose_region(request.region, named, objects.region)
    source = source_for(
        request.catalog, region, scenarios[0].settings,
        objects.catalog or other.catalog, objects.prices or other.prices,
        zones=request.zones, spot_share=request.spot_share,
    )  # fmt: skip
    plans = [_simulated(each, source, request) for each in scenarios]
    return plans[0], plans[1] if len(plans) > 1 else None


def _simulated(wanted: Scenario, source: Source, request: Request) -> Simulation:
    result = simulation.simulate(wanted, source.types, request.budget_seconds, gap=request.gap)
    kinds = {node.offering.capacity_type for node in result.plan.new_nodes}
    kinds |= {capacity_type(node.node.labels) for node in wanted.snapshot.nodes.values()}
    spot = (f"{source.spot_note}, --spot-share assumes another share",) if SPOT in kinds and source.spot_note else ()
    return replace(result, notes=(source.note, *spot, *result.notes))


def _with_cluster(files: Objects, cluster: Objects) -> Objects:
    """Join files and cluster; an object of the files replaces the cluster's of the same kind and name."""
    named = {_identity(each) for each in files.located}
    kept = (each for each in cluster.located if _identity(each) not in named)
    return replace(files, located=(*files.located, *kept), prices=files.prices or cluster.prices)


def _identity(each: LocatedObject) -> tuple[str, str, str]:
    metadata = mapping(each.document.get("metadata"))
    return (each.kind, str(metadata.get("namespace") or "default"), each.name)


def _replicas(given: Sequence[str]) -> dict[str, int]:
    replicas, problems = {}, []
    for each in given:
        name, _, number = each.partition("=")
        if name and number.isdecimal():
            replicas[name] = int(number)
        else:
            problems.append(Problem("--replicas", f"{each!r} is not NAME=N", "write web=20, or shop/web=20"))
    if problems:
        raise ValidationError("Flags", problems)
    return replicas


def _print(after: Simulation, before: Simulation | None, form: str) -> None:
    if form == "markdown":
        click.echo(comparison.markdown(after, before))
    elif form in ("json", "yaml"):
        document = simulation_report.document(after)
        output.structured(comparison.document(after, before) if before else document, form)
    elif before is not None:
        comparison.show(after, before, output.console())
    else:
        simulation_report.show(after, output.console(), wide=form == "wide")
