"""One cluster and many pods, each asking one scheduling rule or a mixture: judged by value and by the real
kube-scheduler."""

from __future__ import annotations

import random
from typing import Any

from sandbox.world.resources import Obj
from tests.sandbox.world.builders import (
    HOSTNAME,
    ZONE,
    apart,
    claim,
    expression,
    mounts,
    near,
    node,
    pod,
    pod_term,
    required_nodes,
    spread,
    storage_class,
    volume,
)

TOLERATE_TEAM = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}

NODES = (
    node("a1", zone="a", labels={"num": "5", "disk": "ssd"}),
    node("a2", zone="a", labels={"num": "10"}, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}]),
    node("b1", zone="b", labels={"num": "x"}, cpu="2", pods="4"),
    node("b2", zone="b", labels={"disk": "ssd"}, unschedulable=True),
    node("c1", zone="c", labels={"num": "3"}, taints=[{"key": "soft", "effect": "PreferNoSchedule"}]),
    node(
        "c2",
        zone="c",
        taints=[{"key": "evict", "value": "now", "effect": "NoExecute"}],
        extended={"nvidia.com/gpu": "1"},
    ),
    node("bare", zone="d", cpu="1", memory="1Gi", pods="2"),
)
PLACED = (
    pod("web-1", on="a1", labels={"app": "web"}, requests={"cpu": "1500m", "memory": "1Gi"}),
    pod("web-2", on="b1", labels={"app": "web"}, requests={"cpu": "500m"}),
    pod("hermit", on="c1", labels={"app": "hermit"}, affinity=apart(pod_term(app="guest"))),
    pod("port", on="a1", labels={"app": "db"},
        containers=[{"name": "main", "image": "pause", "ports": [{"containerPort": 80, "hostPort": 8080}]}]),
    pod("exclusive", on="a1", volumes=mounts("alone")),
    pod("full", on="bare", requests={"cpu": "900m"}),
)  # fmt: skip
CLASSES = (
    storage_class("ebs"),
    storage_class("local", provisioner="kubernetes.io/no-provisioner"),
    storage_class(
        "zone-b", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    ),
    storage_class("at-once", waits=False),
)  # fmt: skip
VOLUMES = (
    volume("vol-a", zone="a", claim="in-a"),
    volume("vol-c", zone="c", claim="in-c"),
    volume("vol-alone", claim="alone"),
    volume("free-c", zone="c", storage_class="local"),
)
CLAIMS = (
    claim("in-a", volume_name="vol-a"),
    claim("in-c", volume_name="vol-c"),
    claim("alone", volume_name="vol-alone", mode="ReadWriteOncePod"),
    claim("small-local", storage_class="local"),
    claim("nowhere", storage_class="zone-b"),
    claim("unbound", storage_class="at-once"),
)


def _ports(*ports: dict[str, Any]) -> list[Obj]:
    return [
        {"name": "main", "image": "pause", "ports": [{"containerPort": 1000 + i, **p} for i, p in enumerate(ports)]}
    ]


def _init(*requests: dict[str, str], always: bool = False) -> list[Obj]:
    policy = {"restartPolicy": "Always"} if always else {}
    return [
        {"name": f"init-{i}", "image": "pause", "resources": {"requests": r}, **policy} for i, r in enumerate(requests)
    ]


