"""Admission webhooks: called over TLS, they change and refuse; a broken one is ignored or fails the request."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import secrets
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.contract.builders import config_map
from tests.contract.client import Client, Reply, eventually

Answer = Callable[[dict[str, Any]], dict[str, Any]]
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Hook:
    """A webhook server on loopback; `answer` turns a request into a response."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer: Answer = lambda _: {"allowed": True}
        self.certificate, key = _certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.requests.append(review["request"])
                response = {"uid": review["request"]["uid"], **hook.answer(review["request"])}
                body = json.dumps(
                    {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def config(self, namespace: str, **hook: Any) -> dict[str, Any]:
        """A configuration for ConfigMaps of one namespace."""
        bundle = base64.b64encode(self.certificate.read_bytes()).decode()
        rule = {
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
        name = f"h{secrets.token_hex(3)}"
        entry = {
            "name": f"{name}.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
            "clientConfig": {"url": f"https://127.0.0.1:{self.server.server_port}/admit", "caBundle": bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "timeoutSeconds": 5, **hook,
        }  # fmt: skip
        return {"metadata": {"name": name}, "webhooks": [entry]}


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(pem)
    return folder / "tls.crt", folder / "tls.key"


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    listening = Hook(tmp_path)
    yield listening
    listening.server.shutdown()
    listening.server.server_close()


@pytest.fixture
def install(api: Client) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """Installs configurations and takes them away again: a broken one would hit other tests."""
    installed: list[str] = []

    def do(path: str, body: dict[str, Any]) -> None:
        api.post(path, body).ok()
        installed.append(f"{path}/{body['metadata']['name']}")

    yield do
    for path in installed:
        api.delete(path).ok()


Install = Callable[[str, dict[str, Any]], None]


def probe(api: Client) -> Reply:
    """A dry run that the webhooks see."""
    return api.post(api.path("configmaps"), config_map("probe"), dryRun="All")


def called(api: Client, hook: Hook) -> bool:
    """Whether the configuration has taken effect: a real server needs a moment."""
    probe(api)
    return bool(hook.requests)


def test_a_validating_webhook_refuses_with_its_words(api: Client, hook: Hook, install: Install) -> None:
    hook.answer = lambda _: {"allowed": False, "status": {"code": 422, "message": "spec.limits: not like this"}}
    install(VALIDATING, body := hook.config(api.namespace))
    eventually(lambda: called(api, hook))
    reply = api.post(api.path("configmaps"), config_map("a"))
    assert reply.code == 422
    name = body["webhooks"][0]["name"]
    assert reply.body["message"] == f'admission webhook "{name}" denied the request: spec.limits: not like this'


def test_a_refusal_without_code_is_400(api: Client, hook: Hook, install: Install) -> None:
    hook.answer = lambda _: {"allowed": False}
    install(VALIDATING, hook.config(api.namespace))
    eventually(lambda: called(api, hook))
    reply = api.post(api.path("configmaps"), config_map("a"))
    assert reply.code == 400
    assert reply.body["message"].endswith("denied the request without explanation")


def test_a_mutating_webhook_changes_the_object(api: Client, hook: Hook, install: Install) -> None:
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    hook.answer = lambda request: (
        {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
        if request["operation"] == "CREATE"
        else {"allowed": True}
    )
    install(MUTATING, hook.config(api.namespace))
    eventually(lambda: called(api, hook))
    obj = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    assert obj["metadata"]["labels"] == {"by": "webhook"}
    assert obj["data"] == {"x": "1"}


def test_what_a_webhook_is_told(api: Client, hook: Hook, install: Install) -> None:
    install(VALIDATING, hook.config(api.namespace))
    eventually(lambda: called(api, hook))
    hook.requests.clear()
    api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    api.patch(api.path("configmaps", "a"), {"data": {"x": "2"}}).ok()
    api.delete(api.path("configmaps", "a")).ok()
    create, update, delete = hook.requests
    assert [request["operation"] for request in hook.requests] == ["CREATE", "UPDATE", "DELETE"]
    assert create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert create["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert (create["name"], create["namespace"], create["dryRun"]) == ("a", api.namespace, False)
    assert (create["object"]["data"], create["oldObject"]) == ({"x": "1"}, None)
    assert (update["object"]["data"], update["oldObject"]["data"]) == ({"x": "2"}, {"x": "1"})
    assert (delete["object"], delete["oldObject"]["data"]) == (None, {"x": "2"})
    assert create["userInfo"]["username"]


def test_warnings_reach_the_client(api: Client, hook: Hook, install: Install) -> None:
    hook.answer = lambda _: {"allowed": True, "warnings": ["think twice"]}
    install(VALIDATING, hook.config(api.namespace))
    eventually(lambda: "Warning" in probe(api).headers)
    assert '299 - "think twice"' in probe(api).headers["Warning"]


def test_an_object_selector_leaves_others_alone(api: Client, hook: Hook, install: Install) -> None:
    hook.answer = lambda _: {"allowed": False}
    install(VALIDATING, hook.config(api.namespace, objectSelector={"matchLabels": {"checked": "yes"}}))
    labelled = config_map("a", labels={"checked": "yes"})
    eventually(lambda: api.post(api.path("configmaps"), labelled, dryRun="All").code == 400)
    api.post(api.path("configmaps"), config_map("b")).ok()


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_a_webhook_that_is_not_trusted(
    api: Client, hook: Hook, install: Install, tmp_path: Path, policy: str, code: int
) -> None:
    """Another CA in caBundle: the call fails, and failurePolicy decides."""
    (tmp_path / "other").mkdir()
    other, _ = _certificate(tmp_path / "other")
    body = hook.config(api.namespace, failurePolicy=policy)
    body["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(other.read_bytes()).decode()
    install(VALIDATING, body)
    reply = eventually(lambda: probe(api), lambda reply: reply.code == code)
    assert hook.requests == []
    if policy == "Fail":
        assert f'failed calling webhook "{body["webhooks"][0]["name"]}"' in reply.body["message"]
