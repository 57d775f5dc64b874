"""What pods of made-up problems meet: pools, standing nodes with pods, daemon sets.

Nodes lack labels, are tainted, cordoned or not ours; pools have limits, weights, taints and open labels; daemon sets
run on some nodes alone.
"""

from __future__ import annotations

import random

from bench.generate import ZONES, Object

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY_TYPE, ARCH, CPUS = "karpenter.sh/capacity-type", "kubernetes.io/arch", "karpenter.k8s.aws/instance-cpu"
POOL, TEAM, RACK = "karpenter.sh/nodepool", "team", "rack"
APPS = tuple(f"app-{number}" for number in range(24))
SPACES = {"default": {}, "payments": {"tier": "gold"}, "batch": {"tier": "tin"}}
DRIVER = "ebs.csi.aws.com"
GPU = "nvidia.com/gpu"


def pools(chance: random.Random) -> list[Object]:
    """Any node; spot behind taints; small ones behind a soft taint; two values of a label; any value, in some zones."""
    spread = [{"key": TEAM, "operator": "In", "values": ["red", "blue"]}]
    return [
        {"name": "default", "weight": chance.choice((0, 10)), "requirements": []},
        {
            "name": "batch",
            "requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]}],
            "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "starting", "effect": "NoSchedule"}],
        },
        {
            "name": "soft",
            "weight": chance.choice((0, 5)),
            "requirements": [
                {"key": ARCH, "operator": "NotIn", "values": ["arm64"]},
                {"key": CPUS, "operator": "Lt", "values": ["17"]},
            ],
            "labels": {TEAM: "green"},
            "taints": [{"key": "soft", "effect": "PreferNoSchedule"}],
            "limits": {"memory": chance.choice(("64Gi", "400Gi"))},
        },
        {
            "name": "teams",
            "requirements": spread,
            "labels": {"pool": "teams"},
            "limits": {"cpu": chance.choice("369") + "0"},
        },
        {
            "name": "racks",
            "requirements": [
                {"key": RACK, "operator": "Exists", "values": []},
                {"key": ZONE, "operator": "NotIn", "values": [ZONES[0]]},
                {"key": CPUS, "operator": "Gt", "values": ["3"]},
            ],
            "limits": {"cpu": "200", "memory": "800Gi"},
        },
    ]


def gpu_type(kind: Object, chance: random.Random) -> Object:
    """The type again, with GPUs, at a price."""
    name = f"gpu-{kind['name']}"
    requirements = [
        {**each, "values": [name]} if "instance-type" in each["key"] else each for each in kind["requirements"]
    ]
    offerings = [{**each, "price": each["price"] * 2.5} for each in kind["offerings"]]
    capacity = {**kind["capacity"], GPU: chance.choice("148")}
    return {**kind, "name": name, "capacity": capacity, "requirements": requirements, "offerings": offerings}


def node(number: int, chance: random.Random) -> Object:
    """A standing node: of a pool or of nobody's, with a label missing, a taint, or a cordon now and then."""
    name = f"node-{number}"
    own = {
        "node.kubernetes.io/instance-type": "old.large",
        "kubernetes.io/os": "linux",
        ARCH: chance.choice(("amd64", "arm64")),
        ZONE: chance.choice(ZONES),
        CAPACITY_TYPE: chance.choice(("spot", "on-demand")),
        CPUS: chance.choice(("4", "16")),
        HOST: name,
    }
    if chance.random() < 0.7:
        own |= {POOL: chance.choice(("default", "teams")), "karpenter.sh/registered": "true"}
        own["karpenter.sh/initialized"] = "true"
    if chance.random() < 0.4:
        own |= {TEAM: chance.choice(("red", "blue", "green"))}
    if chance.random() < 0.2:
        del own[chance.choice((ZONE, CAPACITY_TYPE, ARCH, CPUS))]
    spec: Object = {"providerID": f"aws:///{own.get(ZONE, '')}/{name}"}
    kind = chance.randrange(6)
    if kind == 0:
        spec["taints"] = [{"key": "dedicated", "value": "batch", "effect": chance.choice(("NoSchedule", "NoExecute"))}]
    elif kind == 1:
        spec["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
        spec["unschedulable"] = True
    elif kind == 2:
        spec["taints"] = [{"key": "soft", "effect": "PreferNoSchedule"}]
    size: Object = {"cpu": "4", "memory": "16Gi", "pods": "30", "ephemeral-storage": "20Gi"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": size, "allocatable": {**size, "cpu": "3920m"}, "conditions": ready}
    return {"metadata": {"name": name, "uid": name, "labels": own}, "spec": spec, "status": status}


def running(node: Object, chance: random.Random) -> list[Object]:
    """Small pods of the same apps; some keep others away from their zone or host, some are on their way out."""
    pods = []
    for number in range(chance.randrange(5)):
        name = f"old-{node['metadata']['name']}-{number}"
        app = chance.choice(APPS)
        requests = {"cpu": chance.choice(("100m", "700m")), "memory": "200Mi"}
        container: Object = {"name": "main", "image": "x", "resources": {"requests": requests}}
        spec: Object = {"nodeName": node["metadata"]["name"], "containers": [container]}
        if chance.random() < 0.3:
            away = {
                "labelSelector": {"matchLabels": {"app": chance.choice(APPS)}},
                "topologyKey": chance.choice((ZONE, HOST)),
            }
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
        elif chance.random() < 0.3:
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        labels = {"app": app, "group": f"group-{chance.randrange(4)}", "version": "a"}
        metadata = {"name": name, "namespace": chance.choice(list(SPACES)), "uid": name, "labels": labels}
        if chance.random() < 0.15:
            metadata |= {"deletionTimestamp": "2023-05-01T00:00:00Z"}
        pods.append({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    return pods


def daemon_sets(chance: random.Random) -> list[Object]:
    """For all nodes; for one architecture; for large types or one zone, by OR terms; one with a host port."""
    large = {"matchExpressions": [{"key": CPUS, "operator": "Gt", "values": ["31"]}]}
    zonal = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [ZONES[2]]}]}
    either = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [large, zonal]}}}
    specs: dict[str, Object] = {
        "cni": {"tolerations": [{"operator": "Exists"}]},
        "arm": {"nodeSelector": {ARCH: "arm64"}},
        "large": {"affinity": either},
        "exporter": {"tolerations": [{"operator": "Exists"}]},
    }
    daemons = []
    for name, own in specs.items():
        requests = {"cpu": chance.choice(("25m", "100m", "333m")), "memory": chance.choice(("40Mi", "100M"))}
        container: Object = {"name": "main", "image": "x", "resources": {"requests": requests}}
        if name == "exporter":
            container["ports"] = [{"containerPort": 9100, "hostPort": 9100}]
        template = {"metadata": {"labels": {"ds": name}}, "spec": {"containers": [container], **own}}
        metadata = {"name": name, "namespace": "kube-system", "uid": name}
        spec = {"selector": {"matchLabels": {"ds": name}}, "template": template}
        daemons.append({"metadata": metadata, "spec": spec})
    return chance.sample(daemons, chance.randrange(len(daemons) + 1))


def csi_node(node: Object, chance: random.Random) -> Object:
    """How many volumes a node takes."""
    count = chance.choice((1, 3, 25))
    driver = {
        "name": DRIVER,
        "nodeID": node["metadata"]["name"],
        "topologyKeys": [ZONE],
        "allocatable": {"count": count},
    }
    return {"metadata": {"name": node["metadata"]["name"]}, "spec": {"drivers": [driver]}}
