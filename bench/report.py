"""The table of all problems: ours beside Karpenter 1.14's figures, with ratios and growth.

Seconds are CPU seconds of one process from decoded JSON to the plan, cold: objects read, catalog compiled. `solve s`
are those without the reading of objects, which a controller does once an object.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

Document = Mapping[str, Any]
COLUMNS = (
    "problem", "pods/s", "× Karpenter", "seconds", "solve s", "price", "÷ bound", "÷ Karpenter",
    "nodes", "Karpenter's", "left", "Karpenter's", "MB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KarpenterFigures:
    """What Karpenter 1.14's scheduler made of a problem. Price in $/hour, time in CPU seconds, of its first round.

    price_of_all: once further rounds had placed all pods, where that was measured.
    """

    price: float
    seconds: float
    nodes: int
    left_out: int
    price_of_all: float | None = None

    @classmethod
    def of(cls, results: Document) -> KarpenterFigures | None:
        """Read one problem's entry of peer-results.json; None if Karpenter did not solve that problem."""
        if not (first := results.get("peer")):
            return None
        of_all = results.get("peer_all_rounds", {}).get("price")
        return cls(first["price_median"], first["seconds_min"], first["nodes"], first["not_placed"], of_all)


@dataclass(frozen=True, slots=True)
class Line:
    """One problem: our document, Karpenter 1.14's figures, and another solver's seconds where one was asked for.

    bound: $/hour; the one that comes with Karpenter's figures where the run found none.
    """

    name: str
    ours: Document
    karpenter: KarpenterFigures | None = None
    bound: float | None = None
    other_seconds: float | None = None

    def cells(self) -> list[str]:
        """The line's cells, in the order of COLUMNS."""
        ours, karpenter, bound = self.ours, self.karpenter, self.bound
        pods, seconds = ours["pods"], ours["cpuSeconds"]
        return [
            self.name,
            f"{pods / seconds:,.0f}",
            f"{karpenter.seconds / seconds:.1f}" if karpenter else "",
            f"{seconds:.3f}",
            f"{ours['solveSeconds']:.3f}",
            f"{ours['price']:.2f}",
            f"{ours['price'] / bound:.3f}" if bound else "",
            f"{ours['price'] / karpenter.price:.2f}" if karpenter else "",
            str(len(ours["nodes"])),
            str(karpenter.nodes) if karpenter else "",
            str(len(ours["unplaced"])),
            str(karpenter.left_out) if karpenter else "",
            f"{ours['peakMemoryBytes'] / 2**20:.0f}",
            *([f"{self.other_seconds:.3f}"] if self.other_seconds is not None else []),
        ]


def lines(
    folder: Path, karpenter: Document, budget: float | None, against: str | None, runs: int = 1
) -> Iterable[Line]:
    """Solve each problem of the folder in a process of its own (cold, its own peak memory).

    Of several runs the one with the least CPU time counts. `karpenter`: peer-results.json, by name of the problem.
    """
    for path in sorted(folder.glob("*.json.gz"), key=_name_and_size):
        name = path.name.removesuffix(".json.gz")
        command = [sys.executable, "-m", "bench", "solve", str(path), "--output", "json"]
        if budget is not None:
            command += ["--budget", str(budget)]
        answers = [subprocess.run(command, check=True, capture_output=True).stdout for _ in range(runs)]
        ours = min(map(orjson.loads, answers), key=itemgetter("cpuSeconds"))
        other = _other(against, path) if against else None
        results = karpenter.get(name, {})
        bound = ours["bound"] or results.get("lower_bound_price")
        yield Line(name, ours, KarpenterFigures.of(results), bound, other)


def _other(against: str, path: Path) -> float:
    """Seconds of another solver: what it says itself in a JSON object with `seconds`, else by the clock."""
    start = time.perf_counter()
    answer = subprocess.run([*shlex.split(against), str(path)], check=True, capture_output=True)
    elapsed = time.perf_counter() - start
    try:
        said = orjson.loads(answer.stdout)
    except orjson.JSONDecodeError:
        return elapsed
    return float(said["seconds"]) if isinstance(said, dict) and "seconds" in said else elapsed


def _name_and_size(path: Path) -> tuple[str, int]:
    name, _, size = path.name.removesuffix(".json.gz").rpartition("-")
    return name, int(size) if size.isdigit() else 0


def show(rows: Sequence[Line], *, other: bool) -> None:
    """Print the table, then how time grew with pods."""
    table = Table(*_head(other=other), box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for line in rows:
        table.add_row(*line.cells())
    console = Console()
    console.print(table)
    for text in growth(rows):
        console.print(text)


def markdown(solved: Sequence[Line], *, other: bool) -> str:
    """The same for a document."""
    head = _head(other=other)
    rows = [head, ["---", *["--:"] * (len(head) - 1)], *(line.cells() for line in solved)]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([PREFACE, *table, "", *(f"- {text}" for text in growth(solved))]) + "\n"


PREFACE = """# First plans: speed and price

Written by `python -m bench all FOLDER --karpenter FILE --budget 0 --runs 5 --into docs/benchmarks/scheduling.md`,
each problem in processes of its own, of which the fastest counts. Seconds are CPU seconds from decoded JSON to the
plan, cold; `solve s` leaves out reading the objects, which a controller does once an object. MB is the process's peak
memory until the plan was made; of 100,000 pods, nearly all of it is their JSON. Karpenter 1.14's
columns are Karpenter 1.14's Solve on the same problem. `field-2170` (1,060 nodes, 20 node pools, 768 types in 3
zones, spot and on demand) and `deployments-N` (100 deployments) are made by `python -m bench made FOLDER`.
"""


def _head(*, other: bool) -> list[str]:
    return [*COLUMNS, *(["against s"] if other else [])]


def growth(solved: Iterable[Line]) -> Iterable[str]:
    """How the time of a shape grows from its smallest to its largest problem."""
    shapes: dict[str, list[Line]] = {}
    for line in solved:
        shapes.setdefault(line.name.rpartition("-")[0], []).append(line)
    for shape, group in shapes.items():
        small, large = group[0], group[-1]
        if small is not large:
            pods, whole, solve = (large.ours[k] / small.ours[k] for k in ("pods", "cpuSeconds", "solveSeconds"))
            yield f"{shape}: {pods:.0f} × the pods take {whole:.1f} × the time, {solve:.1f} × without reading them"
