"""Draw the view: totals, nodes, limits, costs, pending pods, decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, OverflowMethod, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from controller.cli.cluster.costs_report import costs_table
from controller.cli.cluster.decision_log import line
from controller.cli.cluster.limits_report import LimitStatus
from controller.cli.formatting import bar, count, money, month, percent
from controller.cli.view.node_rows import NodeTable
from controller.cli.view.screen_state import ScreenState
from controller.cli.view.view_data import View, ordered
from controller.core.api.labels import REGION
from controller.core.api.quantity import bare_words
from controller.core.decisions.decision import Decision

LIMIT_STATES = {"unreadable": "bold red", "binds": "bold red", "short": "yellow", "full": "yellow", "": "green"}
"""Colour by a limit's state, in the order to show."""
LEAST_WORKLOAD = 28
"""Least width of a workload's name, in cells."""
MOST_ROWS = 6
"""Rows of limits, of costs and of pending pods on a screen of limited height."""
LEAST_NODES = 3
"""Rows of nodes on any screen, at least."""
NODE_LINES = 2
"""Head and caption of the table of nodes."""
KEYS = "↑↓ ←→ move, / search, s sort, r reverse, f owner, w why, c costs, ? keys, q quit"
HELP = (
    ("↑ ↓", "one node up or down"),
    ("← → PgUp PgDn j k", "one page"),
    ("Home End", "first, last node"),
    ("/ text Enter", "only nodes that have the words in name, type, zone, capacity type, owner or state"),
    ("f", "the next owner's nodes; Esc: all nodes"),
    ("s r", "sort by the next column, reverse"),
    ("w", "reasons in full, or one line each"),
    ("c", "costs by namespace, by workload, none"),
    ("p l d", "show or hide pending pods, limits, decisions"),
    ("e", "export the view to nodes-TIME.json"),
    ("q", "quit"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """The page in at most `height` lines (None: no limit); the table of nodes is cut first, then what is below it."""

    view: View
    screen: ScreenState
    height: int | None = None
    keys: bool = False
    """Show what keys do; without, show all notes."""
    problem: str = ""
    """Why the last read failed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.height is None:
            yield self._all()
            return

        def lines(what: Iterable[RenderableType]) -> list[list[Segment]]:
            return console.render_lines(Group(*what), options.reset_height(), pad=False)

        chosen = self.screen.chosen(self.view)
        foot = lines(self._foot())
        head = lines([*_totals(chosen, self.view), Text()])
        room = self.height - len(head) - len(foot) - NODE_LINES
        below = lines(self._sections(full=True)) if self._may_be_full(room) else []
        if not below or (not self.screen.full and len(below) + len(chosen.nodes) > room):
            below = lines(self._sections(full=False))
        most = max(LEAST_NODES, room - len(below))
        nodes = lines([_nodes(chosen, self.screen, most)])
        below = below[: max(0, room + NODE_LINES - len(nodes))]
        drawn = [*head, *nodes, *below, *foot][: self.height]
        for index, each in enumerate(drawn):
            yield from each
            if index < len(drawn) - 1:
                yield Segment.line()

    def _may_be_full(self, room: int) -> bool:
        """Return whether all reasons might have room: each takes a line at least."""
        return self.screen.full or len(self.view.waiting) + len(self.view.limits) <= room

    def _all(self) -> RenderableType:
        chosen = self.screen.chosen(self.view)
        return Group(*_totals(chosen, self.view), Text(), _nodes(chosen, self.screen, None), *self._sections(full=True),
                     *self._foot())  # fmt: skip

    def _foot(self) -> list[RenderableType]:
        if not self.keys:
            return [Text(), *(Text(f"Note: {note}", style="dim") for note in self.view.notes)]
        screen = self.screen
        line = screen.message or self.problem or " · ".join(self.view.warnings) or KEYS
        if screen.typing:
            line = f"/{screen.search}▏ Enter: keep, Esc: all nodes"
        return [Text(), Text(line, style="dim", no_wrap=True, overflow="ellipsis")]

    def _sections(self, *, full: bool) -> list[RenderableType]:
        """Return what is below the nodes. `full`: reasons are folded; else one line each, and MOST_ROWS of them."""
        view, screen = self.view, self.screen
        most = None if full and self.height is None else self.height if full else MOST_ROWS
        below: list[RenderableType] = []
        if screen.help:
            return [Text(), _help()]
        if view.limits and screen.limits:
            below += [Text(), limits_table(view.limits, most, cut=not full)]
        costs_shown = screen.costs or ("namespaces" if self.height is None else "")
        if costs_shown and view.costs is not None:
            rows = None if self.height is None else MOST_ROWS
            title = "Costs of all nodes" if screen.owner or screen.search else ""
            below += [Text(), costs_table(view.costs, title, workloads=costs_shown == "workloads", most=rows)]
        if view.waiting and screen.pods:
            below += [Text(), _waiting(view, most, cut=not full)]
        decided = [each for each in view.decisions if not _leaves_pending(each.decision)]
        if decided and screen.decisions:
            fixed = self.height is not None
            newest = (
                Text(line(e, view.now, short=fixed), no_wrap=not full, overflow="fold" if full else "ellipsis")
                for e in decided[-5:]
            )
            below += [Text(), Text("Decisions", style="bold"), *newest]
        return below


def _leaves_pending(decision: Decision) -> bool:
    """Return whether a pod got no node, which stands with the pending pods."""
    return decision.kind == "skip" and decision.subject.startswith("Pod/")


def starting(seconds: float) -> RenderableType:
    """Return the first frame, before anything is known."""
    return Group(
        Text(f"Reading the cluster: {seconds:.0f} s", style="bold"), Text(), Text("q quit", style="dim"),
    )  # fmt: skip


def _help() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for keys, what in HELP:
        table.add_row(Text(keys), Text(what))
    return table


def limits_table(statuses: Sequence[LimitStatus], most: int | None = None, *, cut: bool = False) -> Table:
    """Draw limits, on-demand mix and headroom, binding ones first; `most` rows (None: all), `cut` to one line each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    overflow: OverflowMethod = "ellipsis" if cut else "fold"
    table.add_column("Limit", no_wrap=True)
    table.add_column("Owner", no_wrap=cut, overflow=overflow, max_width=LEAST_WORKLOAD if cut else None)
    table.add_column("Now", justify="right", no_wrap=True)
    table.add_column("Bound", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    by_state = sorted(statuses, key=lambda each: list(LIMIT_STATES).index(each.state))
    for each in by_state[:most]:
        style = LIMIT_STATES[each.state]
        share = "" if each.share is None else percent(each.share)
        state = ": ".join(filter(None, (each.state, each.reason)))
        row = (each.what, each.owner, each.have, each.want)
        table.add_row(*map(Text, row), Text(share, style=style), _line(state, style, cut=cut))
    hidden = len(statuses) - len(statuses[:most])
    if hidden:
        table.caption = f"and {count(hidden, 'other limit')}"
        table.caption_justify = "left"
    return table


def _totals(view: View, whole: View) -> list[RenderableType]:
    """Draw number, price and use of the chosen nodes."""
    kinds = Counter(node.capacity_type for node in view.nodes)
    listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    unknown = f", and {count(view.unpriced, 'node')} of unknown price" if view.unpriced else ""
    waiting = sum(each.pods for each in view.waiting)
    where = f" in {_region(view)}" if _region(view) else ""
    of = f"{len(view.nodes):,} of " if len(view.nodes) != len(whole.nodes) else ""
    first = Text.assemble(
        (f"{of}{count(len(whole.nodes), 'node')}", "bold"), where, f" ({listed})" if listed else "", " · ",
        (f"{money(view.price_per_hour)}/h, {month(view.price_per_hour)}/month", "bold green"), unknown, " · ",
        count(sum(node.pods for node in view.nodes), "pod"),
        (f" · {waiting:,} pending" if waiting else "", "bold red"),
    )  # fmt: skip
    totals = Table(box=None, show_header=False, pad_edge=False)
    for name in view.resources:
        totals.add_row(Text(name, style="dim"), bar(view.use(name)), _amounts(view, name))
    return [first, totals]


def _amounts(view: View, resource: str) -> Text:
    have, of = (
        bare_words(resource, sum(getattr(node, which).get(resource, 0) for node in view.nodes))
        for which in ("requested", "allocatable")
    )
    return Text(f"{have} of {of}", style="dim")


def _nodes(view: View, screen: ScreenState, room: int | None) -> NodeTable:
    nodes = ordered(view, screen.sort, reverse=screen.reverse)
    screen.first = max(0, min(screen.first, len(nodes) - (room or len(nodes))))
    shown = nodes[screen.first :][:room]
    screen.paged = len(shown)
    hidden = len(nodes) - len(shown)
    place = f"{screen.first + 1} to {screen.first + len(shown)}, " if screen.first else ""
    more = f"{place}{count(hidden, 'more node')} · " if hidden else ""
    owner = f"of {screen.owner} · " if screen.owner else ""
    words = f"with {screen.search!r} · " if screen.search else ""
    caption = f"{more}{owner}{words}by {screen.sort}{' reversed' if screen.reverse else ''}"
    return NodeTable(shown, view.resources, _region(view), caption if nodes else f"no nodes · {caption}")


def _region(view: View) -> str:
    """Return the region of all nodes, when there is just one; else empty."""
    regions = {node.labels.get(REGION, "") for node in view.nodes}
    return regions.pop() if len(regions) == 1 else ""


def _line(text: str, style: str = "", *, cut: bool) -> Text:
    """Return a cell that is cut to one line, or folded."""
    return Text(text, style=style, no_wrap=cut, overflow="ellipsis" if cut else "fold")


def _waiting(view: View, most: int | None, *, cut: bool) -> Table:
    """Return the pending pods; `most` rows (None: all), `cut` to one line each."""
    table = Table(box=None, pad_edge=False, header_style="bold red")
    widest = max([len(each.workload) for each in view.waiting[:most]], default=0)
    overflow: OverflowMethod = "ellipsis" if cut else "fold"
    table.add_column("Pending", no_wrap=cut, min_width=min(widest, LEAST_WORKLOAD), overflow=overflow)
    table.add_column("Pods", justify="right", no_wrap=True, min_width=len("Pods"))
    table.add_column("Why", overflow="fold")
    for each in view.waiting[:most]:
        table.add_row(Text(each.workload), str(each.pods), _line(each.reason, cut=cut))
    hidden = view.waiting[most:] if most is not None else ()
    if hidden:
        table.caption = f"and {count(sum(each.pods for each in hidden), 'pod')} of other workloads"
        table.caption_justify = "left"
    return table
