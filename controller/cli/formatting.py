"""Format money, shares, bars, counts and ages."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

HOURS_A_MONTH = 730.0
"""As in AWS's own calculator: 8,760 hours a year over 12."""

BAR_CELLS = 10
CROWDED, LOW = 0.85, 0.4
"""A bar is green from CROWDED on and red below LOW."""


def money(dollars: float) -> str:
    """Format an amount: $0.0412, $12.34; four digits below a dollar."""
    sign = "−" if dollars < 0 else ""
    return f"{sign}${abs(dollars):,.4f}" if abs(dollars) < 1 else f"{sign}${abs(dollars):,.2f}"


def month(dollars_per_hour: float) -> str:
    """Format an hourly price as $/month."""
    return f"${dollars_per_hour * HOURS_A_MONTH:,.2f}"


def percent(share: float, digits: int = 0) -> str:
    """Format a share: 0.123 → 12 %."""
    return f"{share * 100:.{digits}f} %"


def count(number: int, noun: str) -> str:
    """Format a number with its noun: 1 pod, 2 pods, 1,000 pods."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tally(counts: Mapping[str, int], separator: str = ", ") -> str:
    """Format counts: shop/api ×2, shop/web ×1; sorted by name."""
    return separator.join(f"{name} ×{number}" for name, number in sorted(counts.items()))


def titled_table(title: str, *columns: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """Return a table without lines, its title on the left; `right`, columns of numbers, and `whole` are not folded."""
    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold"
    )
    for column in columns:
        number = column in right
        table.add_column(
            column, justify="right" if number else "left", overflow="fold", no_wrap=number or column in whole
        )
    return table


def bar(share: float, cells: int = BAR_CELLS) -> Text:
    """Draw a share as a bar and a percentage."""
    filled = min(cells, round(share * cells))
    style = "green" if share >= CROWDED else "red" if share < LOW else "yellow"
    return Text.assemble(("█" * filled, style), ("░" * (cells - filled), "dim"), f" {share * 100:3.0f}%")


def age(seconds: float) -> str:
    """Format an age as kubectl does: 45s, 12m, 3h12m, 4d2h."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 120:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours and days < 10 else f"{days}d"
