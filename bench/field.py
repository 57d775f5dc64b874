"""Five shapes from the field on what EC2 sells, at the prices that ship with the controller.

The shipped table is of us-east-1 and says its date and source; it knows no spot prices, so those are assumed at a share
of the on-demand price (`aws.catalog.offline_catalog`). Requests are seeded; the shapes are the same in every run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench.curve import BUDGETS, Point
from controller.aws.catalog.offline_catalog import ASSUMED_SPOT_SHARE, OfflineTypes, RegionCatalog, shipped_catalog
from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import LabelSelector, OwnerReference, Pod, PodAffinityTerm, PodSpec, SelectorRequirement
from controller.core.api.pod import TopologySpreadConstraint as Spread
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.provisioning import SchedulingPlan, SchedulingProblem, SolveOptions, solve
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import Snapshot
from controller.settings import Settings

REGION = "us-east-1"
ZONES = frozenset({"us-east-1a", "us-east-1b", "us-east-1c"})
GPU = "nvidia.com/gpu"
HEAD = (
    "shape",
    "pods",
    "nodes",
    "price $/h",
    "expected",
    "bound in all",
    "cost ÷ bound",
    "first plan ÷ bound",
    "CPU s",
)

Requests = Mapping[str, str]


def replicas(app: str, count: int, requests: Requests, **fields: Any) -> list[Pod]:
    """The pods of one Deployment."""
    spec = PodSpec(FrozenMap({**resources(dict(requests)), "pods": 1}), **fields)
    owner = OwnerReference("apps/v1", "ReplicaSet", app, f"uid-{app}")
    own = FrozenMap({"app": app})
    return [
        Pod("field", f"{app}-{n}", f"{app}-{n}", spec, labels=own, owners=(owner,), unschedulable=True)
        for n in range(count)
    ]


def over_zones(app: str) -> tuple[Spread, ...]:
    """A hard spread over zones of a Deployment's own pods."""
    selector = LabelSelector((SelectorRequirement("app", "In", (app,)),))
    return (Spread(1, labels.ZONE, "DoNotSchedule", selector, None, (), "Honor", "Ignore"),)


def web_fleet(chance: random.Random) -> Iterator[Pod]:
    """60 Deployments of small pods, half of them spread over zones."""
    for n in range(60):
        amounts = {
            "cpu": chance.choice(("50m", "100m", "250m", "500m")),
            "memory": chance.choice(("128Mi", "512Mi", "1Gi")),
        }
        fields = {"topology_spread": over_zones(f"web-{n}")} if n % 2 else {}
        yield from replicas(f"web-{n}", chance.randint(5, 60), amounts, **fields)


def kubeflow(chance: random.Random) -> Iterator[Pod]:
    """Training jobs of 1, 4 and 8 GPUs a pod, and notebooks and pipelines without any."""
    for n, gpus in enumerate((1, 1, 1, 4, 4, 8)):
        amounts = {GPU: str(gpus), "cpu": str(3 * gpus), "memory": f"{14 * gpus}Gi"}
        yield from replicas(f"train-{n}", chance.randint(4, 12), amounts)
    for n in range(20):
        amounts = {"cpu": chance.choice(("500m", "1", "2")), "memory": chance.choice(("2Gi", "4Gi", "8Gi"))}
        yield from replicas(f"notebook-{n}", chance.randint(2, 8), amounts)


def heaps(chance: random.Random) -> Iterator[Pod]:
    """JVMs with heaps of 6 to 60 GiB and little cpu."""
    for n in range(30):
        amounts = {"cpu": chance.choice(("500m", "1", "2")), "memory": f"{chance.choice((6, 12, 18, 27, 60))}Gi"}
        yield from replicas(f"jvm-{n}", chance.randint(3, 15), amounts)


def batch(chance: random.Random) -> Iterator[Pod]:
    """Jobs that ask for spot, beside services that ask for on-demand."""
    for n in range(20):
        amounts = {"cpu": chance.choice(("1", "2", "4")), "memory": chance.choice(("2Gi", "6Gi", "15Gi"))}
        wants = FrozenMap({labels.CAPACITY_TYPE: labels.SPOT})
        yield from replicas(f"job-{n}", chance.randint(20, 60), amounts, node_selector=wants)
    for n in range(8):
        wants = FrozenMap({labels.CAPACITY_TYPE: labels.ON_DEMAND})
        yield from replicas(f"base-{n}", 6, {"cpu": "500m", "memory": "1Gi"}, node_selector=wants)


