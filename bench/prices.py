"""The table of prices (Markdown): ours over the lower bound and Karpenter 1.14's, by problem, and the means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.report import Line

FREE = ("generic", "selectors", "taints", "pools", "daemonsets", "gpu")
"""Shapes whose pods have no rules between them: there the bound is tight."""
MIXES = "mix"
"""The pods and types of Karpenter 1.14's own benchmark: where the bound of their kinds is no target."""
HEAD = (
    "problem", "price $/h", "expected", "÷ bound", "÷ Karpenter", "÷ Karpenter, first round", "÷ Karpenter, a pod",
    "nodes", "CPU s", "Karpenter's s", "left out", "Karpenter's",
)  # fmt: skip
ALL_ROUNDS = "†"
"""Marks a ratio to what Karpenter 1.14 pays after as many rounds as it needs to place all pods."""


@dataclass(frozen=True, slots=True)
class Row:
    """One problem. Prices in $/hour, times in CPU seconds; of Karpenter 1.14 only where it is known.

    peer_price: of Karpenter 1.14's first round, as are `peer_seconds` and `peer_left_out`. peer_price_of_all: once it
    went on until all pods were placed, where that was measured.
    """

    name: str
    price: float
    expected: float
    bound: float
    nodes: int
    cpu_seconds: float
    pods: int
    left_out: int
    peer_price: float | None = None
    peer_seconds: float | None = None
    peer_left_out: int = 0
    peer_price_of_all: float | None = None

    @classmethod
    def of(cls, line: Line) -> Row:
        """From a problem's document and Karpenter 1.14's figures."""
        ours, peer = line.ours, line.peer.get("peer", {})
        return cls(
            line.name,
            ours["price"],
            ours["expectedPrice"],
            ours["bound"],
            len(ours["nodes"]),
            ours["cpuSeconds"],
            ours["pods"],
            len(ours["unplaced"]),
            peer.get("price_median"),
            peer.get("seconds_min"),
            peer.get("not_placed", 0),
            line.peer.get("peer_all_rounds", {}).get("price"),
        )

    @property
    def over_bound(self) -> float:
        """Price over the bound."""
        return self.price / self.bound if self.bound > 0 else 1.0

    @property
    def over_peer(self) -> float | None:
        """Price over Karpenter 1.14's: that of all pods, where it is known."""
        theirs = self.peer_price_of_all or self.peer_price
        return self.price / theirs if theirs else None

    @property
    def over_peer_first(self) -> float | None:
        """Price over that of Karpenter 1.14's first round, whatever each of them left out."""
        return self.price / self.peer_price if self.peer_price else None

    @property
    def over_peer_a_pod(self) -> float | None:
        """Price for each pod placed, over that of Karpenter 1.14's first round."""
        if not self.peer_price:
            return None
        placed, theirs = self.pods - self.left_out, self.pods - self.peer_left_out
        return (self.price / placed) / (self.peer_price / theirs)

    def cells(self) -> tuple[str, ...]:
        """In the order of HEAD."""
        return (
            self.name,
            f"{self.price:.2f}",
            f"{self.expected:.2f}",
            f"{self.over_bound:.3f}",
            _ratio(self.over_peer) + (ALL_ROUNDS if self.peer_price_of_all else ""),
            _ratio(self.over_peer_first),
            _ratio(self.over_peer_a_pod),
            str(self.nodes),
            f"{self.cpu_seconds:.2f}",
            f"{self.peer_seconds:.2f}" if self.peer_seconds is not None else "",
            str(self.left_out),
            str(self.peer_left_out) if self.peer_price else "",
        )


def _ratio(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else ""


def report(rows: Sequence[Row]) -> str:
    """The table and below it the means, as Markdown."""
    table = [_line(HEAD), "|---" + "|---:" * (len(HEAD) - 1) + "|", *(_line(row.cells()) for row in rows)]
    return "\n".join([*table, "", *means(rows)]) + "\n"


def means(rows: Sequence[Row]) -> Iterable[str]:
    """One line for each group of problems that there is, and one for all of them beside Karpenter 1.14."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        shape, _, size = row.name.rpartition("-")
        if shape != MIXES:
            kind = "without rules between pods" if shape in FREE else "with rules between pods"
            groups.setdefault(f"{kind}, {size} pods", []).append(row)
    for title, group in sorted(groups.items()):
        yield f"- Price ÷ bound, {title}: {fmean(row.over_bound for row in group):.3f} on the mean."
    beside = [row for row in rows if row.over_peer is not None]
    if beside:
        same, first, a_pod = (
            fmean(ratio or 0.0 for ratio in ratios)
            for ratios in zip(*((r.over_peer, r.over_peer_first, r.over_peer_a_pod) for r in beside), strict=True)
        )
        least = fmean(row.bound / (row.peer_price_of_all or row.peer_price or 1.0) for row in beside)
        yield (
            f"- Price ÷ Karpenter, all {len(beside)}: {same:.3f} on the mean; {first:.3f} of its first round, whatever "
            f"that left out; {a_pod:.3f} of its first round for each pod placed."
        )
        yield f"- The bound itself is {least:.3f} of Karpenter 1.14's price: no plan for all pods can be below that."


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
