"""The product's kinds, as the real API server and kubectl know them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from e2e.cluster import PROVISIONERS, TEMPLATES, Cluster, KubectlError, condition
from e2e.scenario import provisioner
from sandbox.world.resources import Resource

CRDS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
NAMES = ("provisioners.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws")


@pytest.mark.parametrize("name", NAMES)
def test_the_crds_are_structural_schemas(cluster: Cluster, name: str) -> None:
    crd = cluster.get(CRDS, name)
    assert crd is not None
    assert condition(crd, "Established") == "True"
    assert condition(crd, "NonStructuralSchema") in ("", "False")
    assert condition(crd, "NamesAccepted") == "True"


def test_a_fresh_installation_passes_its_own_check(cluster: Cluster) -> None:
    """CRDs, settings, leader, webhooks, templates, permissions and queue: nothing is broken, nothing goes unseen."""
    world = cluster.environment
    variables = {**os.environ, **world.aws_environment, "KUBECONFIG": str(world.kubeconfig)}
    command = [sys.executable, "-m", "controller.cli.main", "check", "-o", "json"]
    completed = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    findings = json.loads(completed.stdout)["findings"]
    assert [each for each in findings if each["level"] in ("problem", "unknown")] == []
    assert {"Leader", "Settings", "Permissions", "AWSNodeTemplate default"} <= {each["subject"] for each in findings}
    assert completed.returncode == 0


def test_unknown_fields_are_pruned_and_kubectl_warns_of_them(cluster: Cluster) -> None:
    body = provisioner("pruned", {"providerRef": {"name": "default"}, "ttlSecondsAfterEmtpy": 30})
    path = PROVISIONERS.path()
    refused = cluster.http.post(path, body, fieldValidation="Strict")
    assert refused.code == 400
    assert 'unknown field "spec.ttlSecondsAfterEmtpy"' in refused.body["message"]
    kept = cluster.http.post(path, body, fieldValidation="Ignore", dryRun="All").ok()
    assert "ttlSecondsAfterEmtpy" not in kept["spec"]
    assert kept["spec"]["providerRef"] == {"name": "default"}


def test_kubectl_get_shows_the_columns(cluster: Cluster) -> None:
    header, *rows = cluster.kubectl("get", "provisioners").splitlines()
    assert header.split() == ["NAME", "READY", "NODES", "LIMIT", "USE", "$/H", "AGE"]
    (row,) = rows
    assert row.split()[:2] == ["default", "True"]
    wide = cluster.kubectl("get", "provisioners", "--output", "wide").splitlines()[0].split()
    assert wide[-5:] == ["TEMPLATE", "WEIGHT", "CPU", "MEMORY", "AGE"]
    assert cluster.kubectl("get", "awsnodetemplates").split()[:5] == ["NAME", "READY", "AMI", "FAMILY", "AGE"]


def test_both_kinds_are_listed_by_their_category(cluster: Cluster) -> None:
    listed = cluster.kubectl("api-resources", "--categories", "karpenter", "--output", "name").split()
    assert sorted(listed) == sorted(NAMES)
    shown = cluster.kubectl("get", "karpenter", "--output", "name").split()
    assert sorted(shown) == ["awsnodetemplate.karpenter.k8s.aws/default", "provisioner.karpenter.sh/default"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("provisioner.spec.requirements", "FIELDS"),
        ("provisioner.spec.ttlSecondsAfterEmpty", "integer"),
        ("provisioner.spec.consolidation", "enabled"),
        ("awsnodetemplate.spec.amiFamily", "AL2"),
        ("awsnodetemplate.spec.blockDeviceMappings", "FIELDS"),
    ],
)
def test_kubectl_explain_knows_every_field(cluster: Cluster, field: str, words: str) -> None:
    told = cluster.kubectl("explain", field)
    assert words in told
    described = told.partition("DESCRIPTION:")[2].split("FIELDS:")[0].strip()
    assert described
    assert "<empty>" not in described


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ["spec.providerRef: is missing; name an AWSNodeTemplate: providerRef: {name: default}"]),
        (
            {
                "providerRef": {"name": "x"},
                "ttlSecondsAfterEmpty": 30,
                "consolidation": {"enabled": True},
                "labels": {"kubernetes.io/hostname": "x"},
            },
            [
                "spec.ttlSecondsAfterEmpty: cannot be combined with consolidation.enabled: true; drop ",
                'spec.labels["kubernetes.io/hostname"]: kubernetes.io/hostname is reserved',
            ],
        ),
    ],
)
def test_kubectl_is_told_all_that_is_wrong_by_the_webhook(
    cluster: Cluster, spec: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(KubectlError) as refused:
        cluster.apply(provisioner("wrong", spec))
    told = str(refused.value)
    assert 'The Provisioner "wrong" is invalid' in told
    assert all(each in told for each in words), told
    assert cluster.get(PROVISIONERS, "wrong") is None
    assert cluster.get(TEMPLATES, "wrong") is None
