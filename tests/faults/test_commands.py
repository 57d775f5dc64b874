"""Invariant 8 under crashes: the process dies around every write of a replacement, and the next one ends it right."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.kube.resources import CONFIG_MAPS, NODES
from tests.faults.crashproxy import When
from tests.faults.test_crash import NAMESPACE, crash_world, initialized

STEPS = {
    "record",
    "CreateFleet",
    "POST nodes",
    "initialize",
    "DELETE nodes",
    "cordon",
    "eviction",
    "TerminateInstances",
    "finalizer",
}
"""Writes that every replacement has. Its cordon is part of the record; termination writes one of its own."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("marker", ["expired", "drifted"])
def test_a_replacement_ends_right_whenever_the_controller_dies(tmp_path: Path, when: When, marker: str) -> None:
    with crash_world(tmp_path, when) as world:
        world.proxy.only = frozenset({"nothing yet"})
        gate = {"data": {"featureGates.driftEnabled": "true"}}
        world.kube.patch(CONFIG_MAPS, "karpenter-global-settings", gate, namespace=NAMESPACE)
        world.start_kubelets()
        world.scale(1)
        world.until(lambda: world.running() == 1 and all(map(initialized, world.nodes())), "a node in service")
        (old,) = (node["metadata"]["name"] for node in world.nodes())

        world.proxy.only = frozenset(STEPS)
        world.kube.patch(NODES, old, {"metadata": {"annotations": {"karpenter.sh/voluntary-disruption": marker}}})
        world.until(lambda: old not in {node["metadata"]["name"] for node in world.nodes()}, "the old node gone")
        world.until(lambda: world.running() == 1, "its pod running elsewhere")
        world.until(lambda: len(world.nodes()) == 1 and world.live() == 1, "one node and one instance left")

        (node,) = world.nodes()
        assert not node["spec"].get("unschedulable"), "left cordoned"
        assert COMMAND_ANNOTATION not in node["metadata"]["annotations"]
        assert len(world.instances()) == 2, f"launched twice; died around {world.proxy.kills}"
        missing = STEPS - set(world.proxy.kills)
        assert not missing, f"never died around {missing}; there were {dict(world.proxy.writes)}"
        world.until(lambda: world.proxy.victim_pid is not None, "a last start")
        assert world.stop_controller() == 0
