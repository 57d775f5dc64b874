"""`python -m bench`: solve a problem file, or all of a folder beside Karpenter 1.14's figures.

What brings the sandbox along is imported by the commands that run it: a solve's memory is the solve's own.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
import structlog

from bench.curve import measure, picture, table
from bench.generate import write
from bench.prices import Row, report
from bench.report import KarpenterFigures, lines, markdown, show
from bench.runs import Run, document, run
from controller.core.audit.plan_audit import judge
from controller.core.provisioning import SolveOptions

if TYPE_CHECKING:
    from bench.life.day import Day

PRICES = """# Prices beside the bound and Karpenter 1.14

Made by `python -m bench prices FOLDER --karpenter FILE`. Price: each node at its cheapest offering; expected: as EC2
is expected to choose among each node's offerings. Cost: the price, and what nodes cost beside it; its bound is
the optimum with pods and nodes divisible: no plan for these pods can cost less. Cost has what `aws.spotPoolShare`
adds for replicas spread over zones and families, for at most 3 % of what is expected; the bound has not.
Karpenter: the scheduler of Karpenter 1.14 on the same file, the cheapest offering of each of its nodes. A plan that
leaves pods out is cheap, so there are three ratios: `÷ Karpenter` is to its price once all pods are placed (†) where
its first round left many out and further rounds were measured, else to its first round; `first round` is to that
always; `a pod` to that for each pod placed. Its seconds and the pods that it left out are its first round's. Seconds:
CPU time at the default budget, cold.

"""


FORMER_NAMES = {"token_normalize_func": lambda name: "karpenter" if name == "peer" else name}
"""Context settings by which `--peer`, the former name of `--karpenter`, still works; no help text shows it."""


BESIDE = (Path(__file__).parents[2] / "shared/bench/life",)
"""Where a day is looked for that no argument names: beside the repository."""


@click.group()
def main() -> None:
    """Benchmarks of the scheduler. Problems stay outside the repository: name a file or a folder."""


@main.command("solve")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--budget", type=float, default=None, help="Seconds for making the first plan cheaper; 0: none.")
@click.option("--output", type=click.Choice(["json", "table"]), default="table", show_default=True)
def solve_file(file: Path, budget: float | None, output: str) -> None:
    """Solve one problem FILE (.json.gz)."""
    options = SolveOptions() if budget is None else SolveOptions(budget_seconds=budget)
    solved = run(file, options)
    if output == "json":
        sys.stdout.buffer.write(orjson.dumps(document(solved)) + b"\n")
    else:
        _summary(solved)


@main.command("all", context_settings=FORMER_NAMES)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--karpenter", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Karpenter's figures (JSON)."
)
@click.option("--budget", type=float, default=None, help="Seconds for making each first plan cheaper; 0: none.")
@click.option("--against", help="A command that solves the file given as its last argument: timed in the same run.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Of each, the fastest counts.")
@click.option("--into", type=click.Path(dir_okay=False, path_type=Path), help="Also write the table to this file.")
def solve_all(
    folder: Path, karpenter: Path | None, budget: float | None, against: str | None, runs: int, into: Path | None
) -> None:
    """Solve every problem of FOLDER, each in a process of its own, and print the table."""
    known = orjson.loads(karpenter.read_bytes()) if karpenter else {}
    solved = list(lines(folder, known, budget, against, runs))
    show(solved, other=against is not None)
    if into:
        into.write_text(markdown(solved, other=against is not None))


@main.command("values")
def time_values() -> None:
    """What reading a Pod costs, and what `made_quickly` saves of it (microseconds of one core)."""
    from bench.values import figures

    for what, microseconds in figures().items():
        click.echo(f"{microseconds:6.2f}  {what}")


@main.command("audit")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--budget", type=float, default=None, help="Seconds for making each first plan cheaper; 0: none.")
def audit_plans(files: tuple[Path, ...], budget: float | None) -> None:
    """Solve FILES and audit the plans as the controller does: CPU seconds of both. Ends with 1 at a violation."""
    options = SolveOptions() if budget is None else SolveOptions(budget_seconds=budget)
    violations = 0
    for file in files:
        solved = run(file, options)
        began = time.process_time()
        verdict = judge(solved.plan, solved.problem)
        seconds = time.process_time() - began
        violations += len(verdict.violations)
        size = f"{len(solved.plan.new_nodes)} nodes for {len(solved.problem.pending)} pods"
        part = "" if verdict.topology_judged else ", topology in part"
        times = f"solve {solved.solve_seconds:.2f} s, audit {seconds:.2f} s{part}"
        click.echo(f"{file.name.removesuffix('.json.gz')}: {times}, {size}, {len(verdict.violations)} violations")
        for violation in verdict.violations:
            click.echo(f"  {violation}")
    sys.exit(1 if violations else 0)


@main.command("judge")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seeds", type=int, default=0, help="So many problems made up, beside FILES.")
@click.option("--from-seed", type=int, default=1, show_default=True, help="The first of those seeds.")
@click.option("--budget", type=float, default=None, help="Seconds for making each first plan cheaper; 0: none.")
def judge_plans(files: tuple[Path, ...], seeds: int, from_seed: int, budget: float | None) -> None:
    """Solve FILES, and have kube-scheduler's own filters judge the plans. Ends with 1 when one does not hold."""
    from bench import judging

    try:
        binary = judging.find_or_build(lambda line: click.echo(line, err=True))
    except judging.JudgeMissingError as error:
        click.echo(f"No judge: {error}", err=True)
        sys.exit(os.EX_UNAVAILABLE)
    options = SolveOptions() if budget is None else SolveOptions(budget_seconds=budget)
    failed = 0
    for name, each in judging.posed(files, range(from_seed, from_seed + seeds)):
        verdict = judging.judge(binary, name, each, options)
        failed += not verdict.holds
        for line in verdict.lines():
            click.echo(line)
    sys.exit(1 if failed else 0)


