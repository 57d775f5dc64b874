"""The real process is killed (SIGKILL) between the writes that launch, move and terminate.

It is started again at once. Pods that need three nodes get three, whatever happens: no instance is launched twice, none
is left behind, and nothing stays cordoned. (test_every_write.py has every write of every command kind, in one process.)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.kube.resources import NODES
from tests.faults import controllerprocess
from tests.faults.crashproxy import When
from tests.faults.crashworld import crash_world, initialized

REPLICAS = 3
DEATHS: dict[str, tuple[When, ...]] = {
    "CreateLaunchTemplate": ("after",),
    "CreateFleet": ("before", "after"),
    "POST nodes": ("after",),
    "record": ("after",),
    "eviction": ("after",),
    "TerminateInstances": ("after",),
}
"""After a write is before the next one. Both sides of CreateFleet look alike for a while: see below."""


@pytest.mark.xdist_group("controller-processes")
def test_a_controller_that_dies_around_every_step_of_a_nodes_life_ends_right(tmp_path: Path) -> None:
    """EC2 does not show new instances at first: whoever starts after a CreateFleet that did not arrive, and whoever
    starts after one that did, for all nodes at once, finds the same, and must not ask for the same again."""
    with crash_world(tmp_path, deaths=DEATHS, unseen_seconds=2.0) as world:
        world.scale(REPLICAS)
        world.until(lambda: len(world.nodes()) == REPLICAS, f"{REPLICAS} Nodes")
        assert world.proxy.writes["CreateFleet"] == 2, "one call that did not arrive, one that did for all nodes"
        assert world.proxy.kills[-2:] == ["CreateFleet", "POST nodes"]
        world.times = replace(world.times, garbage=controllerprocess.TIMES.garbage)
        world.start_kubelets()
        world.until(lambda: world.running() == REPLICAS, f"{REPLICAS} pods running")
        world.until(lambda: all(map(initialized, world.nodes())), "nodes initialized")
        assert len(world.instances()) == REPLICAS, f"launched twice; died around {world.proxy.kills}"

        old = world.nodes()[0]["metadata"]["name"]
        world.kube.patch(NODES, old, {"metadata": {"annotations": {"karpenter.sh/voluntary-disruption": "expired"}}})
        world.until(lambda: old not in {node["metadata"]["name"] for node in world.nodes()}, "the expired node gone")
        world.until(lambda: world.running() == REPLICAS, "its pod running elsewhere")
        world.until(lambda: len(world.nodes()) == world.live() == REPLICAS, "one node for one that went")
        assert len(world.instances()) == REPLICAS + 1, f"launched twice; died around {world.proxy.kills}"
        for node in world.nodes():
            assert not node["spec"].get("unschedulable"), "left cordoned"
            assert COMMAND_ANNOTATION not in node["metadata"]["annotations"]

        world.scale(0)
        world.until(lambda: not world.nodes(), "no node left")
        world.until(lambda: world.live() == 0, "no instance left")
        assert len(world.instances()) == REPLICAS + 1, "launched again when there was nothing to run"

        missing = {step for step, whens in DEATHS.items() if world.proxy.kills.count(step) != len(whens)}
        assert not missing, f"never died around {missing}; there were {dict(world.proxy.writes)}"
        world.until(lambda: world.proxy.victim_pid is not None, "a last start")
        assert world.stop_controller() == 0, "SIGTERM ends it in peace"
