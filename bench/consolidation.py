"""`python -m bench.consolidation [NODES]`: how long one look of consolidation takes over a cluster of so many nodes."""

from __future__ import annotations

import random
import sys
import time

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import OwnerReference, Pod, PodSpec
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.cloud import InstanceType, Offering
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.consolidation import find
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.simulation import Stage
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot, StateNode

ZONES = ("a", "b", "c")
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


def main() -> None:
    """Print what one look found, and its seconds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    types = instance_types()
    snapshot = cluster(count, types)
    began = time.perf_counter()
    found_candidates = candidates(snapshot, {"default": types}, NOW)
    found = find(found_candidates, Stage(snapshot, {"default": types}), Gate(snapshot, NOW))
    seconds = time.perf_counter() - began
    removed = sum(len(command.candidates) for command in found.commands)
    saved = sum(command.price_before - command.price_after for command in found.commands)
    sys.stdout.write(
        f"{count} nodes, {len(snapshot.pods)} pods: {found.simulations} simulations in {seconds:.2f} s; "
        f"{len(found.commands)} commands remove {removed} nodes and save ${saved:.2f} an hour\n"
    )


if __name__ == "__main__":
    main()
