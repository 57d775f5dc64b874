"""Interruption end to end: EventBridge, the queue, the real controller process, EC2, kubelets and the scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.core.api.timestamps import parse_time
from controller.core.machines.draining import DEADLINE_ANNOTATION
from controller.kube.resources import PODS
from tests.faults.crashworld import CLUSTER, CrashWorld, crash_world, initialized


def logged(world: CrashWorld) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.log.read_text().splitlines() if line.startswith("{")]


def said(world: CrashWorld, text: str) -> list[int]:
    """The places in the log at which it stands."""
    return [at for at, entry in enumerate(logged(world)) if text in str(entry.get("message", entry.get("event", "")))]


def way_of(pod: str, lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What a person finds who looks for the pod, then for the node and the instance that its lines name."""
    about = [line for line in lines if pod in line.get("pods", ())]
    nodes = {line["node"] for line in about if "node" in line}
    instances = {line["id"] for line in lines if line.get("node") in nodes and "id" in line}
    reported = [line for line in lines if line in about or line.get("node") in nodes or line.get("id") in instances]
    assert all(isinstance(line["pods"], list) for line in lines if "pods" in line), "names; pod_count is the number"
    return [(line["logger"], line["message"]) for line in reported if line["message"] != "Registered node"]


def waiting_messages(sqs: Any, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(attributes[name]) for name in names)


@pytest.mark.xdist_group("controller-processes")
def test_a_spot_warning_brings_a_replacement_at_once_and_its_pods_move_in_time(tmp_path: Path) -> None:
    queue = {"aws.interruptionQueueName": CLUSTER}
    with crash_world(tmp_path, settings=queue, capacity_type="spot") as world:
        world.scale(1)
        world.start_kubelets()
        world.until(lambda: world.running() == 1 and all(map(initialized, world.nodes())), "a node in service")
        world.until(lambda: said(world, "Pods run") != [], "the pod's running is in the log")
        (pod,) = world.kube.list(PODS, "default", label_selector="app=inflate")
        assert way_of(f"default/{pod['metadata']['name']}", logged(world)) == [
            ("provisioning", "Computed plan"),
            ("launcher", "Launched instance"),
            ("provisioning", "Pods have a node on its way"),
            ("registration", "Initialized node"),
            ("observation", "Pods run"),
        ]
        (old,) = world.nodes()
        (instance,) = world.instances()
        sqs = world.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
        for body in ("what is this", json.dumps({"source": "aws.s3", "detail-type": "Object Created"})):
            sqs.send_message(QueueUrl=url, MessageBody=body)

        world.interrupt(instance["instanceId"], "spot")
        seen: dict[str, str] = {}

        def old_is_gone() -> bool:
            for node in world.nodes():
                if node["metadata"]["name"] == old["metadata"]["name"]:
                    seen.update(node["metadata"].get("annotations") or {})
            return old["metadata"]["name"] not in {node["metadata"]["name"] for node in world.nodes()}

        world.until(old_is_gone, "the old node gone")
        world.until(lambda: world.running() == 1 and len(world.nodes()) == world.live() == 1, "its pod on a new node")
        assert parse_time(seen[DEADLINE_ANNOTATION]) is not None, "what is left of the two minutes is on the node"
        gone, new = world.instances()
        assert gone["instanceId"] == instance["instanceId"]
        assert (gone["state"] in ("shutting-down", "terminated"), new["state"]) == (True, "running")
        launches, ends = said(world, "Launched instance"), said(world, "Terminated node")
        assert len(launches) == 2
        assert launches[1] < ends[0], "the replacement is on its way before the old node is gone"

        world.until(lambda: waiting_messages(sqs, url) == 0, "all messages deleted, the useless ones too")
        assert len(said(world, "Dropped a message that cannot be read")) == 1
        assert said(world, "Interruptions are not handled") == []
        assert world.stop_controller() == 0
