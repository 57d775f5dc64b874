"""status.resources of Provisioners."""

from __future__ import annotations

from typing import Any

from controller.core.api.labels import PROVISIONER_NAME
from controller.kube.resources import NODES, PROVISIONERS
from controller.reconcilers.status.conditions_reconciler import ConditionsReconciler
from controller.reconcilers.status.counter_reconciler import CounterReconciler
from tests.reconcilers.conftest import World


def counted(world: World) -> dict[str, Any]:
    return dict(world.kube.get(PROVISIONERS, "default").get("status", {}).get("resources") or {})


def test_capacity_is_summed_and_taken_back(world: World) -> None:
    world.add_provisioner()
    for name in ("one", "two"):
        world.add_node({"metadata": {"name": name, "labels": {PROVISIONER_NAME: "default"}}}, ready=False)
        world.come_up(name, {"cpu": "1930m", "memory": "7577Mi", "pods": "29", "nvidia.com/gpu": "0"})
    world.add_node({"metadata": {"name": "stranger"}})
    loop = CounterReconciler(world.context)
    world.passes(loop, lambda _: counted(world))
    assert counted(world) == {"cpu": "3860m", "memory": "15154Mi", "pods": "58"}
    world.kube.delete(NODES, "one")
    world.kube.delete(NODES, "two")
    world.passes(loop, lambda _: not counted(world), "the sum of nothing")


def test_a_sum_that_stands_is_not_written_again(world: World) -> None:
    world.add_provisioner()
    world.add_node({"metadata": {"name": "one", "labels": {PROVISIONER_NAME: "default"}}})
    loop = CounterReconciler(world.context)
    world.passes(loop, lambda _: counted(world))
    version = world.kube.get(PROVISIONERS, "default")["metadata"]["resourceVersion"]
    for _ in range(5):
        loop.reconcile(world.caught_up())
    assert world.kube.get(PROVISIONERS, "default")["metadata"]["resourceVersion"] == version


def test_kubectl_shows_readiness_nodes_limits_and_price(world: World) -> None:
    """What `kubectl get provisioners` prints, from the columns of the CRD."""
    world.add_provisioner(limits={"resources": {"cpu": "100", "memory": "400Gi"}})
    own = {PROVISIONER_NAME: "default", "node.kubernetes.io/instance-type": "m5.large"}
    own |= {"topology.kubernetes.io/zone": "eu-west-1a", "karpenter.sh/capacity-type": "on-demand"}
    for name in ("one", "two"):
        world.add_node({"metadata": {"name": name, "labels": own}})
    loop = CounterReconciler(world.context)
    world.passes(loop, lambda _: counted(world))
    ConditionsReconciler(world.context).reconcile(world.caught_up())
    status = world.kube.get(PROVISIONERS, "default")["status"]
    assert (status["nodes"], status["pricePerHour"]) == (2, "$0.19")
    table = shown(world, "/apis/karpenter.sh/v1alpha5/provisioners")
    assert [column["name"] for column in table["columnDefinitions"] if not column["priority"]] == [
        "Name", "Ready", "Nodes", "Limit use", "$/h", "Age",
    ]  # fmt: skip
    assert table["rows"][0]["cells"][:5] == ["default", "True", 2, "4 of 100 CPU, 16 GiB of 400 GiB memory", "$0.19"]


def shown(world: World, path: str) -> Any:
    """What `kubectl get` asks for."""
    connection = world.kube.connection
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io", **connection.auth_headers()}
    return connection.pool.request("GET", f"{connection.server}{path}", headers=headers).json()
