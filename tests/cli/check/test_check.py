"""`nodeless check`: every fault is found, told with what to do, and sets the exit code."""

from __future__ import annotations

import base64
import copy
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller.cli.check.check_cluster import ClusterCheck, days_left
from controller.cli.check.command import run_checks
from controller.cli.check.findings import Finding, Level, collect
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import LabelSelector, Pod, PodSpec, SelectorRequirement
from controller.core.api.provisioner import Provisioner
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.state.snapshot import InvalidObject, Snapshot, StateNode
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    PROVISIONERS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from controller.webhook.certificates import issue
from sandbox.apiserver import serve
from tests.cli.conftest import TEMPLATE, Run, answer, container, provisioner
from tests.product_crds import product_crds

NOW = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[KubeClient]:
    """An empty cluster."""
    with serve(kubeconfig=tmp_path / "kubeconfig"):
        yield KubeClient(connect(str(tmp_path / "kubeconfig")))


def looked(kube: KubeClient, snapshot: Snapshot | None = None) -> dict[str, list[Finding]]:
    """The findings by subject."""
    by_subject: dict[str, list[Finding]] = {}
    for each in collect(ClusterCheck(kube, snapshot or Snapshot(), "default", NOW).checks()):
        by_subject.setdefault(each.subject, []).append(each)
    return by_subject


