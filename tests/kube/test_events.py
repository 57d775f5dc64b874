"""Events: one for many, on the right object, never a hindrance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from controller.core.api.parse import parse_node, parse_pod
from controller.kube.client import KubeClient
from controller.kube.connection import Connection
from controller.kube.events import EventLimit, EventRecorder, ObjectRef
from controller.kube.resources import EVENTS, NODES, PODS
from tests.factories import node, node_object, pod, pod_object, provisioner
from tests.kube.documents import fresh
from tests.kube.server import eventually
from tests.manual_clock import ManualClock

NODE = ObjectRef("v1", "Node", "n1", "uid-n1")


@contextmanager
def recording(client: KubeClient, clock: ManualClock, **fields: Any) -> Iterator[EventRecorder]:
    recorder = EventRecorder(client, clock, **fields)
    recorder.start()
    yield recorder
    recorder.stop(timeout_seconds=15)


def sent(recorder: EventRecorder, count: int) -> Callable[[], bool]:
    return lambda: recorder.published == count


def test_an_event_is_on_its_object_with_karpenters_source(client: KubeClient) -> None:
    clock = ManualClock(1_800_000_000.0)
    document = client.create(PODS, fresh(pod_object(name="p1")), "default")
    with recording(client, clock) as recorder:
        recorder.publish(ObjectRef.of(parse_pod(document)), "Normal", "Nominated", "Pod should schedule on: node/n1")
    (event,) = client.list(EVENTS, "default", field_selector="involvedObject.name=p1")
    assert event["involvedObject"]["uid"] == document["metadata"]["uid"]
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Nominated", 1)
    assert event["source"]["component"] == "karpenter"
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2027-01-15T08:00:00Z"


def test_events_of_cluster_scoped_objects_are_in_the_default_namespace(client: KubeClient) -> None:
    made = parse_node(client.create(NODES, fresh(node_object(name="n1"))))
    with recording(client, ManualClock()) as recorder:
        recorder.publish(ObjectRef.of(made), "Warning", "FailedDraining", "Waits for a pod")
    (event,) = client.list(EVENTS, "default")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": made.uid}


def test_references_name_kind_and_group_of_each_value() -> None:
    assert ObjectRef.of(pod(name="a", namespace="ns")) == ObjectRef("v1", "Pod", "a", "uid-ns-a", "ns")
    assert ObjectRef.of(node(name="n")).kind == "Node"
    assert ObjectRef.of(provisioner(name="p")).api_version == "karpenter.sh/v1alpha5"


def test_a_hundred_identical_events_are_one(client: KubeClient) -> None:
    with recording(client, ManualClock()) as recorder:
        for _ in range(100):
            recorder.publish(NODE, "Normal", "Test", "Hello")
    assert len(client.list(EVENTS)) == 1


def test_events_on_a_hundred_objects_are_a_hundred(client: KubeClient) -> None:
    with recording(client, ManualClock()) as recorder:
        for number in range(100):
            recorder.publish(ObjectRef("v1", "Node", f"n{number}"), "Normal", "Test", "Hello")
    assert len(client.list(EVENTS)) == 100
    assert recorder.dropped == 0


def test_a_repeat_after_two_minutes_raises_the_count_of_the_same_event(client: KubeClient) -> None:
    clock = ManualClock()
    with recording(client, clock) as recorder:
        for _ in range(100):
            recorder.publish(NODE, "Normal", "Test", "Hello")
        eventually(sent(recorder, 1), "the first event")
        clock.advance(121)
        recorder.publish(NODE, "Normal", "Test", "Hello")
        eventually(sent(recorder, 2), "the repeat")
    (event,) = client.list(EVENTS)
    assert event["count"] == 101
    assert event["lastTimestamp"] > event["firstTimestamp"]


def test_a_repeat_after_the_event_ran_out_makes_a_new_one(client: KubeClient) -> None:
    """The API server drops events after an hour."""
    clock = ManualClock()
    with recording(client, clock) as recorder:
        recorder.publish(NODE, "Normal", "Test", "Hello")
        eventually(sent(recorder, 1), "the first event")
        (event,) = client.list(EVENTS)
        client.delete(EVENTS, event["metadata"]["name"], "default")
        clock.advance(3600)
        recorder.publish(NODE, "Normal", "Test", "Hello")
        eventually(sent(recorder, 2), "the second")
    (again,) = client.list(EVENTS)
    assert again["count"] == 1


def test_dedupe_values_stand_for_a_message_that_changes(client: KubeClient) -> None:
    with recording(client, ManualClock()) as recorder:
        recorder.publish(NODE, "Normal", "Test", "3 pods left", dedupe=("drain",))
        recorder.publish(NODE, "Normal", "Test", "2 pods left", dedupe=("drain",))
        recorder.publish(NODE, "Normal", "Test", "3 pods left", dedupe=("other",))
    assert len(client.list(EVENTS)) == 2


def test_a_single_event_tells_the_last_of_its_messages(client: KubeClient) -> None:
    """A pod that waits has one event, whose reason may change from batch to batch."""
    with recording(client, ManualClock()) as recorder:
        for message in ("cpu is short", "cpu is short", "memory is short"):
            recorder.publish(NODE, "Warning", "FailedScheduling", message, single=True)
    (event,) = client.list(EVENTS)
    assert (event["message"], event["count"]) == ("memory is short", 3)


def test_a_reason_with_a_limit_has_its_burst_and_then_its_rate(client: KubeClient) -> None:
    """With Karpenter v0.27's own numbers: of a burst of 100, 10; then 5 a second."""
    clock = ManualClock()
    recorder = EventRecorder(client, clock, limits={"Nominated": EventLimit(per_second=5, burst=10)})

    def nominate(numbers: range) -> int:
        before = recorder.dropped
        for number in numbers:
            recorder.publish(ObjectRef("v1", "Pod", f"p{number}", namespace="default"), "Normal", "Nominated", "Soon")
        return len(numbers) - (recorder.dropped - before)

    assert nominate(range(100)) == 10
    clock.advance(1.0)
    assert nominate(range(100, 200)) == 5
    recorder.publish(NODE, "Normal", "Other", "Not limited")
    assert recorder.dropped == 185


