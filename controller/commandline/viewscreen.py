"""The view as a page of the terminal: totals, nodes, pods that wait, decisions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from controller.commandline.figures import age, bar, count, money, month
from controller.commandline.ledger import line
from controller.commandline.nodefacts import NodeFacts
from controller.commandline.viewdata import SORTS, View, ordered
from controller.core.api.labels import REGION

STATES = {"Ready": "green", "starting": "yellow", "cordoned": "yellow", "leaving": "magenta", "NotReady": "bold red"}
BAR_CELLS = 6
MOST_WAITING = 6
"""Rows of pods that wait, on a page of limited height."""
KEYS = "s sort · r reverse · f owner · p pods · d decisions · e export · q quit"


@dataclass(slots=True)
class Choices:
    """What the person at the keyboard chose."""

    sort: str = "price"
    reverse: bool = False
    owner: str = ""
    """Only nodes of this owner; empty: of all."""
    pods: bool = True
    decisions: bool = True
    said: str = ""
    """What the last key did, where it does not show by itself."""

    def press(self, key: str, view: View) -> None:
        """Take a key in."""
        self.said = ""
        if key == "s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif key == "r":
            self.reverse = not self.reverse
        elif key == "f":
            owners = ["", *sorted({node.owner for node in view.nodes} - {""})]
            place = owners.index(self.owner) if self.owner in owners else 0
            self.owner = owners[(place + 1) % len(owners)]
        elif key == "p":
            self.pods = not self.pods
        elif key == "d":
            self.decisions = not self.decisions


def page(view: View, choices: Choices, height: int | None = None, *, keys: bool = False) -> RenderableType:
    """The whole page; `height` lines at most (None: as many as it takes), the nodes giving way."""
    below: list[RenderableType] = []
    lines = 0
    if view.waiting and choices.pods:
        table = _waiting(view, None if height is None else MOST_WAITING)
        below += [Text(), table]
        lines += table.row_count + 3
    if view.decisions and choices.decisions:
        shown = view.decisions[-5:]
        below += [Text(), Text("Decisions", style="bold"), *(Text(line(e, view.now), no_wrap=True) for e in shown)]
        lines += len(shown) + 2
    if keys:
        below += [Text(), Text(choices.said or KEYS, style="dim")]
        lines += 2
    else:
        below += [Text(), *(Text(f"Note: {note}", style="dim") for note in view.notes)]
    head = _totals(view)
    room = None if height is None else max(3, height - lines - len(view.resources) - 5)
    return Group(*head, Text(), _nodes(view, choices, room), *below)


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
        (f" · {waiting} waiting" if waiting else "", "bold red"),
    )  # fmt: skip
    totals = Table(box=None, show_header=False, pad_edge=False)
    for name in view.resources:
        totals.add_row(Text(name, style="dim"), bar(view.use(name)))
    return [first, totals]


def _nodes(view: View, choices: Choices, room: int | None) -> Table:
    region = _region(view)
    title = f"by {choices.sort}{' reversed' if choices.reverse else ''}"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Node")  # the one column that gives way where the terminal is narrow
    for name in ("Type", "Capacity", "Zone", "Owner", *view.resources):
        table.add_column(name.rpartition("/")[2] if "/" in name else name, no_wrap=True)
    for name in ("Pods", "$/h", "$/month", "Age"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("State", no_wrap=True)
    found = [node for node in ordered(view, choices.sort, reverse=choices.reverse) if choices.owner in ("", node.owner)]
    for node in found[:room]:
        table.add_row(*_row(node, view, region))
    hidden = len(found) - len(found[:room])
    more = f"{count(hidden, 'more node')} · " if hidden else ""
    owner = f"of {choices.owner} · " if choices.owner else ""
    table.caption = f"{more}{owner}{title}"
    table.caption_justify = "left"
    return table


def _region(view: View) -> str:
    """The one that all nodes are in, which then need not be said of each; else empty."""
    found = {node.labels.get(REGION, "") for node in view.nodes}
    return found.pop() if len(found) == 1 else ""


def _row(node: NodeFacts, view: View, region: str) -> list[RenderableType]:
    price = node.price_per_hour
    kind = {"spot": "cyan", "fargate": "blue"}.get(node.capacity_type, "")
    return [
        Text(node.name, no_wrap=True, overflow="ellipsis"),
        Text(node.instance_type),
        Text(node.capacity_type, style=kind),
        Text(node.zone.removeprefix(region)),
        Text(node.owner),
        *(
            bar(node.use(name), BAR_CELLS) if node.allocatable.get(name) else Text("-", style="dim")
            for name in view.resources
        ),
        Text(str(node.pods)),
        Text("?" if price is None else money(price)),
        Text("?" if price is None else month(price)),
        Text(age(node.age_seconds)),
        Text(node.state, style=STATES.get(node.state, "")),
    ]


def _waiting(view: View, most: int | None) -> Table:
    """`most` rows of one line each (None: all, in full)."""
    table = Table(box=None, pad_edge=False, header_style="bold red")
    table.add_column("Waiting", no_wrap=True)
    table.add_column("Pods", justify="right")
    table.add_column("Why", no_wrap=most is not None, overflow="fold" if most is None else "ellipsis")
    for each in view.waiting[:most]:
        table.add_row(Text(each.workload), str(each.pods), Text(each.reason))
    hidden = view.waiting[most:] if most is not None else ()
    if hidden:
        table.caption = f"and {count(sum(each.pods for each in hidden), 'pod')} of other workloads"
        table.caption_justify = "left"
    return table
