"""`nodeless view`: the nodes of a cluster, live or once: use, price, state, pods that wait and why, decisions."""

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
from controller.cli.cluster.cluster_view import Present, Where, look
from controller.cli.cluster.live_view import Watched, watched
from controller.cli.output import Command, cluster_options, output_option
from controller.cli.view.keyboard import keyboard
from controller.cli.view.screen import Choices, page
from controller.cli.view.view_data import SORTS, Outlook, View, document, node_document, ordered, outlook_of, view_of
from controller.errors import NodelessError, Problem, ValidationError

Read = Callable[[], View]
JUDGED_SECONDS = 10.0
"""As often as the controller looks at headroom."""


@click.command(cls=Command)
@cluster_options
@click.option("--from", "file", default="", metavar="FILE", help="A dump to look at, in place of a cluster.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes that match, as for kubectl.")
@click.option("--sort", default="price", show_default=True, type=click.Choice(SORTS), help="What nodes are sorted by.")
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--once", is_flag=True, help="Print once and end: for scripts, and where there is no terminal.")
@click.option(
    "--interval", default=2.0, show_default=True, type=click.FloatRange(0.5, 3600), help="Seconds between two pages."
)
@click.option(
    "--catalog", default="", type=click.Choice(["", "shipped", "live"]), metavar="shipped|live",
    help="Prices: of this release, or of AWS now. [default: the dump's, else shipped]",
)  # fmt: skip
@output_option("csv")
def view(form: str, selector: str, sort: str, reverse: bool, once: bool, interval: float, **where: str) -> None:
    """The nodes of a cluster: use, type, price, age, state; pods that wait and why; decisions as they happen.

    Works on any cluster, whoever makes its nodes. On a terminal it stays and looks again; keys sort (s, r), select by
    owner (f), show and hide (p, d), export what is seen (e) and quit (q). Piped, or with --once or --output, it
    prints once.
    """
    place = Where(**where)
    if selector and place.file:
        raise ValidationError("Flags", [Problem("--selector", "needs a cluster", "leave it out for a dump")])

    choices = Choices(sort, reverse)
    shown = output.console()
    with _reader(place, selector) as read:
        if form == "table" and shown.is_terminal and not once:
            stay(read, choices, interval)
            return
        with output.progress("Reading the cluster"):
            current = read()
    if form == "csv":
        click.echo(_csv(current, choices), nl=False)
    elif form == "table":
        shown.print(page(current, choices))
    else:
        output.structured(document(current, sort), form)


@contextmanager
def _reader(where: Where, selector: str) -> Iterator[Read]:
    """What looks: at a cluster by watches, at a dump once."""
    if where.file:
        present = look(where)
        outlook = outlook_of(present, time.time())
        yield lambda: view_of(present, outlook, (), time.time())
        return
    with watched(where, selector) as cluster:
        yield Looks(cluster).look


class Looks:
    """Looks at a watched cluster; plans anew only when something changed, or what is bounded by the minute may have."""

    def __init__(self, cluster: Watched) -> None:
        self._cluster = cluster
        self._judged: tuple[Present, float, Outlook] | None = None

    def look(self) -> View:
        """The view of now."""
        sight, now = self._cluster.look(), time.time()
        known = self._judged
        if known is None or known[0] is not sight.present or now - known[1] > JUDGED_SECONDS:
            self._judged = known = (sight.present, now, outlook_of(sight.present, now))
        return view_of(sight.present, known[2], sight.decisions, now, sight.names, sight.notes)


def stay(read: Read, choices: Choices, interval: float) -> None:
    """Look, draw, and take keys until q or Ctrl-C. A look that fails is said, and the next one is tried."""
    with output.progress("Reading the cluster"):
        current = read()
    console = output.console()
    with keyboard() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        due = time.monotonic() + interval
        pressed = ""
        while pressed != "q":
            live.update(page(current, choices, console.height, keys=True), refresh=True)
            pressed = key(due - time.monotonic())
            if pressed == "e":
                choices.said = f"written: {_export(current, Path.cwd())}"
            elif pressed:
                choices.press(pressed, current)
            if time.monotonic() >= due:
                try:
                    current = read()
                except NodelessError as error:
                    choices.said = str(error)
                due = time.monotonic() + interval


def _export(current: View, folder: Path) -> Path:
    moment = datetime.fromtimestamp(current.now, UTC).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"nodes-{moment}.json"
    path.write_text(json.dumps(document(current), indent=2) + "\n")
    return path


def _csv(current: View, choices: Choices) -> str:
    """A line a node."""
    text = io.StringIO()
    rows = [node_document(current, node) for node in ordered(current, choices.sort, reverse=choices.reverse)]
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
