"""Costs by namespace or workload, as a table for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from controller.cli.cluster.workload_costs import Cost, Costs
from controller.cli.formatting import HOURS_A_MONTH, money, month, percent, titled_table

NUMBERS = ("Pods", "$/h", "$/month", "Share")


def rows(costs: Costs, namespace: str = "", *, workloads: bool = False) -> tuple[tuple[str, Cost], ...]:
    """Return (namespace, or NAMESPACE/WORKLOAD, cost), dearest first; `namespace`: this one alone."""
    named: Mapping[str, Cost] = costs.namespaces
    if workloads:
        named = {f"{space}/{name}": cost for (space, name), cost in costs.workloads.items()}
    chosen = ((name, cost) for name, cost in named.items() if namespace in ("", name.partition("/")[0]))
    return tuple(sorted(chosen, key=lambda item: (-item[1].price_per_hour, item[0])))


def cells(
    costs: Costs, namespace: str = "", *, workloads: bool = False, most: int | None = None
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield name and NUMBERS of the dearest `most` (None: all), of the others in one row, and of what is idle."""
    listed = rows(costs, namespace, workloads=workloads)
    shown = listed if most is None or len(listed) <= most else listed[: max(0, most - 1)]
    others = [cost for _, cost in listed[len(shown) :]]
    figures = [(name, f"{cost.pods:,}", cost.price_per_hour) for name, cost in shown]
    if others:
        pods = sum(cost.pods for cost in others)
        figures.append((f"({len(others):,} others)", f"{pods:,}", sum(cost.price_per_hour for cost in others)))
    if not namespace:
        if costs.daemons_per_hour:
            figures.append(("(DaemonSets)", "", costs.daemons_per_hour))
        figures.append(("(idle)", "", costs.idle_per_hour))
    for name, of, price in figures:
        yield name, of, money(price), month(price), percent(price / (costs.price_per_hour or 1.0))


def costs_table(
    costs: Costs, title: str = "", namespace: str = "", *, workloads: bool = False, most: int | None = None
) -> Table:
    """Return the rows of `cells`, and the total."""
    table = titled_table(title, "Workload" if workloads else "Namespace", *NUMBERS, right=NUMBERS)
    for name, pods, *amounts in cells(costs, namespace, workloads=workloads, most=most):
        table.add_row(Text(name), pods, *amounts, style="" if pods else "dim")
    if not namespace:
        table.add_row("in all", "", money(costs.price_per_hour), month(costs.price_per_hour), "", style="bold")
    return table


def document(costs: Costs, namespace: str = "") -> dict[str, Any]:
    """Return the costs as JSON values; `namespace`: of this one alone."""
    chosen = sorted(key for key in costs.workloads if namespace in ("", key[0]))
    return {
        "pricePerHour": round(costs.price_per_hour, 6),
        "idlePerHour": round(costs.idle_per_hour, 6),
        "daemonSetsPerHour": round(costs.daemons_per_hour, 6),
        "workloads": [
            {
                "namespace": key[0],
                "workload": key[1],
                "pods": costs.workloads[key].pods,
                "pricePerHour": round(costs.workloads[key].price_per_hour, 6),
                "pricePerMonth": round(costs.workloads[key].price_per_hour * HOURS_A_MONTH, 2),
            }
            for key in chosen
        ],
        "unpricedNodes": list(costs.unpriced),
    }
