"""A replica's webhook, look by look: ready only when it may be called, never ahead of whom the API server trusts."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from components.documents.webhook import webhook_configurations, webhook_secret
from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import NAMESPACES, SECRETS
from controller.operator.composition import OperatorTimes
from controller.operator.options import Options
from controller.operator.process import serve_webhook
from controller.runtime.clock import SystemClock
from controller.telemetry.health import Health
from controller.webhook.ca_bundle import CONFIGURATIONS
from controller.webhook.certificates import RENEW_BEFORE, VALID_FOR, ServingCertificate, from_secret
from controller.webhook.serving import Place, Webhook, WebhookTimes
from sandbox.apiserver import serve
from tests.reconcilers.conftest import SettableClock

NAMESPACE, SECRET = "karpenter", "karpenter-cert"
DUE_SECONDS = (VALID_FOR - RENEW_BEFORE).total_seconds()
NEVER = threading.Event()
QUICK = OperatorTimes(webhook=WebhookTimes(first_look_seconds=0.02, look_seconds=0.02, last_calls_seconds=0.0))


@dataclass
class Stage:
    """The stack's webhook objects in an API server that calls nobody, and replicas whose looks the test takes."""

    kube: KubeClient
    clock: SettableClock = field(default_factory=SettableClock)
    made: list[Webhook] = field(default_factory=list)

    def replica(self) -> Webhook:
        self.made.append(Webhook(kube=self.kube, place=Place("karpenter", NAMESPACE, 0), clock=self.clock))
        return self.made[-1]

    def held(self) -> ServingCertificate:
        held = from_secret(self.kube.get(SECRETS, SECRET, NAMESPACE).get("data"))
        assert held is not None
        return held

    def trusted(self) -> set[bytes]:
        """What each webhook of each configuration trusts."""
        hooks = [hook for resource, name in CONFIGURATIONS for hook in self.kube.get(resource, name)["webhooks"]]
        return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeClient]:
    kubeconfig: Path = tmp_path_factory.mktemp("webhook") / "kubeconfig"
    with serve(kubeconfig=kubeconfig):
        kube = KubeClient(connect(str(kubeconfig)))
        kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield kube


@pytest.fixture
def stage(api: KubeClient) -> Iterator[Stage]:
    documents = {each["metadata"]["name"]: each for each in webhook_configurations(NAMESPACE).values()}
    api.create(SECRETS, webhook_secret(NAMESPACE), NAMESPACE)
    for resource, name in CONFIGURATIONS:
        api.create(resource, documents[name])
    made = Stage(api)
    yield made
    for each in made.made:
        each.close(0.0)
    api.delete(SECRETS, SECRET, NAMESPACE)
    for resource, name in CONFIGURATIONS:
        api.delete(resource, name)


def answers_with(replica: Webhook) -> bytes:
    """The certificate that a client is shown."""
    return ssl.get_server_certificate(("127.0.0.1", replica.port)).encode()


def test_the_first_look_makes_the_certificate_has_it_trusted_and_serves(stage: Stage) -> None:
    replica = stage.replica()
    assert replica.unready() == "there is no certificate yet"
    replica.look()
    assert replica.unready() == ""
    assert stage.trusted() == {stage.held().authorities}
    assert answers_with(replica) == stage.held().certificate


def test_every_replica_serves_the_one_certificate(stage: Stage) -> None:
    """Whoever comes second takes what is there, and changes nothing."""
    first, second = stage.replica(), stage.replica()
    first.look()
    before = stage.held()
    second.look()
    assert stage.held() == before
    assert answers_with(first) == answers_with(second) == before.certificate
    assert second.unready() == ""


def test_a_renewed_certificate_is_trusted_first_and_taken_up_one_look_later_at_most(stage: Stage) -> None:
    """By the replica that made it and by the others; nobody answers with it before all trust it."""
    first, second = stage.replica(), stage.replica()
    first.look()
    second.look()
    old = stage.held()
    stage.clock.ahead_seconds = DUE_SECONDS - 60
    first.look()
    assert stage.held() == old, "not a minute too early"
    stage.clock.ahead_seconds = DUE_SECONDS + 60
    first.look()
    new = stage.held()
    assert new != old
    assert stage.trusted() == {new.authorities}
    assert old.authorities in new.authorities, "who still answers with the old one is trusted as well"
    assert answers_with(first) == answers_with(second) == old.certificate
    second.look()
    assert answers_with(second) == old.certificate, "it has only just seen that the new one is trusted"
    first.look()
    second.look()
    assert answers_with(first) == answers_with(second) == new.certificate
    assert first.unready() == second.unready() == ""