@main.command("made")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", type=int, default=1, show_default=True)
def made(folder: Path, seed: int) -> None:
    """Write generated problems to FOLDER: a cluster in the middle of a roll-out, and deployments that grow."""
    for path in write(folder, seed):
        click.echo(path)


@main.command("prices", context_settings=FORMER_NAMES)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--karpenter", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Karpenter's figures (JSON)."
)
@click.option("--budget", type=float, default=None, help="Seconds for making each first plan cheaper; 0: none.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def prices(folder: Path, karpenter: Path | None, budget: float | None, into: Path) -> None:
    """Prices over the bound and Karpenter 1.14's: solve every problem of FOLDER, and write prices.md."""
    known = orjson.loads(karpenter.read_bytes()) if karpenter else {}
    text = report([Row.of(line) for line in lines(folder, known, budget, None)])
    into.mkdir(parents=True, exist_ok=True)
    (into / "prices.md").write_text(PRICES + text)
    click.echo(text)


@main.command("field")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def field_shapes(into: Path) -> None:
    """Five shapes from the field at EC2's prices: write field-shapes.md and field-shapes.svg."""
    from bench import field

    catalog = field.shipped()
    rows, curves = [], {}
    for shape in field.SHAPES:
        problem = field.posed(shape, catalog)
        points, plan = field.measured(problem)
        curves[shape] = points
        rows.append(field.row(shape, problem, points, plan))
        click.echo(rows[-1])
    into.mkdir(parents=True, exist_ok=True)
    (into / "field-shapes.md").write_text(field.report(rows, catalog))
    (into / "field-shapes.svg").write_text(picture(curves))


@main.command("expected")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def expected_prices(files: tuple[Path, ...], into: Path) -> None:
    """What FILES' spot nodes are expected to cost, and what correlated losses take: write expected-price.md."""
    from bench.spot import expected

    lines = []
    for line in expected.tables(files):
        click.echo(line)
        lines.append(line)
    into.mkdir(parents=True, exist_ok=True)
    (into / "expected-price.md").write_text(expected.report(lines))


@main.command("curve")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def curve(files: tuple[Path, ...], into: Path) -> None:
    """Price against time: solve FILES with growing budgets, and write price-against-time.svg and .md."""
    curves = {path.name.removesuffix(".json.gz"): measure(path) for path in files}
    into.mkdir(parents=True, exist_ok=True)
    (into / "price-against-time.svg").write_text(picture(curves))
    (into / "price-against-time.md").write_text(table(curves))
    click.echo(table(curves))


@main.command("life")
@click.argument("day", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--seed", type=int, help="Make the day up from this seed, instead of DAY.")
@click.option("--pods", default=600, show_default=True, help="Of the first phase of a day that is made up.")
@click.option("--draws", default=1, show_default=True, help="Seed of kube-scheduler's draws among equal nodes.")
@click.option("--real", is_flag=True, help="Live it on a real control plane, too; takes as long as the day is.")
@click.option("--share", default=1.0, show_default=True, help="Of DAY's replicas.")
@click.option("--speed", default=1.0, show_default=True, help="So many times faster than DAY.")
@click.option(
    "--figures",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --real, write the figures here (JSON); without, show those of an earlier run in a column.",
)
@click.option("--into", type=click.Path(dir_okay=False, path_type=Path), help="Also write the table to this file.")
def life(
    day: Path | None,
    seed: int | None,
    pods: int,
    draws: int,
    real: bool,
    share: float,
    speed: float,
    figures: Path | None,
    into: Path | None,
) -> None:
    """A day of a cluster: DAY, a file or a folder with day.json and figures of Karpenter beside it.

    It is lived in virtual time and, with --real, on a real control plane, with the market of the sandbox's EC2 (so
    a day that is made up cannot be).
    """
    from bench.life.day import read, shortened
    from bench.life.made_up import made_up
    from bench.life.optimum import optimum
    from bench.life.report import HEAD, REAL, figures_of, karpenter, table
    from bench.life.run import live

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found = day or next((each for each in BESIDE if each.exists()), None)
    if seed is None and found is None:
        raise click.UsageError("name a day's file or folder, or give --seed")
    if seed is not None and real:
        raise click.UsageError("--real needs a day of the sandbox's market, not --seed")
    if seed is not None:
        lives, others = made_up(seed, pods), {}
    else:
        assert found is not None
        lives = read(found)
        if (share, speed) == (1.0, 1.0):
            others = karpenter(found if found.is_dir() else found.parent)
        else:
            lives, others = shortened(lives, share, speed), {}
    if real:
        own = _real_day(lives)
        if figures:
            figures.write_bytes(orjson.dumps(own, option=orjson.OPT_INDENT_2))
        others = {REAL: own, **others}
    elif figures:
        others = {REAL: figures_of(figures), **others}
    lived = live(lives, seed=draws)
    text = table(lived, [optimum(lives, phase) for phase in lives.phases], others)
    if into:
        into.write_text(HEAD + text)
    click.echo(text)


def _real_day(lives: Day) -> dict[str, Any]:
    from bench.control_plane import real_day
    from sandbox import kubebinaries
    from sandbox.realkube import ASSETS_VARIABLE

    os.environ[ASSETS_VARIABLE] = str(kubebinaries.find_or_build(lambda line: click.echo(line, err=True)))
    return real_day.run(lives)


@main.command("frontier")
@click.argument("day", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--seed", "seeds", type=int, multiple=True, help="Days made up from these seeds, beside DAY.")
@click.option("--pods", default=200, show_default=True, help="Of the first phase of a day that is made up.")
@click.option("--only", "names", multiple=True, help="Of the choices; all without it.")
@click.option("--draws", default=3, show_default=True, help="Days a choice: one as it is, others varied.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), help="Write life-frontier.svg and .md here.")
def frontier(
    day: Path | None, seeds: tuple[int, ...], pods: int, names: tuple[str, ...], draws: int, into: Path | None
) -> None:
    """Money against moves: days lived in virtual time under the settings that a user has."""
    from bench.life import frontier as money
    from bench.life.day import read
    from bench.life.made_up import made_up

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    days = [*([read(day)] if day else []), *(made_up(seed, pods) for seed in seeds)]
    if not days:
        raise click.UsageError("name a day, or give --seed")
    choices = [each for each in money.CHOICES if not names or each.name in names]
    found = []
    for point in money.points(days, choices, draws):
        found.append(point)
        click.echo(point, err=True)
    click.echo(money.table(found))
    if into:
        (into / "life-frontier.svg").write_text(money.picture(found))
        (into / "life-frontier.md").write_text(money.HEAD + money.table(found))


@main.command("nodes")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--karpenter",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Karpenter's figures (JSON).",
)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def node_counts(folder: Path, karpenter: Path, into: Path) -> None:
    """Price against nodes: solve the problems of FOLDER with growing costs of a node; write fewer-nodes.md and .svg."""
    from bench.trade_offs import node_counts as nodes

    known = orjson.loads(karpenter.read_bytes())
    into.mkdir(parents=True, exist_ok=True)
    frontiers: list[nodes.Frontier] = []
    for path in sorted(folder.glob("*.json.gz"), key=lambda path: path.stat().st_size):
        theirs = KarpenterFigures.of(known.get(path.name.removesuffix(".json.gz"), {}))
        if theirs is not None:
            frontiers.append(nodes.measure(path, theirs))
            click.echo(f"{frontiers[-1].name}: {frontiers[-1].verdict()}")
            (into / "fewer-nodes.md").write_text(nodes.HEAD + nodes.report(frontiers))
            (into / "fewer-nodes.svg").write_text(nodes.picture(frontiers))


@main.command("zones")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--day", type=click.Path(exists=True, path_type=Path), help="Live this day, too, in virtual time.")
@click.option("--draws", default=3, show_default=True, help="How often the day is lived for each step.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def zones(folder: Path, day: Path | None, draws: int, into: Path) -> None:
    """What even zones cost: solve the problems of FOLDER with growing demands on them; write zones.md and zones.svg."""
    from bench.trade_offs import zone_days, zone_steps

    into.mkdir(parents=True, exist_ok=True)
    lived: list[zone_days.DayStep] = []
    if day:
        from bench.life.day import read

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        for step in zone_days.steps(read(day), draws):
            lived.append(step)
            click.echo(f"{step.name}: {step.share:.0%}, ${step.dollars:.2f}")
    days = [zone_days.drawn("day", lived)] if lived else []
    over_a_day = f"\n{zone_days.head(draws)}{zone_days.report(lived)}" if lived else ""
    measured: list[zone_steps.Problem] = []
    for path in sorted(folder.glob("*.json.gz"), key=lambda path: path.stat().st_size):
        measured.append(zone_steps.measure(path))
        click.echo(f"{measured[-1].name}: {', '.join(f'{step.share or 0:.0%}' for step in measured[-1].steps)}")
        (into / "zones.md").write_text(zone_steps.HEAD + zone_steps.report(measured) + over_a_day)
        (into / "zones.svg").write_text(zone_steps.picture(measured, days))


@main.command("scale")
@click.option("--nodes", default=1_000, show_default=True, help="Ten pods for each.")
@click.option(
    "--side",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another controller's figures on the same pods (JSON, as --json writes them): also print both columns, ours "
    "with the setting planAheadOwners, and the limit, kube-scheduler with the nodes there beforehand.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs, each with its limit: the middle one is shown.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def scale(nodes: int, side: Path | None, rounds: int, json_file: Path | None, into: Path) -> None:
    """Pods that all wait at once, on a real control plane: write scale.svg and scale.md. Takes minutes."""
    from bench.control_plane import scalereport
    from bench.control_plane.scale import run as scale_run
    from bench.control_plane.side_by_side import (
        figures,
        over_limit,
        programs_table,
        ratios,
        read,
        side_table,
        without_controller,
    )
    from sandbox import kubebinaries
    from sandbox.realkube import ASSETS_VARIABLE

    others = {side.stem: read(side)} if side else {}
    folder = kubebinaries.find_or_build(lambda line: click.echo(line, err=True))
    os.environ[ASSETS_VARIABLE] = str(folder)
    every = sorted((scale_run(nodes, scheduler_alone=side is not None) for _ in range(rounds)), key=over_limit)
    measured, alone = every[len(every) // 2]
    text = scalereport.HEAD + scalereport.table(measured)
    own = figures(measured)
    if json_file:
        json_file.write_bytes(own.json())
    if alone:
        ahead, _ = scale_run(nodes, ahead_of_owners=True)
        beside = {"NodeLess, planAheadOwners": figures(ahead), **others}
        limit = {"kube-scheduler, nodes there beforehand": figures(alone)}
        text += "\n" + side_table({"NodeLess": own, **beside, **limit})
        text += "\n" + programs_table(measured, alone) + ratios(every)
        text += without_controller([(run, limit_run) for run, limit_run in every if limit_run])
    into.mkdir(parents=True, exist_ok=True)
    (into / "scale.svg").write_text(scalereport.picture(measured))
    (into / "scale.md").write_text(text)
    click.echo(text.removeprefix(scalereport.HEAD))


@main.command("foresight")
@click.option("--nodes", default=500, show_default=True, help="Ten pods for each.")
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def foresight(nodes: int, rounds: int, into: Path) -> None:
    """A burst on a real control plane, its nodes launched by us and with its first pod: write foresight.md."""
    from bench.control_plane.foresight import HEAD, table
    from bench.control_plane.foresight import run as foresight_run
    from sandbox import kubebinaries
    from sandbox.realkube import ASSETS_VARIABLE

    os.environ[ASSETS_VARIABLE] = str(kubebinaries.find_or_build(lambda line: click.echo(line, err=True)))
    page = HEAD + table([foresight_run(nodes) for _ in range(rounds)])
    into.mkdir(parents=True, exist_ok=True)
    (into / "foresight.md").write_text(page)
    click.echo(page)


@main.command("trickle")
@click.option("--seeds", default=10, show_default=True)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def trickle(seeds: int, into: Path) -> None:
    """One pod every two seconds for five minutes, in virtual time, planned ahead or not: write trickle.md."""
    from bench.life.trickle import report as trickle_report

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    into.mkdir(parents=True, exist_ok=True)
    page = trickle_report(seeds)
    (into / "trickle.md").write_text(page)
    click.echo(page)


@main.command("idle")
@click.option("--nodes", default=5_000, show_default=True)
@click.option("--pods", default=100_000, show_default=True)
def idle(nodes: int, pods: int) -> None:
    """An idle cluster: memory, share of a core, and what a relist after a lost watch takes and stalls."""
    from bench.idle import measure as measure_idle

    click.echo(measure_idle(nodes, pods).table())


@main.command("interruption")
@click.option("--nodes", default=600, show_default=True, help="Spot warnings; as many others get a recommendation.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def interruption(nodes: int, into: Path) -> None:
    """A mass interruption on a real control plane, queue empty and nodes drained: write interruption.md."""
    from bench.control_plane.mass_interruption import HEAD
    from bench.control_plane.mass_interruption import run as interruption_run
    from sandbox import kubebinaries
    from sandbox.realkube import ASSETS_VARIABLE

    os.environ[ASSETS_VARIABLE] = str(kubebinaries.find_or_build(lambda line: click.echo(line, err=True)))
    page = HEAD + interruption_run(nodes).table()
    into.mkdir(parents=True, exist_ok=True)
    (into / "interruption.md").write_text(page)
    click.echo(page)


@main.command("scale-in")
@click.option("--cycles", default=100, show_default=True, help="Scale-ins of each kind.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def scale_in(cycles: int, into: Path) -> None:
    """Evictions after scale-ins with and without pod deletion costs, in virtual time: write scale-in.md."""
    from bench.scale_in_runs.scale_in import report as scale_in_report

    into.mkdir(parents=True, exist_ok=True)
    page = scale_in_report(cycles)
    (into / "scale-in.md").write_text(page)
    click.echo(page)


@main.command("rebalance")
@click.option("--nodes", default=1_000, show_default=True)
@click.option(
    "--seeds", default=5, show_default=True, help="Small clusters of each shape, held against the exact model."
)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def rebalance(nodes: int, seeds: int, into: Path) -> None:
    """Rebalances of fragmented clusters: cost over the bound, moves over the least: write rebalance.md."""
    from bench.rebalance_runs import rebalance as rebalances

    into.mkdir(parents=True, exist_ok=True)
    page = f"{rebalances.HEAD}{rebalances.large(nodes)}\n{rebalances.small(12, range(1, seeds + 1))}"
    (into / "rebalance.md").write_text(page)
    click.echo(page)


@main.command("view")
@click.option("--nodes", default="25,100,500,2000", show_default=True, help="Sizes of the clusters, fewest first.")
@click.option("--pods", default=20, show_default=True, help="Pods on each node.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def view(nodes: str, pods: int, into: Path) -> None:
    """What a frame of `nodeless view` takes on clusters of some sizes: write view.md."""
    from bench.view_runs import frames

    page = frames.page([frames.measure(int(each), pods) for each in nodes.split(",")])
    into.mkdir(parents=True, exist_ok=True)
    (into / "view.md").write_text(page)
    click.echo(page)


@main.command("image")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
def image(into: Path) -> None:
    """The image's installation, by the Dockerfile's own steps: its size, and the time from start to ready."""
    from bench.image import image_table, measure_image

    figures = measure_image()
    into.mkdir(parents=True, exist_ok=True)
    (into / "image.md").write_text(image_table(figures))
    click.echo(image_table(figures))


@main.command("small")
@click.option("--problems", default=300, show_default=True, help="How many; problem N is made from seed N.")
@click.option("--budget", type=float, default=None, help="Seconds for making each first plan cheaper; 0: none.")
@click.option("--into", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures to this file (JSON).")
@click.option(
    "--against", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Figures to compare with (JSON)."
)
def small_batches(problems: int, budget: float | None, into: Path | None, against: Path | None) -> None:
    """Problems of 1 to 50 pods at EC2's prices: cost and CPU time, beside the figures of an earlier run."""
    from bench import small

    options = SolveOptions() if budget is None else SolveOptions(budget_seconds=budget)
    known = orjson.loads(against.read_bytes()) if against else {}
    figures = {seed: small.measured(seed, options) for seed in range(1, problems + 1)}
    if into:
        into.write_bytes(orjson.dumps({str(seed): each for seed, each in figures.items()}))
    click.echo(small.table(figures, {int(seed): small.Figures(**each) for seed, each in known.items()}))


@main.command("small-exact")
@click.option("--problems", default=200, show_default=True, help="How many; problem N is made from seed N.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/benchmarks"))
@click.option("--patient", type=int, help="Unproven plans that are solved again with more work; without: all.")
def small_exact(problems: int, into: Path, patient: int | None) -> None:
    """Small batches against what is proven of them: write small-batches.md."""
    from bench import small_exact as exact

    began = time.process_time()
    figures = {seed: exact.proven(seed, SolveOptions()) for seed in range(1, problems + 1)}
    again = exact.searched(figures, patient, SolveOptions())
    text = exact.table(figures) + exact.REFERENCE + exact.reference(figures, again)
    text += f"\nAll of it took {(time.process_time() - began) / 60:.0f} minutes of CPU.\n"
    into.mkdir(parents=True, exist_ok=True)
    (into / "small-batches.md").write_text(exact.HEAD + text)
    click.echo(text)


def _summary(solved: Run) -> None:
    plan = solved.plan
    placed = sum(len(placement.pods) for placement in plan.existing)
    click.echo(
        f"{len(solved.problem.pending)} pods in {solved.seconds:.3f} s ({solved.pods_per_second:,.0f}/s): "
        f"{len(plan.new_nodes)} new nodes at ${plan.price_per_hour:.4f}/h, {placed} pods on {len(plan.existing)} "
        f"existing nodes, {len(plan.unplaced)} not placed"
    )
    for left in plan.unplaced[:10]:
        click.echo(f"  {'/'.join(left.pod)}: {left.reason}")


if __name__ == "__main__":
    main()
