"""The same client and watches against a real control plane (KUBEBUILDER_ASSETS), over TLS: one is started for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from controller.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidObjectError,
    NotFoundError,
    TooManyRequestsError,
)
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.events import EventRecorder, ObjectRef
from controller.kube.lease import LeaderElector
from controller.kube.resources import EVENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, Resource
from controller.kube.watcher import WatchOptions
from sandbox import realkube
from sandbox.realkube import RealControlPlane
from tests.factories import node_object, pod_object
from tests.kube.conftest import QUICK
from tests.kube.documents import fresh
from tests.kube.server import eventually
from tests.kube.test_recovery import CORE_STATE, NEVER, OPTIONS, PATIENT, add_node, informing, outage_lines
from tests.manual_clock import ManualClock

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real-control-plane")]

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
POD = fresh(pod_object(name="p1", labels={"app": "web"}, spec={"containers": [{"name": "main", "image": "pause"}]}))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    try:
        realkube.assets_folder()
    except realkube.AssetsMissingError as missing:
        pytest.skip(str(missing))
    with realkube.serve(state=tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="module")
def client(plane: RealControlPlane) -> KubeClient:
    client = KubeClient(connect(str(realkube.running(plane).kubeconfig)), QUICK)
    client.create(
        SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, "default"
    )
    return client


def test_refusals_are_the_same_errors(client: KubeClient) -> None:
    node = client.create(NODES, fresh(node_object(name="refused")))
    with pytest.raises(AlreadyExistsError):
        client.create(NODES, fresh(node_object(name="refused")))
    client.patch(NODES, "refused", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ConflictError):
        client.update(NODES, node)
    with pytest.raises(ConflictError):
        client.delete(NODES, "refused", uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(InvalidObjectError):
        client.create(NODES, fresh(node_object(name="UPPER")))
    client.delete(NODES, "refused", uid=node["metadata"]["uid"])
    with pytest.raises(NotFoundError):
        client.get(NODES, "refused")


def test_a_stranger_is_forbidden(plane: RealControlPlane, client: KubeClient) -> None:
    stranger = connect(str(realkube.running(plane).kubeconfig))
    stranger.configuration.api_key["BearerToken"] = "Bearer wrong"
    stranger.configuration.refresh_api_key_hook = None
    with pytest.raises(ForbiddenError):
        KubeClient(stranger, QUICK).list(NODES)


def test_a_budget_forbids_an_eviction_and_lets_it_pass(client: KubeClient) -> None:
    add_node(client, "host")
    pod = client.create(PODS, {**POD, "spec": {**POD["spec"], "nodeName": "host"}}, "default")
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch(PODS, "p1", {"status": running}, namespace="default", subresource="status")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    client.create(POD_DISRUPTION_BUDGETS, budget, "default")
    uid = pod["metadata"]["uid"]
    with pytest.raises(TooManyRequestsError):
        client.evict("default", "p1", uid)
    client.delete(POD_DISRUPTION_BUDGETS, "b", "default")
    client.evict("default", "p1", uid)
    assert client.get(PODS, "p1", "default")["metadata"]["deletionTimestamp"]
    client.delete(PODS, "p1", "default", grace_period_seconds=0)
    client.delete(NODES, "host")


def test_events_are_accepted_and_counted(client: KubeClient) -> None:
    clock = ManualClock()
    recorder = EventRecorder(client, clock)
    recorder.start()
    for round_ in range(2):
        recorder.publish(ObjectRef("v1", "Node", "n1", "uid"), "Warning", "FailedDraining", "Waits")
        eventually(lambda want=round_ + 1: recorder.published == want, "the event")  # type: ignore[misc]
        clock.advance(121)
    recorder.stop()
    (event,) = client.list(EVENTS, "default", field_selector="reason=FailedDraining")
    assert (event["count"], event["source"]["component"]) == (2, "karpenter")


def test_the_lease_changes_hands(client: KubeClient) -> None:
    clock = ManualClock()
    first, second = (LeaderElector(client, "kube-system", identity, clock) for identity in ("a", "b"))
    assert first.acquire(NEVER)
    assert second.acquire(NEVER), "the first did not renew for 15 s"
    assert not first.renew_once()
    second.release()
    assert first.acquire(NEVER)
    first.release()


def test_the_server_is_killed_and_comes_back(plane: RealControlPlane, client: KubeClient) -> None:
    """Paging, TLS, real watches, an outage, and what happened meanwhile."""
    for number in range(15):
        add_node(client, f"n{number:02}")
    patient = WatchOptions(backoff=OPTIONS.backoff)
    with capture_logs() as logs, informing(client, CORE_STATE, patient) as informers:
        assert informers.wait_synced(NEVER, 30)
        assert len(informers.snapshot().nodes) == 15
        client.create(PODS, {**POD, "metadata": {"name": "p2"}}, "default")
        eventually(lambda: ("default", "p2") in informers.snapshot().pods, "the pod")
        plane.stop_apiserver()
        eventually(lambda: "server" in informers.outages.current(), "the outage is noticed")
        plane.start_apiserver()
        client.with_options(backoff=PATIENT).delete(NODES, "n00")
        eventually(lambda: "n00" not in informers.snapshot().nodes, "what was deleted after the outage")
        eventually(lambda: not informers.outages.current(), "the end of the outage")
        assert len(informers.snapshot().nodes) == 14
    assert outage_lines(logs).count("API server does not answer") == 1
    assert outage_lines(logs).count("API server answers again") == 1
    with pytest.raises(GoneError), client.watch(NODES, "1") as stream:
        next(iter(stream))  # the new process' watch cache begins after version 1
