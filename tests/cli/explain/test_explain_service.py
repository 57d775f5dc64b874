"""`nodeless explain service`: a Service among the zones of a cluster, its endpoints and hints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from controller.cli.cluster.cluster_view import ClusterLocation, build_cluster_view
from controller.cli.dump.anonymize import anonymous
from controller.cli.dump.pseudonyms import Pseudonyms
from controller.cli.explain.explain_service import as_seen, explain_service
from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.objects import Objects
from controller.core.zones.hints import ZoneCPU
from controller.core.zones.services import SliceEndpoints, parse_service, service_zones
from controller.kube.client import KubeClient
from tests.cli.cluster_files import ON_DEMAND
from tests.cli.conftest import Run, Write, answer, container

AUTO = {"service.kubernetes.io/topology-mode": "Auto"}


def service_document(name: str = "web", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "annotations": AUTO if annotations is None else annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, **spec}}


def node(zone: str, cpu: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{zone}", "labels": {"topology.kubernetes.io/zone": zone} if zone else {}},
        "status": {"allocatable": {"cpu": str(cpu)}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(number: int, zone: str, ready: str = "True") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"web-{number}", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"nodeName": f"node-{zone}", "containers": [container()]},
        "status": {"phase": "Running", "conditions": conditions},
    }


def cluster(cpu: dict[str, int], pods: str, **changed: Any) -> list[dict[str, Any]]:
    """Nodes with so much CPU by zone, a Ready pod for each letter's zone, and the Service."""
    running = [pod(number, zone) for number, zone in enumerate(pods)]
    return [*(node(zone, each) for zone, each in cpu.items()), *running, service_document(**changed)]


