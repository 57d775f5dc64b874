"""Draw Grafana's panels from Prometheus' answers; titles, places, units and legends are the dashboard's.

Four kinds, those of scripts/dashboards.py: timeseries, stat, table, bargauge. A panel without data says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

matplotlib.use("Agg")

CELLS = 24
CELL_INCHES, ROW_INCHES = 0.66, 0.38
DPI = 100
MOST_LEGENDS = 8
MOST_ROWS = 9
NO_DATA = "No data"
INK, FAINT = "#24292e", "#8a8f98"
STEPS = {"green": "#37872d", "orange": "#d9820f", "red": "#c4162a"}
COLOURS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300")
"""Grafana's classic palette."""

Labels = Mapping[str, str]
Pairs = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One series of a panel: its legend, and (Unix seconds, value) pairs. `letter` is its query's refId."""

    legend: str
    pairs: Pairs
    labels: Labels
    letter: str = "A"

    @property
    def last(self) -> float:
        """The newest value."""
        return self.pairs[-1][1]


def picture(path: Path, dashboard: Mapping[str, Any], series: Mapping[int, Sequence[Drawn]], note: str) -> None:
    """The whole dashboard as a PNG. `found`: the series of each panel, by its id."""
    panels = dashboard["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = CELLS * CELL_INCHES, rows * ROW_INCHES + 0.6
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="#f4f5f5")
    figure.text(0.008, 1 - 0.32 / height, dashboard["title"], fontsize=15, color=INK, weight="bold")
    figure.text(0.992, 1 - 0.30 / height, note, fontsize=9, color=FAINT, ha="right")
    for panel in panels:
        at = panel["gridPos"]
        left, top = at["x"] / CELLS, 1 - (0.5 + at["y"] * ROW_INCHES) / height
        box = (left + 0.003, top - at["h"] * ROW_INCHES / height + 0.0015, at["w"] / CELLS - 0.006,
               at["h"] * ROW_INCHES / height - 0.003)  # fmt: skip
        if panel["type"] == "row":
            figure.text(left + 0.006, top - at["h"] * ROW_INCHES / height / 2, panel["title"], fontsize=11, color=INK,
                        weight="bold", va="center")  # fmt: skip
            continue
        _panel(figure, box, panel, [each for each in series[panel["id"]] if each.pairs])
    figure.savefig(path)


def _panel(
    figure: Figure, box: tuple[float, float, float, float], panel: Mapping[str, Any], series: Sequence[Drawn]
) -> None:
    frame = figure.add_axes(box, facecolor="white")
    frame.set(xticks=[], yticks=[])
    for spine in frame.spines.values():
        spine.set_color("#dcdee0")
    inches = box[3] * figure.get_figheight()
    frame.text(0.012, 1 - 0.10 / inches, panel["title"], fontsize=9, weight="bold", color=INK, va="top",
               transform=frame.transAxes)  # fmt: skip
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if not series:
        frame.text(0.5, 0.45, NO_DATA, fontsize=11, color=FAINT, ha="center", va="center", transform=frame.transAxes)
        return
    draw: dict[str, Callable[[Axes], None]] = {
        "stat": lambda axes: _stat(axes, panel, series, unit),
        "bargauge": lambda axes: _bars(axes, series, unit),
        "table": lambda axes: _table(axes, panel, series),
        "timeseries": lambda axes: _lines(axes, panel, series, unit),
    }
    draw[panel["type"]](frame)


def _colour(panel: Mapping[str, Any], value: float) -> str:
    """The threshold's colour; ink where no colour means anything."""
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return STEPS[reached[-1]] if reached else INK


def _stat(axes: Axes, panel: Mapping[str, Any], series: Sequence[Drawn], unit: str) -> None:
    value = series[0].last
    axes.text(0.5, 0.42, written(value, unit), fontsize=22, color=_colour(panel, value), ha="center", va="center",
              transform=axes.transAxes)  # fmt: skip


def _inner(axes: Axes, left: float, bottom: float, right: float, top: float) -> Axes:
    """Axes within a frame; margins in inches."""
    figure = axes.figure
    box = axes.get_position()
    w, h = figure.get_figwidth(), figure.get_figheight()  # type: ignore[union-attr]
    inner = (box.x0 + left / w, box.y0 + bottom / h, box.width - (left + right) / w, box.height - (top + bottom) / h)
    inner_axes: Axes = figure.add_axes(inner)
    for side in ("top", "right", "left"):
        inner_axes.spines[side].set_visible(False)
    inner_axes.spines["bottom"].set_color("#dcdee0")
    inner_axes.tick_params(labelsize=7.5, colors=FAINT, length=0)
    return inner_axes


def _bars(axes: Axes, series: Sequence[Drawn], unit: str) -> None:
    chosen = sorted(series, key=lambda each: -each.last)[: MOST_ROWS + 3]
    inner = _inner(axes, 1.35, 0.12, 0.75, 0.36)
    inner.barh([each.legend for each in chosen], [each.last for each in chosen], color=COLOURS[0], height=0.7)
    inner.invert_yaxis()
    inner.set_xticks([])
    for row, each in enumerate(chosen):
        inner.text(each.last, row, f" {written(each.last, unit)}", fontsize=7.5, va="center", color=INK)


