"""Flags and output of `nodeless view`."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.live import Live

from controller.cli import output
from controller.cli.cluster.cluster_view import ClusterLocation, ClusterView, read_cluster_view
from controller.cli.cluster.live_view import LiveCluster, watch_cluster
from controller.cli.output import Command, location_options, output_option
from controller.cli.view.keyboard import keyboard
from controller.cli.view.screen import ScreenState, page
from controller.cli.view.view_data import SORTS, Assessment, View, assess, document, node_document, ordered, view_of
from controller.errors import NodelessError, Problem, ValidationError

Read = Callable[[], View]
REPLAN_SECONDS = 10.0
"""As often as the controller plans for headroom."""


@click.command(cls=Command)
@location_options
@click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes that match, as for kubectl.")
@click.option("--sort", default="price", show_default=True, type=click.Choice(SORTS), help="Sort order of nodes.")
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option(
    "--interval", default=2.0, show_default=True, type=click.FloatRange(0.5, 3600), help="Seconds between two pages."
)
@output_option("csv")
def view(form: str, selector: str, sort: str, reverse: bool, once: bool, interval: float, **where: str) -> None:
    """The nodes of a cluster with use, type, price, age and state; limits; pending pods and why; decisions.

    Works on any cluster, whoever makes its nodes. On a terminal it refreshes until q; keys sort (s, r), select an
    owner (f), page (j, k), show and hide (p, l, d) and export (e). Piped, or with --once or --output, it prints once.
    """
    place = ClusterLocation(**where)
    if selector and place.file:
        raise ValidationError("Flags", [Problem("--selector", "needs a cluster", "leave it out for a dump")])

    screen = ScreenState(sort, reverse)
    shown = output.console()
    with _reader(place, selector) as read:
        if form == "table" and shown.is_terminal and not once:
            refresh(read, screen, interval)
            return
        with output.progress("Reading the cluster"):
            current = read()
    if form == "csv":
        click.echo(_csv(current, screen), nl=False)
    elif form == "table":
        shown.print(page(current, screen))
    else:
        output.structured(document(current, sort), form)


@contextmanager
def _reader(where: ClusterLocation, selector: str) -> Iterator[Read]:
    """Yield a function that reads the view: a watched cluster, or a dump."""
    if where.file:
        cluster = read_cluster_view(where)
        assessment = assess(cluster, time.time())
        yield lambda: view_of(cluster, assessment, (), time.time())
        return
    with watch_cluster(where, selector) as live:
        yield LiveReader(live).read


class LiveReader:
    """Reads a watched cluster; plans again when it changed or after REPLAN_SECONDS."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._assessed: tuple[ClusterView, float, Assessment] | None = None

    def read(self) -> View:
        """The present view."""
        observation, now = self._cluster.observe(), time.time()
        known = self._assessed
        if known is None or known[0] is not observation.cluster or now - known[1] > REPLAN_SECONDS:
            self._assessed = known = (observation.cluster, now, assess(observation.cluster, now))
        return view_of(observation.cluster, known[2], observation.decisions, now, observation.names, observation.notes)


def refresh(read: Read, screen: ScreenState, interval: float) -> None:
    """Read, draw and take keys until q or Ctrl-C. A failed read is shown, and the next one tried."""
    with output.progress("Reading the cluster"):
        current = read()
    console = output.console()
    with keyboard() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        due = time.monotonic() + interval
        pressed = ""
        while pressed != "q":
            live.update(page(current, screen, console.height, keys=True), refresh=True)
            pressed = key(due - time.monotonic())
            if pressed == "e":
                screen.message = f"written: {_export(current, Path.cwd())}"
            elif pressed:
                screen.press(pressed, current)
            if time.monotonic() >= due:
                try:
                    current = read()
                except NodelessError as error:
                    screen.message = str(error)
                due = time.monotonic() + interval


def _export(current: View, folder: Path) -> Path:
    moment = datetime.fromtimestamp(current.now, UTC).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"nodes-{moment}.json"
    path.write_text(json.dumps(document(current), indent=2) + "\n")
    return path


def _csv(current: View, screen: ScreenState) -> str:
    """One row per node."""
    text = io.StringIO()
    rows = [node_document(current, node) for node in ordered(current, screen.sort, reverse=screen.reverse)]
    flat = [
        {
            **{key: value for key, value in row.items() if not isinstance(value, dict)},
            **{f"{name} use": share for name, share in row["use"].items()},
        }
        for row in rows
    ]
    writer = csv.DictWriter(text, list(flat[0]) if flat else ["name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()
