"""A trickle: one pod every two seconds for five minutes, in virtual time, with and without planning pods ahead.

Plans that come sooner must not cost more: each of these pods comes while nodes for those before it are on their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.life.day import Day, Phase
from bench.life.made_up import made_up
from bench.life.run import Lived, live

EVERY_SECONDS, SECONDS, AFTER_SECONDS = 2.0, 300.0, 120.0
SETTINGS: Mapping[str, Mapping[str, Any]] = {"class": {"plan_ahead": "class"}, "none": {"plan_ahead": "none"}}
"""By the setting `planAhead`. `none` plans for the pods alone that kube-scheduler has marked, as Karpenter v0.27."""
HEAD = """# A trickle of pods

`python -m bench trickle`: one pod every two seconds for five minutes, and two minutes after that, in virtual time; the
controller's own loops, kube-scheduler and EC2 in memory as in [life](life.md). Means over the seeds: other requests and
spot prices each.

"""


def trickle(seed: int) -> Day:
    """The day of a seed: its first Deployment grows by one pod at a time."""
    drawn = made_up(seed, pods=10)
    (deployment, *_) = drawn.deployments
    name = deployment["metadata"]["name"]
    steps = int(SECONDS / EVERY_SECONDS)
    phases = tuple(Phase(f"pod {n + 1}", n * EVERY_SECONDS, {name: n + 1}) for n in range(steps))
    return replace(drawn, ends_at=SECONDS + AFTER_SECONDS, phases=phases, deployments=(deployment,), budgets=())


def report(seeds: int) -> str:
    """The page: a row for each of the settings."""
    heads = ("planAhead", "$", "nodes launched", "nodes at the end", "a pod's wait, s", "pods never bound")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    numbers = range(1, seeds + 1)
    for name, settings in SETTINGS.items():
        rows.append(_row(name, [live(trickle(n), seed=n, settings=settings) for n in numbers]))
    return HEAD + "\n".join(rows) + "\n"


def _row(name: str, lived: list[Lived]) -> str:
    count = len(lived)
    dollars = sum(each.dollars for each in lived) / count
    launched, left = sum(each.launched for each in lived) / count, sum(each.left_at_end for each in lived) / count
    wait = sum(each.wait_p50 for each in lived) / count
    never = sum(each.never_bound for each in lived)
    return f"| `{name}` | {dollars:.4f} | {launched:.1f} | {left:.1f} | {wait:.1f} | {never} |"
