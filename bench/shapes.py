"""Problems made up from a seed that carry every rule kube-scheduler's filters know, a few hundred pods each.

Deployments draw one to three rules out of all: spread with its rarer fields, affinity and anti-affinity over zones,
hosts and labels of pools, across namespaces, node affinity with terms and bounds, host ports, volumes with zones and
on hosts, sidecars, overhead, odd quantities. They meet standing nodes that lack labels, are tainted, cordoned or not
ours, daemon sets for some nodes alone, and pools with limits, weights, taints and open labels.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from bench.generate import ZONES, Object, instance_types

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY_TYPE, ARCH, CPUS = "karpenter.sh/capacity-type", "kubernetes.io/arch", "karpenter.k8s.aws/instance-cpu"
POOL, TEAM, RACK = "karpenter.sh/nodepool", "team", "rack"
APPS = tuple(f"app-{number}" for number in range(24))
SPACES = {"default": {}, "payments": {"tier": "gold"}, "batch": {"tier": "tin"}}
DRIVER = "ebs.csi.aws.com"
GPU = "nvidia.com/gpu"
TYPES, NODES = 60, 14

Rule = Callable[["_Deployment"], None]


def problem(seed: int) -> Object:
    """One problem document."""
    chance = random.Random(seed)
    types = chance.sample(instance_types(chance), TYPES)
    types += [_gpu_type(each, chance) for each in chance.sample(types, 2)]
    nodes = [_node(number, chance) for number in range(chance.randrange(NODES))]
    made = _Made(chance, [node["metadata"]["name"] for node in nodes])
    for app in APPS:
        _Deployment(app, made).write()
    made.pods += [pod for node in nodes for pod in _running(node, chance)]
    return {
        "instanceTypes": types,
        "nodePools": _pools(chance),
        "nodes": nodes,
        "pods": made.pods,
        "daemonSets": _daemon_sets(chance),
        "namespaces": [
            {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **own}}}
            for name, own in SPACES.items()
        ],
        "persistentVolumes": made.volumes,
        "persistentVolumeClaims": made.claims,
        "storageClasses": _storage_classes(),
        "csiNodes": [_csi_node(node, chance) for node in nodes],
    }


class _Made:
    """What deployments add to a problem."""

    def __init__(self, chance: random.Random, nodes: list[str]) -> None:
        self.chance = chance
        self.nodes = nodes
        self.pods: list[Object] = []
        self.volumes: list[Object] = []
        self.claims: list[Object] = []


class _Deployment:
    """Pods alike, with the rules drawn for them; those with claims have one each."""

    def __init__(self, app: str, made: _Made) -> None:
        chance = self.chance = made.chance
        self.app, self.made = app, made
        self.space = chance.choice(["default", "default", *SPACES])
        self.replicas = chance.choice((1, 2, 3, 5, 9, 20))
        self.labels = {"app": app, "group": f"group-{chance.randrange(4)}", "version": chance.choice("ab")}
        requests: Object = {"cpu": chance.choice(("50m", "0.25", "333m", "1", "1500m", "2.5"))}
        requests["memory"] = chance.choice(("100M", "128974848", "512Mi", "1.5Gi", "4Gi", "1234567890500m"))
        self.spec: Object = {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
        self.claim: Callable[[int], Object] | None = None

    def write(self) -> None:
        """Draw rules, and add the pods with their claims."""
        for rule in self.chance.sample(RULES, self.chance.choice((0, 1, 1, 2, 2, 3))):
            rule(self)
        for number in range(self.replicas):
            name = f"{self.app}-{number}"
            spec = dict(self.spec)
            if self.claim is not None:
                claim = self.claim(number)
                self.made.claims.append(claim)
                source = {"claimName": claim["metadata"]["name"]}
                spec["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
            metadata = {"name": name, "namespace": self.space, "uid": name, "labels": self.labels}
            self.made.pods.append({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def selector(self) -> Object:
        """Towards its own pods, mostly; else those of its group, of another app, or by expression."""
        group = {"matchExpressions": [{"key": "group", "operator": "In", "values": [self.labels["group"]]}]}
        other: Object = {"matchLabels": {"app": self.chance.choice(APPS)}}
        own: Object = {"matchLabels": {"app": self.app}}
        return self.chance.choice((own, own, own, group, other))

    def key(self) -> str:
        """A topology key."""
        return self.chance.choice((ZONE, ZONE, ZONE, HOST, HOST, CAPACITY_TYPE, TEAM, ARCH))

    def listed(self, *path: str) -> list[Object]:
        """The list at a path of its spec, made where there is none."""
        place = self.spec
        for name in path[:-1]:
            place = place.setdefault(name, {})
        found: list[Object] = place.setdefault(path[-1], [])
        return found


def _spread(made: _Deployment) -> None:
    chance = made.chance
    rule: Object = {"maxSkew": chance.choice((1, 1, 2, 5)), "topologyKey": made.key(), "labelSelector": made.selector()}
    rule["whenUnsatisfiable"] = chance.choice(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
    if rule["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.3:
        rule["minDomains"] = chance.choice((2, 3, 5))
    if chance.random() < 0.3:
        rule["nodeAffinityPolicy"] = "Ignore"
    if chance.random() < 0.3:
        rule["nodeTaintsPolicy"] = "Honor"
    if chance.random() < 0.3:
        rule["matchLabelKeys"] = ["version"]
    found = made.listed("topologySpreadConstraints")
    if not any(each["topologyKey"] == rule["topologyKey"] for each in found):
        found.append(rule)


def _spread_twice(made: _Deployment) -> None:
    for key in (ZONE, HOST):
        found = made.listed("topologySpreadConstraints")
        if not any(each["topologyKey"] == key for each in found):
            own = {"matchLabels": {"app": made.app}}
            rule = {"maxSkew": made.chance.choice((1, 2)), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
            found.append({**rule, "labelSelector": own})


def _term(made: _Deployment) -> Object:
    term: Object = {"topologyKey": made.key(), "labelSelector": made.selector()}
    kind = made.chance.randrange(5)
    if kind == 0:
        term["namespaces"] = [made.chance.choice(list(SPACES))]
    elif kind == 1:
        term["namespaceSelector"] = made.chance.choice(({}, {"matchLabels": {"tier": "gold"}}))
    return term


def _affinity(made: _Deployment) -> None:
    made.listed("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution").append(_term(made))


def _anti_affinity(made: _Deployment) -> None:
    made.listed("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution").append(_term(made))


def _wishes(made: _Deployment) -> None:
    kind = made.chance.choice(("podAffinity", "podAntiAffinity"))
    wish = {"weight": made.chance.randrange(1, 101), "podAffinityTerm": _term(made)}
    made.listed("affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution").append(wish)
    preference = {"matchExpressions": [_expression(made)]}
    made.listed("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution").append(
        {"weight": made.chance.randrange(1, 101), "preference": preference}
    )


def _expression(made: _Deployment) -> Object:
    key, operator, values = made.chance.choice(
        (
            (ZONE, "In", [ZONES[0], ZONES[1]]),
            (ZONE, "NotIn", [ZONES[2]]),
            (CPUS, "Gt", ["7"]),
            (CPUS, "Lt", ["33"]),
            (TEAM, "In", ["red", "blue"]),
            (TEAM, "NotIn", ["red"]),
            (TEAM, "DoesNotExist", []),
            (RACK, "Exists", []),
            (CAPACITY_TYPE, "In", ["spot"]),
            (ARCH, "In", ["amd64", "arm64"]),
            (HOST, "NotIn", ["node-0"]),
            ("unheard-of", "NotIn", ["x"]),
        )
    )
    return {"key": key, "operator": operator, "values": values}


def _node_affinity(made: _Deployment) -> None:
    terms: list[Object] = [
        {"matchExpressions": [_expression(made) for _ in range(made.chance.choice((1, 2)))]}
        for _ in range(made.chance.choice((1, 2)))
    ]
    if made.chance.random() < 0.2:
        terms.append({})
    required = {"nodeSelectorTerms": terms}
    made.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})[
        "requiredDuringSchedulingIgnoredDuringExecution"
    ] = required


def _node_selector(made: _Deployment) -> None:
    key, value = made.chance.choice(
        ((ZONE, ZONES[1]), (TEAM, "blue"), (RACK, "r7"), (ARCH, "arm64"), (POOL, "default"))
    )
    made.spec["nodeSelector"] = {key: value}


def _tolerations(made: _Deployment) -> None:
    made.spec["tolerations"] = made.chance.choice(
        (
            [{"operator": "Exists"}],
            [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}],
            [{"key": "dedicated", "operator": "Exists"}],
        )
    )


def _ports(made: _Deployment) -> None:
    port = {"containerPort": 80, "hostPort": made.chance.choice((8080, 8080, 9100)), "protocol": "TCP"}
    if made.chance.random() < 0.5:
        port["hostIP"] = made.chance.choice(("127.0.0.1", "127.0.0.2"))
    if made.chance.random() < 0.3:
        made.spec["initContainers"] = [{"name": "proxy", "image": "x", "restartPolicy": "Always", "ports": [port]}]
    else:
        made.spec["containers"][0]["ports"] = [port]


def _sidecars(made: _Deployment) -> None:
    def container(name: str, cpu: str, **more: Any) -> Object:
        return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}, **more}

    made.spec["initContainers"] = [
        container("first", made.chance.choice(("100m", "3"))),
        container("mesh", "150m", restartPolicy="Always"),
        container("second", made.chance.choice(("10m", "2"))),
    ]


def _overhead(made: _Deployment) -> None:
    made.spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}


def _pod_level(made: _Deployment) -> None:
    made.spec["resources"] = {"requests": {"cpu": "3", "memory": "5Gi"}}


def _storage(made: _Deployment) -> None:
    made.spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = made.chance.choice(("1Gi", "9G"))


def _gpu(made: _Deployment) -> None:
    resources = made.spec["containers"][0]["resources"]
    resources["requests"][GPU] = "1"
    resources["limits"] = {GPU: "1"}


def _volumes(made: _Deployment) -> None:
    kind = made.chance.choice(("bound", "labelled", "host", "zonal", "wait"))
    if kind == "host" and not made.made.nodes:
        kind = "bound"

    def claim(number: int) -> Object:
        name = f"data-{made.app}-{number}"
        found: Object = {
            "metadata": {"name": name, "namespace": made.space, "uid": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        }
        if kind in ("zonal", "wait"):
            found["spec"]["storageClassName"] = kind
            return found
        volume = _volume(f"pv-{name}", kind, found, made)
        made.made.volumes.append(volume)
        found["spec"] |= {"storageClassName": "", "volumeName": volume["metadata"]["name"]}
        found["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        found["status"] = {"phase": "Bound"}
        return found

    made.claim = claim


def _volume(name: str, kind: str, claim: Object, made: _Deployment) -> Object:
    """A volume bound to the claim: reached from a zone by node affinity or labels alone, or from one host."""
    zone, space = made.chance.choice(ZONES), claim["metadata"]["namespace"]
    key, value = (HOST, made.chance.choice(made.made.nodes)) if kind == "host" else (ZONE, zone)
    spec: Object = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"namespace": space, "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]},
    }
    if kind != "labelled":
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata = {"name": name, "labels": {ZONE: zone} if kind == "labelled" else {}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}


RULES: tuple[Rule, ...] = (
    *(_spread, _spread, _spread_twice, _affinity, _anti_affinity, _anti_affinity, _wishes, _node_affinity),
    *(_node_selector, _tolerations, _ports, _sidecars, _overhead, _pod_level, _storage, _gpu, _volumes),
)


def _storage_classes() -> list[Object]:
    zones = [{"key": ZONE, "values": [ZONES[0], ZONES[2]]}]
    return [
        {"metadata": {"name": "wait"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
        {
            "metadata": {"name": "zonal"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": zones}],
        },
    ]


def _pools(chance: random.Random) -> list[Object]:
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


def _gpu_type(kind: Object, chance: random.Random) -> Object:
    name = f"gpu-{kind['name']}"
    requirements = [
        {**each, "values": [name]} if "instance-type" in each["key"] else each for each in kind["requirements"]
    ]
    offerings = [{**each, "price": each["price"] * 2.5} for each in kind["offerings"]]
    capacity = {**kind["capacity"], GPU: chance.choice("148")}
    return {**kind, "name": name, "capacity": capacity, "requirements": requirements, "offerings": offerings}


def _node(number: int, chance: random.Random) -> Object:
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


def _running(node: Object, chance: random.Random) -> list[Object]:
    """Small pods of the same apps; some keep others away from their zone or host."""
    found = []
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
        found.append({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    return found


def _daemon_sets(chance: random.Random) -> list[Object]:
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
    found = []
    for name, own in specs.items():
        requests = {"cpu": chance.choice(("25m", "100m", "333m")), "memory": chance.choice(("40Mi", "100M"))}
        container: Object = {"name": "main", "image": "x", "resources": {"requests": requests}}
        if name == "exporter":
            container["ports"] = [{"containerPort": 9100, "hostPort": 9100}]
        template = {"metadata": {"labels": {"ds": name}}, "spec": {"containers": [container], **own}}
        metadata = {"name": name, "namespace": "kube-system", "uid": name}
        found.append({"metadata": metadata, "spec": {"selector": {"matchLabels": {"ds": name}}, "template": template}})
    return chance.sample(found, chance.randrange(len(found) + 1))


def _csi_node(node: Object, chance: random.Random) -> Object:
    count = chance.choice((1, 3, 25))
    driver = {
        "name": DRIVER,
        "nodeID": node["metadata"]["name"],
        "topologyKeys": [ZONE],
        "allocatable": {"count": count},
    }
    return {"metadata": {"name": node["metadata"]["name"]}, "spec": {"drivers": [driver]}}
