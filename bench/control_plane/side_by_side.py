"""A scale run's figures beside those of others on the same pods: another controller's, and kube-scheduler's alone.

Another controller's are a JSON object with the fields of `Figures`, as `--json` writes them; one that is left out is an
empty cell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import orjson

from bench.control_plane.processor_time import BENCH, CONTROLLER
from bench.control_plane.scale import ScaleRun

LEAST_SECONDS = 0.05
"""A program with less processor time has no row."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds since the first pod was created; waits are from a pod's creation to its binding. None: not known."""

    pods: float | None = None
    nodes: float | None = None
    last_pod_created_s: float | None = None
    last_machine_launched_s: float | None = None
    last_pod_bound_s: float | None = None
    wait_p50_s: float | None = None
    wait_p99_s: float | None = None
    controller_cpu_s: float | None = None
    controller_cpu_ms_a_node: float | None = None
    controller_rss_mib: float | None = None
    api_requests_a_node: float | None = None
    machine_cpu_s: float | None = None
    machine_cores: float | None = None
    load_of_machine: float | None = None

    def json(self) -> bytes:
        """What `read` reads."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2)


def figures(run: ScaleRun) -> Figures:
    """The figures of a run. One without a controller (kube-scheduler alone) launches nothing and calls nothing."""
    alone = not run.launched
    return Figures(
        pods=len(run.bound),
        nodes=None if alone else len(run.launched),
        last_pod_created_s=run.created[-1],
        last_machine_launched_s=None if alone else run.launched[-1],
        last_pod_bound_s=run.bound[-1],
        wait_p50_s=_share(run.waited, 0.5),
        wait_p99_s=_share(run.waited, 0.99),
        controller_cpu_s=None if alone else run.processor_seconds,
        controller_cpu_ms_a_node=None if alone else 1_000.0 * run.processor_seconds / len(run.launched),
        controller_rss_mib=None if alone else run.rss_bytes / 2**20,
        api_requests_a_node=None if alone else run.calls_per_node,
        machine_cpu_s=run.spent.machine,
        machine_cores=os.cpu_count(),
        load_of_machine=run.load,
    )


def read(file: Path) -> Figures:
    """Another controller's figures; unknown members are ignored. Raises ValueError for what is no object of numbers."""
    document = orjson.loads(file.read_bytes())
    if not isinstance(document, Mapping):
        raise ValueError(f"{file} is not a JSON object")
    names = [each.name for each in fields(Figures)]
    return Figures(**{name: _number(file, name, document[name]) for name in names if name in document})


def _number(file: Path, name: str, value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{file}: {name} is {value!r}, not a number")
    return value


def side_table(columns: Mapping[str, Figures]) -> str:
    """A Markdown table, a column each, by its heading."""
    rows = [["", *columns], ["---"] * (1 + len(columns))]
    for each in fields(Figures):
        cells = [getattr(one, each.name) for one in columns.values()]
        rows.append([each.name.replace("_", " "), *("" if cell is None else f"{cell:,.4g}" for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def over_limit(round_: tuple[ScaleRun, ScaleRun | None]) -> float:
    """Return when a run's last pod was bound, over the limit's; in seconds where that was not measured.

    Times are whole seconds: a limit below one counts as one.
    """
    run, alone = round_
    return run.bound[-1] / max(1.0, alone.bound[-1]) if alone else run.bound[-1]


def ratios(rounds: Sequence[tuple[ScaleRun, ScaleRun | None]]) -> str:
    """Return a sentence with each round's `over_limit`, least first."""
    each = ", ".join(f"{over_limit(one):.2f}" for one in rounds)
    return f"\nLast pod bound, NodeLess over the limit of the same round: {each}.\n"


def programs_table(run: ScaleRun, alone: ScaleRun) -> str:
    """Return a Markdown table of the programs' processor time in a run and in the limit's."""
    rows = sorted(run.spent.programs.items(), key=lambda row: -row[1])
    lines = [
        f"| {name} | {s:.1f} | {alone.spent.programs.get(name, 0.0):.1f} |" for name, s in rows if s >= LEAST_SECONDS
    ]
    return "\n".join(["| processor time, s | NodeLess | limit |", "| --- | --- | --- |", *lines]) + "\n"


def without_controller(rounds: Sequence[tuple[ScaleRun, ScaleRun]]) -> str:
    """Return a sentence with each round's `programs_over_limit`, least first."""
    told = ", ".join(f"{one:.2f}" for one in sorted(map(programs_over_limit, rounds)))
    return f"\nProcessor time of all programs but controller and bench, over the limit's of the same round: {told}.\n"


def programs_over_limit(round_: tuple[ScaleRun, ScaleRun]) -> float:
    """Return the processor time of all programs but controller and bench in a run, over that in the limit."""
    run, alone = map(_other_programs, round_)
    return run / alone


def _other_programs(run: ScaleRun) -> float:
    return sum(seconds for name, seconds in run.spent.programs.items() if name not in (CONTROLLER, BENCH))


def _share(values: tuple[float, ...], part: float) -> float:
    return values[min(len(values) - 1, int(part * len(values)))]
