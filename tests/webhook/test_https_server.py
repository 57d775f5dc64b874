"""The HTTPS server: who is answered what, and that nobody notices a change of certificate or another's bad manners."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest

from controller.webhook import https_server
from controller.webhook.admission import MAX_BODY_BYTES
from controller.webhook.certificates import ServingCertificate, issue, server_names
from controller.webhook.https_server import AdmissionServer

NAMES = server_names("karpenter", "karpenter")
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def held() -> ServingCertificate:
    return issue(NAMES, time.time())


@pytest.fixture(scope="module")
def server(held: ServingCertificate) -> Iterator[AdmissionServer]:
    running = AdmissionServer(0)
    assert running.port == 0, "nothing is answered before there is a certificate"
    running.use(held)
    yield running
    running.close()


def connection(server: AdmissionServer, trust: ServingCertificate) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cadata=trust.authorities.decode())
    return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)


def review() -> bytes:
    obj = {"metadata": {"name": "a"}, "spec": {"providerRef": {"name": "default"}}}
    request = {"uid": "u", "kind": {"kind": "Provisioner"}, "operation": "CREATE", "object": obj}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def post(to: http.client.HTTPSConnection, path: str = "/validate/karpenter.sh?timeout=10s") -> bool:
    to.request("POST", path, review(), JSON)
    reply = to.getresponse()
    body = json.loads(reply.read())
    assert reply.status == 200
    return bool(body["response"]["allowed"])


def test_a_connection_is_kept_for_the_next_review(server: AdmissionServer, held: ServingCertificate) -> None:
    client = connection(server, held)
    assert post(client)
    first = client.sock
    assert post(client)
    assert client.sock is first


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "code"),
    [
        ("POST", "/", JSON, b"{}", 404),
        ("POST", "/validate/karpenter.sh", JSON, b"no json", 400),
        ("POST", "/validate/karpenter.sh", {"Content-Type": "text/plain"}, b"{}", 415),
        ("POST", "/validate/karpenter.sh", {**JSON, "Content-Length": str(MAX_BODY_BYTES + 1)}, b"", 413),
        ("POST", "/validate/karpenter.sh", {**JSON, "Content-Length": "-1"}, b"", 411),
        ("GET", "/validate/karpenter.sh", {}, b"", 501),
    ],
)
def test_refusals(
    server: AdmissionServer,
    held: ServingCertificate,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    code: int,
) -> None:
    client = connection(server, held)
    client.request(method, path, body, headers)
    assert client.getresponse().status == code


def test_who_connects_and_says_nothing_holds_up_nobody(server: AdmissionServer, held: ServingCertificate) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    assert post(connection(server, held))
    for each in silent:
        each.close()


def test_a_new_certificate_serves_from_the_next_connection_on(held: ServingCertificate) -> None:
    """And the connections that are open go on."""
    server = AdmissionServer(0)
    server.use(held)
    kept = connection(server, held)
    assert post(kept)
    port = server.port
    after = issue(NAMES, time.time())
    server.use(after)
    assert server.port == port
    assert post(connection(server, after))
    assert post(kept)
    with pytest.raises(ssl.SSLCertVerificationError):
        post(connection(server, held))
    with pytest.raises(ValueError, match="no certificate"):
        server.use(ServingCertificate(after.key, b"text", b"text"))
    assert post(connection(server, after)), "the good one stays"
    server.close()


def test_who_is_connected_at_the_end_is_sent_away_after_the_answer(held: ServingCertificate) -> None:
    server = AdmissionServer(0)
    server.use(held)
    active, idle = connection(server, held), connection(server, held)
    assert post(active)
    assert post(idle)
    server.drain()
    assert post(active), "it is answered"
    assert active.sock is None, "and told to connect anew"
    server.close()
    with pytest.raises((OSError, http.client.HTTPException)):
        post(idle)
    with pytest.raises(OSError, match="refused"):
        connection(server, held).connect()


def test_large_bodies_take_turns_and_small_ones_need_not_wait(
    server: AdmissionServer, held: ServingCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https_server, "LARGE_WAIT_SECONDS", 0.05)
    listener = server._listener
    assert listener is not None
    large = b" " * (https_server.SMALL_BODY_BYTES + 1)
    assert status(connection(server, held), large) == 400, "it is read, and is no review"
    for _ in range(https_server.MAX_LARGE_BODIES):
        assert listener.large.acquire(timeout=20)
    assert status(connection(server, held), large) == 503
    assert post(connection(server, held)), "a small one is answered"
    listener.large.release()
    assert status(connection(server, held), large) == 400


def status(client: http.client.HTTPSConnection, body: bytes) -> int:
    client.request("POST", "/validate/karpenter.sh", body, JSON)
    return client.getresponse().status


def test_a_body_that_never_ends_is_cut_at_the_requests_deadline(
    server: AdmissionServer, held: ServingCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connection(server, held)
    assert post(client), "the handshake is over"
    monkeypatch.setattr(https_server, "REQUEST_SECONDS", 0.2)
    client.putrequest("POST", "/validate/karpenter.sh")
    client.putheader("Content-Type", "application/json")
    client.putheader("Content-Length", "1000000")
    client.endheaders()
    pause = threading.Event()
    for _ in range(1000):
        try:
            client.send(b" ")
        except OSError:
            return
        pause.wait(0.02)
    pytest.fail("the server waits without end")


def test_a_handshake_that_never_ends_is_cut(server: AdmissionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https_server, "REQUEST_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", server.port), 20) as silent:
        assert silent.recv(1) == b""