def single_rules() -> dict[str, Obj]:
    """Pods by the rule that they ask."""
    exists, absent = expression("num", "Exists"), expression("num", "DoesNotExist")
    anything = [{"operator": "Exists"}]
    cases: dict[str, Obj] = {
        "anywhere": pod(),
        "cpu that one node has left": pod(requests={"cpu": "3"}),
        "cpu exactly what is left": pod(requests={"cpu": "2500m"}, nodeSelector={HOSTNAME: "a1"}),
        "a millicore too much": pod(requests={"cpu": "2501m"}, nodeSelector={HOSTNAME: "a1"}),
        "part of a millicore counts as one": pod(requests={"cpu": "2500.1m"}, nodeSelector={HOSTNAME: "a1"}),
        "cpu and memory that no node has": pod(requests={"cpu": "9", "memory": "9Gi"}),
        "an extended resource": pod(requests={"nvidia.com/gpu": "1"}, tolerations=anything),
        "an extended resource that nobody has": pod(requests={"example.com/fpga": "1"}),
        "disk": pod(requests={"ephemeral-storage": "21Gi"}),
        "the greater of init and app": pod(requests={"cpu": "1"}, initContainers=_init({"cpu": "2600m"})),
        "init containers one after the other": pod(initContainers=_init({"cpu": "3"}, {"cpu": "3"})),
        "sidecars add up": pod(requests={"cpu": "1"}, initContainers=_init({"cpu": "1"}, {"cpu": "1"}, always=True)),
        "sidecar before init": pod(
            initContainers=[*_init({"cpu": "1"}, always=True), {**_init({"cpu": "2"})[0], "name": "later"}]
        ),
        "selector": pod(nodeSelector={"disk": "ssd"}),
        "selector of no node": pod(nodeSelector={"disk": "tape"}),
        "In": pod(affinity=required_nodes({"matchExpressions": [expression(ZONE, "In", "b", "c")]})),
        "NotIn holds without the label": pod(
            affinity=required_nodes({"matchExpressions": [expression("disk", "NotIn", "ssd")]})
        ),
        "Exists": pod(affinity=required_nodes({"matchExpressions": [exists]})),
        "DoesNotExist": pod(affinity=required_nodes({"matchExpressions": [absent]})),
        "Gt ignores what is no integer": pod(
            affinity=required_nodes({"matchExpressions": [expression("num", "Gt", "4")]})
        ),
        "Lt": pod(affinity=required_nodes({"matchExpressions": [expression("num", "Lt", "5")]})),
        "terms are ORed": pod(
            affinity=required_nodes(
                {"matchExpressions": [expression("num", "In", "5")]}, {"matchExpressions": [absent]}
            )
        ),
        "expressions are ANDed": pod(
            affinity=required_nodes({"matchExpressions": [exists, expression(ZONE, "In", "c")]})
        ),
        "an empty term matches nothing": pod(affinity=required_nodes({}, {"matchExpressions": [exists]})),
        "one node by name": pod(affinity=required_nodes({"matchFields": [expression("metadata.name", "In", "c1")]})),
        "a cordoned node by name": pod(
            affinity=required_nodes({"matchFields": [expression("metadata.name", "In", "b2")]})
        ),
        "not one node by name": pod(
            affinity=required_nodes({"matchFields": [expression("metadata.name", "NotIn", "a1")]})
        ),
        "selector and affinity together": pod(
            nodeSelector={"disk": "ssd"}, affinity=required_nodes({"matchExpressions": [expression(ZONE, "In", "c")]})
        ),
        "a taint tolerated by value": pod(nodeSelector={HOSTNAME: "a2"}, tolerations=[TOLERATE_TEAM]),
        "a taint tolerated with another value": pod(
            nodeSelector={HOSTNAME: "a2"}, tolerations=[{**TOLERATE_TEAM, "value": "web"}]
        ),
        "a taint tolerated by key": pod(
            nodeSelector={HOSTNAME: "a2"}, tolerations=[{"key": "team", "operator": "Exists"}]
        ),
        "a taint tolerated for another effect": pod(
            nodeSelector={HOSTNAME: "c2"}, tolerations=[{"key": "evict", "operator": "Exists", "effect": "NoSchedule"}]
        ),
        "every taint tolerated": pod(nodeSelector={HOSTNAME: "c2"}, tolerations=anything),
        "cordon tolerated": pod(
            nodeSelector={HOSTNAME: "b2"},
            tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
        ),
        "PreferNoSchedule keeps nothing away": pod(nodeSelector={HOSTNAME: "c1"}),
        "a host port in use": pod(nodeSelector={HOSTNAME: "a1"}, containers=_ports({"hostPort": 8080})),
        "a host port of another protocol": pod(
            nodeSelector={HOSTNAME: "a1"}, containers=_ports({"hostPort": 8080, "protocol": "UDP"})
        ),
        "a host port on one address, held on all": pod(
            nodeSelector={HOSTNAME: "a1"}, containers=_ports({"hostPort": 8080, "hostIP": "10.0.0.1"})
        ),
        "ports of the host's network": pod(
            nodeSelector={HOSTNAME: "a1"},
            hostNetwork=True,
            containers=_ports({"containerPort": 8080, "hostPort": 8080}),
        ),
        "affinity to pods in a zone": pod(affinity=near(pod_term(app="web"))),
        "affinity to pods on a host": pod(affinity=near(pod_term(HOSTNAME, app="web"))),
        "affinity to two kinds": pod(affinity=near(pod_term(app="web"), pod_term(app="db"))),
        "affinity to a pod that has both labels": pod(affinity=near(pod_term(app="web", tier="front"))),
        "affinity to nobody": pod(affinity=near(pod_term(app="none"))),
        "affinity to itself": pod(labels={"app": "self"}, affinity=near(pod_term(app="self"))),
        "affinity to itself and to nobody": pod(
            labels={"app": "self"}, affinity=near(pod_term(app="self"), pod_term(app="none"))
        ),
        "affinity by a label that no node has": pod(labels={"app": "x"}, affinity=near(pod_term("rack", app="x"))),
        "anti-affinity by zone": pod(affinity=apart(pod_term(app="web"))),
        "anti-affinity by host": pod(affinity=apart(pod_term(HOSTNAME, app="web"))),
        "anti-affinity of two terms": pod(affinity=apart(pod_term(app="web"), pod_term(app="hermit"))),
        "repelled by a pod that is there": pod(labels={"app": "guest"}),
        "repelled, in the zone only": pod(labels={"app": "guest"}, nodeSelector={ZONE: "c"}),
        "spread over zones": pod(labels={"app": "web"}, topologySpreadConstraints=[spread(labels={"app": "web"})]),
        "spread over hosts": pod(
            labels={"app": "web"}, topologySpreadConstraints=[spread(HOSTNAME, labels={"app": "web"})]
        ),
        "spread with more skew": pod(
            labels={"app": "web"}, topologySpreadConstraints=[spread(max_skew=2, labels={"app": "web"})]
        ),
        "spread that does not count itself": pod(topologySpreadConstraints=[spread(labels={"app": "web"})]),
        "spread among selected nodes only": pod(
            labels={"app": "web"},
            affinity=required_nodes({"matchExpressions": [expression(ZONE, "In", "a", "b")]}),
            topologySpreadConstraints=[spread(labels={"app": "web"})],
        ),
        "spread among all nodes, affinity ignored": pod(
            labels={"app": "web"},
            affinity=required_nodes({"matchExpressions": [expression(ZONE, "In", "a", "b")]}),
            topologySpreadConstraints=[spread(labels={"app": "web"}, nodeAffinityPolicy="Ignore")],
        ),
        "spread that honours taints": pod(
            labels={"app": "web"},
            nodeSelector={HOSTNAME: "a1"},
            topologySpreadConstraints=[spread(HOSTNAME, labels={"app": "web"}, nodeTaintsPolicy="Honor")],
        ),
        "spread over more zones than there are": pod(
            labels={"app": "web"},
            nodeSelector={"num": "5"},
            topologySpreadConstraints=[spread(labels={"app": "web"}, minDomains=2)],
        ),
        "spread over as many zones as there are": pod(
            labels={"app": "web"},
            nodeSelector={"num": "5"},
            topologySpreadConstraints=[spread(labels={"app": "web"}, minDomains=1)],
        ),
        "spread by a label that no node has": pod(topologySpreadConstraints=[spread("rack", labels={"app": "web"})]),
        "spread over zones and hosts": pod(
            labels={"app": "web"},
            topologySpreadConstraints=[spread(labels={"app": "web"}), spread(HOSTNAME, labels={"app": "web"})],
        ),
        "spread by the pod's own label value": pod(
            labels={"app": "web", "rev": "2"},
            topologySpreadConstraints=[spread(labels={"app": "web"}, matchLabelKeys=["rev"])],
        ),
        "a volume in a zone": pod(volumes=mounts("in-a")),
        "volumes in two zones": pod(volumes=mounts("in-a", "in-c")),
        "a volume in a zone without room": pod(requests={"cpu": "3900m"}, volumes=mounts("in-a")),
        "a claim that does not exist": pod(volumes=mounts("missing")),
        "a claim that should be bound already": pod(volumes=mounts("unbound")),
        "a claim for one pod only, in use": pod(volumes=mounts("alone")),
        "a class for another zone": pod(volumes=mounts("nowhere"), nodeSelector={ZONE: "a"}),
        "a local volume elsewhere": pod(volumes=mounts("small-local"), nodeSelector={ZONE: "a"}),
    }
    return {name: _named(name, case) for name, case in cases.items()}


