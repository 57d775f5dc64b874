"""Limits of Provisioners, and limits that suffice if they are spent well."""

from __future__ import annotations

from controller.core.api import labels as keys
from tests.conformance.fixtures import GPU_A, SMALL, Cluster, fake_type
from tests.core.provisioning.plans import near
from tests.factories import node, pending_pod, pending_pods, provisioner, selector, state_node

APP = {"app": "web"}


def test_nothing_is_launched_above_the_limit() -> None:
    """100 cpu stand, of a limit of 20. Counted from the nodes themselves, not from a status that lags."""
    cluster = Cluster([provisioner(limits={"cpu": "20"})])
    cluster.add(state_node(node=node(name="big", allocatable={"cpu": "0", "pods": 0}, capacity={"cpu": "100"})))
    waiting = pending_pod()
    done = cluster.provision(waiting)
    assert done.new == ()
    assert "limits" in done.plan.unplaced[0].reason


def test_a_node_that_the_limit_allows_is_launched() -> None:
    assert Cluster([provisioner(limits={"cpu": "2"})]).provision(pending_pod(requests={"cpu": "1750m"})).types == [
        SMALL
    ]


def test_limits_allow_part_of_a_batch() -> None:
    """Two pods that shun each other's host under a limit of 3 cpu: exactly one is placed."""
    pods = pending_pods(
        2, labels=APP, requests={"cpu": "1500m"}, required_pod_anti_affinity=(near(keys.HOSTNAME, selector(app="web")),)
    )
    done = Cluster([provisioner(limits={"cpu": "3"})]).provision(*pods)
    assert done.types == [SMALL]
    assert len(done.left) == 1


def test_a_pod_that_needs_more_than_the_limit_waits() -> None:
    assert Cluster([provisioner(limits={"cpu": "2"})]).provision(pending_pod(requests={"cpu": "2100m"})).new == ()


def test_any_resource_can_be_limited() -> None:
    """The GPU type would add 5 pods of a limit of 1."""
    assert Cluster([provisioner(limits={"pods": 1})]).provision(pending_pod(requests={GPU_A: 1})).new == ()


def test_a_later_batch_counts_the_nodes_of_the_first() -> None:
    """From the cluster's state, although status.resources was never written."""
    cluster = Cluster([provisioner(limits={"cpu": "2"})])
    first, second = (pending_pod(requests={"cpu": "1750m"}) for _ in range(2))
    assert cluster.provision(first).placed(first)
    assert cluster.provision(second).left == {second.name}


def test_limits_that_suffice_if_spent_well_place_every_pod() -> None:
    """Karpenter v0.27 counts each planned node as its largest candidate: four pods of 2 cpu, limit 8."""
    catalog = [fake_type(f"size-{cpu}", cpu=cpu, memory=f"{2 * cpu}Gi", pods=20) for cpu in (2, 4, 8, 16, 64)]
    pods = pending_pods(4, requests={"cpu": "1500m"})
    done = Cluster([provisioner(limits={"cpu": "8"})], catalog).provision(*pods)
    assert done.left == set()


def test_a_provisioner_at_its_limit_gives_way_to_a_lighter_one() -> None:
    """None left, the next Provisioner is tried."""
    pools = [provisioner(name="full", weight=50, limits={"cpu": "0"}), provisioner(name="open")]
    assert Cluster(pools).provision(pending_pod()).only.provisioner == "open"