def test_a_certificate_that_changes_again_before_it_is_taken_up_waits_for_its_own_turn(stage: Stage) -> None:
    replica, other = stage.replica(), stage.replica()
    replica.look()
    first = stage.held()
    stage.clock.ahead_seconds = DUE_SECONDS + 60
    replica.look()
    stage.clock.ahead_seconds = 2 * DUE_SECONDS + 120
    other.look()
    assert replica.unready() == ""
    replica.look()
    assert answers_with(replica) == first.certificate
    replica.look()
    assert answers_with(replica) == stage.held().certificate


def test_a_bundle_that_somebody_changed_is_right_again_after_one_look(stage: Stage) -> None:
    replica = stage.replica()
    replica.look()
    resource, name = CONFIGURATIONS[1]
    emptied = {"webhooks": [{"name": name, "clientConfig": {"caBundle": None}}]}
    stage.kube.patch(resource, name, emptied, kind="strategic")
    assert b"" in stage.trusted()
    replica.look()
    assert stage.trusted() == {stage.held().authorities}


def test_without_its_secret_it_says_what_to_do_and_what_serves_goes_on(stage: Stage) -> None:
    replica = stage.replica()
    replica.look()
    shown = answers_with(replica)
    stage.kube.delete(SECRETS, SECRET, NAMESPACE)
    with pytest.raises(NotFoundError, match="deploy the stack again, or set DISABLE_WEBHOOK"):
        replica.look()
    assert answers_with(replica) == shown
    stage.kube.create(SECRETS, webhook_secret(NAMESPACE), NAMESPACE)


def test_a_process_is_not_ready_before_its_webhook_is_and_that_waits_for_nothing_else(stage: Stage) -> None:
    """There are neither settings nor an AWS here: what is applied after the controller is ready is looked at."""
    secret = stage.kube.get(SECRETS, SECRET, NAMESPACE)
    stage.kube.delete(SECRETS, SECRET, NAMESPACE)
    health, options = Health(), Options(NAMESPACE, karpenter_service="karpenter", webhook_port=0)
    webhook = serve_webhook(options, stage.kube, SystemClock(), QUICK, health)
    assert webhook is not None
    try:
        page = _page_until(health, f"there is no Secret {NAMESPACE}/{SECRET}")
        assert "[-]webhook failed" in page
        assert health.readyz({}).status == 500
        secret["metadata"] = {"name": SECRET, "namespace": NAMESPACE}
        stage.kube.create(SECRETS, secret, NAMESPACE)
        _page_until(health, "[+]webhook ok")
        assert health.readyz({}).status == 200
        assert answers_with(webhook) == stage.held().certificate
        assert "no region is known to sell m5.larg; did you mean 'm5.large'?" in _said_of_type(
            webhook, stage, "m5.larg"
        )
    finally:
        webhook.close(0.0)


def _said_of_type(webhook: Webhook, stage: Stage, instance_type: str) -> str:
    """The answer to a Provisioner that requires this type: the process gives the webhook the table of types."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]}
    obj = {"metadata": {"name": "a"}, "spec": {"providerRef": {"name": "b"}, "requirements": [requirement]}}
    request = {"uid": "u", "kind": {"kind": "Provisioner"}, "operation": "CREATE", "object": obj}
    review = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request})
    trust = ssl.create_default_context(cadata=stage.held().authorities.decode())
    to = http.client.HTTPSConnection("127.0.0.1", webhook.port, timeout=10, context=trust)
    try:
        to.request("POST", "/validate/karpenter.sh", review, {"Content-Type": "application/json"})
        return to.getresponse().read().decode()
    finally:
        to.close()


@pytest.mark.parametrize("options", [Options("n"), Options("n", karpenter_service="k", disable_webhook=True)])
def test_no_webhook_where_none_is_wanted(options: Options, stage: Stage) -> None:
    health = Health()
    assert serve_webhook(options, stage.kube, SystemClock(), QUICK, health) is None
    assert "webhook" not in health.readyz({}).body.decode()


def _page_until(health: Health, words: str) -> str:
    clock = SystemClock()
    deadline = clock.monotonic() + 10.0
    while words not in (text := health.readyz({}).body.decode()):
        assert clock.monotonic() < deadline, f"never said: {words}"
        clock.wait(NEVER, 0.01)
    return text