def test_of_a_burst_a_hundred_nodes_are_said_to_be_launched_and_then_two_a_second(client: KubeClient) -> None:
    clock = ManualClock()
    recorder = EventRecorder(client, clock)
    for number in range(150):
        recorder.publish(ObjectRef("v1", "Node", f"n{number}"), "Normal", "Launched", "On demand")
    assert recorder.dropped == 50
    clock.advance(1.0)
    for number in range(150, 160):
        recorder.publish(ObjectRef("v1", "Node", f"n{number}"), "Normal", "Launched", "On demand")
    assert recorder.dropped == 58


def test_a_server_that_is_away_blocks_nobody_and_is_said_once(client: KubeClient) -> None:
    away = KubeClient(
        Connection("http://127.0.0.1:1", client.connection.pool, client.connection.configuration), client.options
    )
    with capture_logs() as logs, recording(away, ManualClock()) as recorder:
        for number in range(20):
            recorder.publish(ObjectRef("v1", "Node", f"n{number}"), "Normal", "Test", "Hello")
    assert recorder.dropped == 20
    assert [line["event"] for line in logs] == ["Events cannot be written"]


def test_a_full_queue_drops_and_counts(client: KubeClient) -> None:
    recorder = EventRecorder(client, ManualClock())
    for number in range(5000):
        recorder.publish(ObjectRef("v1", "Node", f"n{number}"), "Normal", "Test", "Hello")
    assert recorder.dropped == 5000 - 4096


def test_a_long_message_is_cut_and_says_so(client: KubeClient) -> None:
    with recording(client, ManualClock()) as recorder:
        recorder.publish(NODE, "Warning", "Test", "x" * 5000)
    (event,) = client.list(EVENTS)
    assert event["message"] == "x" * 1021 + "..."


def test_an_event_that_the_server_refuses_does_not_hold_up_the_next(client: KubeClient) -> None:
    with capture_logs(), recording(client, ManualClock()) as recorder:
        recorder.publish(ObjectRef("v1", "Pod", "p", namespace="NOT/A/NAMESPACE"), "Normal", "Test", "Hello")
        recorder.publish(NODE, "Normal", "Test", "Hello")
    assert (recorder.dropped, recorder.published) == (1, 1)
