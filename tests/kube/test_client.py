"""The client against a server: what each verb does, and which error each refusal becomes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidObjectError,
    KubeError,
    NamespaceTerminatingError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    ValidationError,
)
from controller.kube.client import ClientOptions, KubeClient
from controller.kube.connection import Connection, connect
from controller.kube.events import EventRecorder, ObjectRef
from controller.kube.resources import LEASES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, PROVISIONERS, Resource
from controller.kube.retry import Backoff
from controller.kube.transport import Request
from tests.factories import node_object, pod_object, provisioner_object
from tests.kube.documents import fresh
from tests.kube.server import Server
from tests.manual_clock import ManualClock

NODE, POD = fresh(node_object(name="n1", labels={"a": "1"})), fresh(pod_object(name="p1", labels={"app": "web"}))


def test_an_object_is_created_read_updated_and_deleted(client: KubeClient) -> None:
    created = client.create(NODES, NODE)
    assert client.get(NODES, "n1")["metadata"]["uid"] == created["metadata"]["uid"]
    created["metadata"]["labels"]["b"] = "2"
    updated = client.update(NODES, created)
    assert updated["metadata"]["labels"] == {"a": "1", "b": "2"}
    with pytest.raises(ConflictError, match=r"update Node n1"):
        client.update(NODES, created)
    client.delete(NODES, "n1")
    with pytest.raises(NotFoundError, match=r"get Node n1"):
        client.get(NODES, "n1")


def test_a_name_that_is_taken_is_not_a_stale_version(client: KubeClient) -> None:
    client.create(NODES, NODE)
    with pytest.raises(AlreadyExistsError, match=r"create Node n1"):
        client.create(NODES, NODE)


def test_merge_patches_and_strategic_patches(client: KubeClient) -> None:
    client.create(NODES, {**NODE, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    client.patch(NODES, "n1", {"metadata": {"labels": {"a": None, "m": "1"}}})
    strategic = {"metadata": {"labels": {"s": "1"}}}
    assert client.patch(NODES, "n1", strategic, kind="strategic")["metadata"]["labels"] == {"m": "1", "s": "1"}


def test_a_merge_patch_with_a_stale_version_is_a_conflict(client: KubeClient) -> None:
    version = client.create(NODES, NODE)["metadata"]["resourceVersion"]
    client.patch(NODES, "n1", {"metadata": {"labels": {"b": "1"}}})
    with pytest.raises(ConflictError):
        client.patch(NODES, "n1", {"metadata": {"resourceVersion": version, "labels": {"b": "2"}}})


def test_status_is_patched_as_a_subresource(crds: KubeClient) -> None:
    crds.create(PROVISIONERS, fresh(provisioner_object(name="p")))
    crds.patch(PROVISIONERS, "p", {"status": {"resources": {"cpu": "4"}}}, subresource="status")
    assert crds.get(PROVISIONERS, "p")["status"]["resources"] == {"cpu": "4"}


def test_deletion_of_another_object_of_the_same_name_is_refused(client: KubeClient) -> None:
    client.create(NODES, NODE)
    with pytest.raises(ConflictError):
        client.delete(NODES, "n1", uid="00000000-0000-0000-0000-000000000000")
    assert client.get(NODES, "n1")


def test_lists_are_paged_and_whole(client: KubeClient) -> None:
    for number in range(20):
        client.create(PODS, fresh(pod_object(name=f"p{number:02}", labels={"half": str(number % 2)})), "default")
    assert [pod["metadata"]["name"] for pod in client.list(PODS)] == [f"p{number:02}" for number in range(20)]
    assert len(client.list(PODS, "default", label_selector="half=1")) == 10
    assert len(client.list(PODS, field_selector="metadata.name=p03")) == 1
    assert client.list(PODS, "elsewhere") == []


def test_a_page_token_that_expires_in_the_middle_starts_the_list_anew(server: Server, client: KubeClient) -> None:
    for number in range(20):
        client.create(PODS, fresh(pod_object(name=f"p{number:02}")), "default")
    pages = 0

    class Compacting(KubeClient):
        def _read(self, request: Request, decode: Callable[[bytes], Any], form: str) -> Any:
            """Forget the history before the second page."""
            nonlocal pages
            pages += 1
            if pages == 2:
                client.create(PODS, fresh(pod_object(name="late")), "default")
                server.fault(kind="compact")
            return super()._read(request, decode, form)

    listing = Compacting(client.connection, client.options)
    assert len(listing.list(PODS)) == 21
    assert pages > 4, "a second round was needed"


def test_eviction_of_the_very_pod(client: KubeClient) -> None:
    uid = client.create(PODS, POD, "default")["metadata"]["uid"]
    with pytest.raises(ConflictError):
        client.evict("default", "p1", "00000000-0000-0000-0000-000000000000")
    client.evict("default", "p1", uid)
    with pytest.raises(NotFoundError):
        client.evict("default", "p1", uid)


@pytest.mark.parametrize(
    ("budgets", "status", "words"),
    [(1, 429, r"disruption budget\. The disruption budget b0 "), (2, 500, "more than one PodDisruptionBudget")],
)
def test_an_eviction_that_budgets_forbid_is_raised_at_once(
    client: KubeClient, budgets: int, status: int, words: str
) -> None:
    uid = client.create(PODS, POD, "default")["metadata"]["uid"]
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch(PODS, "p1", {"status": running}, namespace="default", subresource="status")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    for number in range(budgets):
        document = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": f"b{number}"}}
        client.create(POD_DISRUPTION_BUDGETS, {**document, "spec": budget}, "default")
    clock = ManualClock()
    with pytest.raises(KubeError, match=words) as caught:
        KubeClient(client.connection, client.options, clock).evict("default", "p1", uid)
    assert caught.value.status == status
    assert isinstance(caught.value, TooManyRequestsError if budgets == 1 else UnavailableError)
    assert clock.waits == [], "it is the caller who decides when to ask again"


def test_a_namespace_that_ends_is_no_missing_right(client: KubeClient) -> None:
    """Whoever drains a node or writes an event there need not complain."""
    held = fresh(pod_object(name="held", namespace="ending", spec={"containers": [{"name": "main", "image": "pause"}]}))
    client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    uid = client.create(PODS, held, "ending")["metadata"]["uid"]
    client.delete(NAMESPACES, "ending")
    with pytest.raises(NamespaceTerminatingError, match="being terminated"):
        client.evict("ending", "held", uid)
    with capture_logs() as logs:
        recorder = EventRecorder(client, ManualClock())
        recorder.start()
        recorder.publish(ObjectRef("v1", "Pod", "held", uid, "ending"), "Normal", "Test", "Hello")
        recorder.stop(timeout_seconds=15)
    assert recorder.dropped == 1
    assert not logs


def test_an_invalid_object_is_refused_with_the_servers_words(client: KubeClient) -> None:
    with pytest.raises(InvalidObjectError, match=r"create Pod default/UPPER: .*metadata\.name"):
        client.create(PODS, fresh(pod_object(name="UPPER")), "default")


def test_wrong_credentials_are_forbidden(server: Server, client: KubeClient) -> None:
    stranger = connect(server.kubeconfig)
    stranger.configuration.api_key["BearerToken"] = "Bearer wrong"
    stranger.configuration.refresh_api_key_hook = None
    with pytest.raises(ForbiddenError):
        KubeClient(stranger).get(NODES, "n1")


def test_a_namespaced_object_needs_its_namespace(client: KubeClient) -> None:
    with pytest.raises(ValueError, match="namespace"):
        client.get(PODS, "p1")


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (NODES, "/api/v1/nodes/a/status"),
        (PODS, "/api/v1/namespaces/ns/pods/a/status"),
        (LEASES, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a/status"),
        (PROVISIONERS, "/apis/karpenter.sh/v1alpha5/provisioners/a/status"),
    ],
)
def test_paths(resource: Resource, path: str) -> None:
    assert resource.path("ns", "a", "status") == path


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert NODES.path("", "../pods?x=#") == "/api/v1/nodes/..%2Fpods%3Fx%3D%23"


class TestRetries:
    def test_a_busy_server_is_asked_again_after_the_time_it_names(self, server: Server, client: KubeClient) -> None:
        server.fault(kind="errors", seconds=60, code=429, rate=1.0, retry_after_seconds=7)
        clock = ManualClock()
        with pytest.raises(TooManyRequestsError):
            KubeClient(client.connection, client.options, clock).create(NODES, NODE)
        assert clock.waits == [7.0, 7.0], "three attempts; nothing was done, so that even a create may be repeated"

    def test_a_failing_server_is_asked_again_with_growing_waits(self, server: Server, client: KubeClient) -> None:
        server.fault(kind="errors", seconds=60, code=500, rate=1.0)
        clock = ManualClock()
        options = ClientOptions(backoff=Backoff(initial_seconds=1.0, max_seconds=4.0, attempts=5))
        with pytest.raises(UnavailableError) as caught:
            KubeClient(client.connection, options, clock).get(NODES, "n1")
        assert caught.value.status == 500
        bounds = [1.0, 2.0, 4.0, 4.0]
        assert len(clock.waits) == len(bounds)
        assert all(bound / 2 <= wait <= bound for wait, bound in zip(clock.waits, bounds, strict=True))

    def test_a_create_that_may_have_been_done_is_not_repeated(self, server: Server, client: KubeClient) -> None:
        server.fault(kind="errors", seconds=60, code=500, rate=1.0)
        clock = ManualClock()
        with pytest.raises(UnavailableError):
            KubeClient(client.connection, client.options, clock).create(NODES, NODE)
        assert clock.waits == []

    def test_a_create_that_never_left_is_repeated(self, client: KubeClient) -> None:
        clock = ManualClock()
        with pytest.raises(UnavailableError, match="no connection"):
            KubeClient(nobody(client.connection), client.options, clock).create(NODES, NODE)
        assert len(clock.waits) == 2

    def test_attempts_end_when_the_process_stops(self, client: KubeClient) -> None:
        stop = threading.Event()
        stop.set()
        clock = ManualClock()
        with pytest.raises(UnavailableError):
            KubeClient(nobody(client.connection), client.options, clock, stop).get(NODES, "n1")
        assert clock.waits == []


def test_the_rate_limit_holds_after_the_burst(client: KubeClient) -> None:
    clock = ManualClock()
    limited = KubeClient(client.connection, ClientOptions(qps=10, burst=5), clock)
    begun = clock.monotonic()
    for _ in range(25):
        limited.list(NODES)
    assert clock.monotonic() - begun == pytest.approx(2.0)


def test_a_kubeconfig_that_is_not_there_is_said_with_the_remedy(server: Server) -> None:
    with pytest.raises(ValidationError, match="KUBECONFIG"):
        connect(server.kubeconfig + "-not-there")


def test_the_server_learns_who_asks(client: KubeClient) -> None:
    assert client.options.user_agent.startswith("nodeless/")
    assert client.version()["major"] == "1"


def nobody(connection: Connection) -> Connection:
    """The same pool, towards a port where nobody listens."""
    return Connection("http://127.0.0.1:1", connection.pool, connection.configuration)