def _lines(axes: Axes, panel: Mapping[str, Any], series: Sequence[Drawn], unit: str) -> None:
    shown = sorted(series, key=lambda each: -max(value for _, value in each.pairs))
    legends = min(len(shown), MOST_LEGENDS)
    below = 0.42 + 0.15 * -(-legends // 3)
    inner = _inner(axes, 0.62, below, 0.12, 0.36)
    stacked = "stacking" in panel["fieldConfig"]["defaults"]["custom"]
    if stacked:
        _stacked(inner, shown)
    else:
        for each, colour in zip(shown, _colours(), strict=False):
            inner.plot(*zip(*each.pairs, strict=True), color=colour, linewidth=1.1)
    inner.set_ylim(bottom=min(0, *(value for each in shown for _, value in each.pairs)))
    inner.yaxis.set_major_locator(MaxNLocator(5, integer=unit == "short" and _whole(shown)))
    inner.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, unit)))
    inner.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 3, 6, 10]))
    inner.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: datetime.fromtimestamp(value, UTC).strftime("%H:%M:%S"))
    )
    inner.grid(axis="y", color="#eceef0", linewidth=0.8)
    inner.set_axisbelow(True)
    handles = [
        matplotlib.lines.Line2D([], [], color=colour, linewidth=2.5, label=each.legend)
        for each, colour in zip(shown[:legends], _colours(), strict=False)
    ]
    if len(shown) > legends:
        handles.append(matplotlib.lines.Line2D([], [], linewidth=0, label=f"and {len(shown) - legends} more"))
    axes.legend(handles=handles, loc="lower left", ncols=3, fontsize=7, frameon=False, handlelength=0.9,
                columnspacing=1.0, labelspacing=0.25, borderaxespad=0.3, labelcolor=INK)  # fmt: skip


def _stacked(axes: Axes, series: Sequence[Drawn]) -> None:
    moments = sorted({at for each in series for at, _ in each.pairs})
    values = [[dict(each.pairs).get(at, 0.0) for at in moments] for each in series]
    colours = [colour for colour, _ in zip(_colours(), series, strict=False)]
    axes.stackplot(moments, values, colors=colours, alpha=0.35)
    total = [0.0] * len(moments)
    for own, colour in zip(values, colours, strict=True):
        total = [a + b for a, b in zip(total, own, strict=True)]
        axes.plot(moments, total, color=colour, linewidth=1.1)


def _whole(series: Sequence[Drawn]) -> bool:
    return max(value for each in series for _, value in each.pairs) >= 4


def _colours() -> list[str]:
    return list(COLOURS) * 20


def _table(axes: Axes, panel: Mapping[str, Any], series: Sequence[Drawn]) -> None:
    """As Grafana's `merge` and `organize` make it: a row for each set of labels, a column for each query."""
    organized = next(each["options"] for each in panel["transformations"] if each["id"] == "organize")
    titles = [(each["refId"], organized["renameByName"][f"Value #{each['refId']}"]) for each in panel["targets"]]
    units = {each["matcher"]["options"]: each["properties"][0]["value"] for each in panel["fieldConfig"]["overrides"]}
    hidden = {"__name__", "resource_type", "job", "instance"}
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for each in series:
        key = tuple(sorted((name, value) for name, value in each.labels.items() if name not in hidden))
        rows.setdefault(key, {})[each.letter] = each.last
    names = sorted({name for key in rows for name, _ in key})
    cells = [
        [
            *(dict(key).get(name, "") for name in names),
            *(written(own[letter], units[title]) if letter in own else "" for letter, title in titles),
        ]
        for key, own in sorted(rows.items())
    ]
    head = [*names, *(title for _, title in titles)]
    if len(cells) > MOST_ROWS:
        cells = [*cells[: MOST_ROWS - 1], [f"and {len(cells) - MOST_ROWS + 1} more", *[""] * (len(head) - 1)]]
    inner = _inner(axes, 0.1, 0.08, 0.1, 0.36)
    inner.set_axis_off()
    widths = [max(len(row[column]) for row in [head, *cells]) + 2 for column in range(len(head))]
    table = inner.table(cellText=cells, colLabels=head, cellLoc="left", loc="upper left", edges="horizontal",
                        colWidths=[width / sum(widths) for width in widths])  # fmt: skip
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    for (row, _), cell in table.get_celld().items():
        cell.set(edgecolor="#eceef0", height=1 / (MOST_ROWS + 1))
        cell.get_text().set(color=FAINT if row == 0 else INK, weight="bold" if row == 0 else "normal")


def written(value: float, unit: str) -> str:
    """A value in Grafana's unit."""
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "percent":
        return f"{value:.3g}%"
    if unit == "currencyUSD":
        return f"${value:,.2f}" if abs(value) >= 1 else f"${value:.3g}"
    if unit == "s":
        return _seconds(value)
    if unit == "bytes":
        return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    rest = {"cps": " c/s", "reqps": " req/s"}.get(unit, "")
    return (_scaled(value, 1000, ("", "K", "M", "G")) + rest).strip()


def _seconds(value: float) -> str:
    if value and abs(value) < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value and abs(value) < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if abs(value) < 120 else f"{value / 60:.3g} min"


def _scaled(value: float, by: int, names: Sequence[str]) -> str:
    for name in names[:-1]:
        if abs(value) < by:
            return f"{value:.3g} {name}".strip()
        value /= by
    return f"{value:.3g} {names[-1]}"