def bundle(days: float) -> str:
    """A caBundle whose authority ends so many days after NOW."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    end = datetime.fromtimestamp(NOW, UTC) + timedelta(days=days)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(end - timedelta(days=365))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def deployment(name: str, image: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{**container(), "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def webhook(name: str, ca_bundle: str, service: str = "karpenter") -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"name": service, "namespace": "default", "path": "/"}}
    if ca_bundle:
        client["caBundle"] = ca_bundle
    rule = {
        "apiGroups": ["karpenter.sh"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["provisioners"],
    }
    hook = {"name": f"{name}.karpenter.sh", "clientConfig": client, "rules": [rule], "sideEffects": "None"}
    return {"metadata": {"name": name}, "webhooks": [{**hook, "admissionReviewVersions": ["v1"]}]}


def test_empty_cluster_lacks_crds_provisioners_and_a_leader(kube: KubeClient) -> None:
    findings = looked(kube)
    assert [each.level for each in findings["CRDs"]] == [Level.PROBLEM, Level.PROBLEM]
    assert "no node will be launched" in findings["Provisioners"][0].text
    assert findings["Leader"][0].level is Level.PROBLEM
    assert findings["Kubernetes"][0].level is Level.OK
    assert findings["Other autoscalers"] == [Finding(Level.OK, "Other autoscalers", "none seen")]


def test_crds_of_an_older_release_are_told_by_what_they_lack(kube: KubeClient) -> None:
    for crd in product_crds():
        older = copy.deepcopy(crd)
        if crd["spec"]["names"]["kind"] == "Provisioner":
            schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            del schema["properties"]["spec"]["properties"]["consolidation"]
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, older)
    levels = {each.text.split()[0]: each for each in looked(kube)["CRDs"]}
    assert levels["provisioners.karpenter.sh"].level is Level.WARNING
    assert "spec.consolidation" in levels["provisioners.karpenter.sh"].text
    assert levels["awsnodetemplates.karpenter.k8s.aws"].level is Level.OK


@pytest.mark.parametrize(("age_seconds", "level"), [(5, Level.OK), (300, Level.PROBLEM)])
def test_lease_that_nobody_renews_means_that_nobody_acts(kube: KubeClient, age_seconds: int, level: Level) -> None:
    renewed = datetime.fromtimestamp(NOW - age_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "karpenter-0", "leaseDurationSeconds": 15, "renewTime": renewed}
    kube.create(LEASES, {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}, "default")
    assert looked(kube)["Leader"][0].level is level


def test_webhooks_need_a_service_an_authority_and_one_that_still_holds(kube: KubeClient) -> None:
    port = {"port": 443, "protocol": "TCP", "targetPort": 8443}
    kube.create(SERVICES, {"metadata": {"name": "karpenter"}, "spec": {"ports": [port]}}, "default")
    kube.create(VALIDATING_WEBHOOKS, webhook("good", bundle(90)))
    kube.create(VALIDATING_WEBHOOKS, webhook("late", bundle(0.5)))
    kube.create(VALIDATING_WEBHOOKS, webhook("over", bundle(-3)))
    kube.create(VALIDATING_WEBHOOKS, webhook("bare", ""))
    kube.create(VALIDATING_WEBHOOKS, webhook("lost", bundle(90), service="nowhere"))
    webhooks = {s.split()[1].split(".")[0]: each[0] for s, each in looked(kube).items() if s.startswith("Webhook ")}
    assert webhooks["good"].level is Level.OK
    assert "ends in 0.5 days" in webhooks["late"].text
    assert "ended 3.0 days ago" in webhooks["over"].text
    assert webhooks["late"].level is webhooks["over"].level is Level.PROBLEM
    assert "has no caBundle" in webhooks["bare"].text
    assert "Service default/nowhere does not exist" in webhooks["lost"].text


def test_other_autoscalers_at_work_are_seen_and_idle_ones_are_not(kube: KubeClient) -> None:
    kube.create(DEPLOYMENTS, deployment("ca", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.30"), "default")
    kube.create(DEPLOYMENTS, deployment("peer", "public.ecr.aws/karpenter/controller:v0.27.6"), "default")
    kube.create(DEPLOYMENTS, deployment("idle", "public.ecr.aws/karpenter/controller:v0.27.6", 0), "default")
    findings = looked(kube)["Other autoscalers"]
    assert [(each.level, each.text) for each in findings] == [
        (Level.WARNING, "Cluster Autoscaler is running: Deployment default/ca"),
        (Level.PROBLEM, "Karpenter is running: Deployment default/peer"),
    ]


def test_invalid_objects_are_told_with_every_broken_rule(kube: KubeClient) -> None:
    invalid = InvalidObject("Provisioner", "bad", "", 1, "spec.a: wrong | spec.b: wrong too")
    findings = looked(kube, Snapshot(invalid={("Provisioner", "bad"): invalid}))
    assert findings["Provisioner bad"][0].text == "spec.a: wrong\nspec.b: wrong too"


def test_an_api_server_older_than_the_peers_oldest_is_a_problem(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube, "version", lambda: {"minor": "22+", "gitVersion": "v1.22.17-eks"})
    (finding,) = looked(kube)["Kubernetes"]
    assert finding == Finding(Level.PROBLEM, "Kubernetes", "v1.22.17-eks is too old", "upgrade to 1.23 or newer")


def test_crds_of_a_later_karpenter_and_nodes_that_two_claim_are_told(kube: KubeClient) -> None:
    later = {
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh", "scope": "Cluster",
            "names": {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool", "listKind": "NodePoolList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }  # fmt: skip
    kube.create(CUSTOM_RESOURCE_DEFINITIONS, later)
    both = {"karpenter.sh/provisioner-name": "a", "karpenter.sh/nodepool": "b"}
    shared = {name: StateNode(Node(name, labels=FrozenMap(own)), (), EMPTY, EMPTY, ()) for name, own in (
        ("shared", both), ("ours", {"karpenter.sh/provisioner-name": "a"}),
    )}  # fmt: skip
    warned, claimed = looked(kube, Snapshot(nodes=shared))["Other autoscalers"]
    assert (warned.level, claimed.level) == (Level.WARNING, Level.PROBLEM)
    assert "nodeless convert" in warned.remedy
    assert claimed.text == "nodes that a Provisioner and a NodePool both claim: shared"


def test_certificates_of_our_own_making_are_right_from_the_day_they_are_made_until_they_are_late(
    kube: KubeClient,
) -> None:
    """Made for a week, renewed two days before its end; authorities of before stay in the bundle meanwhile."""
    days = 86_400.0
    port = {"port": 443, "protocol": "TCP", "targetPort": 8443}
    kube.create(SERVICES, {"metadata": {"name": "karpenter"}, "spec": {"ports": [port]}}, "default")
    first = issue(("karpenter.default.svc",), NOW - 6.5 * days)
    renewed = issue(("karpenter.default.svc",), NOW - 1.5 * days, first)
    for name, held in (
        ("new", issue(("karpenter.default.svc",), NOW)),
        ("renewed", renewed),
        ("late", first),
    ):
        kube.create(VALIDATING_WEBHOOKS, webhook(name, base64.b64encode(held.authorities).decode()))
    levels = {s.split()[1].split(".")[0]: each[0].level for s, each in looked(kube).items() if s.startswith("Webhook ")}
    assert levels == {"new": Level.OK, "renewed": Level.OK, "late": Level.PROBLEM}


@pytest.mark.parametrize(
    ("allowed", "owner", "labels", "level"),
    [
        (0, "default", {"app": "web"}, Level.WARNING),
        (1, "default", {"app": "web"}, Level.OK),
        (0, "default", {"app": "other"}, Level.OK),
        (0, "", {"app": "web"}, Level.OK),
    ],
)
def test_budgets_that_allow_nothing_keep_the_nodes_of_ours_that_their_pods_run_on(
    kube: KubeClient, allowed: int, owner: str, labels: dict[str, str], level: Level
) -> None:
    selector = LabelSelector((SelectorRequirement("app", "In", ("web",)),))
    budget = PodDisruptionBudget("shop", "web", selector, disruptions_allowed=allowed)
    pod = Pod("shop", "web-1", "uid", PodSpec(EMPTY), labels=FrozenMap(labels))
    node = Node("n", labels=FrozenMap({"karpenter.sh/provisioner-name": owner} if owner else {}))
    nodes = {"n": StateNode(node, (pod,), EMPTY, EMPTY, ())}
    (finding,) = looked(kube, Snapshot(nodes=nodes, budgets={("shop", "web"): budget}))["Disruption"]
    assert finding.level is level
    assert ("shop/web" in finding.text) is (level is Level.WARNING)
    assert ("nodeless explain node" in finding.remedy) is (level is Level.WARNING)


@pytest.mark.parametrize(
    ("changes", "level", "remedy"),
    [
        ({"provider_ref": "lost", "limits": FrozenMap({"cpu": 1})}, Level.PROBLEM, "spec.providerRef.name"),
        ({"provider_ref": "there"}, Level.WARNING, "spec.limits.resources.cpu"),
        ({"provider_ref": "there", "limits": FrozenMap({"cpu": 1})}, Level.OK, ""),
    ],
)
def test_provisioners_need_their_template_and_should_have_limits(
    kube: KubeClient, changes: dict[str, Any], level: Level, remedy: str
) -> None:
    snapshot = Snapshot(
        provisioners={"p": Provisioner("p", **changes)}, node_templates={"there": AWSNodeTemplate(name="there")}
    )
    (finding,) = looked(kube, snapshot)["Provisioner p"]
    assert finding.level is level
    assert remedy in finding.remedy


def test_a_provisioner_has_the_warnings_of_admission_and_of_those_beside_it(kube: KubeClient) -> None:
    """Whole texts: tests/core/test_provisioner_warnings.py."""
    fields: dict[str, Any] = {"provider_ref": "there", "limits": FrozenMap({"cpu": 1})}
    key = SelectorRequirement("instance-type", "Exists", ())
    snapshot = Snapshot(
        provisioners={"p": Provisioner("p", requirements=(key,), **fields), "q": Provisioner("q", **fields)},
        node_templates={"there": AWSNodeTemplate(name="there")},
    )
    findings = looked(kube, snapshot)
    texts = [(each.level, each.text.partition(":")[0]) for each in findings["Provisioner p"]]
    assert texts == [(Level.WARNING, "spec.requirements[0].key"), (Level.WARNING, "spec.weight")]
    assert findings["Provisioner p"][0].remedy == "did you mean 'node.kubernetes.io/instance-type'?"
    assert [each.level for each in findings["Provisioner q"]] == [Level.OK], "a pair is told once"


def test_webhooks_that_nobody_installed_are_a_warning(kube: KubeClient) -> None:
    assert looked(kube)["Webhooks"][0].level is Level.WARNING


def test_settings_that_break_rules_are_told_with_every_key(kube: KubeClient) -> None:
    (finding,) = [each for each in run_checks(kube, "default", None) if each.subject == "Settings"]
    assert (finding.level, finding.remedy) == (Level.PROBLEM, "create it in default, with aws.clusterName at least")
    data = {"batchMaxDuration": "soon", "aws.nodeNameConvention": "any"}
    kube.create(CONFIG_MAPS, {"metadata": {"name": "karpenter-global-settings"}, "data": data}, "default")
    (finding,) = [each for each in run_checks(kube, "default", None) if each.subject == "Settings"]
    assert finding.level is Level.PROBLEM
    assert all(key in finding.text for key in ("batchMaxDuration", "aws.nodeNameConvention", "aws.clusterName"))
    assert finding.remedy == "correct ConfigMap default/karpenter-global-settings"


@pytest.mark.parametrize(
    ("region", "text"),
    [
        (
            "",
            "nothing of it was checked: No AWS region is configured; set AWS_REGION, or AWS_PROFILE to a profile with "
            "a region (in the cluster: on the controller's pod)",
        ),
        (
            "eu-west-1",
            "nothing of it was checked: sts:GetCallerIdentity: Unable to locate credentials; set AWS_PROFILE, or sign "
            "in with `aws sso login`; in the cluster: an IRSA role or a Pod Identity association for the controller's "
            "service account",
        ),
    ],
    ids=["no region", "no credentials"],
)
def test_aws_that_cannot_be_asked_is_one_problem_and_no_success(
    run: Run, kubeconfig: str, monkeypatch: pytest.MonkeyPatch, region: str, text: str
) -> None:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    nothing = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    for name, value in {**nothing, "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    result = run("check", "--kubeconfig", kubeconfig, "--region", region, "-o", "json")
    assert result.exit_code == 3
    assert [each for each in answer(result)["findings"] if each["subject"] == "AWS"] == [
        {
            "level": "problem",
            "subject": "AWS",
            "text": text,
            "remedy": "name another region with --region, or check the cluster alone with --skip-aws",
        }
    ]


def test_what_the_controller_says_of_an_object_is_told_without_aws(kube: KubeClient) -> None:
    for crd in product_crds():
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    kube.create(AWS_NODE_TEMPLATES, TEMPLATE)
    kube.create(PROVISIONERS, provisioner("p"))
    why = "AWSNodeTemplate default: subnetSelector matches no subnet"
    condition = {"type": "Active", "status": "False", "message": why}
    for resource, name in ((PROVISIONERS, "p"), (AWS_NODE_TEMPLATES, "default")):
        kube.patch(resource, name, {"status": {"conditions": [condition]}}, subresource="status")
    findings = looked(kube, Snapshot(provisioners={"p": Provisioner("p", provider_ref="default")}))
    remedy = "correct it; the controller looks again every 30 seconds"
    assert findings["Provisioner p"][-1] == Finding(Level.PROBLEM, "Provisioner p", f"Active is False: {why}", remedy)
    assert findings["AWSNodeTemplate default"][-1].text == f"Active is False: {why}"


def test_bundle_that_is_none_is_not_guessed() -> None:
    assert days_left(base64.b64encode(b"nonsense").decode(), NOW) is None
    assert days_left(bundle(3), NOW) == pytest.approx(3, abs=0.01)


def test_command_lists_all_and_its_exit_code_says_whether_something_is_broken(run: Run, kubeconfig: str) -> None:
    kube = KubeClient(connect(kubeconfig))
    kube.create(PROVISIONERS, provisioner("misspelt", ("node.kubernetes.io/instance-type", "In", ["m5.larg"])))
    try:
        result = run("check", "--kubeconfig", kubeconfig, "--skip-aws", "-o", "json")
    finally:
        kube.delete(PROVISIONERS, "misspelt")
    report = answer(result)
    assert result.exit_code == 3
    assert {"level": "problem", "subject": "Leader"}.items() <= next(
        each.items() for each in report["findings"] if each["subject"] == "Leader"
    )
    said = {(each["subject"], each["text"]) for each in report["findings"]}
    assert {
        ("Provisioner lonely", "spec.limits: is missing"),
        ("Provisioner misspelt", "spec.requirements[0].values[0]: no region is known to sell m5.larg"),
    } <= said
    assert report["summary"]["problem"] >= 1
    assert "→ is the controller installed" in run("check", "--kubeconfig", kubeconfig, "--skip-aws").stdout
