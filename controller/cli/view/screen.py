"""Draw the view: totals, nodes, limits, pending pods, decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from controller.cli.cluster.decision_log import line
from controller.cli.cluster.limits_report import LimitStatus
from controller.cli.formatting import bar, count, money, month, percent
from controller.cli.view.node_rows import NodeTable
from controller.cli.view.view_data import SORTS, View, ordered
from controller.core.api.labels import REGION

LIMIT_STATES = {"unreadable": "bold red", "binds": "bold red", "short": "yellow", "full": "yellow", "": "green"}
"""Colour by a limit's state, in the order to show."""
LEAST_WORKLOAD = 28
"""Least width of a workload's name, in cells."""
MOST_ROWS = 6
"""Rows of limits and of pending pods on a screen of limited height."""
TOGGLES = {"p": "pods", "l": "limits", "d": "decisions"}
"""Part of the screen that a key shows or hides."""
KEYS = "s sort, r reverse, f owner, j k page, p pods, l limits, d log, e export, q quit"


@dataclass(slots=True)
class ScreenState:
    """What the user chose by keys."""

    sort: str = "price"
    reverse: bool = False
    first: int = 0
    """Index of the first node shown."""
    owner: str = ""
    """Show only this owner's nodes; empty: all."""
    pods: bool = True
    limits: bool = True
    decisions: bool = True
    paged: int = 0
    """Nodes on the last page drawn."""
    message: str = ""
    """Shown instead of the key help: the result of the last key, or a failed read."""

    def press(self, key: str, view: View) -> None:
        """Apply a key."""
        self.message = ""
        if key == "s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif key == "r":
            self.reverse = not self.reverse
        elif key == "f":
            owners = ["", *sorted({node.owner for node in view.nodes} - {""})]
            place = owners.index(self.owner) if self.owner in owners else 0
            self.owner = owners[(place + 1) % len(owners)]
            self.first = 0
        elif key == "j":
            self.first += self.paged
        elif key == "k":
            self.first = max(0, self.first - self.paged)
        elif key in TOGGLES:
            setattr(self, TOGGLES[key], not getattr(self, TOGGLES[key]))


def page(view: View, screen: ScreenState, height: int | None = None, *, keys: bool = False) -> RenderableType:
    """The whole page in at most `height` lines (None: no limit); the table of nodes is cut first."""
    most = None if height is None else MOST_ROWS
    below: list[RenderableType] = []
    lines = 0
    if view.limits and screen.limits:
        table = limits_table(view.limits, most)
        below += [Text(), table]
        lines += table.row_count + 3
    if view.waiting and screen.pods:
        table = _waiting(view, most)
        below += [Text(), table]
        lines += table.row_count + 3
    if view.decisions and screen.decisions:
        shown = view.decisions[-5:]
        said = (
            Text(line(e, view.now, short=height is not None), no_wrap=height is not None, overflow="ellipsis")
            for e in shown
        )
        below += [Text(), Text("Decisions", style="bold"), *said]
        lines += len(shown) + 2
    if keys:
        below += [
            Text(),
            Text(screen.message or " · ".join(view.warnings) or KEYS, style="dim", no_wrap=True, overflow="ellipsis"),
        ]
        lines += 2
    else:
        below += [Text(), *(Text(f"Note: {note}", style="dim") for note in view.notes)]
    room = None if height is None else max(3, height - lines - len(view.resources) - 5)
    return Group(*_totals(view), Text(), _nodes(view, screen, room), *below)


def limits_table(statuses: Sequence[LimitStatus], most: int | None = None) -> Table:
    """Limits, on-demand mix and headroom, binding ones first; `most` rows (None: all)."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("Limit", "Owner"):
        table.add_column(name, no_wrap=True)
    table.add_column("Now", justify="right", no_wrap=True)
    table.add_column("Bound", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    by_state = sorted(statuses, key=lambda each: list(LIMIT_STATES).index(each.state))
    for each in by_state[:most]:
        style = LIMIT_STATES[each.state]
        share = "" if each.share is None else percent(each.share)
        said = ": ".join(filter(None, (each.state, each.reason)))
        row = (each.what, each.owner, each.have, each.want)
        table.add_row(*map(Text, row), Text(share, style=style), _line(said, style, cut=most is not None))
    hidden = len(statuses) - len(statuses[:most])
    if hidden:
        table.caption = f"and {count(hidden, 'other limit')}"
        table.caption_justify = "left"
    return table


def _totals(view: View) -> list[RenderableType]:
    kinds = Counter(node.capacity_type for node in view.nodes)
    listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    unknown = f", and {count(view.unpriced, 'node')} of unknown price" if view.unpriced else ""
    waiting = sum(each.pods for each in view.waiting)
    where = f" in {_region(view)}" if _region(view) else ""
    first = Text.assemble(
        (count(len(view.nodes), "node"), "bold"), where, f" ({listed})" if listed else "", " · ",
        (f"{money(view.price_per_hour)}/h, {month(view.price_per_hour)}/month", "bold green"), unknown, " · ",
        count(sum(node.pods for node in view.nodes), "pod"),
        (f" · {waiting} pending" if waiting else "", "bold red"),
    )  # fmt: skip
    totals = Table(box=None, show_header=False, pad_edge=False)
    for name in view.resources:
        totals.add_row(Text(name, style="dim"), bar(view.use(name)))
    return [first, totals]


def _nodes(view: View, screen: ScreenState, room: int | None) -> NodeTable:
    nodes = [node for node in ordered(view, screen.sort, reverse=screen.reverse) if screen.owner in ("", node.owner)]
    screen.first = min(screen.first, max(0, len(nodes) - (room or len(nodes))))
    shown = nodes[screen.first :][:room]
    screen.paged = len(shown)
    hidden = len(nodes) - len(shown)
    place = f"{screen.first + 1} to {screen.first + len(shown)}, " if screen.first else ""
    more = f"{place}{count(hidden, 'more node')} · " if hidden else ""
    owner = f"of {screen.owner} · " if screen.owner else ""
    caption = f"{more}{owner}by {screen.sort}{' reversed' if screen.reverse else ''}"
    return NodeTable(shown, view.resources, _region(view), caption if nodes else f"no nodes · {caption}")


def _region(view: View) -> str:
    """The region of all nodes, when there is just one; else empty."""
    regions = {node.labels.get(REGION, "") for node in view.nodes}
    return regions.pop() if len(regions) == 1 else ""


def _line(text: str, style: str = "", *, cut: bool) -> Text:
    """A cell that is cut to one line, or folded."""
    return Text(text, style=style, no_wrap=cut, overflow="ellipsis" if cut else "fold")


def _waiting(view: View, most: int | None) -> Table:
    """Pending pods; `most` rows of one line each (None: all, folded)."""
    table = Table(box=None, pad_edge=False, header_style="bold red")
    widest = max([len(each.workload) for each in view.waiting[:most]], default=0)
    table.add_column("Pending", no_wrap=True, min_width=min(widest, LEAST_WORKLOAD), overflow="ellipsis")
    table.add_column("Pods", justify="right", no_wrap=True, min_width=len("Pods"))
    table.add_column("Why", overflow="fold")
    for each in view.waiting[:most]:
        table.add_row(Text(each.workload), str(each.pods), _line(each.reason, cut=most is not None))
    hidden = view.waiting[most:] if most is not None else ()
    if hidden:
        table.caption = f"and {count(sum(each.pods for each in hidden), 'pod')} of other workloads"
        table.caption_justify = "left"
    return table
