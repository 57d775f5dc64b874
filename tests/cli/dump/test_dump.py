"""`nodeless dump`: what it tells, what it must not tell, and that simulate plans alike with it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from controller.cli.dump.anonymize import anonymous
from controller.cli.dump.command import SETTINGS
from controller.cli.dump.pseudonyms import Pseudonyms
from controller.core.api.labels import OPENS_WITH
from controller.core.api.parse import parse_node, parse_pod
from controller.settings import Settings
from tests.cli.cluster_files import GROUP, OURS, SECRET
from tests.cli.conftest import Run, answer

NAMES = Pseudonyms(b"salt")


@pytest.fixture(scope="module")
def dumped(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from click.testing import CliRunner

    from controller.cli.main import main

    path = tmp_path_factory.mktemp("dump") / "dump.json.gz"
    result = CliRunner().invoke(main, ["dump", "--kubeconfig", kubeconfig, "-f", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    return path


def test_no_name_secret_image_or_annotation_of_the_cluster_is_in_it(dumped: Path) -> None:
    text = gzip.decompress(dumped.read_bytes()).decode()
    for word in (
        SECRET,
        OURS,
        GROUP,
        "shop",
        "web",
        "coredns",
        "stuck",
        "registry.example.com",
        "PASSWORD",
        "example.com/",
    ):
        assert f'"{word}' not in text, word
        assert f"{word}-" not in text, word
    assert SECRET not in text


def test_simulate_plans_the_same_as_with_the_cluster(run: Run, kubeconfig: str, dumped: Path) -> None:
    budget = ("--repack", "all", "-o", "json")
    live = answer(run("simulate", "--live", "--kubeconfig", kubeconfig, *budget))
    alike = answer(run("simulate", str(dumped), *budget))
    assert alike["summary"] == live["summary"]
    assert live["summary"]["newNodes"] > 0
    types = [sorted(node["instanceType"] for node in report["nodes"]) for report in (live, alike)]
    assert types[0] == types[1]


def test_other_commands_look_at_it_too(run: Run, dumped: Path) -> None:
    view = answer(run("view", "--from", str(dumped), "-o", "json"))
    assert view["summary"]["nodes"] == 3
    name = next(node["name"] for node in view["nodes"] if node["instanceType"] == "m5.2xlarge")
    assert answer(run("explain", "node", name, "--from", str(dumped), "-o", "json"))["facts"]["type"].startswith(
        "m5.2xlarge"
    )


def test_pseudonyms_are_stable_and_depend_on_the_salt() -> None:
    assert NAMES.alias("web") == NAMES.alias("web") != NAMES.alias("api")
    assert NAMES.alias("web") != Pseudonyms(b"other").alias("web")


def test_every_dump_has_pseudonyms_of_its_own_unless_a_salt_is_given(run: Run, kubeconfig: str) -> None:
    def objects(*options: str) -> Any:
        return json.loads(run("dump", "--kubeconfig", kubeconfig, *options).output)["objects"]

    assert objects() != objects(), "who knows the cluster's ids cannot guess names"
    assert objects("--salt", "a") == objects("--salt", "a")


def test_owners_of_kubernetes_own_kinds_stay_and_node_roles_of_users_do_not() -> None:
    owners = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "a"},
        {"apiVersion": "sparkoperator.k8s.io/v1", "kind": "SparkApplication", "name": "b", "uid": "b"},
    ]
    (made,) = anonymous([{"kind": "Pod", "metadata": {"name": "p", "ownerReferences": owners}}], NAMES)
    (daemon, spark) = made["metadata"]["ownerReferences"]
    assert (daemon["apiVersion"], daemon["kind"]) == ("apps/v1", "DaemonSet")
    assert "spark" not in json.dumps(spark).lower()
    assert NAMES.key("node-role.kubernetes.io/control-plane") == "node-role.kubernetes.io/control-plane"
    assert NAMES.key("node-role.kubernetes.io/fraud") == f"node-role.kubernetes.io/{NAMES.alias('fraud')}"


PLANS = {
    "weightPremium": "0.5", "preferencePremium": "0.5", "nodeCostPerHour": "0.5", "assumedCpuUse": "0.3",
    "aws.alternativePriceTolerance": "0.5", "aws.spotOfferings": "7", "aws.spotInterruptionCost": "0.5",
    "aws.spotPoolShare": "0.3", "zoneMaxShare": "0.4", "zonePremium": "0.1",
}  # fmt: skip
"""The settings that plans are made by, each with another value than its default."""


@pytest.mark.parametrize("key", PLANS)
def test_the_settings_that_plans_are_made_by_are_in_it(key: str) -> None:
    own = {"aws.clusterName": "shop"}
    assert Settings.parse(own | {key: PLANS[key]}).solve_options() != Settings.parse(own).solve_options()
    assert key in SETTINGS


def test_what_a_provisioner_asks_of_zones_stays() -> None:
    asked = {"max-share": "0.4", "premium": "0.1", "share-of": "cluster", "move-interval": "30m"}
    annotations = {f"karpenter.sh/zone-{key}": value for key, value in asked.items()}
    (made,) = anonymous([{"kind": "Provisioner", "metadata": {"name": "web", "annotations": annotations}}], NAMES)
    assert made["metadata"]["annotations"] == annotations


def test_a_node_that_is_about_to_be_opened_counts_as_open_in_a_dump_too() -> None:
    """Its annotation stays, its value is a pseudonym."""
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {OPENS_WITH: "plan"}},
        "spec": {"unschedulable": True},
    }
    (made,) = anonymous([node], NAMES)
    assert made["metadata"]["annotations"][OPENS_WITH] not in ("", "plan")
    assert not parse_node(made).unschedulable


@pytest.mark.parametrize(
    ("key", "value", "key_stays", "value_stays"),
    [
        ("topology.kubernetes.io/zone", "us-east-1a", True, True),
        ("karpenter.sh/provisioner-name", "team-red", True, False),
        ("kubernetes.io/hostname", "db-1", True, False),
        ("eks.amazonaws.com/nodegroup", "secret-project", True, False),
        ("example.com/team", "red", False, False),
        ("app", "web", False, False),
        ("example.com/generation", "42", False, True),
        ("example.com/enabled", "true", False, True),
    ],
)
def test_the_fields_own_words_stay_and_the_users_go(key: str, value: str, key_stays: bool, value_stays: bool) -> None:
    assert (NAMES.key(key) == key) is key_stays
    assert (NAMES.value(key, value) == value) is value_stays


def test_everything_that_scheduling_reads_of_a_pod_is_kept_but_for_names() -> None:
    labels = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels, "namespaces": ["shop"]}
    zone, newer = "topology.kubernetes.io/zone", {"key": "gen", "operator": "Gt", "values": ["3"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "web",
                "image": "secret",
                "env": [{"name": "A", "value": "secret"}],
                "resources": {"requests": {"cpu": "1500m", "nvidia.com/gpu": "1", "acme.io/chip": "2"}},
                "ports": [{"containerPort": 80, "hostPort": 8080}],
            }
        ],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"team": "red"},
        "priority": 7,
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "red", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
        ],
        "affinity": {
            "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [newer]}]}},
            "podAntiAffinity": {required: [term]},
        },
        "volumes": [
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "s", "secret": {"secretName": "x"}},
        ],
    }  # fmt: skip
    pod = {"kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}}, "spec": spec}
    made = anonymous([pod], NAMES)[0]
    assert "secret" not in json.dumps(made)
    before, after = parse_pod(pod), parse_pod(made)
    assert dict(after.spec.requests) == {NAMES.resource(k): v for k, v in before.spec.requests.items()}
    assert after.spec.host_ports == before.spec.host_ports
    assert after.spec.priority == 7
    assert after.labels == {NAMES.alias("app"): NAMES.alias("web")}
    assert dict(after.spec.node_selector) == {NAMES.alias("team"): NAMES.alias("red")}
    assert after.spec.tolerations[0].key == NAMES.alias("dedicated")
    spread = after.spec.topology_spread[0]
    assert (spread.max_skew, spread.topology_key) == (2, "topology.kubernetes.io/zone")
    assert spread.label_selector is not None
    assert spread.label_selector.expressions[0].values == (NAMES.alias("web"),)
    assert after.spec.required_node_affinity is not None
    assert after.spec.required_node_affinity[0].match_expressions[0].values == ("3",)
    assert after.spec.required_pod_anti_affinity[0].namespaces == (NAMES.alias("shop"),)
    assert [volume.claim_name for volume in after.volumes] == [NAMES.alias("data")]
