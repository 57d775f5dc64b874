"""Problems made up from a seed that carry every rule kube-scheduler's filters know, a few hundred pods each.

Deployments draw one to three rules out of all: spread with its rarer fields, affinity and anti-affinity over zones,
hosts and labels of pools, across namespaces, node affinity with terms and bounds, host ports, volumes of every sort
(`storage`), sidecars, overhead, odd quantities. They meet what stands (`standing`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from bench.generate import ZONES, Object, instance_types
from bench.standing import (
    APPS,
    ARCH,
    CAPACITY_TYPE,
    CPUS,
    GPU,
    HOST,
    POOL,
    RACK,
    SPACES,
    TEAM,
    ZONE,
    csi_node,
    daemon_sets,
    gpu_type,
    node,
    pools,
    running,
)
from bench.storage import Storage

TYPES, NODES = 60, 14

Rule = Callable[["_Deployment"], None]


def problem(seed: int) -> Object:
    """One problem document."""
    chance = random.Random(seed)
    types = chance.sample(instance_types(chance), TYPES)
    types += [gpu_type(each, chance) for each in chance.sample(types, 2)]
    nodes = [node(number, chance) for number in range(chance.randrange(NODES))]
    made = _Made(chance, [each["metadata"]["name"] for each in nodes])
    for app in APPS:
        _Deployment(app, made).write()
    made.pods += [pod for each in nodes for pod in running(each, chance)]
    return {
        "instanceTypes": types,
        "nodePools": pools(chance),
        "nodes": nodes,
        "pods": made.pods,
        "daemonSets": daemon_sets(chance),
        "namespaces": [
            {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **own}}}
            for name, own in SPACES.items()
        ],
        "persistentVolumes": made.storage.volumes,
        "persistentVolumeClaims": made.storage.claims,
        "storageClasses": made.storage.classes,
        "csiNodes": [csi_node(each, chance) for each in nodes],
    }


class _Made:
    """What deployments add to a problem."""

    def __init__(self, chance: random.Random, nodes: list[str]) -> None:
        self.chance = chance
        self.nodes = nodes
        self.pods: list[Object] = []
        self.storage = Storage(chance, nodes)


class _Deployment:
    """Pods alike, with the rules drawn for them."""

    def __init__(self, app: str, made: _Made) -> None:
        chance = self.chance = made.chance
        self.app, self.made = app, made
        self.space = chance.choice(["default", "default", *SPACES])
        self.replicas = chance.choice((1, 2, 3, 5, 9, 20))
        self.labels = {"app": app, "group": f"group-{chance.randrange(4)}", "version": chance.choice("ab")}
        requests: Object = {"cpu": chance.choice(("50m", "0.25", "333m", "1", "1500m", "2.5"))}
        requests["memory"] = chance.choice(("100M", "128974848", "512Mi", "1.5Gi", "4Gi", "1234567890500m"))
        self.spec: Object = {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
        self.volume: Callable[[str], Object] | None = None
        """Makes the volume of the pod of a name."""

    def write(self) -> None:
        """Draw rules, and add the pods with their volumes."""
        for rule in self.chance.sample(RULES, self.chance.choice((0, 1, 1, 2, 2, 3))):
            rule(self)
        for number in range(self.replicas):
            name = f"{self.app}-{number}"
            spec = dict(self.spec)
            if self.volume is not None:
                spec["volumes"] = [self.volume(name)]
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
        entries: list[Object] = place.setdefault(path[-1], [])
        return entries


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
    rules = made.listed("topologySpreadConstraints")
    if not any(each["topologyKey"] == rule["topologyKey"] for each in rules):
        rules.append(rule)


def _spread_twice(made: _Deployment) -> None:
    for key in (ZONE, HOST):
        rules = made.listed("topologySpreadConstraints")
        if not any(each["topologyKey"] == key for each in rules):
            own = {"matchLabels": {"app": made.app}}
            rule = {"maxSkew": made.chance.choice((1, 2)), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
            rules.append({**rule, "labelSelector": own})


def _term(made: _Deployment) -> Object:
    term: Object = {"topologyKey": made.key(), "labelSelector": made.selector()}
    kind = made.chance.randrange(5)
    if kind == 0:
        term["namespaces"] = [made.chance.choice(list(SPACES))]
    elif kind == 1:
        term["namespaceSelector"] = made.chance.choice(({}, {"matchLabels": {"tier": "gold"}}))
    elif kind == 2:
        term[made.chance.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
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
    if made.made.nodes and made.chance.random() < 0.1:
        named = {"key": "metadata.name", "operator": "In", "values": [made.chance.choice(made.made.nodes)]}
        terms.append({"matchFields": [named]})
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
    port = {
        "containerPort": 80,
        "hostPort": made.chance.choice((8080, 8080, 9100)),
        "protocol": made.chance.choice(("TCP", "TCP", "UDP")),
    }
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


def _limits(made: _Deployment) -> None:
    """Limits stand in for requests that are not there."""
    resources = made.spec["containers"][0]["resources"]
    resources["limits"] = resources.setdefault("limits", {}) | resources.pop("requests", {})


def _storage(made: _Deployment) -> None:
    requests = made.spec["containers"][0]["resources"].setdefault("requests", {})
    requests["ephemeral-storage"] = made.chance.choice(("1Gi", "9G"))


def _gpu(made: _Deployment) -> None:
    resources = made.spec["containers"][0]["resources"]
    resources.setdefault("requests", {})[GPU] = "1"
    resources.setdefault("limits", {})[GPU] = "1"


def _volumes(made: _Deployment) -> None:
    if made.volume is None:
        made.volume = made.made.storage.of(made.space, made.app)


RULES: tuple[Rule, ...] = (
    *(_spread, _spread, _spread_twice, _affinity, _anti_affinity, _anti_affinity, _wishes, _node_affinity),
    *(_node_selector, _tolerations, _ports, _sidecars, _overhead, _pod_level, _limits, _storage, _gpu),
    *(_volumes, _volumes),
)