def mixtures(count: int, seed: int) -> dict[str, Obj]:
    """Pods that ask several rules at once."""
    lots = random.Random(seed)
    return {f"mixture {i}": _named(f"mixture {i}", _mixture(lots)) for i in range(count)}


def _mixture(lots: random.Random) -> Obj:
    spec: dict[str, Any] = {}
    affinity: Obj = {}
    if lots.random() < 0.3:
        spec["nodeSelector"] = lots.choice([{"disk": "ssd"}, {ZONE: "a"}, {ZONE: "c"}, {HOSTNAME: "b1"}])
    if lots.random() < 0.3:
        choice = lots.choice([("num", "Gt", "4"), ("num", "Exists"), ("disk", "DoesNotExist"), (ZONE, "NotIn", "a")])
        affinity |= required_nodes({"matchExpressions": [expression(*choice)]})
    if lots.random() < 0.3:
        affinity |= near(pod_term(lots.choice([ZONE, HOSTNAME]), app=lots.choice(["web", "db", "none"])))
    if lots.random() < 0.3:
        affinity |= apart(pod_term(lots.choice([ZONE, HOSTNAME]), app=lots.choice(["web", "hermit", "none"])))
    if lots.random() < 0.4:
        spec["tolerations"] = lots.choice(
            [[TOLERATE_TEAM], [{"operator": "Exists"}], [{"key": "evict", "operator": "Exists"}]]
        )
    if lots.random() < 0.4:
        keys = lots.sample([ZONE, HOSTNAME], lots.choice([1, 1, 2]))
        spec["topologySpreadConstraints"] = [spread(key, lots.choice([1, 2]), {"app": "web"}) for key in keys]
    if affinity:
        spec["affinity"] = affinity
    labels = lots.choice([{"app": "web"}, {"app": "guest"}, {}])
    cpu = lots.choice(["100m", "1", "2500m", "3", "4"])
    return pod(labels=labels, requests={"cpu": cpu, "memory": lots.choice(["128Mi", "7Gi"])}, **spec)


def _named(name: str, case: Obj) -> Obj:
    words = "".join(letter if letter.isalnum() else "-" for letter in name.lower()).strip("-")
    return {**case, "metadata": {**case["metadata"], "name": words, "uid": f"uid-{words}"}}
