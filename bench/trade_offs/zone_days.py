"""What even zones cost over a day: the day lived in virtual time with growing demands on zone balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.life.day import Day
from bench.life.run import Lived, live
from bench.trade_offs.zone_steps import DEFAULT, STEPS, Problem, Step
from controller.core.zones.balance import ROUNDING, ZoneBalance


def head(draws: int) -> str:
    """Return the heading and what the table shows. draws: lives of each step."""
    return f"""## A day

Made by the same command with `--day DAY --draws {draws}`: the [day](life.md) in virtual time, each step with so many
draws of kube-scheduler's choice among equal nodes. The shares are of the machines' CPU, every few seconds while
there are {DEFAULT.from_nodes} machines or more; the cost is that of the machines, spot and on demand, over the whole
day. What is above an aim comes when pods go: a node that goes without a replacement is not held back for balance, and
nobody here asks for [zone moves](../adr/0081-zone-moves.md).

"""


@dataclass(frozen=True, slots=True)
class DayStep:
    """The day under one of STEPS, on the mean of its draws: $, evictions, and the zone shares of all samples."""

    name: str
    aim: ZoneBalance
    dollars: float
    evictions: float
    shares: tuple[float, ...]

    @property
    def share(self) -> float:
        """Of the fullest zone, on the mean."""
        return fmean(self.shares) if self.shares else 0.0

    def within(self, share: float) -> float:
        """The part of the time in which no zone had more than this share; 1 without samples."""
        kept = sum(each <= share + ROUNDING for each in self.shares)
        return kept / len(self.shares) if self.shares else 1.0


def steps(day: Day, draws: int) -> Iterator[DayStep]:
    """Live the day for each step, with the seeds 1 to `draws`."""
    for name, aim in STEPS:
        chosen = {"zone_max_share": aim.max_share, "zone_premium": aim.premium}
        yield averaged(name, aim, [live(day, seed=seed, settings=chosen) for seed in range(1, draws + 1)])


def averaged(name: str, aim: ZoneBalance, lived: Sequence[Lived]) -> DayStep:
    """Of the days lived under one step."""
    shares = tuple(share for each in lived for share in each.zone_shares)
    return DayStep(name, aim, fmean(each.dollars for each in lived), fmean(each.evictions for each in lived), shares)


def report(measured: Sequence[DayStep]) -> str:
    """A row for each step."""
    heads = (
        "step",
        f"time within {DEFAULT.max_share:.0%}",
        "within its own",
        "fullest zone, mean",
        "most",
        "evictions",
    )
    rows = [f"| {' | '.join(heads)} | $ | ÷ prices alone |", "|---" + "|---:" * (len(heads) + 1) + "|"]
    for each in measured:
        own = f"{each.within(each.aim.max_share):.0%}" if each.aim.max_share < 1 else "–"
        rows.append(
            f"| {each.name} | {each.within(DEFAULT.max_share):.0%} | {own} | {each.share:.0%} "
            f"| {max(each.shares, default=0.0):.0%} | {each.evictions:.0f} | {each.dollars:.2f} "
            f"| {each.dollars / measured[0].dollars:.3f} |"
        )
    return "\n".join(rows) + "\n"


def drawn(name: str, measured: Sequence[DayStep]) -> Problem:
    """As a line of the picture: the fullest zone's mean share and the day's dollars."""
    return Problem(name, tuple(Step(each.share, each.dollars) for each in measured))
