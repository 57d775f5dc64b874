"""The product's own CRDs: both servers accept them, keep the guides' objects and refuse bad ones with our words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.client import Client, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROVISIONERS = "/apis/karpenter.sh/v1alpha5/provisioners"
TEMPLATES = "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates"
FOLDER = Path(__file__).parents[2] / "crds"


@pytest.fixture
def product(client: Client) -> Iterator[Client]:
    definitions = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
    for crd in definitions:
        if client.get(f"{CRDS}/{crd['metadata']['name']}").code == 404:
            client.post(CRDS, crd, fieldValidation="Strict").ok()
    eventually(lambda: {client.get(path).code for path in (PROVISIONERS, TEMPLATES)} == {200})
    yield client
    for path in (PROVISIONERS, TEMPLATES):
        client.delete(path).ok()


def provisioner(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default"}, "spec": spec}


def template(**spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}
    return {**kind, "metadata": {"name": "default"}, "spec": spec}


SELECTORS = {
    "subnetSelector": {"karpenter.sh/discovery": "c"},
    "securityGroupSelector": {"karpenter.sh/discovery": "c"},
}
SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}


def test_the_guides_provisioner_is_kept_as_sent(product: Client) -> None:
    spec = {
        "requirements": [SPOT],
        "limits": {"resources": {"cpu": 1000}},
        "providerRef": {"name": "default"},
        "ttlSecondsAfterEmpty": 30,
    }
    assert product.post(PROVISIONERS, provisioner(**spec), fieldValidation="Strict").ok()["spec"] == spec


def test_the_guides_template_is_kept_as_sent(product: Client) -> None:
    assert product.post(TEMPLATES, template(**SELECTORS), fieldValidation="Strict").ok()["spec"] == SELECTORS


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (PROVISIONERS, provisioner(), "exactly one of providerRef and provider must be given"),
        (
            PROVISIONERS,
            provisioner(providerRef={"name": "x"}, ttlSecondsAfterEmpty=30, consolidation={"enabled": True}),
            "ttlSecondsAfterEmpty cannot be combined with consolidation.enabled",
        ),
        (
            PROVISIONERS,
            provisioner(providerRef={"name": "x"}, requirements=[{**SPOT, "operator": "Like"}]),
            'spec.requirements[0].operator: Unsupported value: "Like"',
        ),
        (TEMPLATES, template(securityGroupSelector={"a": "b"}), "subnetSelector is missing"),
        (TEMPLATES, template(**SELECTORS, amiFamily="Windows95"), 'spec.amiFamily: Unsupported value: "Windows95"'),
    ],
)
def test_bad_objects_are_refused_with_our_words(product: Client, path: str, body: dict[str, Any], words: str) -> None:
    assert words in product.post(path, body).refused(422, "Invalid")["message"]


def test_the_status_subresource_and_the_category(product: Client) -> None:
    product.post(PROVISIONERS, provisioner(providerRef={"name": "default"})).ok()
    status = {"resources": {"cpu": "4", "memory": "16Gi"}}
    assert product.patch(f"{PROVISIONERS}/default/status", {"status": status}).ok()["status"] == status
    listed = {r["name"]: r for r in product.get("/apis/karpenter.sh/v1alpha5").ok()["resources"]}
    assert listed["provisioners"]["categories"] == ["karpenter"]
    assert "provisioners/status" in listed
