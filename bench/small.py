"""Small batches: seeded problems of 1 to 50 pods at EC2's prices, solved and compared with figures of an earlier run.

Every problem follows from its seed: catalog (of the shipped types, at spot prices that differ by type and zone), one to
three Provisioners, DaemonSets, existing nodes in a third of them, limits in a quarter, and Deployments of which some
have selectors, tolerations, spread constraints or anti-affinity.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from bench.field import ZONES, over_zones, replicas, shipped
from controller.aws.catalog.offline_catalog import OfflineTypes
from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node, Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import (
    LabelSelector,
    Pod,
    PodAffinityTerm,
    PodSpec,
    SelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.api.workloads import DaemonSet
from controller.core.cloud import InstanceType
from controller.core.provisioning import PlannedNode, SchedulingProblem, SolveOptions, solve
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import Snapshot, StateNode
from controller.settings import Settings

MARKETS = 4
SIZES = (3, 8, 12, 25, 50)
"""Upper ends of the groups that the table has, in pods."""
TEAM = FrozenMap({"team": "red"})
TAINT = Taint("team", "red", "NoSchedule")
CPU = ("50m", "100m", "250m", "500m", "700m", "1", "1500m", "2", "3", "4")
MEMORY = ("64Mi", "128Mi", "512Mi", "1Gi", "2Gi", "3Gi", "4Gi", "7Gi", "8Gi", "16Gi")


@dataclass(frozen=True, slots=True)
class Figures:
    """One problem's plan: pods, $/hour, the solver's objective, new nodes, pods left out, CPU seconds."""

    pods: int
    price: float
    cost: float
    nodes: int
    unplaced: int
    seconds: float


def measured(seed: int, options: SolveOptions) -> Figures:
    """Solve the problem of a seed."""
    problem = posed(seed)
    start = time.process_time()
    plan = solve(problem, options)
    seconds = time.process_time() - start
    cost = sum(_cost(node, problem, options) for node in plan.new_nodes)
    pods, nodes = len(problem.pending), len(plan.new_nodes)
    return Figures(pods, plan.price_per_hour, cost, nodes, len(plan.unplaced), seconds)


def _cost(node: PlannedNode, problem: SchedulingProblem, options: SolveOptions) -> float:
    """What the solver minimises: the price, with a premium for a lack of weight, and what a node costs beside it."""
    weights = {pool.name: pool.weight for pool in problem.provisioners}
    lack = 1.0 - weights[node.provisioner] / max(1, *weights.values()) if any(weights.values()) else 0.0
    return node.offering.cost * (1.0 + (options.weight_premium or 0.0) * lack)


def posed(seed: int) -> SchedulingProblem:
    """The problem of a seed."""
    chance = random.Random(seed)
    market = chance.randrange(MARKETS)
    pools = _provisioners(chance)
    nodes = _nodes(chance) if chance.random() < 1 / 3 else []
    pods = _pods(chance, min(50, 1 + int(50 * chance.random() ** 1.5)))
    daemons = _daemon_sets(chance)
    snapshot = Snapshot(
        synced=True,
        pods={pod.key: pod for pod in pods},
        nodes={node.name: node for node in nodes},
        provisioners={pool.name: pool for pool in pools},
        daemon_sets={(each.namespace, each.name): each for each in daemons},
    )
    return build(snapshot, {pool.name: _types(market, pool.requirements) for pool in pools})


@lru_cache
def _market(number: int) -> OfflineTypes:
    chance, catalog = random.Random(number), shipped()
    share = {name: chance.uniform(0.25, 0.7) for name in sorted(catalog.on_demand)}
    spot = {
        name: {zone: round(price * share[name] * chance.uniform(0.9, 1.15), 6) for zone in sorted(ZONES)}
        for name, price in sorted(catalog.on_demand.items())
    }
    return OfflineTypes(replace(catalog, spot=spot), Settings(cluster_name="small"), ZONES)


@lru_cache
def _types(market: int, requirements: tuple[SelectorRequirement, ...]) -> tuple[InstanceType, ...]:
    provisioner = Provisioner(name="any", requirements=requirements)
    return _market(market).instance_types(provisioner, AWSNodeTemplate(name="default"))


def _rule(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "In", values)


def _provisioners(chance: random.Random) -> list[Provisioner]:
    """The default one; at times one of a team's with a taint, and one for ARM that has weight. A quarter has limits."""
    categories = chance.choice((("c", "m", "r"), ("c", "m", "r", "t"), ("m",), ("c", "m", "r")))
    bought = chance.choice(((labels.ON_DEMAND, labels.SPOT), (labels.ON_DEMAND, labels.SPOT), (labels.ON_DEMAND,)))
    usual = (_rule(labels.INSTANCE_CATEGORY, *categories), _rule(labels.CAPACITY_TYPE, *bought))
    amd, arm = _rule(labels.ARCH, "amd64"), _rule(labels.ARCH, "arm64")
    limits = resources({"cpu": chance.choice(("8", "16", "64"))}) if chance.random() < 1 / 4 else None
    pools = [Provisioner(name="default", requirements=(*usual, amd), limits=limits)]
    if chance.random() < 0.5:
        pools.append(Provisioner(name="team", requirements=(*usual, amd), labels=TEAM, taints=(TAINT,)))
    if chance.random() < 0.25:
        pools.append(Provisioner(name="arm", requirements=(*usual, arm), weight=10, limits=limits))
    return pools


