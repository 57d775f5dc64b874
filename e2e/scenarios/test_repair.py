"""Nodes that fall ill: one is replaced, and none while too many are ill at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from e2e.scenario import Scenario
from e2e.workloads import affinity, deployment
from sandbox.world.resources import EVENTS, NODES, Obj

NODE_COUNT = 5
CONDITION = "StorageReady"


def test_a_sick_node_is_replaced_and_none_while_many_are_sick(world: Scenario) -> None:
    """By a condition of the node monitoring agent that has failed for an hour: the agent sets it, here kubectl."""
    cluster = world.cluster
    world.provisioner()
    world.deploy(deployment("web", NODE_COUNT, affinity=affinity("podAntiAffinity", "web", "kubernetes.io/hostname")))
    world.running("web", NODE_COUNT)
    cluster.until(lambda: len(_initialized(world)) == NODE_COUNT, "every node is initialized")
    broken, *others = _initialized(world)
    sick = _node(world, broken)
    _set_condition(world, broken, "False", hours=1)
    cluster.until(lambda: cluster.has_left(sick), "the sick node is gone")
    world.running("web", NODE_COUNT)
    cluster.until(lambda: len(_initialized(world)) == NODE_COUNT, "another node stands in for it")
    assert set(others) < set(_initialized(world)), "no healthy node left"

    outbreak = others[:3]
    for hours in (0, 1):  # all are sick before the first has been for long
        for name in outbreak:
            _set_condition(world, name, "False", hours)
    cluster.until(lambda: _held_back(world), "the Provisioner says that no node is repaired")
    assert set(outbreak) < set(_initialized(world)), "all are still there"
    last, *healed = outbreak
    sick = _node(world, last)
    for name in healed:
        _set_condition(world, name, "True", hours=0)
    cluster.until(lambda: cluster.has_left(sick), "a single sick node is replaced again")
    world.running("web", NODE_COUNT)
    assert {*others, *healed} - {last} < set(_initialized(world))


def _node(world: Scenario, name: str) -> Obj:
    node = world.cluster.get(NODES, name)
    assert node is not None
    return node


def _initialized(world: Scenario) -> list[str]:
    selector = f"karpenter.sh/provisioner-name={world.namespace},karpenter.sh/initialized=true"
    return [str(node["metadata"]["name"]) for node in world.cluster.all(NODES, labelSelector=selector)]


def _set_condition(world: Scenario, node: str, status: str, hours: int) -> None:
    since = (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": CONDITION, "status": status, "reason": "Test", "message": "", "lastTransitionTime": since}
    patch = json.dumps({"status": {"conditions": [condition]}})
    world.cluster.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "--patch", patch)


def _held_back(world: Scenario) -> bool:
    """Whether the Provisioner has the event, with the count."""
    events = world.cluster.all(EVENTS, fieldSelector="reason=NodeRepairBlocked")
    return any("3 of 5 nodes of Provisioner" in event["message"] for event in events)
