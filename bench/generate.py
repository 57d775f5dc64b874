"""Problems made up from a seed, in the form of the problem files: a cluster from the field, and growing deployments.

field: 2,170 pods that wait, 1,060 nodes with their pods, 20 node pools, a catalog the size of EC2's
deployments-N: 100 deployments of N / 100 replicas each on an empty cluster, one ReplicaSet after the other
"""

from __future__ import annotations

import gzip
import itertools
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

Object = dict[str, Any]

ZONES = ("test-1a", "test-1b", "test-1c")
SIZES = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "8xlarge": 32,
    "12xlarge": 48,
    "16xlarge": 64,
    "24xlarge": 96,
}
GIB_PER_CPU = {"c": 2, "m": 4, "r": 8, "x": 16, "i": 8, "d": 4}
FAMILIES = tuple(
    f"{category}{generation}{variant}"
    for category in GIB_PER_CPU
    for generation in (4, 5, 6, 7)
    for variant in ("", "a", "g", "n")
)
FIELD_PODS, FIELD_NODES, FIELD_POOLS = 2170, 1060, 20
DEPLOYMENTS = 100
GROWTH = (1_000, 10_000, 100_000)
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
CREATED_PER_SECOND = 20
"""kube-controller-manager's default --kube-api-qps."""
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What the API server draws from for generateName (k8s.io/apimachinery/pkg/util/rand)."""


def write(folder: Path, seed: int = 1) -> list[Path]:
    """Write all of them into a folder; their paths."""
    made = {f"deployments-{pods}": deployments(pods, seed) for pods in GROWTH} | {f"field-{FIELD_PODS}": field(seed)}
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, problem in made.items():
        paths.append(folder / f"{name}.json.gz")
        paths[-1].write_bytes(gzip.compress(orjson.dumps(problem), compresslevel=1))
    return paths


def instance_types(chance: random.Random) -> list[Object]:
    """96 families of 8 sizes, in three zones, on demand and spot; spot costs 0.3 to 0.6 of it, some is sold out."""
    types: list[Object] = []
    for family in FAMILIES:
        per_cpu = 0.048 * chance.uniform(0.7, 1.3) * (1 + GIB_PER_CPU[family[0]] / 16)
        types.extend(_instance_type(family, size, per_cpu, chance) for size in SIZES)
    return types


def _instance_type(family: str, size: str, per_cpu: float, chance: random.Random) -> Object:
    cpu = SIZES[size]
    memory = cpu * GIB_PER_CPU[family[0]] * 1024
    own = {
        "node.kubernetes.io/instance-type": [f"{family}.{size}"],
        "kubernetes.io/arch": ["arm64" if family.endswith("g") else "amd64"],
        "kubernetes.io/os": ["linux"],
        "topology.kubernetes.io/zone": list(ZONES),
        "karpenter.sh/capacity-type": ["on-demand", "spot"],
        "karpenter.k8s.aws/instance-category": [family[0]],
        "karpenter.k8s.aws/instance-family": [family],
        "karpenter.k8s.aws/instance-size": [size],
        "karpenter.k8s.aws/instance-cpu": [str(cpu)],
    }
    offerings = []
    for zone in ZONES:
        price = round(per_cpu * cpu, 6)
        offerings.append({"zone": zone, "capacityType": "on-demand", "price": price, "available": True})
        spot = round(price * chance.uniform(0.3, 0.6), 6)
        offerings.append({"zone": zone, "capacityType": "spot", "price": spot, "available": chance.random() > 0.06})
    return {
        "name": f"{family}.{size}",
        "capacity": {"cpu": str(cpu), "memory": f"{memory}Mi", "pods": "110", "ephemeral-storage": "20Gi"},
        "overhead": {"kubeReserved": {"cpu": f"{60 + 10 * cpu}m", "memory": f"{300 + 11 * cpu}Mi"}},
        "requirements": [{"key": key, "operator": "In", "values": values} for key, values in own.items()],
        "offerings": offerings,
    }


def _rule(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def _pools() -> list[Object]:
    """A pool for everybody, one of ARM, and one for each of eighteen teams: most with a taint, some with limits."""
    pools: list[Object] = [
        {"name": "default", "requirements": [_rule("kubernetes.io/arch", "In", "amd64")]},
        {"name": "arm", "weight": 10, "requirements": [_rule("kubernetes.io/arch", "In", "arm64")]},
    ]
    for number in range(FIELD_POOLS - len(pools)):
        pool: Object = {
            "name": f"team-{number:02}",
            "labels": {"team": f"team-{number:02}"},
            "requirements": [_rule("karpenter.k8s.aws/instance-category", "In", *("cm", "mr", "cmr")[number % 3])],
        }
        if number % 3:
            pool["taints"] = [{"key": "team", "value": f"team-{number:02}", "effect": "NoSchedule"}]
        if number % 5 == 0:
            pool["limits"] = {"cpu": "4000"}
        pools.append(pool)
    return pools


def _template(number: int, chance: random.Random, pools: list[Object]) -> Object:
    """The pods of a deployment: its requests, and one of the usual rules."""
    app = f"app-{number:03}"
    cpu, gib = chance.choice((50, 100, 250, 500, 1000, 2000)), chance.choice((0.125, 0.25, 0.5, 1, 2, 4))
    requests = {"cpu": f"{cpu}m", "memory": f"{int(gib * 1024)}Mi"}
    spec: Object = {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
    selector = {"matchLabels": {"app": app}}
    kind = number % 5
    if kind in (1, 2):
        key = "topology.kubernetes.io/zone" if kind == 1 else "kubernetes.io/hostname"
        rule = {"maxSkew": 1 if kind == 1 else 4, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": selector}]
    elif kind == 3:
        spec["nodeSelector"] = {"karpenter.sh/capacity-type": "on-demand"}
    pool = chance.choice(pools)
    if number % 4 == 0 and pool.get("labels"):
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **pool["labels"]}
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    return {"app": app, "spec": spec}


def _pods(template: Object, names: Iterator[int], count: int, node: str = "") -> list[Object]:
    """Replicas as a ReplicaSet makes them: each with a name, uid, version and time of its own, else alike."""
    spec = {**template["spec"], **({"nodeName": node} if node else {})}
    status = {"phase": "Running" if node else "Pending"}
    app = template["app"]
    of = f"{crc32(app.encode()):x}"
    pods = []
    for number in itertools.islice(names, count):
        name = f"{app}-{of}-{_suffix(number)}"
        created = STARTED + timedelta(seconds=number // CREATED_PER_SECOND)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{of}", "uid": _uid(f"{app}-{of}")}
        metadata = {
            "name": name,
            "generateName": f"{app}-{of}-",
            "namespace": "default",
            "uid": _uid(name),
            "resourceVersion": str(1000 + number),
            "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "labels": {"app": app, "pod-template-hash": of},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        pods.append({"metadata": metadata, "spec": spec, "status": status})
    return pods


def _suffix(number: int) -> str:
    """The last part of a generated name: five characters, another for each number below 27 to the fifth."""
    number = number * 7_368_787 % len(SUFFIX_LETTERS) ** 5
    return "".join(SUFFIX_LETTERS[number // len(SUFFIX_LETTERS) ** place % len(SUFFIX_LETTERS)] for place in range(5))


def _uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def deployments(pods: int, seed: int) -> Object:
    """100 deployments with equal numbers of replicas."""
    chance = random.Random(seed)
    types, names = instance_types(chance), iter(range(pods))
    pools: list[Object] = [{"name": "default", "requirements": []}]
    waiting = []
    for number in range(DEPLOYMENTS):
        waiting += _pods(_template(number, chance, pools), names, pods // DEPLOYMENTS)
    return {"instanceTypes": types, "nodePools": pools, "nodes": [], "pods": waiting, "daemonSets": []}


def field(seed: int, pods_waiting: int = FIELD_PODS, nodes_standing: int = FIELD_NODES) -> Object:
    """A large cluster in the middle of a roll-out."""
    chance = random.Random(seed)
    types, pools, names = instance_types(chance), _pools(), iter(range(10**9))
    templates = [_template(number, chance, pools) for number in range(120)]
    plain = [each for each in templates if not each["spec"].get("nodeSelector")]
    nodes, pods = [], []
    for number in range(nodes_standing):
        pool, kind = chance.choice(pools), chance.choice(types)
        node = _node(f"node-{number:04}", pool, kind, chance)
        nodes.append(node)
        for _ in range(chance.randrange(4, 12)):
            pods += _pods(chance.choice(plain), names, 1, node["metadata"]["name"])
    share, rest = divmod(pods_waiting, len(templates))
    for number, template in enumerate(templates):
        pods += _pods(template, names, share + (number < rest))
    return {"instanceTypes": types, "nodePools": pools, "nodes": nodes, "pods": pods, "daemonSets": _daemon_sets()}


def _node(name: str, pool: Object, kind: Object, chance: random.Random) -> Object:
    own = {rule["key"]: rule["values"][0] for rule in kind["requirements"]}
    own |= {"topology.kubernetes.io/zone": chance.choice(ZONES), "karpenter.sh/capacity-type": "on-demand"}
    own |= {"karpenter.sh/nodepool": pool["name"], "kubernetes.io/hostname": name, **pool.get("labels", {})}
    cpu = int(kind["capacity"]["cpu"])
    # Room for what runs there and little more: the cluster is well packed.
    allocatable = {**kind["capacity"], "cpu": f"{min(cpu * 900, chance.randrange(2000, 14000))}m"}
    return {
        "metadata": {"name": name, "uid": name, "labels": own},
        "spec": {"providerID": f"aws:///{own['topology.kubernetes.io/zone']}/{name}", "taints": pool.get("taints", [])},
        "status": {
            "capacity": kind["capacity"],
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _daemon_sets() -> list[Object]:
    documents = []
    for name, cpu in (("aws-node", "25m"), ("kube-proxy", "100m"), ("ebs-csi-node", "30m")):
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "40Mi"}}}
        template = {"spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
        metadata = {"name": name, "namespace": "kube-system", "uid": name}
        documents.append({"metadata": metadata, "spec": {"template": template}})
    return documents
