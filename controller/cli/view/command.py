"""Flags and output of `nodeless view`."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
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
from controller.cli.view.reading import Opener, Read, reading
from controller.cli.view.screen import Page, starting
from controller.cli.view.screen_state import ScreenState
from controller.cli.view.view_data import SORTS, Assessment, View, assess, document, node_document, ordered, view_of
from controller.errors import Problem, ValidationError

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
    """The nodes of a cluster with use, type, price, age and state; limits; pending pods and why; costs; decisions.

    Works on any cluster, whoever makes its nodes. On a terminal it refreshes until q: arrows move, / searches, ? shows
    all keys. Piped, or with --once or --output, it prints once.
    """
    place = ClusterLocation(**where)
    if selector and place.file:
        raise ValidationError("Flags", [Problem("--selector", "needs a cluster", "leave it out for a dump")])

    screen = ScreenState(sort, reverse)
    shown = output.console()
    if form == "table" and shown.is_terminal and not once:
        refresh(lambda: _reader(place, selector, early=True), screen, interval)
        return
    with output.progress("Reading the cluster"), _reader(place, selector) as read:
        current = read()
    if form == "csv":
        click.echo(_csv(current, screen), nl=False)
    elif form == "table":
        shown.print(Page(current, screen))
    else:
        output.structured(document(current, sort, reverse=reverse), form)


@contextmanager
def _reader(where: ClusterLocation, selector: str, *, early: bool = False) -> Iterator[Read]:
    """Yield a function that reads the view: a watched cluster, or a dump. `early`: before all lists are complete."""
    if where.file:
        cluster = read_cluster_view(where)
        assessment = assess(cluster, time.time())
        yield lambda: view_of(cluster, assessment, (), time.time())
        return
    with watch_cluster(where, selector, early=early) as live:
        yield LiveReader(live).read


class LiveReader:
    """Reads a watched cluster; plans again when it changed or after REPLAN_SECONDS."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._assessed: tuple[ClusterView, float, Assessment] | None = None

    def read(self) -> View:
        observation, now = self._cluster.observe(), time.time()
        cluster, known = observation.cluster, self._assessed
        if observation.listing:
            known = (cluster, now, Assessment())
        elif known is None or known[0] is not cluster or now - known[1] > REPLAN_SECONDS:
            self._assessed = known = (cluster, now, assess(cluster, now))
        return view_of(
            cluster, known[2], observation.decisions, now, observation.names, observation.notes,
            listing=observation.listing,
        )  # fmt: skip


def refresh(opener: Opener, screen: ScreenState, interval: float) -> None:
    """Read, draw and take keys until q or Ctrl-C. A failed read is shown, and the next one tried."""
    console, began = output.console(), time.monotonic()
    with (
        keyboard() as keys,
        Live(console=console, screen=True, auto_refresh=False) as live,
        reading(opener, interval, keys.wake) as current,
    ):
        while True:
            if current.failure is not None:
                raise current.failure
            view = current.view
            if keys.typed():
                pass  # all keys that are there count before the page is drawn again
            elif view is None:
                live.update(starting(time.monotonic() - began), refresh=True)
            else:
                live.update(Page(view, screen, console.height, keys=True, problem=current.problem), refresh=True)
            pressed = keys.key(interval)
            if pressed == "q" and not screen.typing:
                return
            if pressed == "e" and view is not None and not screen.typing:
                screen.message = _exported(view, Path.cwd())
            elif pressed and view is not None:
                screen.press(pressed, view)


def _exported(current: View, folder: Path) -> str:
    """Write the view to a file; return the message for the screen."""
    moment = datetime.fromtimestamp(current.now, UTC).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"nodes-{moment}.json"
    try:
        path.write_text(json.dumps(document(current), indent=2) + "\n")
    except OSError as error:
        return f"cannot be written: {error}"
    return f"written: {path}"


def _csv(current: View, screen: ScreenState) -> str:
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