CASES = {
    "its traffic stays": (
        cluster({"a": 8, "b": 8, "c": 8}, "aabbcc"),
        "gets hints: its traffic stays in its zones",
        "",
    ),
    "pods in one zone": (
        cluster({"a": 8, "b": 8, "c": 8}, "aaaaaa"),
        "gets hints; 4 of 6 endpoints are lent to other zones, their traffic crosses",
        "spread its pods: a topologySpreadConstraint over topology.kubernetes.io/zone with maxSkew 1",
    ),
    "nodes in one zone": (
        cluster({"a": 8}, "aaa"),
        "gets no hints: Insufficient Node information",
        "even out the nodes",
    ),
    "uneven nodes": (
        cluster({"a": 60, "b": 20, "c": 20}, "aaabbbccc"),
        "2 of 9 endpoints are lent",
        "even out the nodes",
    ),
    "too few pods": (cluster({"a": 8, "b": 8, "c": 8}, "aabc"), "gets no hints: Unable to allocate", "run 6 replicas"),
    "a node without a zone": (
        cluster({"a": 8, "b": 8, "": 1}, "ab"),
        "gets no hints: Insuff",
        "node node- is Ready with",
    ),
    "nothing asked for": (cluster({"a": 8, "b": 8}, "ab", annotations={}), "asks for no hints", "topology-mode: Auto"),
    "headless": (cluster({"a": 8}, "a", clusterIP="None"), "is not routed by kube-proxy (spec.clusterIP None", ""),
    "the annotation's old name, which wins": (
        cluster(
            {"a": 8, "b": 8, "c": 8},
            "aab",
            annotations={"service.kubernetes.io/topology-aware-hints": "auto"},
            trafficDistribution="PreferClose",
        ),
        "gets hints; 1 of 3 endpoints are lent",
        "spread its pods",
    ),
    "its own zone, by the newer name": (
        cluster({"a": 8, "b": 8}, "ab", annotations={}, trafficDistribution="PreferSameZone"),
        "keeps its traffic in its zones",
        "",
    ),
    "its own zone": (
        cluster({"a": 8, "b": 8}, "aa", annotations={}, trafficDistribution="PreferClose"),
        "has no endpoint in b: clients there use those of other zones",
        "spread its pods",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_verdict_and_first_remedy(run: Run, write: Write, case: str) -> None:
    documents, verdict, remedy = CASES[case]
    said = answer(run("explain", "service", "shop/web", "--from", write(*documents), "-o", "json"))
    assert verdict in said["verdict"]
    assert remedy in said["reasons"].get("whatWouldHelp", [""])[0]


def test_zones_are_listed_with_their_share_and_what_is_due(run: Run, write: Write) -> None:
    documents = [*cluster({"a": 60, "b": 20, "c": 20}, "aaabbbccc"), pod(9, "c", ready="False")]
    said = answer(run("explain", "service", "web", "-n", "shop", "--from", write(*documents), "-o", "json"))
    assert said["reasons"]["zones"][0] == "a: 60 % of the CPU (60), 3 Ready endpoints, 5.4 due, at least 5"
    assert said["reasons"]["lentEndpoints"] == ["1 of b serve a", "1 of c serve a"]
    assert said["facts"]["readyEndpoints"] == "a 3, b 3, c 3"
    assert "Endpoints are its Ready pods: no EndpointSlice of it can be read" in said["notes"]


class WithoutSlices:
    """A cluster whose EndpointSlices nobody writes, as the sandbox's own API has none."""

    def list(self, *_: object, **__: object) -> tuple[()]:
        return ()


def test_where_nobody_writes_endpoint_slices_the_ready_pods_are_its_endpoints() -> None:
    objects = [LocatedObject(each, "here") for each in cluster({"a": 8, "b": 8}, "aab")]
    view = build_cluster_view(Objects(tuple(objects)), ClusterLocation())
    view = replace(view, kube=cast("KubeClient", WithoutSlices()))
    assert explain_service(view, "shop", "web", 0.0).document()["facts"]["readyEndpoints"] == "a 2, b 1"


def test_from_a_dump_the_verdict_is_the_same(run: Run, write: Write) -> None:
    names = Pseudonyms(b"salt")
    alias = f"{names.alias('shop')}/{names.alias('web')}"
    for case in ("uneven nodes", "its own zone", "too few pods"):
        documents, verdict, _ = CASES[case]
        said = run("explain", "service", alias, "--from", write(*anonymous(documents, names)), "-o", "json")
        assert verdict in answer(said)["verdict"]


def test_a_service_that_does_not_exist_is_said(run: Run, write: Write) -> None:
    refused = run("explain", "service", "shop/wep", "--from", write(*cluster({"a": 8}, "a")))
    assert (refused.exit_code, "There is no Service shop/wep" in refused.stderr) == (1, True)


def test_simulate_says_whether_hints_will_be_there_with_its_plan(run: Run, write: Write) -> None:
    from tests.cli.conftest import TEMPLATE, deployment, provisioner

    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": {"app": "web"}}}  # fmt: skip
    zones = ("topology.kubernetes.io/zone", "In", ["us-east-1a", "us-east-1b", "us-east-1c"])
    family = ("karpenter.k8s.aws/instance-family", "In", ["m5"])
    files = write(TEMPLATE, provisioner("default", zones, family), service_document(),
                  deployment("web", 6, topologySpreadConstraints=[spread]))  # fmt: skip
    (said,) = answer(run("simulate", files, "--region", "us-east-1", "-o", "json"))["services"]
    assert said["verdict"] == "gets hints: its traffic stays in its zones"
    assert said["endpoints"] == {"us-east-1a": 2, "us-east-1b": 2, "us-east-1c": 2}
    packed = write(
        TEMPLATE, provisioner("default", zones, family), service_document(), deployment("web", 6), name="packed.yaml"
    )
    shown = run("simulate", packed, "--region", "us-east-1").stdout
    assert "shop/web gets no hints: Insufficient Node information" in shown
    assert "Zone balance" not in shown


def test_simulate_says_what_even_zones_cost(run: Run, write: Write) -> None:
    from tests.cli.conftest import TEMPLATE, deployment, provisioner

    large = ("node.kubernetes.io/instance-type", "In", ["m5.large"])
    zones = ("topology.kubernetes.io/zone", "In", ["us-east-1a", "us-east-1b"])
    files = write(TEMPLATE, provisioner("default", zones, large, ON_DEMAND), deployment("web", 10, "1500m"))
    shown = run("simulate", files, "--region", "us-east-1").stdout
    assert "Zone balance: 4 nodes in another zone than the cheapest plan's, for no more" in shown


def test_the_hints_that_there_are_come_from_endpoint_slices(run: Run, kubeconfig: str) -> None:
    said = answer(run("explain", "service", "hinted", "--kubeconfig", kubeconfig, "-o", "json"))
    assert said["facts"]["readyEndpoints"] == "us-east-1a 3"
    assert said["reasons"]["hintsThereAre"] == [
        "1 endpoint of us-east-1a: for us-east-1b",
        "2 endpoints without a hint: kube-proxy uses all endpoints",
    ]


def test_hints_that_could_be_there_and_are_not_come_when_the_service_changes() -> None:
    service = parse_service({**service_document("web"), "spec": {"selector": {"app": "web"}}})
    judged = service_zones(service, ZoneCPU({"a": 1, "b": 1}), {"a": 1, "b": 1})
    seen = as_seen(judged, SliceEndpoints({"a": 1, "b": 1}, {}, 2))
    assert seen.verdict == "has no hints now; looked at again, it gets hints: its traffic stays in its zones"
    assert "kubectl annotate service -n shop web" in seen.remedies[0]
    assert as_seen(judged, SliceEndpoints({"a": 1, "b": 1}, {("a", "a"): 1, ("b", "b"): 1})) == judged


def test_check_lists_the_services_that_ask_for_hints(run: Run, kubeconfig: str) -> None:
    said = answer(run("check", "--kubeconfig", kubeconfig, "--skip-aws", "-o", "json"))["findings"]
    (found,) = [each for each in said if each["subject"] == "Service default/hinted"]
    assert (found["level"], found["text"][:14]) == ("warning", "gets no hints:")
