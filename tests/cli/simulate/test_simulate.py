"""`nodeless simulate` from files alone: no AWS, no cluster."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from controller.aws.catalog.offline_catalog import shipped_catalog
from controller.core.provisioning import solve
from tests.cli.conftest import TEMPLATE, Run, Write, answer, container, deployment, provisioner
from tests.core.provisioning.plans import judged

ON_DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])
M5 = ("karpenter.k8s.aws/instance-family", "In", ["m5"])
SIZE = ("karpenter.k8s.aws/instance-size", "In", ["large"])
STACKS = Path(__file__).parents[3] / "stacks"


def test_deployment_becomes_nodes_with_prices(run: Run, write: Write) -> None:
    report = answer(run("simulate", write(TEMPLATE, provisioner("default", M5), deployment(replicas=7)), "-o", "json"))
    pods = [pod for node in report["nodes"] for pod in node["pods"]]
    assert sorted(pods) == [f"shop/web-{number}" for number in range(7)]
    assert all(node["instanceType"].startswith("m5.") for node in report["nodes"])
    prices = shipped_catalog("us-east-1").on_demand
    assert report["summary"]["pricePerHour"] == pytest.approx(sum(prices[n["instanceType"]] for n in report["nodes"]))
    assert report["summary"]["pricePerMonth"] == pytest.approx(report["summary"]["pricePerHour"] * 730, abs=0.01)
    assert report["summary"]["pricePerHour"] < report["summary"]["costPerHour"]
    assert 0 < report["summary"]["lowerBoundPerHour"] <= report["summary"]["costPerHour"]


def test_family_t_is_used_within_its_baseline_and_what_it_costs_beyond_is_shown(run: Run, write: Write) -> None:
    """A t3.large has 0.6 vCPUs of its own, and pods are taken to use half of what they ask for."""
    family = provisioner("default", ("karpenter.k8s.aws/instance-family", "In", ["t3"]), ON_DEMAND, SIZE)
    for cpu, surplus in (("1", 0.0), ("1600m", 0.2 * 0.05)):
        files = write(TEMPLATE, family, deployment(replicas=1, cpu=cpu))
        report = answer(run("simulate", files, "-o", "json"))
        (planned,), summary = report["nodes"], report["summary"]
        assert planned["surplusPerHour"] == pytest.approx(surplus)
        assert summary["costPerHour"] == planned["costPerHour"]
        beside = 0.02 + 20 * 0.08 / 730
        assert planned["costPerHour"] == pytest.approx(planned["pricePerHour"] + beside + surplus, abs=1e-6)
        assert ("for CPU beyond the baseline" in run("simulate", files).stdout) == (surplus > 0)


def test_pods_that_cannot_be_placed_say_why_and_set_the_exit_code(run: Run, write: Write) -> None:
    result = run("simulate", write(TEMPLATE, provisioner("default", M5), deployment(replicas=2, cpu="900")))
    assert result.exit_code == 3
    assert "shop/web ×2" in result.stdout
    assert "it asks for 900 CPU" in result.stdout
    assert run("simulate", write(TEMPLATE, provisioner("default", M5), deployment())).exit_code == 0


def test_every_problem_of_every_file_is_shown_at_once_with_its_place(run: Run, write: Write) -> None:
    wrong = provisioner("default", ("karpenter.sh/capacity-type", "Inn", ["spot"]), ttlSecondsAfterEmpty=-1)
    one = write(wrong, deployment(cpu="lots"), name="one.yaml")
    two = write("kind: [", name="two.yaml")
    result = run("simulate", one, two, "/nowhere/three.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    text = result.stderr
    assert f"{one} (document 1): Provisioner default: spec.requirements[0]" in text
    assert f"{one} (document 1): Provisioner default: spec.ttlSecondsAfterEmpty" in text
    assert f"{one} (document 1): Provisioner default: spec.providerRef.name: no AWSNodeTemplate" in text
    assert f"{one} (document 2): Deployment web: spec.template.spec.containers[0].resources.requests.cpu" in text
    assert f"{two}: is not YAML" in text
    assert "/nowhere/three.yaml: cannot be read" in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "nested more than 64 deep"),
        (b"kind: " + b"[" * 1000, "nested more than 64 deep"),
        (b'{"a":' * 3000 + b"1" + b"}" * 3000, "nested more than 64 deep"),
        (b"kind: &a [*a]", "alias a stands for what it is part of"),
        (b"kind: Pod\nat: 2026-13-45T00:00:00Z", "month must be in 1..12"),
        (gzip.compress(b"kind: Pod")[:14] + b"\xff" * 20, "is not text: "),
    ],
    ids=["lists", "lists in an object", "objects", "itself", "a date that is none", "damaged gzip"],
)
def test_a_damaged_file_is_a_problem_like_others(run: Run, tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_bytes(content)
    result = run("simulate", str(file))
    assert result.exit_code == 2
    assert f"  {file}: " in result.stderr
    assert said in result.stderr


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("ReplicaSet", {"replicas": 2}, 2),
        ("Deployment", {}, 1),
        ("Job", {"parallelism": 4, "completions": 3}, 3),
        ("Job", {"parallelism": 4, "suspend": True}, 0),
        ("StatefulSet", {"replicas": 2}, 2),
    ],
)
def test_workloads_are_expanded_as_their_controllers_do(
    run: Run, write: Write, kind: str, spec: dict[str, Any], pods: int
) -> None:
    workload = {
        "apiVersion": "x",
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {**spec, "template": {"spec": {"containers": [container()]}}},
    }
    file = write(TEMPLATE, provisioner("default", M5), workload)
    assert answer(run("simulate", file, "-o", "json"))["summary"]["pods"] == pods


def test_more_replicas_than_a_cluster_can_have_are_a_typing_error(run: Run, write: Write) -> None:
    files = write(TEMPLATE, provisioner("default", M5), deployment(replicas=200_000_000))
    result = run("simulate", files)
    assert result.exit_code == 2
    assert "Deployment web: has 200,000,000 pods; a cluster has 150,000 at most: write fewer" in result.stderr


def test_cron_job_counts_as_the_pods_of_one_run(run: Run, write: Write) -> None:
    job = {"parallelism": 2, "template": {"spec": {"containers": [container()]}}}
    cron = {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": job}}}
    report = answer(run("simulate", write(TEMPLATE, provisioner("default", M5), cron), "-o", "json"))
    assert report["summary"]["pods"] == 2


def test_daemon_sets_take_their_share_of_every_node(run: Run, write: Write) -> None:
    daemon = {**deployment("agent", cpu="900m"), "kind": "DaemonSet"}
    files = (TEMPLATE, provisioner("default", ("node.kubernetes.io/instance-type", "In", ["m5.large"])))
    alone = answer(run("simulate", write(*files, deployment(replicas=3)), "-o", "json"))
    beside = answer(run("simulate", write(*files, deployment(replicas=3), daemon), "-o", "json"))
    assert alone["summary"]["newNodes"] == 3
    assert all(node["requests"]["cpu"] == "1" for node in alone["nodes"])
    assert all(node["requests"]["cpu"] == "1900m" for node in beside["nodes"])


def test_claims_of_a_stateful_set_are_made_and_their_class_assumed(run: Run, write: Write) -> None:
    stateful = {**deployment("db", replicas=2), "kind": "StatefulSet"}
    stateful["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}]
    report = answer(run("simulate", write(TEMPLATE, provisioner("default", M5), stateful), "-o", "json"))
    assert report["summary"]["unplaced"] == 0
    assert any("StorageClass gp3 is not among the files" in note for note in report["notes"])


def test_replicas_can_be_changed_for_a_what_if(run: Run, write: Write) -> None:
    file = write(TEMPLATE, provisioner("default", M5), deployment(replicas=1))
    assert answer(run("simulate", file, "--replicas", "shop/web=20", "-o", "json"))["summary"]["pods"] == 20
    result = run("simulate", file, "--replicas", "wep=20")
    assert result.exit_code == 2
    assert "--replicas wep: no workload has this name; known: web" in result.stderr


@pytest.mark.parametrize(("autoscaled", "pods"), [("declared", 3), ("min", 2), ("max", 9)])
def test_autoscaled_workloads_can_be_taken_at_their_ends(run: Run, write: Write, autoscaled: str, pods: int) -> None:
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minReplicas": 2, "maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    file = write(TEMPLATE, provisioner("default", M5), deployment(replicas=3), scaler)
    report = answer(run("simulate", file, "--autoscaled", autoscaled, "-o", "json"))
    assert report["summary"]["pods"] == pods


def test_autoscaler_decides_where_no_replicas_are_declared(run: Run, write: Write) -> None:
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minReplicas": 5, "maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    file = write(TEMPLATE, provisioner("default", M5), deployment(replicas=None), scaler)
    assert answer(run("simulate", file, "-o", "json"))["summary"]["pods"] == 5


def test_five_pods_on_the_dev_stack_are_said_to_be_packed_optimally(run: Run, write: Write) -> None:
    stack, pods = str(STACKS / "Pulumi.dev.yaml"), write(deployment(replicas=5))
    summary = answer(run("simulate", stack, pods, "-o", "json"))["summary"]
    assert (summary["newNodes"], summary["optimal"], summary["gapToOptimum"]) == (1, True, 0)
    assert "This plan is optimal: no plan for these pods costs less" in run("simulate", stack, pods).stdout


def test_settings_of_a_stack_change_what_nodes_hold(run: Run, write: Write) -> None:
    stack = {
        "config": {
            "aws:region": "us-east-1",
            "nodeless:settings": {"enableEniLimitedPodDensity": False},
            "nodeless:nodeTemplates": [{"name": "default", "spec": TEMPLATE["spec"]}],
            "nodeless:provisioners": [{"name": "default", "spec": provisioner("default", M5)["spec"]}],
        }
    }
    report = answer(
        run("simulate", write(stack, name="Pulumi.x.yaml"), write(deployment(), name="w.yaml"), "-o", "json")
    )
    assert all(node["allocatable"]["pods"] == "110" for node in report["nodes"])


def test_zones_narrow_the_catalog(run: Run, write: Write) -> None:
    file = write(TEMPLATE, provisioner("default", M5), deployment())
    report = answer(run("simulate", file, "--zone", "us-east-1c", "-o", "json"))
    assert {node["zone"] for node in report["nodes"]} == {"us-east-1c"}
    wrong = run("simulate", file, "--zone", "us-east-9z")
    assert wrong.exit_code == 2
    assert "us-east-9z" in wrong.stderr
    assert run("simulate", file, "--region", "mars-1").exit_code == 1


def test_assumed_spot_prices_are_said_and_can_be_set(run: Run, write: Write) -> None:
    spot = provisioner("default", M5, ("karpenter.sh/capacity-type", "In", ["spot"]))
    file = write(TEMPLATE, spot, deployment())
    half, fifth = (answer(run("simulate", file, "--spot-share", share, "-o", "json")) for share in ("0.5", "0.2"))
    assert half["summary"]["pricePerHour"] == pytest.approx(2.5 * fifth["summary"]["pricePerHour"])
    assert any("Spot prices are assumed: 50%" in note for note in half["notes"])


def test_comparison_states_the_difference(run: Run, write: Write) -> None:
    before = write(TEMPLATE, provisioner("default", M5, ON_DEMAND), name="before.yaml")
    after = write(
        TEMPLATE, provisioner("default", M5, ("karpenter.sh/capacity-type", "In", ["spot"])), name="after.yaml"
    )
    work = write(deployment(replicas=10), name="work.yaml")
    report = answer(run("simulate", after, work, "--compare", before, "-o", "json"))
    assert report["difference"]["pricePerHour"] == pytest.approx(
        report["after"]["summary"]["pricePerHour"] - report["before"]["summary"]["pricePerHour"], abs=1e-6
    )
    assert report["difference"]["pricePerHour"] < 0
    same = run("simulate", after, work, "--compare", after, "-o", "markdown").stdout
    assert "### Fleet simulation: the price stays the same" in same
    dearer = run("simulate", before, work, "--compare", after, "-o", "markdown").stdout
    assert re.match(r".*\n### Fleet simulation: costs \$[\d.,]+ a month more \([\d.]+ %\)\n", dearer)


def test_comment_for_a_pull_request_cannot_be_broken_out_of(run: Run, write: Write) -> None:
    evil = deployment("web|<img src=x>", replicas=1, cpu="900")
    file = write(TEMPLATE, provisioner("default", M5), evil)
    text = run("simulate", file, "--compare", file, "-o", "markdown").stdout
    assert text.startswith("<!-- nodeless simulate -->\n### Fleet simulation")
    assert "<img" not in text
    assert "web\\|&lt;img" in text


def test_page_is_self_contained_and_draws_every_node(run: Run, write: Write, tmp_path: Path) -> None:
    file = write(TEMPLATE, provisioner("default", M5, SIZE), deployment("<b>web", replicas=9))
    page = tmp_path / "page.html"
    report = answer(run("simulate", file, "--html", str(page), "-o", "json"))
    text = page.read_text()
    cards = re.findall(r"<header><span>[^ <]+(?: ×(\d+))?</span>", text)
    assert sum(int(number or 1) for number in cards) == report["summary"]["newNodes"] > len(cards), (
        "those alike are one"
    )
    assert "<b>web" not in text
    assert "&lt;b&gt;web" in text
    assert "default-src 'none'" in text
    assert not any(word in text for word in ("http:", "https:", "<script", "@import", "url("))


def test_region_is_that_of_the_nodes_unless_somebody_says(run: Run, write: Write) -> None:
    """Types, prices and zones of another region than the cluster's would be a plan for nobody."""
    named = {"name": "n", "labels": {"topology.kubernetes.io/region": "eu-central-1"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": named}
    file = write(TEMPLATE, provisioner("default", M5), deployment(replicas=1), node)
    report = answer(run("simulate", file, "-o", "json"))
    assert [each["zone"][:-1] for each in report["nodes"]] == ["eu-central-1"]
    assert "eu-central-1" in report["notes"][0]
    asked = answer(run("simulate", file, "--region", "us-west-2", "-o", "json"))
    assert [each["zone"][:-1] for each in asked["nodes"]] == ["us-west-2"]


def test_compressed_lists_of_objects_are_read(run: Run, tmp_path: Path) -> None:
    listed = {"kind": "List", "items": [TEMPLATE, provisioner("default", M5), deployment(replicas=2)]}
    file = tmp_path / "fleet.json.gz"
    file.write_bytes(gzip.compress(json.dumps(listed).encode()))
    assert answer(run("simulate", str(file), "-o", "json"))["summary"]["pods"] == 2


def test_what_has_no_influence_is_named(run: Run, write: Write) -> None:
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"}}
    output = run("simulate", write(TEMPLATE, provisioner("default", M5), deployment(), ingress)).stdout
    assert "Ignored, without influence on nodes: 1 Ingress" in output


def test_plan_is_the_controllers_own(write: Write) -> None:
    from controller.cli.cluster.simulation import simulate
    from controller.cli.inputs.objects import read_objects
    from controller.cli.inputs.scenario import scenario
    from controller.cli.inputs.sources import source_for
    from controller.core.api.strict import Report

    report = Report()
    objects = read_objects([write(TEMPLATE, provisioner("default", M5), deployment(replicas=30))], report)
    wanted = scenario("x", objects.located, report)
    assert wanted is not None
    simulation = simulate(wanted, source_for("", "us-east-1", wanted.settings).types)
    assert solve(simulation.problem) == simulation.plan
    judged(simulation.plan, simulation.problem)


def test_node_pools_are_met_with_the_command_that_converts_them(run: Run, write: Write) -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {}}
    path = write(pool, deployment())
    result = run("simulate", path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Files:\n  {path} (document 1): NodePool default: is of a later Karpenter, and not planned with; "
        "`nodeless convert FILE` writes NodePools and EC2NodeClasses as Provisioners and AWSNodeTemplates\n",
    )


@pytest.mark.parametrize(
    ("workloads", "said"),
    [
        ([deployment(replicas=0)], "No pods to place: 0 replicas of shop/web; --replicas shop/web=5 plans for some"),
        ([], "No pods to place: there is no workload and no pending pod"),
        ([deployment(replicas=1), deployment("idle", 0)], ""),
    ],
)
def test_nothing_to_plan_for_is_said(run: Run, write: Write, workloads: list[Any], said: str) -> None:
    """docs/examples/inflate.yaml has no replicas, for one."""
    notes = answer(run("simulate", write(TEMPLATE, provisioner("default", M5), *workloads), "-o", "json"))["notes"]
    assert [note for note in notes if note.startswith("No pods")] == ([said] if said else [])
