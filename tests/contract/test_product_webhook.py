"""The product's own webhook, called by both servers: our words, our defaults, and a certificate that nobody notices."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from components.documents.webhook import webhook_configurations, webhook_secret
from controller.errors import InvalidObjectError, NotFoundError, UnavailableError
from controller.kube.client import ClientOptions, KubeClient
from controller.kube.connection import connect
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PROVISIONERS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from controller.kube.retry import Backoff
from controller.runtime.clock import SystemClock
from controller.webhook.ca_bundle import CONFIGURATIONS
from controller.webhook.certificates import ServingCertificate, from_secret, issue, server_names, to_secret
from controller.webhook.serving import Place, Webhook, WebhookTimes
from sandbox.realkube import free_ports
from sandbox.stack_kube import on_loopback
from tests.contract.client import Client, eventually
from tests.product_crds import product_crds

NAMESPACE = "karpenter"
SECRET = "karpenter-cert"
NAMES = server_names("karpenter", NAMESPACE)
ONCE = ClientOptions(backoff=Backoff(attempts=1))
TIMES = WebhookTimes(first_look_seconds=0.05, look_seconds=0.3, last_calls_seconds=0.0)
DAY = 86_400.0


@dataclass
class Cluster:
    """The stack's webhook objects, and two replicas: one is asked about defaults, the other about rules."""

    kube: KubeClient
    replicas: list[Webhook] = field(default_factory=list)

    def certificate(self) -> ServingCertificate | None:
        return from_secret(self.kube.get(SECRETS, SECRET, NAMESPACE).get("data"))

    def serving(self) -> list[str]:
        """The certificate of each replica, as a client sees it."""
        return [ssl.get_server_certificate(("127.0.0.1", each.port)) for each in self.replicas]

    def all_serve(self, certificate: ServingCertificate | None) -> bool:
        return certificate is not None and set(self.serving()) == {certificate.certificate.decode()}