def node_sized(chance: random.Random) -> Iterator[Pod]:
    """Databases that fill a node of 8 or 16 vCPUs but for what the node itself needs, and never share one."""
    mine = LabelSelector((SelectorRequirement("app", "In", tuple(f"db-{n}" for n in range(12))),))
    apart = (PodAffinityTerm(labels.HOSTNAME, mine),)
    for n in range(12):
        size = chance.choice((8, 16))
        amounts = {"cpu": f"{size * 1000 - 700}m", "memory": f"{int(3.4 * size)}Gi"}
        yield from replicas(f"db-{n}", chance.randint(2, 5), amounts, required_pod_anti_affinity=apart)


SHAPES: Mapping[str, Callable[[random.Random], Iterator[Pod]]] = {
    "web fleet": web_fleet,
    "Kubeflow GPU": kubeflow,
    "memory-heavy JVMs": heaps,
    "batch on spot, on-demand base": batch,
    "a node-sized pod each": node_sized,
}


def shipped() -> RegionCatalog:
    """What the region sells, by the shipped tables."""
    return shipped_catalog(REGION)


def posed(shape: str, catalog: RegionCatalog) -> SchedulingProblem:
    """The shape's pods, all pending, for one Provisioner that allows all usual x86 families, spot and on demand."""
    provisioner = Provisioner(
        name="default",
        requirements=(
            SelectorRequirement(labels.ARCH, "In", ("amd64",)),
            SelectorRequirement(labels.INSTANCE_CATEGORY, "In", ("c", "m", "r", "g", "p")),
            SelectorRequirement(labels.CAPACITY_TYPE, "In", (labels.ON_DEMAND, labels.SPOT)),
        ),
    )
    pods = list(SHAPES[shape](random.Random(10)))
    types = OfflineTypes(catalog, Settings(cluster_name="field"), ZONES)
    sold = types.instance_types(provisioner, AWSNodeTemplate(name="default"))
    snapshot = Snapshot(synced=True, pods={pod.key: pod for pod in pods}, provisioners={provisioner.name: provisioner})
    return build(snapshot, {provisioner.name: sold})


def measured(problem: SchedulingProblem, budgets: Sequence[float] = BUDGETS) -> tuple[list[Point], SchedulingPlan]:
    """The problem solved once per budget, in CPU seconds; the plan at the default budget."""
    least = bound(problem).cost_per_hour
    points, default = [], SolveOptions().budget_seconds
    kept = SchedulingPlan()
    for budget in budgets:
        start = time.process_time()
        plan = solve(problem, SolveOptions(budget_seconds=budget))
        points.append(Point(budget, time.process_time() - start, plan.cost_per_hour / least))
        if budget == default:
            kept = plan
    return points, kept


def row(shape: str, problem: SchedulingProblem, points: Sequence[Point], plan: SchedulingPlan) -> str:
    """The shape's line of the table."""
    at = next(point for point in points if point.budget == SolveOptions().budget_seconds)
    cells = (
        shape,
        str(len(problem.pending)),
        str(len(plan.new_nodes)),
        f"{plan.price_per_hour:.2f}",
        f"{plan.expected_price_per_hour:.2f}",
        f"{plan.cost_per_hour / at.ratio:.2f}",
        f"{at.ratio:.3f}",
        f"{points[0].ratio:.3f}",
        f"{at.seconds:.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def report(rows: Sequence[str], catalog: RegionCatalog) -> str:
    """The document."""
    return f"""# Field shapes

Made by `python -m bench field`. Five shapes of pods on what EC2 sells in three zones of {catalog.region}. Prices:
{catalog.source} (generated {catalog.generated}); spot is assumed
at {ASSUMED_SPOT_SHARE:.0%} of on-demand. Bound: the optimum with divisible pods and nodes.
`first plan`: budget 0; all else at the default budget. Cost has what `aws.spotPoolShare` adds for replicas spread over
zones and families ([expected price](expected-price.md)); the bound has not. Price against time:
[field-shapes.svg](field-shapes.svg).

| {" | ".join(HEAD)} |
|---{"|---:" * (len(HEAD) - 1)}|
{chr(10).join(rows)}
"""
