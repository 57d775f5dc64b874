"""A rebalance's plan as one self-contained HTML page without scripts, every node and pod named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from controller.cli.cluster.page_parts import document, table, tiles_of
from controller.cli.formatting import count, money, month, percent
from controller.cli.rebalance.rebalance_report import launched_types, removed_types, sentences, stay_reasons
from controller.core.deprovisioning.rebalance.rebalance_plan import RebalancePlan, Step


def page(plan: RebalancePlan, notes: Iterable[str] = ()) -> str:
    """Return the page as HTML. Names are escaped, and nothing is loaded from elsewhere."""
    tiles = [
        (month(plan.saved), f"saved a month, {money(plan.saved)}/h", ""),
        (f"{plan.moves:,}", "pods moved, each once", ""),
        (f"{len(plan.steps):,}", "steps, safe to stop after each", ""),
    ]
    if plan.bound > 0:
        tiles.append((percent(plan.cost_after / plan.bound - 1, 1), "above the lower bound then", ""))
    body = [
        *tiles_of(tiles),
        *(f"<p>{escape(line)}</p>" for line in sentences(plan)),
        *_steps(plan),
        *_stays(plan),
        *(f"<p><small>{escape(note)}</small></p>" for note in notes),
    ]
    return document("Rebalance", body)


def _steps(plan: RebalancePlan) -> Iterator[str]:
    head = ("step", "removes", "launches", "PodDisruptionBudgets", "pods", "saves/h", "then/h")
    rows = [
        (
            str(number),
            removed_types(step),
            launched_types(step),
            ", ".join(step.waits_for) or "met",
            f"{len(step.moves):,}",
            money(step.saved),
            money(cost),
        )
        for number, (step, cost) in enumerate(zip(plan.steps, plan.costs(), strict=True), start=1)
    ]
    if rows:
        yield "<h2>Steps</h2>"
        yield from table(head, rows, words=4)
    for number, step in enumerate(plan.steps, start=1):
        yield f"<details><summary>Step {number}: {escape(count(len(step.removes), 'node'))}</summary>"
        yield from table(("pod", "from", "to"), _moves(step), words=3)
        yield "</details>"


def _moves(step: Step) -> Iterator[tuple[str, str, str]]:
    empty = [candidate.name for candidate in step.removes if not candidate.pods]
    yield from (("/".join(move.pod), move.source, move.target) for move in step.moves)
    yield from (("(no pods)", name, "") for name in empty)


def _stays(plan: RebalancePlan) -> Iterator[str]:
    if plan.stays:
        yield "<h2>Nodes that must stay</h2>"
        yield from table(("reason", "nodes"), ((why, ", ".join(nodes)) for why, nodes in stay_reasons(plan)), words=2)
