"""Small batches against what is proven of them: how many plans are optimal, the gap of the others, and CPU time.

Those that are not proven optimal are then solved again with a hundred times the work.

CPU time is that of a solve after its problem is compiled, which the catalog dominates.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.small import SIZES, posed
from controller.core.provisioning import SchedulingProblem, SolveOptions
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.optimize.patterns.bin_counts import Work
from controller.core.provisioning.optimize.patterns.column_generation import Effort
from controller.core.provisioning.plan import Proof, SchedulingPlan
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver

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

How much of a gap is a dear plan, and how much a weak bound? The problems above that are not proven optimal are solved
again with far more work on the proof (`PATIENT` in `bench/small_exact.py`, counted in work and not in time). "Above the
optimum" is about the plans above whose optimum is known by either; "above the best bound" about all plans that have a
proof, each against its optimum or, where that is not known, against the higher of the two proven bounds: so far above
the optimum they are at most. Both are about the same pods.

"""
PATIENT = Effort(
    rounds=(30, 30),
    items=22,
    priced=4_000,
    patterns=6_000,
    searches=((2_000, 50_000), (20_000, 400_000), (60_000, 2_000_000)),
    counting=Work(rows=30, columns=2_000, branches=600, tries=200, states=20_000, packings=10, refills=15),
    packed=50,
    listed=(5_000, 100, 40_000),
    thorough=True,
    near=0.0,
)
COLUMNS = (
    *("pods", "problems", "optimal", "with rules, optimal", "not known"),
    *("above the bound, mean", "worst", "CPU ms, mean", "median", "worst"),
)
REFERENCE_COLUMNS = (
    *("pods", "plans", "solved again", "optimum known", "above the optimum, mean", "worst"),
    *("above the best bound, mean", "worst"),
)


@dataclass(frozen=True, slots=True)
class Proven:
    """One problem: its pods, those that limits leave out, whether rules tie them, its plan's proof, and CPU seconds."""

    pods: int
    left: tuple[str, ...]
    tied: bool
    proof: Proof | None
    seconds: float


def proven(seed: int, options: SolveOptions) -> Proven:
    """Solve the problem of a seed."""
    problem = posed(seed)
    compiled = compile_problem(problem, options, SnapshotIndex(problem.snapshot))
    began = time.process_time()
    plan = Solver(compiled).solve()
    return _proven(problem, plan, time.process_time() - began)


def _proven(problem: SchedulingProblem, plan: SchedulingPlan, seconds: float) -> Proven:
    tied = any(pod.spec.topology_spread or pod.spec.required_pod_anti_affinity for pod in problem.pending)
    left = tuple(sorted(str(each.pod) for each in plan.unplaced))
    return Proven(len(problem.pending), left, tied, plan.proof, seconds)


def patient(seed: int, options: SolveOptions) -> Proven:
    """Solve the problem of a seed with far more work on its proof."""
    compiled = compile_problem(posed(seed), options)
    return _proven(compiled.problem, Solver(compiled, PATIENT).solve(), 0.0)


def searched(figures: Mapping[int, Proven], most: int | None, options: SolveOptions) -> dict[int, Proven]:
    """Search for the optima of the first `most` problems whose plans are not proven optimal (None: of all)."""
    unproven = [seed for seed, one in figures.items() if one.proof is not None and not one.proof.optimal]
    return {seed: patient(seed, options) for seed in unproven[:most]}


def reference(figures: Mapping[int, Proven], found: Mapping[int, Proven]) -> str:
    """A Markdown table of all problems whose plans have a proof, with what was found by searching longer."""
    rows, least = [_line(REFERENCE_COLUMNS), "|---" + "|---:" * (len(REFERENCE_COLUMNS) - 1) + "|"], 0
    for size in (*SIZES, 0):
        group = {seed: one for seed, one in figures.items() if one.proof and (not size or least < one.pods <= size)}
        rows += [_reference_row(f"{least + 1}-{size}" if size else "all", group, found)] if group else []
        least = size
    return "\n".join(rows) + "\n"


def _reference_row(name: str, group: Mapping[int, Proven], found: Mapping[int, Proven]) -> str:
    """A row of the table: distances of plans from the optimum where that is known, and of all from the best bound."""
    dear, gaps = list[float](), list[float]()
    for seed, one in group.items():
        proofs = [each.proof for each in (one, found.get(seed)) if each and each.proof and each.left == one.left]
        cost, least = proofs[0].cost, max(proof.least for proof in proofs)
        gaps.append(max(0.0, cost / least - 1.0) if least else 0.0)
        if any(proof.optimal for proof in proofs):
            dear.append(gaps[-1])
    tried = sum(seed in found for seed in group)
    known = (f"{sum(dear) / len(dear):.2%}", f"{max(dear):.1%}") if dear else ("-", "-")
    cells = (str(len(group)), str(tried), str(len(dear)), *known, f"{sum(gaps) / len(gaps):.2%}", f"{max(gaps):.1%}")
    return _line((name, *cells))


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
