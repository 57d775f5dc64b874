"""`python -m bench.consolidation [NODES]`: what consolidation takes over a cluster of so many nodes, in CPU seconds.

One look, as the controller makes it; and a whole search in a cluster where nothing is worth a move, look after look,
until every node has been judged on its own. `--write` puts both into docs/benchmarks/consolidation.md.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import OwnerReference, Pod, PodSpec
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation import Found, find
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.simulation import Stage
from controller.core.deprovisioning.worth import THRESHOLD_ANNOTATION
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot, StateNode

ZONES = ("a", "b", "c")
PAGE = Path(__file__).parents[1] / "docs/benchmarks/consolidation.md"
NOW = 1_000_000.0
REQUESTS = [(cpu, memory) for cpu in ("250m", "500m", "1", "2") for memory in ("512Mi", "1Gi", "2Gi", "4Gi")]


def instance_types() -> tuple[InstanceType, ...]:
    """Twelve types of three shapes, on demand in three zones."""
    found = []
    for family, ratio, price in (("c5", 2, 0.0425), ("m5", 4, 0.048), ("r5", 8, 0.063)):
        for size, cpu in (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)):
            name = f"{family}.{size}"
            own = {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
            capacity = resources({"cpu": str(cpu), "memory": f"{cpu * ratio}Gi", "pods": 58})
            offered = tuple(Offering(zone, labels.ON_DEMAND, price * cpu) for zone in ZONES)
            found.append(InstanceType(name, Requirements.from_labels(own), capacity, FrozenMap(), offered))
    return tuple(found)


def cluster(count: int, types: tuple[InstanceType, ...], seed: int = 1) -> Snapshot:
    """Nodes that are 50 to 95 % full of pods of 16 workloads."""
    chance = random.Random(seed)
    specs = [PodSpec(FrozenMap({**resources({"cpu": c, "memory": m}), "pods": 1})) for c, m in REQUESTS]
    nodes = {}
    for number in range(count):
        name, kind, zone = f"node-{number:05}", chance.choice(types), chance.choice(ZONES)
        own = {labels.INSTANCE_TYPE: kind.name, labels.ZONE: zone, labels.CAPACITY_TYPE: labels.ON_DEMAND}
        own |= {labels.HOSTNAME: name, labels.PROVISIONER_NAME: "default", labels.INITIALIZED: "true"}
        own |= {labels.ARCH: "amd64", labels.OS: "linux"}
        room, used, pods = chance.uniform(0.5, 0.95), {"cpu": 0, "memory": 0}, list[Pod]()
        while True:
            app = chance.randrange(len(specs))
            used = {key: amount + specs[app].requests[key] for key, amount in used.items()}
            if any(amount > room * kind.capacity[key] for key, amount in used.items()):
                break
            owner = OwnerReference("apps/v1", "ReplicaSet", f"app-{app}", f"uid-{app}")
            pod_name = f"{name}-{len(pods)}"
            pods.append(
                Pod("default", pod_name, pod_name, specs[app], owners=(owner,), phase="Running", node_name=name)
            )
        node = Node(
            name, uid=name, labels=FrozenMap(own), capacity=kind.capacity, allocatable=kind.capacity, ready=True
        )
        nodes[name] = StateNode(node, tuple(sorted(pods, key=lambda p: p.key)), kind.capacity, kind.capacity, ())
    owner_of_all = Provisioner("default", uid="default", consolidation_enabled=True)
    return Snapshot(
        version=1,
        synced=True,
        nodes=FrozenMap(nodes),
        pods=FrozenMap({pod.key: pod for node in nodes.values() for pod in node.pods}),
        provisioners=FrozenMap({"default": owner_of_all}),
    )


@dataclass(frozen=True, slots=True)
class Search:
    """Looks until every node was judged; CPU seconds of all, and of the longest."""

    looks: int
    simulations: int
    seconds: float
    longest_seconds: float
    judged: int


def one_look(snapshot: Snapshot, types: tuple[InstanceType, ...], cursor: int = 0) -> tuple[Found, float]:
    """What it found, and its CPU seconds, candidates and gate included."""
    began = time.process_time()
    catalog = {"default": types}
    found = find(candidates(snapshot, catalog, NOW), Stage(snapshot, catalog), Gate(snapshot, NOW), cursor=cursor)
    return found, time.process_time() - began


def search(snapshot: Snapshot, types: tuple[InstanceType, ...]) -> Search:
    """A whole search; with a threshold that nothing reaches, so that nothing ends it early."""
    stern = FrozenMap({THRESHOLD_ANNOTATION: "1e9"})
    owner = replace(snapshot.provisioners["default"], object_annotations=stern)
    snapshot = replace(snapshot, provisioners=FrozenMap({"default": owner}))
    cursor, simulations, seconds, judged = 0, 0, list[float](), set[str]()
    while True:
        found, took = one_look(snapshot, types, cursor)
        seconds.append(took)
        simulations += found.simulations
        judged.update(candidate.name for candidate, _ in found.kept)
        judged.update(candidate.name for command in found.commands for candidate in command.candidates)
        cursor = found.cursor
        if cursor == 0:
            return Search(len(seconds), simulations, sum(seconds), max(seconds), len(judged))


def report(count: int) -> str:
    """Both, as a page."""
    types = instance_types()
    snapshot = cluster(count, types)
    found, seconds = one_look(snapshot, types)
    removed = sum(len(command.candidates) for command in found.commands)
    saved = sum(command.price_before - command.price_after for command in found.commands)
    whole = search(snapshot, types)
    return (
        f"# Consolidation over {count:,} nodes\n\n"
        f"`python -m bench.consolidation {count} --write`; CPU seconds of one core. {len(snapshot.pods):,} pods of "
        f"{len(REQUESTS)} workloads, nodes of {len(types)} types, 50 to 95 % full.\n\n"
        "| what | simulations | CPU seconds | result |\n|---|---|---|---|\n"
        f"| one look | {found.simulations} | {seconds:.2f} | {len(found.commands)} commands remove {removed} nodes "
        f"(all that the budget of 10 % allows) and save ${saved:.2f} an hour |\n"
        f"| a search where nothing is worth a move | {whole.simulations} | {whole.seconds:.1f} in {whole.looks} "
        f"looks, the longest {whole.longest_seconds:.2f} | {whole.judged:,} nodes judged, none left out |\n"
    )


def main() -> None:
    """Print the page, or write it."""
    words = [word for word in sys.argv[1:] if word != "--write"]
    page = report(int(words[0]) if words else 1000)
    if "--write" in sys.argv:
        PAGE.write_text(page)
    sys.stdout.write(page)


if __name__ == "__main__":
    main()