def _pods(chance: random.Random, count: int) -> list[Pod]:
    """Deployments of up to 3 or up to 12 replicas, `count` pods in all."""
    pods: list[Pod] = []
    rules, most = chance.random() < 0.5, chance.choice((12, 12, 3))
    while len(pods) < count:
        app = f"app-{len(pods)}"
        amounts = {"cpu": chance.choice(CPU), "memory": chance.choice(MEMORY)}
        fields = _constraints(chance, app, rules=rules)
        pods += replicas(app, min(chance.randint(1, most), count - len(pods)), amounts, **fields)
    return pods


def _constraints(chance: random.Random, app: str, *, rules: bool) -> dict[str, object]:
    """What a Deployment asks for beside resources. `rules`: it may also tie its pods to each other."""
    fields: dict[str, object] = {}
    kind = chance.randrange(8)
    if kind == 0:
        fields["node_selector"] = FrozenMap({labels.CAPACITY_TYPE: labels.ON_DEMAND})
    elif kind == 1:
        fields["node_selector"] = FrozenMap({labels.ZONE: chance.choice(sorted(ZONES))})
    elif kind == 2:
        fields["tolerations"] = (Toleration(operator="Exists"),)
    own = LabelSelector((SelectorRequirement("app", "In", (app,)),))
    rule = chance.randrange(6) if rules else -1
    if rule == 0:
        fields["topology_spread"] = over_zones(app)
    elif rule == 1:
        skew = chance.randint(1, 3)
        fields["topology_spread"] = (TopologySpreadConstraint(skew, labels.HOSTNAME, "DoNotSchedule", own),)
    elif rule == 2:
        fields["required_pod_anti_affinity"] = (PodAffinityTerm(labels.HOSTNAME, own),)
    return fields


def _daemon_sets(chance: random.Random) -> list[DaemonSet]:
    daemons = []
    for name, cpu, memory in (("aws-node", "25m", "40Mi"), ("proxy", "100m", "60Mi"), ("agent", "200m", "256Mi")):
        if chance.random() < 0.6:
            spec = PodSpec(FrozenMap({**resources({"cpu": cpu, "memory": memory}), "pods": 1}))
            spec = replace(spec, tolerations=(Toleration(operator="Exists"),))
            daemons.append(DaemonSet("kube-system", name, f"uid-{name}", Pod("kube-system", "", "", spec)))
    return daemons


def _nodes(chance: random.Random) -> list[StateNode]:
    """One to six nodes of a stranger's, partly full."""
    nodes = []
    for number in range(chance.randint(1, 6)):
        free = {"cpu": f"{chance.randrange(100, 4000)}m", "memory": f"{chance.randrange(128, 16000)}Mi"}
        room = FrozenMap(resources({**free, "pods": str(chance.randint(2, 30))}))
        own = FrozenMap(
            {
                labels.ZONE: chance.choice(sorted(ZONES)),
                labels.CAPACITY_TYPE: labels.ON_DEMAND,
                labels.ARCH: "amd64",
                labels.OS: "linux",
                labels.HOSTNAME: f"node-{number}",
            }
        )
        node = Node(f"node-{number}", f"uid-{number}", labels=own, capacity=room, allocatable=room, ready=True)
        nodes.append(StateNode(node, (), room, room, ()))
    return nodes


def table(figures: Mapping[int, Figures], before: Mapping[int, Figures]) -> str:
    """A Markdown table with a row per size of problem: costs relative to the earlier figures, and CPU milliseconds."""
    head = "| pods | problems | cost ÷ before: mean | worst | best | cheaper | dearer | left out | CPU ms | before |"
    rows = [head, "|---" + "|---:" * 9 + "|"]
    least = 0
    for most in SIZES:
        seeds = [seed for seed, one in figures.items() if least < one.pods <= most]
        rows += [_row(f"{least + 1}-{most}", seeds, figures, before)] if seeds else []
        least = most
    return "\n".join([*rows, _row("all", list(figures), figures, before)]) + "\n"


def _row(name: str, seeds: Iterable[int], figures: Mapping[int, Figures], before: Mapping[int, Figures]) -> str:
    pairs = [(figures[seed], before.get(seed, figures[seed])) for seed in seeds]
    # Plans that leave different numbers of pods out are counted, not compared.
    alike = [now.cost / was.cost for now, was in pairs if now.unplaced == was.unplaced and was.cost]
    ratios = alike or [1.0]
    left = sum(now.unplaced - was.unplaced for now, was in pairs)
    cells = (
        f"{sum(ratios) / len(ratios):.4f}",
        f"{max(ratios):.4f}",
        f"{min(ratios):.4f}",
        str(sum(ratio < 1 - 1e-9 for ratio in ratios)),
        str(sum(ratio > 1 + 1e-9 for ratio in ratios)),
        f"{left:+d}",
        f"{1e3 * sum(now.seconds for now, _ in pairs) / len(pairs):.0f}",
        f"{1e3 * sum(was.seconds for _, was in pairs) / len(pairs):.0f}",
    )
    return f"| {name} | {len(pairs)} | " + " | ".join(cells) + " |"
