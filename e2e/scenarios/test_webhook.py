"""The admission webhook, called by the real API server with the controller's own certificate."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

from components.documents.webhook import SECRET, webhook_configurations
from controller.webhook.certificates import ServingCertificate, from_secret, issue, server_names, to_secret
from e2e.cluster import PROVISIONERS, Cluster
from e2e.scenario import Scenario, provisioner
from sandbox.environment import NAMESPACE
from sandbox.world.resources import Resource

GROUP = "admissionregistration.k8s.io/v1"
CONFIGURATIONS = {
    "MutatingWebhookConfiguration": Resource(GROUP, "mutatingwebhookconfigurations", "", namespaced=False),
    "ValidatingWebhookConfiguration": Resource(GROUP, "validatingwebhookconfigurations", "", namespaced=False),
}
SECRETS = Resource("v1", "secrets", "Secret")
AGE_WHEN_DUE_SECONDS = 5.5 * 86_400
ROTATION_SECONDS = 90.0
"""Each replica looks every 10 s, and answers with a new certificate one look after it is trusted."""


def test_only_the_way_to_the_service_differs_from_the_stack(cluster: Cluster) -> None:
    """There is no network to Services here: a url stands for the Service, and every other field is the stack's."""
    for document in webhook_configurations(NAMESPACE).values():
        there = cluster.get(CONFIGURATIONS[document["kind"]], document["metadata"]["name"])
        assert there is not None
        for declared, applied in zip(document["webhooks"], there["webhooks"], strict=True):
            service = declared["clientConfig"]["service"]
            assert applied["clientConfig"]["url"].endswith(service["path"])
            assert "service" not in applied["clientConfig"]
            assert _contains(applied, {key: value for key, value in declared.items() if key != "clientConfig"})


def test_defaults_are_filled_and_an_equal_provisioner_is_warned_of(world: Scenario) -> None:
    """What the controller would assume is written into the object; what is written next is compared with it."""
    world.provisioner(requirements=[])
    defaulted = world.cluster.get(PROVISIONERS, world.namespace)
    assert defaulted is not None
    chosen = {each["key"]: (each["operator"], each["values"]) for each in defaulted["spec"]["requirements"]}
    assert chosen["karpenter.sh/capacity-type"] == ("In", ["on-demand"])
    assert chosen["kubernetes.io/arch"] == ("In", ["amd64"])
    assert chosen["kubernetes.io/os"] == ("In", ["linux"])
    assert chosen["karpenter.k8s.aws/instance-category"] == ("In", ["c", "m", "r"])
    equal = {**defaulted, "metadata": {"name": f"{world.namespace}-equal"}}

    def warned() -> bool:
        reply = world.cluster.http.post(PROVISIONERS.path(), equal, dryRun="All")
        return f"spec.weight: the same as of {world.namespace}" in reply.headers.get("Warning", "")

    world.cluster.until(warned, "the equal Provisioner is named")


def test_the_certificate_is_rotated_under_load(world: Scenario) -> None:
    """One that is due is replaced, trusted by the API server and served by the replicas; no write fails meanwhile."""
    cluster = world.cluster
    before = _certificate(cluster)
    failed: list[str] = []
    calls, stop = 0, threading.Event()

    def write() -> None:
        nonlocal calls
        while not stop.wait(0.02):
            body = provisioner("rotation", {"providerRef": {"name": "default"}, "weight": 1 + calls % 100})
            reply = cluster.http.post(PROVISIONERS.path(), body, dryRun="All")
            calls += 1
            if reply.code != 201:
                failed.append(str(reply.body))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    due = issue(server_names("karpenter", NAMESPACE), time.time() - AGE_WHEN_DUE_SECONDS, before)
    cluster.http.patch(SECRETS.path(NAMESPACE, SECRET), {"data": to_secret(due)}).ok()
    new = cluster.until(lambda: _replaced(cluster, due), "a new certificate is in the Secret", ROTATION_SECONDS)
    assert new is not None
    cluster.until(lambda: _trusted(cluster, new), "the API server trusts its authority", ROTATION_SECONDS)
    at_change = calls
    cluster.until(lambda: calls > at_change + 20, "calls go on")
    stop.set()
    writer.join(30)
    assert failed == []


def _certificate(cluster: Cluster) -> ServingCertificate:
    secret = cluster.get(SECRETS, SECRET, NAMESPACE)
    assert secret is not None
    certificate = from_secret(secret["data"])
    assert certificate is not None
    return certificate


def _replaced(cluster: Cluster, due: ServingCertificate) -> ServingCertificate | None:
    certificate = _certificate(cluster)
    return None if certificate == due else certificate


def _trusted(cluster: Cluster, new: ServingCertificate) -> bool:
    """Every configuration has the Secret's authorities."""
    wanted = to_secret(new)["ca-cert.pem"]
    configurations = [
        cluster.get(CONFIGURATIONS[document["kind"]], document["metadata"]["name"])
        for document in webhook_configurations(NAMESPACE).values()
    ]
    bundles = [
        hook["clientConfig"]["caBundle"]
        for configuration in configurations
        if configuration
        for hook in configuration["webhooks"]
    ]
    return all(base64.b64decode(bundle) == base64.b64decode(wanted) for bundle in bundles)


def _contains(applied: Any, declared: Any) -> bool:
    """Whether all that was declared is there; the API server adds its defaults."""
    if isinstance(declared, dict):
        return all(key in applied and _contains(applied[key], value) for key, value in declared.items())
    if isinstance(declared, list):
        return len(applied) == len(declared) and all(map(_contains, applied, declared))
    return bool(applied == declared)
