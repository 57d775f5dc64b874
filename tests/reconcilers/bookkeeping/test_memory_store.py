"""What nodes teach about memory outlives the process, in a ConfigMap that two processes in turn only add to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from controller.core.api import labels as keys
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.memory_store import CONFIG_MAP, MemoryReconciler
from tests import factories
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import World, apply_fault

MIB = 2**20


def joined(instance_type: str, memory: str) -> Snapshot:
    labels = {keys.INSTANCE_TYPE: instance_type, keys.INSTANCE_AMI_ID: "ami-1", keys.INITIALIZED: "true"}
    node = factories.node(name=f"node-{instance_type}", labels=labels, capacity={"memory": memory})
    return factories.snapshot(nodes=(factories.state_node(node=node),))


def process(world: World) -> tuple[MemoryReconciler, MemoryCloud]:
    """A loop over a cloud that has learned nothing yet."""
    cloud = MemoryCloud()
    return MemoryReconciler(replace(world.context, cloud=cloud)), cloud


def kept(world: World) -> dict[str, str]:
    data: dict[str, str] = world.kube.get(CONFIG_MAPS, CONFIG_MAP, "kube-system")["data"]
    return data


def test_the_next_process_knows_what_an_earlier_one_learned_before_it_sees_a_node(world: World) -> None:
    loop, _ = process(world)
    loop.reconcile(joined("m5.large", "7800Mi"))
    later, cloud = process(world)
    later.reconcile(factories.snapshot())
    assert cloud.memory.of("m5.large", "ami-1", 8192 * MIB) == 7800 * MIB


def test_processes_in_turn_add_to_each_other(world: World) -> None:
    process(world)[0].reconcile(joined("m5.large", "7800Mi"))
    process(world)[0].reconcile(joined("c5.large", "3700Mi"))
    assert kept(world) == {"c5.large_ami-1": str(3700 * MIB), "m5.large_ami-1": str(7800 * MIB)}


def test_nothing_new_is_not_written_again(world: World) -> None:
    loop, _ = process(world)
    loop.reconcile(joined("m5.large", "7800Mi"))
    before = world.kube.get(CONFIG_MAPS, CONFIG_MAP, "kube-system")["metadata"]["resourceVersion"]
    with capture_logs() as logs:
        loop.reconcile(joined("m5.large", "7900Mi"))
    assert logs == [], "the smallest counts: a larger one teaches nothing"
    assert world.kube.get(CONFIG_MAPS, CONFIG_MAP, "kube-system")["metadata"]["resourceVersion"] == before


def test_what_could_not_be_written_is_written_another_time(world: World) -> None:
    loop, cloud = process(world)
    loop.reconcile(factories.snapshot())
    apply_fault(world, {"kind": "errors", "seconds": 30, "code": 403, "rate": 1.0})
    with pytest.raises(KubeError):
        loop.reconcile(joined("m5.large", "7800Mi"))
    assert cloud.memory.of("m5.large", "ami-1", 8192 * MIB) == 7800 * MIB
    apply_fault(world, None)
    loop.reconcile(joined("m5.large", "7800Mi"))
    assert kept(world) == {"m5.large_ami-1": str(7800 * MIB)}


def test_a_config_map_that_somebody_deletes_is_created_again_with_all_that_was_learned(world: World) -> None:
    loop, _ = process(world)
    loop.reconcile(joined("m5.large", "7800Mi"))
    world.kube.delete(CONFIG_MAPS, CONFIG_MAP, "kube-system")
    loop.reconcile(joined("c5.large", "3700Mi"))
    assert kept(world) == {"c5.large_ami-1": str(3700 * MIB), "m5.large_ami-1": str(7800 * MIB)}


def test_before_the_caches_are_synced_nothing_is_read_or_written(world: World) -> None:
    loop, cloud = process(world)
    loop.reconcile(Snapshot())
    assert cloud.memory.version == 0
