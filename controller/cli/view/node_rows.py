"""The table of nodes: one row per node; columns are dropped on a narrow terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from controller.cli.cluster.node_facts import NodeFacts
from controller.cli.formatting import age, bar, money, month

STATES = {"Ready": "green", "starting": "yellow", "cordoned": "yellow", "leaving": "magenta", "NotReady": "bold red"}
KINDS = {"spot": "cyan", "fargate": "blue"}
BAR_CELLS = 6
LEAST_NAME = 14
"""Least width of a node's name, in cells; columns are dropped before it gets narrower."""
KEPT = 99
"""Rank of a column that is never dropped."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. On a narrow terminal the lowest `rank` is dropped first."""

    title: str
    cell: Callable[[NodeFacts], Text]
    rank: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Fits itself to the console's width. `region`: prefix that zones are shown without."""

    nodes: Sequence[NodeFacts]
    resources: Sequence[str]
    region: str = ""
    caption: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, pad_edge=False, header_style="bold")
        names = [node.name for node in self.nodes]
        drawn, room = self._fitting(options.max_width, max(map(len, names), default=0))
        short = [name.partition(".")[0] for name in names]
        if room < max(map(len, names), default=0) and len(set(short)) == len(names):
            names = short  # unique without the domain, which does not fit
            drawn, room = self._fitting(options.max_width, max(map(len, names)))
        table.add_column("Node", no_wrap=True, overflow="ellipsis", max_width=max(room, len("Node")))
        for column in drawn:
            table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
        for name, node in zip(names, self.nodes, strict=True):
            table.add_row(Text(name), *(column.cell(node) for column in drawn))
        table.caption = Text(self.caption, style="dim italic")
        table.caption_justify = "left"
        yield table

    def _fitting(self, width: int, name: int) -> tuple[list[Column], int]:
        """Return the columns that fit beside a name of LEAST_NAME cells, and the width left for the name."""
        drawn = list(self._columns())
        widths = {c.title: max([len(c.title), *(c.cell(node).cell_len for node in self.nodes)]) for c in drawn}
        while drawn:
            left = width - sum(widths[column.title] + 2 for column in drawn)
            weakest = min(drawn, key=lambda column: column.rank)
            if left >= min(name, LEAST_NAME) or weakest.rank == KEPT:
                return drawn, left
            drawn.remove(weakest)
        return drawn, width

    def _columns(self) -> Sequence[Column]:
        used = [Column(name.rpartition("/")[2], partial(_use, resource=name), KEPT) for name in self.resources]
        return (
            Column("Type", lambda node: Text(node.instance_type), 90),
            Column("Capacity", lambda node: Text(node.capacity_type, style=KINDS.get(node.capacity_type, "")), 60),
            Column("Zone", lambda node: Text(node.zone.removeprefix(self.region)), 50),
            Column("Owner", lambda node: Text(node.owner), 40),
            *used,
            Column("Pods", _pods, 30, right=True),
            Column("$/h", lambda node: _price(node, money), 80, right=True),
            Column("$/month", lambda node: _price(node, month), 10, right=True),
            Column("Age", lambda node: Text(age(node.age_seconds)), 20, right=True),
            Column("State", lambda node: Text(node.state, style=STATES.get(node.state, "")), 70),
        )


def _use(node: NodeFacts, resource: str) -> Text:
    return bar(node.use(resource), BAR_CELLS) if node.allocatable.get(resource) else Text("-", style="dim")


def _pods(node: NodeFacts) -> Text:
    most = node.allocatable.get("pods", 0)
    return Text(f"{node.pods}/{most}" if most else str(node.pods), style="bold red" if 0 < most <= node.pods else "")


def _price(node: NodeFacts, written: Callable[[float], str]) -> Text:
    return Text("?" if node.price_per_hour is None else written(node.price_per_hour))
