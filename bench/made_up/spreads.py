"""Problems made up from a seed of 400 pods that spread by two or three rules at once.

Each workload spreads over zones and hosts, some over capacity types too, with a maxSkew and a selector of its own for
each rule: its pods, its revision's, its tier's, or those of another workload, so that rules count each other's pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.generate import ZONES, Object, instance_types
from bench.standing import CAPACITY_TYPE, HOST, POOL, ZONE

TYPES, NODES, PODS, WORKLOADS = 40, 9, 400, 16
TIERS = ("web", "api", "job")

Draw = Callable[[str, str], Object]
"""A selector for a workload's name and tier."""


def problem(seed: int, pods: int = PODS, workloads: int = WORKLOADS) -> Object:
    """One problem document."""
    chance = random.Random(f"spreads {seed}")
    types = chance.sample(instance_types(chance), TYPES)
    nodes = [_node(number, chance) for number in range(chance.randrange(NODES))]
    sizes = enumerate(_sizes(pods, workloads, chance))
    all_pods = [pod for number, replicas in sizes for pod in _workload(number, replicas, chance)]
    all_pods += [pod for node in nodes for pod in _running(node, chance)]
    return {
        "instanceTypes": types,
        "nodePools": _pools(chance),
        "nodes": nodes,
        "pods": all_pods,
        "daemonSets": [],
        "namespaces": [{"metadata": {"name": "default", "labels": {}}}],
    }


def _pools(chance: random.Random) -> list[Object]:
    """One for every zone; sometimes one with a taint, for two zones."""
    zonal = [{"key": ZONE, "operator": "In", "values": list(ZONES[:2])}]
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    pools: list[Object] = [{"name": "default", "requirements": []}]
    if chance.random() < 0.4:
        pools.append({"name": "batch", "requirements": zonal, "taints": taints})
    return pools


def _sizes(pods: int, workloads: int, chance: random.Random) -> list[int]:
    """How many pods each workload has."""
    cuts = sorted(chance.sample(range(1, pods), workloads - 1))
    return [last - first for first, last in zip((0, *cuts), (*cuts, pods), strict=True)]


def _workload(number: int, replicas: int, chance: random.Random) -> list[Object]:
    app, tier = f"app-{number}", chance.choice(TIERS)
    requests = {"cpu": chance.choice(("100m", "0.5", "1", "2")), "memory": chance.choice(("256Mi", "1Gi", "4Gi"))}
    spec: Object = {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
    keys = [ZONE, HOST, *chance.choice(((), (), (ZONE,), (HOST,), (CAPACITY_TYPE,)))]
    spec["topologySpreadConstraints"] = _rules(keys, app, tier, chance)
    if chance.random() < 0.2:
        spec["nodeSelector"] = {ZONE: chance.choice(ZONES)}
    elif chance.random() < 0.2:
        two = {"key": ZONE, "operator": "In", "values": chance.sample(ZONES, 2)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [two]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if chance.random() < 0.2:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    revisions = chance.choice(("a", "ab"))
    return [
        _pod(f"{app}-{each}", {"app": app, "tier": tier, "revision": revisions[each % len(revisions)]}, spec)
        for each in range(replicas)
    ]


def _pod(name: str, labels: Object, spec: Object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _rules(keys: list[str], app: str, tier: str, chance: random.Random) -> list[Object]:
    """A rule for each key; two of the same key have different selectors, as the API server demands."""
    rules: list[Object] = []
    for key in keys:
        rule: Object = {"maxSkew": chance.choice((1, 1, 2, 3, 5)), "topologyKey": key}
        rule["whenUnsatisfiable"] = "DoNotSchedule" if chance.random() < 0.9 else "ScheduleAnyway"
        rule["labelSelector"] = _selector(app, tier, chance)
        if rule["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.2:
            rule["minDomains"] = chance.choice((2, 3))
        if chance.random() < 0.2:
            rule["nodeAffinityPolicy"] = "Ignore"
        if chance.random() < 0.2:
            rule["nodeTaintsPolicy"] = "Honor"
        if chance.random() < 0.2:
            rule["matchLabelKeys"] = ["revision"]
        if not any(_clash(rule, other) for other in rules):
            rules.append(rule)
    return rules


def _clash(one: Object, other: Object) -> bool:
    return all(one[field] == other[field] for field in ("topologyKey", "whenUnsatisfiable"))


def _selector(app: str, tier: str, chance: random.Random) -> Object:
    """Of its own pods, mostly; else of its tier, of two tiers, of another workload too, or of everything."""
    two = {"matchExpressions": [{"key": "tier", "operator": "In", "values": sorted({tier, chance.choice(TIERS)})}]}
    beside = {"key": "app", "operator": "In", "values": sorted({app, f"app-{chance.randrange(WORKLOADS)}"})}
    own: Object = {"matchLabels": {"app": app}}
    return chance.choice((own, own, own, {"matchLabels": {"tier": tier}}, two, {"matchExpressions": [beside]}))


def _node(number: int, chance: random.Random) -> Object:
    name = f"node-{number}"
    own = {
        "node.kubernetes.io/instance-type": "old.large",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        ZONE: chance.choice(ZONES),
        CAPACITY_TYPE: chance.choice(("spot", "on-demand")),
        HOST: name,
        POOL: "default",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    if chance.random() < 0.15:
        del own[CAPACITY_TYPE]
    size = {"cpu": "8", "memory": "32Gi", "pods": "58", "ephemeral-storage": "20Gi"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {"providerID": f"aws:///{own[ZONE]}/{name}"}
    return {"metadata": {"name": name, "uid": name, "labels": own}, "spec": spec, "status": status}


def _running(node: Object, chance: random.Random) -> list[Object]:
    pods = []
    for number in range(chance.randrange(8)):
        app = f"app-{chance.randrange(WORKLOADS)}"
        labels = {"app": app, "tier": chance.choice(TIERS), "revision": "a"}
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "200m", "memory": "200Mi"}}}
        pod = _pod(f"old-{node['metadata']['name']}-{number}", labels, {"containers": [container]})
        pod["spec"]["nodeName"] = node["metadata"]["name"]
        pod["status"] = {"phase": "Running"}
        pods.append(pod)
    return pods
