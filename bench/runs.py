"""One solve of one problem file, and what it says about itself."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.problems import Document, arrange, decode, load, posed
from controller.core.api import labels
from controller.core.provisioning import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions, solve
from controller.core.provisioning.bound.lower_bound import Bound, bound
from controller.runtime.memory import collect_seldom


@dataclass(frozen=True, slots=True)
class Run:
    """A plan and what it took, from decoded JSON: objects read, catalog compiled, pods placed."""

    problem: SchedulingProblem
    plan: SchedulingPlan
    seconds: float
    """By the clock."""
    cpu_seconds: float
    """Of this process: what a busy machine does not falsify."""
    solve_seconds: float
    """CPU seconds without the reading of objects: a controller reads each object once, as its watch brings it."""
    peak_memory_bytes: int
    """Of this process until the plan was made."""
    bound: Bound
    """Of costs. Found after the clock stopped."""
    price_bound: Bound
    """Of prices alone."""

    @property
    def pods_per_second(self) -> float:
        """Pending pods over seconds."""
        return len(self.problem.pending) / self.seconds


def run(path: Path, options: SolveOptions) -> Run:
    """Load a problem, then solve it with the clock running."""
    return timed(load(path), options)


def timed(document: Document, options: SolveOptions) -> Run:
    """Solve a problem document with the clock running, the garbage collector as the controller has it."""
    collect_seldom()
    start, cpu = time.perf_counter(), time.process_time()
    snapshot, catalog = arrange(decode(document))
    read = time.process_time()
    problem = posed(snapshot, catalog)
    plan = solve(problem, options)
    seconds, end = time.perf_counter() - start, time.process_time()
    peak, on_prices = peak_memory_bytes(), bound(problem, options.of_prices_alone())
    return Run(problem, plan, seconds, end - cpu, end - read, peak, bound(problem, options), on_prices)


def document(solved: Run) -> dict[str, Any]:
    """The run as the acceptance tool reads it."""
    plan = solved.plan
    return {
        "nodes": [_node(node, solved.problem) for node in plan.new_nodes],
        "existing": [{"node": placed.node, "pods": ["/".join(key) for key in placed.pods]} for placed in plan.existing],
        "unplaced": [{"pod": "/".join(left.pod), "reason": left.reason} for left in plan.unplaced],
        "price": float(plan.price_per_hour),
        "expectedPrice": float(plan.expected_price_per_hour),
        "cost": float(plan.cost_per_hour),
        "costBound": float(solved.bound.cost_per_hour),
        "bound": float(solved.price_bound.cost_per_hour),
        "seconds": solved.seconds,
        "cpuSeconds": solved.cpu_seconds,
        "solveSeconds": solved.solve_seconds,
        "pods": len(solved.problem.pending),
        "peakMemoryBytes": solved.peak_memory_bytes,
    }


def peak_memory_bytes() -> int:
    """Of this process. Linux counts into ru_maxrss what the process was before exec, so its own mark is read there."""
    status = Path("/proc/self/status")
    if status.exists():
        mark = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(mark.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _node(node: PlannedNode, problem: SchedulingProblem) -> dict[str, Any]:
    pool = next(p for p in problem.provisioners if p.name == node.provisioner)
    chosen = {k: v for k, v in node.labels.items() if k not in pool.labels and k != labels.PROVISIONER_NAME}
    return {
        "nodePool": node.provisioner,
        "instanceType": node.offering.instance_type,
        "zone": node.offering.zone,
        "capacityType": node.offering.capacity_type,
        "alternatives": [
            {"instanceType": o.instance_type, "zone": o.zone, "capacityType": o.capacity_type, "price": o.price}
            for o in node.alternatives
        ],
        "price": node.offering.price,
        "labels": chosen,
        "pods": ["/".join(key) for key in node.pods],
    }
