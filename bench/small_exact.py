"""Small batches against what is proven of them: how many plans are optimal, the gap of the others, and CPU time.

Of some plans whose optimum is not known it is then searched for with a hundred times the work.

CPU time is that of a solve less that of compiling its problem once more, which the catalog dominates.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.small import SIZES, posed
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.optimize.bin_counts import Work
from controller.core.provisioning.optimize.column_generation import Effort
from controller.core.provisioning.optimize.small_batches import SmallBatch, pack_small_batch
from controller.core.provisioning.plan import Proof
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver, solve
from controller.core.provisioning.topology.allocation import PackingStyle

HEAD = """# Small batches (exact)

`python -m bench small-exact` makes this page: problems of 1 to 50 pods from seeds (`bench/small.py`: EC2's catalog and
prices, one to three Provisioners, DaemonSets; existing nodes in a third, limits in a quarter; in half of them
Deployments with spreads or anti-affinity), solved at the default budget. A plan is *optimal* if it is proven that no
plan for the same pods costs less ([ADR 26](../adr/0026-small-batches-are-proven.md)); of the others the page shows how
far they are above the proven lower bound, at most. "With rules" are problems with rules between pods. CPU is that of
one core beside compiling the problem and its catalog.

"""
REFERENCE = """
## Plans against the optimum

How much of a gap is a dear plan, and how much a weak bound? Of the first problems above whose plans place all pods and
are not proven optimal, the optimum is searched for with far more work than a solve has (`PATIENT` in
`bench/small_exact.py`). Where that ends without a proof, only its bound is known: what it exceeds the plan's own bound
by, the last column, is the part of the gap that is surely the bound's and not the plan's.

"""
PATIENT = Effort(
    rounds=(30, 30),
    items=22,
    priced=4_000,
    patterns=6_000,
    searches=((2_000, 50_000), (20_000, 400_000), (60_000, 2_000_000)),
    counting=Work(rows=20, columns=5_000, branches=2_000, tries=200, states=2_000),
)
COLUMNS = (
    *("pods", "problems", "optimal", "with rules, optimal", "not known"),
    *("above the bound, mean", "worst", "CPU ms, mean", "median", "worst"),
)
REFERENCE_COLUMNS = (
    *("pods", "searched for", "optimum known", "above the optimum, mean", "worst", "its bound above the plan's, mean"),
)


@dataclass(frozen=True, slots=True)
class Proven:
    """One problem: its pods, those that limits leave out, whether rules tie them, its plan's proof, and CPU seconds."""

    pods: int
    left: int
    tied: bool
    proof: Proof | None
    seconds: float


def proven(seed: int, options: SolveOptions) -> Proven:
    """Solve the problem of a seed."""
    problem = posed(seed)
    index = SnapshotIndex(problem.snapshot)
    compile_problem(problem, options, index)
    began = time.process_time()
    compile_problem(problem, options, index)
    compiled = time.process_time()
    plan = solve(problem, options, index)
    ended = time.process_time()
    tied = any(pod.spec.topology_spread or pod.spec.required_pod_anti_affinity for pod in problem.pending)
    seconds = max(0.0, (ended - compiled) - (compiled - began))
    return Proven(len(problem.pending), len(plan.unplaced), tied, plan.proof, seconds)


def patient(seed: int, options: SolveOptions, known: Proof) -> SmallBatch | None:
    """Search for the optimum of a seed's problem, of whose plan this is known; None: nothing can be said."""
    compiled = compile_problem(posed(seed), options)
    rounds = Solver(compiled).attempt(PackingStyle())
    batch = pack_small_batch(rounds, compiled.limits(), known.cost * (1.0 + 1e-9), PATIENT)
    if batch is None or batch.more is None:
        return batch
    counted = batch.more(known.cost * (1.0 + 1e-9))
    return replace(counted, least=max(batch.least, counted.least))


def reference(figures: Mapping[int, Proven], most: int, options: SolveOptions) -> str:
    """A Markdown table of the first `most` problems whose plans are not proven optimal."""
    open_ones = {seed: one.proof for seed, one in figures.items() if not one.left}
    unproven = {seed: proof for seed, proof in open_ones.items() if proof is not None and not proof.optimal}
    found = {}
    for seed in list(unproven)[:most]:
        batch = patient(seed, options, unproven[seed])
        if batch is not None:
            found[seed] = (unproven[seed], batch)
    rows = [_line(REFERENCE_COLUMNS), "|---" + "|---:" * (len(REFERENCE_COLUMNS) - 1) + "|"]
    for least, size in zip((0, *SIZES), SIZES, strict=False):
        group = [pair for seed, pair in found.items() if least < figures[seed].pods <= size]
        rows += [_reference_row(f"{least + 1}-{size}", group)] if group else []
    return "\n".join([*rows, _reference_row("all", list(found.values()))]) + "\n"


def _reference_row(name: str, group: list[tuple[Proof, SmallBatch]]) -> str:
    dear = [proof.cost / batch.least - 1.0 for proof, batch in group if batch.optimal]
    weak = [max(1.0, batch.least / proof.least) - 1.0 for proof, batch in group]
    mean, worst = (f"{sum(dear) / len(dear):.2%}", f"{max(dear):.1%}") if dear else ("-", "-")
    raised = f"{sum(weak) / len(weak):.2%}" if weak else "-"
    return _line((name, str(len(group)), str(len(dear)), mean, worst, raised))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(figures: Mapping[int, Proven]) -> str:
    """A Markdown table with a row for each size of problem."""
    rows, least = [_line(COLUMNS), "|---" + "|---:" * (len(COLUMNS) - 1) + "|"], 0
    for most in SIZES:
        group = [one for one in figures.values() if least < one.pods <= most]
        rows += [_row(f"{least + 1}-{most}", group)] if group else []
        least = most
    return "\n".join([*rows, _row("all", list(figures.values()))]) + "\n"


def _row(name: str, group: list[Proven]) -> str:
    proofs = [one.proof for one in group if one.proof is not None]
    gaps = [proof.gap for proof in proofs] or [0.0]
    tied = [one for one in group if one.tied]
    milliseconds = sorted(1e3 * one.seconds for one in group)
    cells = (
        str(len(group)),
        str(sum(proof.optimal for proof in proofs)),
        f"{sum(one.proof is not None and one.proof.optimal for one in tied)} of {len(tied)}",
        str(len(group) - len(proofs)),
        f"{sum(gaps) / len(gaps):.2%}",
        f"{max(gaps):.1%}",
        f"{sum(milliseconds) / len(group):.0f}",
        f"{milliseconds[len(group) // 2]:.0f}",
        f"{milliseconds[-1]:.0f}",
    )
    return _line((name, *cells))
