"""Waves of evictions: large pods of all leaving nodes go before small ones."""

from __future__ import annotations

from controller.core.api.timestamps import format_time
from controller.core.cloud import CloudInstance
from controller.core.machines.draining import DEADLINE_ANNOTATION
from controller.kube.resources import POD_DISRUPTION_BUDGETS
from controller.runtime.loops import BackoffTimes
from tests.reconcilers.conftest import World
from tests.reconcilers.nodes.test_termination import delete, leaving_node, reconciler


def add_sized_pod(world: World, name: str, instance: CloudInstance, cpu: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    world.add_pod(name, node=instance.node_name, spec={"containers": [container]}, labels={"app": name})


def terminating(world: World) -> set[str]:
    return {name for (_, name), pod in world.caught_up().pods.items() if pod.terminating}


def test_large_pods_of_all_leaving_nodes_are_evicted_in_the_pass_before_small_ones(world: World) -> None:
    one, other = leaving_node(world, number=1), leaving_node(world, number=2)
    for name, node, cpu in (("a", one, "2"), ("b", one, "10m"), ("c", other, "1"), ("d", other, "20m")):
        add_sized_pod(world, name, node, cpu)
    delete(world, one)
    delete(world, other)
    loop = reconciler(world, pass_seconds=20.0)
    loop.reconcile(world.caught_up())
    assert terminating(world) == {"a", "c"}
    loop.reconcile(world.caught_up())
    assert terminating(world) == {"a", "b", "c", "d"}


def test_a_large_pod_that_its_budget_holds_up_holds_up_no_small_one(world: World) -> None:
    instance = leaving_node(world)
    add_sized_pod(world, "large", instance, "2")
    add_sized_pod(world, "small", instance, "10m")
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "large"}}}
    world.kube.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "never"}, "spec": spec}, "default")
    delete(world, instance)
    loop = reconciler(world, pass_seconds=20.0, eviction=BackoffTimes(60.0, 60.0))
    for _ in range(2):
        loop.reconcile(world.caught_up())
    assert terminating(world) == {"small"}


def test_a_node_with_a_deadline_is_drained_at_once(world: World) -> None:
    deadline = format_time(world.clock.now() + 600.0)
    instance = leaving_node(world, metadata={"annotations": {DEADLINE_ANNOTATION: deadline}})
    add_sized_pod(world, "large", instance, "2")
    add_sized_pod(world, "small", instance, "10m")
    delete(world, instance)
    reconciler(world, pass_seconds=20.0).reconcile(world.caught_up())
    assert terminating(world) == {"large", "small"}
