"""What loops, clients and the cloud's callers measure of themselves, as the page tells it."""

from __future__ import annotations

import threading

import pytest

from controller.core.cloud import CloudProvider
from controller.errors import CloudError, InsufficientCapacityError, NotFoundError, UnavailableError
from controller.kube.client import ClientOptions, KubeClient
from controller.kube.connection import connect
from controller.kube.resources import NAMESPACES, NODES
from controller.kube.retry import Backoff
from controller.runtime.loops import Loop
from controller.telemetry.measured_cloud import METHODS, measured_cloud
from controller.telemetry.registry import Metrics
from tests import factories
from tests.core.instances import cloud_instance
from tests.kube.conftest import server
from tests.kube.server import Server
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.runtime.test_loops import Scripted, Source
from tests.telemetry.test_registry import values

__all__ = ["server"]


def test_passes_of_a_loop_are_counted_by_result_and_timed() -> None:
    metrics, clock = Metrics(ManualClock()), ManualClock()
    loop = Loop(Scripted(CloudError("down")), Source(), clock, threading.Event(), recorder=metrics)
    for _ in range(3):
        loop.step()
    page = metrics.page({}).body
    name = loop.name
    results = values(page, "controller_runtime_reconcile_total", "controller", "result")
    assert results == {(name, "error"): 1.0, (name, "success"): 2.0}
    assert values(page, "controller_runtime_reconcile_errors_total", "controller") == {(name,): 1.0}
    assert values(page, "controller_runtime_reconcile_time_seconds_count", "controller") == {(name,): 3.0}


def test_requests_are_counted_by_code_as_client_go_does(server: Server) -> None:
    metrics = Metrics()
    once = ClientOptions(backoff=Backoff(attempts=1))
    kube = KubeClient(connect(server.kubeconfig), once, recorder=metrics)
    kube.get(NAMESPACES, "default")
    with pytest.raises(NotFoundError):
        kube.get(NODES, "nobody")
    server.fault(kind="outage", seconds=30)
    with pytest.raises(UnavailableError):
        kube.get(NAMESPACES, "default")
    requests = values(metrics.page({}).body, "rest_client_requests_total", "code", "method", "host")
    host = server.url.partition("//")[2]
    assert requests == {(code, "GET", host): 1.0 for code in ("200", "404", "<error>")}


def test_every_call_that_asks_the_cloud_is_measured_under_its_method() -> None:
    metrics, memory = Metrics(ManualClock()), MemoryCloud()
    cloud = measured_cloud(memory, metrics, ManualClock())
    instance, template = memory.add(cloud_instance(number=1)), factories.node_template()
    assert cloud.get(instance.provider_id) == instance
    assert cloud.list() == (instance,)
    cloud.delete(instance.provider_id)
    assert memory.deleted == [instance.provider_id]
    assert cloud.instance_types(factories.provisioner(), template) == memory.types
    assert cloud.image_ids(template) == memory.image_ids(template)
    assert cloud.template_status(template) == memory.status
    cloud.check_permissions()
    counts = values(metrics.page({}).body, "karpenter_cloudprovider_duration_seconds_count", "method")
    measured = ("Get", "List", "Delete", "GetInstanceTypes", "GetImageIDs", "GetTemplateStatus", "CheckPermissions")
    assert counts == {(method,): 1.0 for method in measured}


def test_measured_methods_are_methods_of_a_cloud_provider() -> None:
    assert [name for name in METHODS if not callable(getattr(CloudProvider, name, None))] == []


def test_members_that_ask_nothing_are_passed_on_unmeasured() -> None:
    metrics, memory = Metrics(ManualClock()), MemoryCloud()
    cloud = measured_cloud(memory, metrics, ManualClock())
    assert cloud.interruptions is memory.interruptions
    cloud.spot_interrupted("m5.large", "a")
    assert memory.spot_interruptions == [("m5.large", "a")]
    cloud.restore_memory({"m5.large_ami-1": "8000000000"})
    assert cloud.learn_memory(()) == {"m5.large_ami-1": "8000000000"}
    assert cloud.advice(factories.provisioner(), factories.node_template()) == ()
    cloud.refresh()
    assert not values(metrics.page({}).body, "karpenter_cloudprovider_duration_seconds_count", "method")


def test_calls_of_the_cloud_are_timed_by_who_called_and_failures_counted_by_kind() -> None:
    class Dry(MemoryCloud):
        def list(self) -> tuple[()]:
            raise InsufficientCapacityError("none left")

    clock, metrics = ManualClock(), Metrics(ManualClock())
    cloud = measured_cloud(Dry(), metrics, clock)

    def call() -> None:
        cloud.instance_types(factories.provisioner(), factories.node_template())
        with pytest.raises(InsufficientCapacityError):
            cloud.list()

    thread = threading.Thread(target=call, name="launch_17")
    thread.start()
    thread.join()
    page = metrics.page({}).body
    by = ("controller", "method", "provider")
    counts = values(page, "karpenter_cloudprovider_duration_seconds_count", *by)
    assert counts == {("launch", "GetInstanceTypes", "aws"): 1.0, ("launch", "List", "aws"): 1.0}
    # The parser gives every counter that ending.
    errors = values(page, "nodeless_cloudprovider_errors_total", "controller", "method", "error")
    assert errors == {("launch", "List", "InsufficientCapacityError"): 1.0}
