"""A rebalance's plan as a table of 80 columns, and as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from controller.cli.formatting import count, money, month, percent, tally, titled_table
from controller.cli.rebalance.plan_file import VERSION
from controller.core.api.labels import CAPACITY_TYPE, INSTANCE_TYPE
from controller.core.deprovisioning.rebalance.approval import pod_digest
from controller.core.deprovisioning.rebalance.rebalance_plan import RebalancePlan, Step

MOST_REASONS = 8
"""Reasons to stay that the table shows; JSON has every node's."""
FOLDED = 36
"""Columns of the names of removed nodes and launched types."""


def headline(plan: RebalancePlan, within: float) -> str:
    """Return what the whole plan does, in one line. within: the share above the bound that was asked for."""
    if not plan.steps and not plan.cost_before:
        return "Nothing to do: no node is a Provisioner's"
    if not plan.steps:
        found = "" if plan.cost_before <= (1 + within) * plan.bound else ", and no cheaper fleet was found"
        over = _over(plan, plan.cost_before)
        return f"Nothing to do: {money(plan.cost_before)}/h in all is {over} the lower bound{found}"
    saved = f"saves {money(plan.saved)}/h, {month(plan.saved)} a month"
    return f"{count(len(plan.steps), 'step')}, {count(plan.moves, 'pod')} moved: {saved}"


def sentences(plan: RebalancePlan) -> Iterator[str]:
    """Yield what the figures mean."""
    if not plan.steps:
        return
    over = _over(plan, plan.cost_after)
    yield f"From {money(plan.cost_before)}/h to {money(plan.cost_after)}/h in all, {over} the lower bound."
    yield "Each step leaves every pod on a node: you may stop after any of them."
    held = {name for step in plan.steps for name in step.waits_for}
    if held:
        yield f"Drains wait for successors to be ready, by PodDisruptionBudgets: {', '.join(sorted(held))}."
    else:
        yield "PodDisruptionBudgets are met: no step moves more pods than they let go at once."


def removed_types(step: Step) -> str:
    labels = (candidate.node.node.labels for candidate in step.removes)
    return tally(Counter(f"{own.get(INSTANCE_TYPE, '?')} {own.get(CAPACITY_TYPE, '')}".strip() for own in labels))


def launched_types(step: Step) -> str:
    """Return the types of the launched nodes with their number; a dash without any."""
    offerings = (launch.planned.offering for launch in step.launches)
    return tally(Counter(f"{each.instance_type} {each.capacity_type}" for each in offerings)) or "–"


def stay_reasons(plan: RebalancePlan) -> list[tuple[str, list[str]]]:
    """Return (reason, nodes) of those that stay whatever the plan would gain, the most frequent first."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in plan.stays:
        by_reason.setdefault(reason, []).append(name)
    return sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))


def show(plan: RebalancePlan, console: Console, within: float) -> None:
    """Print the plan for people. within: see `headline`."""
    console.print(Text(headline(plan, within), style="bold"))
    for line in sentences(plan):
        console.print(Text(line))
    if plan.steps:
        numbers = ("Step", "Pods", "Saves/h", "Then/h")
        table = titled_table("", "Step", "Removes", "Launches", "Pods", "Saves/h", "Then/h", right=numbers)
        table.title = None
        for column in table.columns[1:3]:
            column.max_width = FOLDED // 2
        for number, (step, cost) in enumerate(zip(plan.steps, plan.costs(), strict=True), start=1):
            names = _names(candidate.name for candidate in step.removes)
            removes = Text(f"{names}: {removed_types(step)}")
            figures = (f"{len(step.moves):,}", money(step.saved), money(cost))
            table.add_row(str(number), removes, Text(launched_types(step)), *figures)
        console.print()
        console.print(table)
    if plan.stays:
        console.print()
        console.print(Text(f"{count(len(plan.stays), 'node')} must stay:", style="bold"))
        reasons = stay_reasons(plan)
        for reason, nodes in reasons[:MOST_REASONS]:
            console.print(Text(f"  {_names(nodes)}: {reason}"))
        if len(reasons) > MOST_REASONS:
            console.print(Text(f"  and {count(len(reasons) - MOST_REASONS, 'more reason')} (-o json)"))


def document(plan: RebalancePlan) -> dict[str, Any]:
    """Return the plan as JSON values; costs in $ an hour, all in all."""
    return {
        "version": VERSION,
        "costPerHourBefore": round(plan.cost_before, 6),
        "costPerHourAfter": round(plan.cost_after, 6),
        "lowerBoundPerHour": round(plan.bound, 6),
        "savedPerMonth": round(plan.saved * 730, 2),
        "podsMoved": plan.moves,
        "steps": [_step(step, cost) for step, cost in zip(plan.steps, plan.costs(), strict=True)],
        "stays": [{"node": name, "reason": reason} for name, reason in plan.stays],
    }


def _step(step: Step, cost: float) -> dict[str, Any]:
    return {
        "removes": [
            {
                "node": candidate.name,
                "uid": candidate.node.node.uid,
                "pods": sorted(map(pod_digest, candidate.pods)),
                "provisioner": candidate.provisioner.name,
                "instanceType": candidate.node.node.labels.get(INSTANCE_TYPE, ""),
                "capacityType": candidate.node.node.capacity_type,
                "costPerHour": round(candidate.cost, 6),
            }
            for candidate in step.removes
        ],
        "launches": [
            {
                "name": launch.name,
                "provisioner": launch.planned.provisioner,
                "instanceType": launch.planned.offering.instance_type,
                "capacityType": launch.planned.offering.capacity_type,
                "zone": launch.planned.offering.zone,
                "costPerHour": round(launch.planned.offering.cost, 6),
            }
            for launch in step.launches
        ],
        "moves": [{"pod": "/".join(move.pod), "from": move.source, "to": move.target} for move in step.moves],
        "savedPerHour": round(step.saved, 6),
        "costPerHourAfter": round(cost, 6),
        "waitsForPodDisruptionBudgets": list(step.waits_for),
    }


def _over(plan: RebalancePlan, cost: float) -> str:
    return f"{percent(cost / plan.bound - 1, 1)} above" if plan.bound > 0 else "above"


def _names(names: Iterable[str]) -> str:
    """Return the first of these names without their domain, and how many more."""
    listed = [name.partition(".")[0] for name in names]
    more = f" and {len(listed) - 2:,} more" if len(listed) > 2 else ""
    return f"{', '.join(listed[:2])}{more}"
