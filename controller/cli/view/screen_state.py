"""What the user chose by keys: order, filter, place, sections."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.cli.cluster.node_facts import NodeFacts
from controller.cli.view.view_data import SORTS, View

TOGGLES = {"p": "pods", "l": "limits", "d": "decisions", "w": "full", "?": "help"}
"""Part of the screen that a key shows or hides."""
COSTS = ("", "namespaces", "workloads")
"""What the section on costs shows, in the order of the key."""
STEPS = {"down": 1, "up": -1}
PAGES = {"page down": 1, "right": 1, "j": 1, " ": 1, "page up": -1, "left": -1, "k": -1}
END = 10**9
"""Beyond the last node; drawing the page clamps it."""


@dataclass(slots=True)
class ScreenState:
    """Changed by `press`, and by drawing: `first` and `paged`."""

    sort: str = "price"
    reverse: bool = False
    first: int = 0
    """Index of the first node shown."""
    owner: str = ""
    """Show only this owner's nodes; empty: all."""
    search: str = ""
    """Show only nodes with all of these words in what the table says of them."""
    typing: bool = False
    """Keys go into `search`."""
    pods: bool = True
    limits: bool = True
    decisions: bool = True
    costs: str = ""
    full: bool = False
    """Reasons are shown in full, at the cost of rows of nodes."""
    help: bool = False
    paged: int = 0
    """Nodes on the last page drawn."""
    message: str = ""
    """Shown instead of the key help: the result of the last key."""

    def press(self, key: str, view: View) -> None:
        """Apply a key, see `Keyboard.key`."""
        self.message = ""
        if self.typing:
            self._type(key)
        elif key == "/":
            self.typing = True
        elif key == "escape":
            self.search, self.owner, self.help = "", "", False
        elif key == "s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif key == "r":
            self.reverse = not self.reverse
        elif key == "f":
            owners = ["", *sorted({node.owner for node in view.nodes} - {""})]
            place = owners.index(self.owner) if self.owner in owners else 0
            self.owner = owners[(place + 1) % len(owners)]
            self.first = 0
        elif key == "c":
            self.costs = COSTS[(COSTS.index(self.costs) + 1) % len(COSTS)]
        elif key in TOGGLES:
            setattr(self, TOGGLES[key], not getattr(self, TOGGLES[key]))
        else:
            self._move(key)

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.typing = False
            self.search = "" if key == "escape" else self.search
        elif key == "backspace":
            self.search = self.search[:-1]
        elif len(key) == 1 and key.isprintable():
            self.search += key
            self.first = 0

    def _move(self, key: str) -> None:
        if key in ("home", "end"):
            self.first = 0 if key == "home" else END
        rows = STEPS.get(key, 0) + PAGES.get(key, 0) * self.paged
        self.first = max(0, self.first + rows)

    def chosen(self, view: View) -> View:
        """Return the view with the nodes that the filter lets through."""
        words = self.search.lower().split()
        nodes = (node for node in view.nodes if self.owner in ("", node.owner))
        return replace(view, nodes=tuple(node for node in nodes if all(word in _said(node) for word in words)))


def _said(node: NodeFacts) -> str:
    parts = (node.name, node.instance_type, node.zone, node.capacity_type, node.owner, node.state)
    return " ".join(parts).lower()
