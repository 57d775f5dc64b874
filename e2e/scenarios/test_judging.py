"""Our plans before kube-scheduler's own filters, and the judge itself before plans that are wrong.

No control plane is needed for it, but Go's build of those filters is, as for the control plane's binaries.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench import judging, shapes
from controller.core.provisioning import SolveOptions

Object = dict[str, Any]
ZONES = ("a", "b")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OWN = {"matchLabels": {"app": "x"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module")
def judge() -> Path:
    try:
        return judging.find_or_build(print)
    except judging.JudgeMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("seed", "budget"), [*((seed, 0.0) for seed in range(1, 13)), (13, 1.0), (14, 1.0)])
def test_kube_scheduler_binds_every_pod_where_the_plan_puts_it(judge: Path, seed: int, budget: float) -> None:
    """Whichever offering the fleet gives; no pod is left that would fit, and prices and limits add up."""
    judged = judging.judge(judge, f"seed {seed}", shapes.problem(seed), SolveOptions(budget_seconds=budget))
    assert judged.holds, "\n".join(judged.lines())


def kind() -> Object:
    """A type of 4 CPUs in both zones."""
    rules = {"node.kubernetes.io/instance-type": "m5.xlarge", "kubernetes.io/arch": "amd64"}
    return {
        "name": "m5.xlarge",
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "20"},
        "overhead": {"kubeReserved": {"cpu": "100m"}},
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in rules.items()],
        "offerings": [{"zone": zone, "capacityType": "spot", "price": 0.1, "available": True} for zone in ZONES],
    }


def spread(key: str, **more: Any) -> Object:
    """A spread of the pods labelled app=x, at most one apart."""
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": OWN, **more}
    return {"topologySpreadConstraints": [rule]}


def towards(which: str, key: str, **more: Any) -> Object:
    """Required affinity or anti-affinity of the pods labelled app=x."""
    return {"affinity": {which: {REQUIRED: [{"topologyKey": key, "labelSelector": OWN, **more}]}}}


def nodes_where(*expressions: Object) -> Object:
    """Required node affinity of one term."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}}


def posed(specs: Sequence[Object]) -> Object:
    """These pods, all labelled app=x, before a pool for all, one with a taint, and one with a limit of 4 CPUs."""
    pods = []
    for number, spec in enumerate(specs):
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": spec.get("cpu", "1")}}}
        ports = [{"containerPort": 80, "hostPort": 80}] if "port" in spec else []
        own = {key: value for key, value in spec.items() if key not in ("cpu", "port")}
        metadata = {"name": f"p{number}", "namespace": "default", "uid": f"p{number}", "labels": {"app": "x"}}
        pods.append(
            {"metadata": metadata, "spec": {"containers": [{**container, "ports": ports}], **own}, "status": {}}
        )
    pools: list[Object] = [
        {"name": "all"},
        {"name": "tainted", "taints": [{"key": "dedicated", "effect": "NoSchedule"}]},
        {"name": "limited", "limits": {"cpu": "4"}},
    ]
    return {"instanceTypes": [kind()], "nodePools": pools, "nodes": [], "pods": pods, "daemonSets": []}


def planned(*nodes: tuple[str, Sequence[int]], pool: str = "all", left: Sequence[int] = ()) -> Object:
    """A plan: nodes by zone, each with its pods."""
    return {
        "nodes": [
            {
                "nodePool": pool,
                "instanceType": "m5.xlarge",
                "zone": zone,
                "capacityType": "spot",
                "alternatives": [],
                "price": 0.1,
                "labels": {},
                "pods": [f"default/p{number}" for number in pods],
            }
            for zone, pods in nodes
        ],
        "existing": [],
        "unplaced": [{"pod": f"default/p{number}", "reason": "none"} for number in left],
        "price": 0.1 * len(nodes),
    }


def verdict(judge: Path, folder: Path, specs: Sequence[Object], plan: Mapping[str, Any]) -> Mapping[str, Any]:
    file = folder / "problem.json.gz"
    file.write_bytes(gzip.compress(orjson.dumps(posed(specs))))
    return judging.verdict(judge, "made up", file, plan).answer


