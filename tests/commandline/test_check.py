"""`nodeless check`: every fault is found, told with what to do, and sets the exit code."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller.commandline.certificates import days_left
from controller.commandline.checkcluster import ClusterCheck
from controller.commandline.findings import Finding, Level, collect
from controller.core.state.snapshot import InvalidObject, Snapshot
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from sandbox.apiserver import serve
from tests.commandline.conftest import CRDS, Run, answer, container

NOW = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[KubeClient]:
    """An empty cluster."""
    with serve(kubeconfig=tmp_path / "kubeconfig"):
        yield KubeClient(connect(str(tmp_path / "kubeconfig")))


def looked(kube: KubeClient, snapshot: Snapshot | None = None) -> dict[str, list[Finding]]:
    """The findings by subject."""
    found: dict[str, list[Finding]] = {}
    for each in collect(ClusterCheck(kube, snapshot or Snapshot(), "default", NOW).checks()):
        found.setdefault(each.subject, []).append(each)
    return found


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


def crds() -> list[dict[str, Any]]:
    return [yaml.safe_load(file.read_text()) for file in sorted(CRDS.glob("*.yaml"))]


def test_empty_cluster_lacks_crds_provisioners_and_a_leader(kube: KubeClient) -> None:
    found = looked(kube)
    assert [each.level for each in found["CRDs"]] == [Level.PROBLEM, Level.PROBLEM]
    assert "no node is ever launched" in found["Provisioners"][0].text
    assert found["Leader"][0].level is Level.PROBLEM
    assert found["Kubernetes"][0].level is Level.OK
    assert found["Other autoscalers"] == [Finding(Level.OK, "Other autoscalers", "none seen")]


def test_crds_of_an_older_release_are_told_by_what_they_lack(kube: KubeClient) -> None:
    for crd in crds():
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
    kube.create(VALIDATING_WEBHOOKS, webhook("late", bundle(2)))
    kube.create(VALIDATING_WEBHOOKS, webhook("bare", ""))
    kube.create(VALIDATING_WEBHOOKS, webhook("lost", bundle(90), service="nowhere"))
    found = {s.rpartition(" ")[2]: each[0] for s, each in looked(kube).items() if s.startswith("Validating")}
    assert found["good"].level is Level.OK
    assert "ends in 2.0 days" in found["late"].text
    assert "has no caBundle" in found["bare"].text
    assert "Service default/nowhere does not exist" in found["lost"].text


def test_other_autoscalers_at_work_are_seen_and_idle_ones_are_not(kube: KubeClient) -> None:
    kube.create(DEPLOYMENTS, deployment("ca", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.30"), "default")
    kube.create(DEPLOYMENTS, deployment("peer", "public.ecr.aws/karpenter/controller:v0.27.6"), "default")
    kube.create(DEPLOYMENTS, deployment("idle", "public.ecr.aws/karpenter/controller:v0.27.6", 0), "default")
    found = looked(kube)["Other autoscalers"]
    assert [(each.level, each.text) for each in found] == [
        (Level.WARNING, "Cluster Autoscaler is at work: Deployment default/ca"),
        (Level.PROBLEM, "Karpenter is at work: Deployment default/peer"),
    ]


def test_invalid_objects_are_told_with_every_broken_rule(kube: KubeClient) -> None:
    invalid = InvalidObject("Provisioner", "bad", "", 1, "spec.a: wrong | spec.b: wrong too")
    found = looked(kube, Snapshot(invalid={("Provisioner", "bad"): invalid}))
    assert found["Provisioner bad"][0].text == "spec.a: wrong\nspec.b: wrong too"


def test_bundle_that_is_none_is_not_guessed() -> None:
    assert days_left(base64.b64encode(b"nonsense").decode(), NOW) is None
    assert days_left(bundle(3), NOW) == pytest.approx(3, abs=0.01)


def test_command_lists_all_and_its_exit_code_says_whether_something_is_broken(run: Run, kubeconfig: str) -> None:
    result = run("check", "--kubeconfig", kubeconfig, "--skip-aws", "-o", "json")
    found = answer(result)
    assert result.exit_code == 3
    assert {"level": "problem", "subject": "Leader"}.items() <= next(
        each.items() for each in found["findings"] if each["subject"] == "Leader"
    )
    assert any(each["subject"] == "Provisioner lonely" and "no limits" in each["text"] for each in found["findings"])
    assert found["summary"]["problem"] >= 1
    assert "→ is the controller installed" in run("check", "--kubeconfig", kubeconfig, "--skip-aws").stdout
