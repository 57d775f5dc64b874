"""The stack's ValidatingAdmissionPolicy: of its webhooks the controller changes the caBundle alone.

Both servers store it; the real one evaluates it, and is what proves it.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from components.documents.guards import WEBHOOK_GUARD, webhook_guard
from components.documents.webhook import webhook_configurations
from tests.contract.client import JSON_PATCH, Client, eventually

ROOT = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
CONTROLLER = "system:serviceaccount:karpenter:karpenter"


@pytest.fixture
def paths(client: Client) -> Iterator[dict[str, str]]:
    """The guard and the webhooks, under names and for an API group of the test's own."""
    suffix, made = secrets.token_hex(3), {}
    for key, document in {**webhook_configurations("karpenter"), **webhook_guard("karpenter")}.items():
        if "webhooks" in document:
            document["metadata"]["name"] = f"{document['metadata']['name']}.{suffix}"
            for hook in document["webhooks"]:
                hook["rules"][0]["apiGroups"] = ["nobody.example"]
        plural = PLURALS[document["kind"]]
        client.post(f"{ROOT}/{plural}", document).ok()
        made[key] = f"{ROOT}/{plural}/{document['metadata']['name']}"
    yield made
    for path in made.values():
        client.delete(path).ok()


def changed(client: Client, path: str, where: str, value: Any, user: str = CONTROLLER) -> int:
    """The answer's code to a change of one field."""
    patch = [{"op": "add", "path": where, "value": value}]
    return client.patch(path, patch, JSON_PATCH, as_user=user).code


def test_both_objects_are_stored(client: Client, paths: dict[str, str]) -> None:
    assert client.get(paths["webhook-guard-binding"]).ok()["spec"]["policyName"] == WEBHOOK_GUARD
    assert client.get(paths["webhook-guard"]).ok()["spec"]["failurePolicy"] == "Fail"


def test_the_controller_changes_the_ca_bundle_and_nothing_else(client: Client, paths: dict[str, str]) -> None:
    if client.kind != "real":
        pytest.skip("the embedded server stores such policies and does not evaluate them")
    hooks = [path for key, path in paths.items() if "guard" not in key]
    seconds = iter(range(1, 10_000))
    # The API server reads new policies from a watch.
    eventually(lambda: changed(client, hooks[0], "/webhooks/0/timeoutSeconds", 1 + next(seconds) % 29) == 422)
    bundle = base64.b64encode(b"a certificate").decode()
    for path in hooks:
        assert changed(client, path, "/webhooks/0/clientConfig/caBundle", bundle) == 200
        assert changed(client, path, "/webhooks/0/clientConfig/service/name", "elsewhere") == 422
        assert changed(client, path, "/webhooks/0/rules/0/resources", ["secrets"]) == 422
        assert changed(client, path, "/webhooks/0/failurePolicy", "Ignore") == 422
        assert changed(client, path, "/webhooks/0/namespaceSelector", {"matchLabels": {"a": "b"}}) == 422
        assert changed(client, path, "/metadata/labels/team", "x") == 422
        hook = {**client.get(path).ok()["webhooks"][0], "name": "another.example.com"}
        assert changed(client, path, "/webhooks/-", hook) == 422
        assert changed(client, path, "/webhooks/0/timeoutSeconds", 7, user="somebody") == 200
