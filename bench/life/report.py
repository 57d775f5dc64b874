"""Tables and a picture of a day: our column beside Karpenter's and the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.life.optimum import Optimum
from bench.life.run import Lived

HEAD = """# A day of a cluster, beside Karpenter 1.14

`python -m bench life DAY --into docs/benchmarks/life.md`: a scripted day of fifteen minutes (0 → 600 → 1,000 → 509 →
664 → 134 → 0 pods in 15 Deployments with PodDisruptionBudgets; spot and on demand, types c, m, r and t, budgets open),
lived in virtual time. The controller's loops are the real ones; the API server, kube-scheduler, ReplicaSets, kubelets
(7.5 to 10.5 seconds from launch to Ready) and EC2 are in memory, and a step takes no virtual time. Processor time is
that of the controller's steps, without HTTP. Karpenter lived the day on a real control plane: its processor time and
requests have that in them. With `--real --figures FILE` NodeLess lives it there, too (nine seconds from launch to
Ready); `--figures FILE` alone shows that run in a column. A machine costs from its launch until its end is asked for.
Bound: no fleet for a phase's pods costs less (a linear program). Other days: `python -m bench life --seed N`.
[Money against moves](life-frontier.md) has the same day under other settings.

"""

REAL = "NodeLess, real control plane"
Figures = Mapping[str, Any]
"""A run on a real control plane, as its file has it."""


def figures_of(file: Path) -> Figures:
    """The figures in a file."""
    found: Figures = orjson.loads(file.read_bytes())
    return found


def karpenter(folder: Path) -> dict[str, Figures]:
    """The runs of Karpenter beside a day's file, by name."""
    return {path.stem: figures_of(path) for path in sorted(folder.glob("karpenter*.json"))}


def table(lived: Lived, optima: Sequence[Optimum], others: Mapping[str, Figures]) -> str:
    """One column a run; `÷ bound` by phase, first to last."""
    dollars = bound_dollars(lived, optima)
    rows = [("", "NodeLess, virtual time", *others, "bound"), ("---",) * (3 + len(others))]
    runs = list(others.values())
    price = _ratios([each.price_at_end for each in lived.phases], optima)
    fresh = _ratios([each.fresh for each in optima], optima)
    rows += [
        ("$ of the day", f"{lived.dollars:.3f}", *(f"{r['dollars_machines']:.3f}" for r in runs), f"{dollars:.3f}"),
        ("÷ bound", f"{lived.dollars / dollars:.2f}", *(f"{r['dollars_machines'] / dollars:.2f}" for r in runs), "1"),
        (
            "$ an hour at the end of each phase ÷ bound",
            price,
            *(_ratios([phase["price_at_end"] for phase in r["phases"]], optima) for r in runs),
            f"1; fresh plans {fresh}",
        ),
        (
            "machines at the ends of phases",
            " ".join(str(each.machines_at_end) for each in lived.phases[:-1]),
            *(" ".join(str(phase["machines_at_end"]) for phase in r["phases"][:-1]) for r in runs),
            "fresh plans " + " ".join(str(each.fresh_nodes) for each in optima[:-1]),
        ),
        (
            "most machines; launched in all",
            f"{lived.most_machines}; {lived.launched}",
            *(f"{max(row[1] for row in r['timeline'])}; {r['launched']}" for r in runs),
            "",
        ),
        (
            "a pod's wait, median; worst, s",
            f"{lived.wait_p50:.0f}; {lived.wait_max:.0f}",
            *(f"{r['wait_p50']:.0f}; {r['wait_max']:.0f}" for r in runs),
            "",
        ),
        ("pods never bound", str(lived.never_bound), *(str(r["never_bound"]) for r in runs), "0"),
        (
            "evictions; refused by a budget",
            f"{lived.evictions}; {lived.refused_evictions}",
            *(f"{r['evictions_accepted']}; {r['evictions_refused_429']}" for r in runs),
            "0",
        ),
        (
            "pods that ended unasked",
            str(lived.pods_moved),
            *(str(r["pods_lost_beyond_scaling_down"]) for r in runs),
            "0",
        ),
        ("processor time, s", f"{lived.processor_seconds:.0f}", *(f"{r['cpu_s']:.0f}" for r in runs), ""),
        ("API requests", f"{lived.requests:,}", *(f"{r['api_requests']:,}" for r in runs), ""),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def bound_dollars(lived: Lived, optima: Sequence[Optimum]) -> float:
    """$ of the day at the bound of each phase's pods."""
    lengths = (end - each.phase.at for each, end in zip(lived.phases, lived.day.ends(), strict=True))
    return sum(optimum.bound * seconds / 3600.0 for optimum, seconds in zip(optima, lengths, strict=True))


def ratios(lived: Lived, optima: Sequence[Optimum]) -> list[float]:
    """$ an hour at the end of each phase that has pods, over its bound."""
    pairs = zip(lived.phases, optima, strict=True)
    return [phase.price_at_end / optimum.bound for phase, optimum in pairs if optimum.bound > 0]


def _ratios(prices: Sequence[float], optima: Sequence[Optimum]) -> str:
    return " ".join(f"{p / o.bound:.2f}" for p, o in zip(prices, optima, strict=True) if o.bound > 0)
