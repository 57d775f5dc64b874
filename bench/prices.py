"""The table of prices (Markdown): ours over the lower bound and Karpenter 1.14's, by problem, and the means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.report import KarpenterFigures, Line

FREE = ("generic", "selectors", "taints", "pools", "daemonsets", "gpu")
"""Shapes whose pods have no rules between them: there the bound is tight."""
MIXES = "mix"
"""The pods and types of Karpenter 1.14's own benchmark: where the bound of their kinds is no target."""
HEAD = (
    "problem", "price $/h", "expected", "cost ÷ bound", "÷ Karpenter", "÷ Karpenter, first round", "÷ Karpenter, a pod",
    "nodes", "CPU s", "Karpenter's s", "left out", "Karpenter's",
)  # fmt: skip
ALL_ROUNDS = "†"
"""Marks a ratio to what Karpenter 1.14 pays after as many rounds as it needs to place all pods."""


@dataclass(frozen=True, slots=True)
class Row:
    """One problem. Prices in $/hour, times in CPU seconds."""

    name: str
    price: float
    expected: float
    bound: float
    """On prices alone."""
    over_bound: float
    """Cost over the bound of costs, both with what nodes cost beside their price."""
    nodes: int
    cpu_seconds: float
    pods: int
    left_out: int
    karpenter: KarpenterFigures | None = None

    @classmethod
    def of(cls, line: Line) -> Row:
        """From a problem's document and Karpenter 1.14's figures."""
        ours = line.ours
        return cls(
            line.name,
            ours["price"],
            ours["expectedPrice"],
            ours["bound"],
            ours["cost"] / ours["costBound"] if ours["costBound"] > 0 else 1.0,
            len(ours["nodes"]),
            ours["cpuSeconds"],
            ours["pods"],
            len(ours["unplaced"]),
            line.karpenter,
        )

    @property
    def over_karpenter(self) -> float | None:
        """Price over Karpenter 1.14's: that of all pods, where it is known."""
        return self.price / theirs if (theirs := self.karpenter_price) else None

    @property
    def karpenter_price(self) -> float | None:
        """Karpenter 1.14's price once all pods are placed where that was measured, else of its first round."""
        return (self.karpenter.price_of_all or self.karpenter.price) if self.karpenter else None

    @property
    def over_first_round(self) -> float | None:
        """Price over that of Karpenter 1.14's first round, whatever each of them left out."""
        return self.price / self.karpenter.price if self.karpenter else None

    @property
    def over_karpenter_a_pod(self) -> float | None:
        """Price for each pod placed, over that of Karpenter 1.14's first round."""
        if not self.karpenter:
            return None
        placed, theirs = self.pods - self.left_out, self.pods - self.karpenter.left_out
        return (self.price / placed) / (self.karpenter.price / theirs)

    def cells(self) -> tuple[str, ...]:
        """In the order of HEAD."""
        return (
            self.name,
            f"{self.price:.2f}",
            f"{self.expected:.2f}",
            f"{self.over_bound:.3f}",
            _ratio(self.over_karpenter) + (ALL_ROUNDS if self.karpenter and self.karpenter.price_of_all else ""),
            _ratio(self.over_first_round),
            _ratio(self.over_karpenter_a_pod),
            str(self.nodes),
            f"{self.cpu_seconds:.2f}",
            f"{self.karpenter.seconds:.2f}" if self.karpenter else "",
            str(self.left_out),
            str(self.karpenter.left_out) if self.karpenter else "",
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
        yield f"- Cost ÷ bound, {title}: {fmean(row.over_bound for row in group):.3f} on the mean."
    beside = [row for row in rows if row.karpenter]
    if beside:
        same = fmean(row.over_karpenter or 0.0 for row in beside)
        first = fmean(row.over_first_round or 0.0 for row in beside)
        a_pod = fmean(row.over_karpenter_a_pod or 0.0 for row in beside)
        least = fmean(row.bound / (row.karpenter_price or 1.0) for row in beside)
        yield (
            f"- Price ÷ Karpenter, all {len(beside)}: {same:.3f} on the mean; {first:.3f} of its first round, whatever "
            f"that left out; {a_pod:.3f} of its first round for each pod placed."
        )
        yield f"- The bound itself is {least:.3f} of Karpenter 1.14's price: no plan for all pods can be below that."


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