def provisioner(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": name}}
    return {**head, "spec": {"providerRef": {"name": "default"}, **spec}}


@contextmanager
def deployed(kube: KubeClient) -> Iterator[Cluster]:
    with ExitStack() as undo:
        if NAMESPACE not in [each["metadata"]["name"] for each in kube.list(NAMESPACES)]:
            kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        there = {each["metadata"]["name"] for each in kube.list(CUSTOM_RESOURCE_DEFINITIONS)}
        for crd in product_crds():
            if crd["metadata"]["name"] not in there:
                kube.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        for resource in (PROVISIONERS, AWS_NODE_TEMPLATES):
            eventually(lambda resource=resource: _served(kube, resource))  # type: ignore[misc]
        kube.create(SECRETS, webhook_secret(NAMESPACE), NAMESPACE)
        undo.callback(kube.delete, SECRETS, SECRET, NAMESPACE)
        ports = free_ports(2)
        documents = {each["metadata"]["name"]: each for each in webhook_configurations(NAMESPACE).values()}
        for resource, name in CONFIGURATIONS:
            port = ports[0] if name.startswith("defaulting") else ports[1]
            document = documents[name]
            hooks = [on_loopback(hook, port) for hook in document["webhooks"]]
            kube.create(resource, {**document, "webhooks": hooks})
            undo.callback(kube.delete, resource, name)
        cluster = Cluster(kube)
        for port in ports:
            place = Place("karpenter", NAMESPACE, port)
            cluster.replicas.append(Webhook(kube=kube, place=place, clock=SystemClock(), times=TIMES))
            undo.callback(cluster.replicas[-1].close, 0.0)
            cluster.replicas[-1].start()
        yield cluster
        for resource in (PROVISIONERS, AWS_NODE_TEMPLATES):
            for each in kube.list(resource):
                kube.delete(resource, each["metadata"]["name"])


def _served(kube: KubeClient, resource: Any) -> bool:
    try:
        kube.list(resource)
    except NotFoundError:  # the definition is not established yet
        return False
    return True


@pytest.fixture
def cluster(client: Client) -> Iterator[Cluster]:
    kube = KubeClient(connect(str(client.server.kubeconfig)), ONCE)
    with deployed(kube) as served:
        eventually(lambda: not any(each.unready() for each in served.replicas))
        eventually(lambda: _accepted(served.kube, "probe"))
        served.kube.delete(PROVISIONERS, "probe")
        yield served


def _accepted(kube: KubeClient, name: str) -> bool:
    """A real server hears of a changed configuration a moment later."""
    try:
        kube.create(PROVISIONERS, provisioner(name))
    except UnavailableError:
        return False
    return True


def refusal(write: Callable[[], object]) -> str:
    with pytest.raises(InvalidObjectError) as caught:
        write()
    return str(caught.value)


def test_both_servers_refuse_with_our_words_and_keep_our_defaults(cluster: Cluster) -> None:
    kube = cluster.kube
    made = kube.create(PROVISIONERS, provisioner("good"))
    keys = [each["key"] for each in made["spec"]["requirements"]]
    assert keys == [
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "karpenter.sh/capacity-type",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-generation",
    ]
    bad = provisioner("bad", weight=0, labels={"kubernetes.io/hostname": "x"}, ttlSecondsAfterEmpty=-1)
    words = refusal(lambda: kube.create(PROVISIONERS, bad))
    assert 'admission webhook "defaulting.webhook.karpenter.k8s.aws" denied the request: ' in words
    for said in (
        'spec.labels["kubernetes.io/hostname"]: kubernetes.io/hostname is reserved',
        "spec.weight: ",
        "Empty: ",
    ):
        assert said in words, "also what the schema would have refused alone"
    change = {"spec": {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": True}}}
    words = refusal(lambda: kube.patch(PROVISIONERS, "good", change))
    assert "drop ttlSecondsAfterEmpty: consolidation removes empty nodes as well" in words
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "bad"},
        "spec": {"amiFamily": "al2", "subnetSelector": {"a": "b"}},
    }
    words = refusal(lambda: kube.create(AWS_NODE_TEMPLATES, template))
    assert "did you mean 'AL2'?" in words
    assert "spec.securityGroupSelector: is missing" in words


def test_the_second_look_refuses_what_another_webhook_made_of_it(cluster: Cluster) -> None:
    """Validation comes after every change: here nobody asks at the first look."""
    kube = cluster.kube
    resource, name = CONFIGURATIONS[0]
    hooks = kube.get(resource, name)["webhooks"]
    kube.patch(resource, name, {"webhooks": [{"name": hooks[0]["name"], "rules": []}]}, kind="strategic")
    bad = provisioner("bad", labels={"kubernetes.io/hostname": "x"})

    def denied_at_the_second_look() -> bool:
        words = refusal(lambda: kube.create(PROVISIONERS, bad))
        return 'admission webhook "validation.webhook.karpenter.sh" denied the request: ' in words

    eventually(denied_at_the_second_look)


def test_without_a_webhook_our_kinds_are_refused_and_all_others_are_not(cluster: Cluster) -> None:
    kube = cluster.kube
    kube.create(PROVISIONERS, provisioner("before"))
    for each in cluster.replicas:
        each.close(0.0)
    with pytest.raises(UnavailableError, match=r"failed calling webhook \"defaulting.webhook.karpenter.k8s.aws\""):
        kube.create(PROVISIONERS, provisioner("after"))
    kube.patch(PROVISIONERS, "before", {"status": {"resources": {"cpu": "1"}}}, subresource="status")
    kube.delete(PROVISIONERS, "before")
    kube.create(CONFIG_MAPS, {"metadata": {"generateName": "other-"}}, "default")


def test_replicas_that_start_at_once_share_one_certificate(cluster: Cluster) -> None:
    assert cluster.all_serve(cluster.certificate())


def test_a_certificate_that_is_due_is_changed_under_load_and_no_call_fails(cluster: Cluster) -> None:
    kube = cluster.kube
    kube.create(PROVISIONERS, provisioner("busy"))
    failed: list[str] = []
    calls, stop = 0, threading.Event()

    def write() -> None:
        nonlocal calls
        while not stop.is_set():
            calls += 1
            try:
                kube.patch(PROVISIONERS, "busy", {"spec": {"weight": 1 + calls % 100}})
            except UnavailableError as error:
                failed.append(str(error))

    writer = threading.Thread(target=write)
    writer.start()
    eventually(lambda: calls >= 3)
    before = cluster.certificate()
    assert before is not None
    due = issue(NAMES, time.time() - 5.5 * DAY, before)
    kube.patch(SECRETS, SECRET, {"data": to_secret(due)}, namespace=NAMESPACE)
    eventually(lambda: cluster.certificate() not in (before, due))
    after = cluster.certificate()
    eventually(lambda: cluster.all_serve(after))
    at_change = calls
    eventually(lambda: calls >= at_change + 5)
    stop.set()
    writer.join()
    assert failed == []


def test_what_somebody_does_to_the_trust_or_to_the_secret_is_mended(cluster: Cluster) -> None:
    kube = cluster.kube
    stranger = issue(NAMES, time.time())
    resource, name = VALIDATING_WEBHOOKS, "validation.webhook.karpenter.sh"
    good = kube.get(resource, name)["webhooks"][0]["clientConfig"]
    bundle = to_secret(stranger)["ca-cert.pem"]
    kube.patch(resource, name, {"webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}}]}, kind="strategic")
    eventually(lambda: kube.get(resource, name)["webhooks"][0]["clientConfig"] == good)
    kube.patch(SECRETS, SECRET, {"data": {"server-key.pem": None}}, namespace=NAMESPACE)
    eventually(lambda: cluster.all_serve(cluster.certificate()))
    eventually(lambda: _accepted(kube, "again"))