APART = towards("podAntiAffinity", HOST)
TWO_ZONES = planned(("a", [0]), ("b", [1]))
CASES: dict[str, tuple[str, list[Object], Object, Object]] = {
    "too much for a node": ("NodeResourcesFit", [{"cpu": "2"}] * 2, planned(("a", [0, 1])), TWO_ZONES),
    "what overhead leaves": ("NodeResourcesFit", [{"cpu": "4"}], planned(("a", [0])), planned(left=[0])),
    "a taint": ("TaintToleration", [{}], planned(("a", [0]), pool="tainted"), planned(("a", [0]))),
    "a selector": ("NodeAffinity", [{"nodeSelector": {ZONE: "b"}}], planned(("a", [0])), planned(("b", [0]))),
    "node affinity": (
        "NodeAffinity",
        [nodes_where({"key": ZONE, "operator": "NotIn", "values": ["a"]})],
        planned(("a", [0])),
        planned(("b", [0])),
    ),
    "a host port": ("NodePorts", [{"port": 80}] * 2, planned(("a", [0, 1])), planned(("a", [0]), ("a", [1]))),
    "spread over hosts": (
        "PodTopologySpread",
        [spread(HOST)] * 3,
        planned(("a", [0, 1, 2]), ("a", [])),
        planned(("a", [0]), ("a", [1]), ("b", [2])),
    ),
    "spread over zones": (
        "PodTopologySpread",
        [*([spread(ZONE)] * 2), {}],
        planned(("a", [0, 1]), ("b", []), ("b", []), ("a", [2])),
        planned(("a", [0, 2]), ("b", [1])),
    ),
    "minDomains": (
        "PodTopologySpread",
        [spread(ZONE, minDomains=3)] * 4,
        planned(("a", [0, 1]), ("b", [2, 3])),
        planned(("a", [0]), ("b", [1]), left=[2, 3]),
    ),
    "anti-affinity": ("InterPodAffinity", [APART, {}], planned(("a", [0, 1])), planned(("a", [0]), ("a", [1]))),
    "affinity": (
        "InterPodAffinity",
        [towards("podAffinity", ZONE)] * 2,
        TWO_ZONES,
        planned(("a", [0]), ("a", [1])),
    ),
    "affinity to another namespace": (
        "InterPodAffinity",
        [towards("podAffinity", ZONE, namespaces=["other"])],
        planned(("a", [0])),
        planned(left=[0]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_that_breaks_a_rule_is_refused_by_its_plugin_and_its_repair_is_not(
    judge: Path, tmp_path: Path, case: str
) -> None:
    plugin, specs, broken, mended = CASES[case]
    refused = verdict(judge, tmp_path, specs, broken)["refused"]
    assert refused, f"{case}: the judge lets it pass"
    assert all(each["reason"].startswith(plugin) for each in refused), refused
    assert not any(verdict(judge, tmp_path, specs, mended)[each] for each in judging.COMPLAINTS)


def test_an_order_is_found_when_only_a_pod_that_is_counted_must_come_last(judge: Path, tmp_path: Path) -> None:
    """p0 goes to zone a only while p1 and p2, which know no rule, are not there yet."""
    specs = [spread(ZONE, labelSelector={"matchLabels": {"app": "x"}}), {}, {}]
    judged = verdict(judge, tmp_path, specs, planned(("a", [0, 1, 2]), ("b", [])))
    assert not judged["refused"]


@pytest.mark.parametrize("change", ["price", "zone", "twice", "limit", "left out"])
def test_what_does_not_add_up_is_told(judge: Path, tmp_path: Path, change: str) -> None:
    specs: list[Object] = [{"cpu": "3"}] * 2
    plan = planned(("a", [0]), ("b", [1]), pool="limited" if change == "limit" else "all")
    if change == "price":
        plan["nodes"][0]["price"] = 0.05
    elif change == "zone":
        plan["nodes"][0]["alternatives"] = [
            {"instanceType": "m5.xlarge", "zone": "c", "capacityType": "spot", "price": 0.1}
        ]
    elif change == "twice":
        plan["existing"] = [{"node": "planned-1", "pods": ["default/p0"]}]
    elif change == "left out":
        plan["nodes"].pop()
        plan["price"] = 0.1
    assert verdict(judge, tmp_path, specs, plan)["wrong"]


@pytest.mark.parametrize(
    ("specs", "plan"),
    [
        ([{}, {}], planned(("a", [0]), left=[1])),
        ([{"cpu": "3"}, {"cpu": "3"}], planned(("a", [0]), left=[1])),
    ],
    ids=["on a planned node", "on one more node"],
)
def test_a_pod_that_was_left_although_it_had_a_place_is_missed(
    judge: Path, tmp_path: Path, specs: list[Object], plan: Object
) -> None:
    assert [each["pod"] for each in verdict(judge, tmp_path, specs, plan)["missed"]] == ["default/p1"]


def test_the_judge_holds_alternatives_to_the_rules_too(judge: Path, tmp_path: Path) -> None:
    """What the fleet may give instead of the planned offering must take the node's pods as well."""
    plan = planned(("b", [0]))
    plan["nodes"][0]["alternatives"] = [
        {"instanceType": "m5.xlarge", "zone": "a", "capacityType": "spot", "price": 0.1}
    ]
    judged = verdict(judge, tmp_path, [{"nodeSelector": {ZONE: "b"}}], plan)
    assert not judged["refused"]
    assert judged["elsewhere"]
