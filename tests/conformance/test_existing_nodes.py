"""Nodes that stand or are on their way take pods first."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import Toleration
from controller.core.state.effective import filled
from tests.conformance.fixtures import (
    DEFAULT,
    GPU_A,
    SMALL,
    VENDOR_A,
    ZONE_1,
    ZONE_2,
    ZONES,
    Cluster,
    numbered_types,
    terms,
)
from tests.core.provisioning.plans import BRIEFLY, near, spread
from tests.factories import node, pending_pod, pending_pods, provisioner, requirement, state_node

APP = {"app": "web"}
TINY = {"cpu": "10m"}
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")


def test_a_second_pod_uses_the_node_that_is_on_its_way() -> None:
    cluster = Cluster()
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    assert cluster.provision(pending_pod(requests=TINY)).plan.existing[0].node == name


def test_selectors_decide_which_node_on_its_way_is_used() -> None:
    """The second pod's zones meet the node's, the third's do not."""
    cluster = Cluster()
    among = terms([requirement(keys.ZONE, "In", ZONE_2)])
    (name,) = cluster.provision(pending_pod(requests=TINY, required_node_affinity=among)).nodes
    both = terms([requirement(keys.ZONE, "In", ZONE_1, ZONE_2)])
    assert cluster.provision(pending_pod(requests=TINY, required_node_affinity=both)).plan.existing[0].node == name
    other = cluster.provision(pending_pod(requests=TINY, node_selector={keys.ZONE: ZONE_1}))
    assert other.plan.existing == ()
    assert len(other.new) == 1


def test_a_pod_that_does_not_fit_gets_a_new_node() -> None:
    cluster = Cluster()
    cluster.provision(pending_pod(requests={"cpu": "1001m"}))
    done = cluster.provision(pending_pod(requests={"cpu": "1001m"}))
    assert done.types == [SMALL]
    assert done.plan.existing == ()


def test_a_pod_of_another_architecture_gets_a_new_node() -> None:
    cluster = Cluster()
    cluster.provision(pending_pod(requests=TINY))
    assert len(cluster.provision(pending_pod(requests=TINY, node_selector={keys.ARCH: "arm64"})).new) == 1


@pytest.mark.parametrize("marked", [False, True], ids=["deleted", "marked"])
def test_a_node_that_is_leaving_takes_no_pods(marked: bool) -> None:
    cluster = Cluster()
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    each = cluster.nodes[name]
    cluster.change(name, node=replace(each.node, deleted_at=None if marked else 5.0), marked_for_deletion=marked)
    assert len(cluster.provision(pending_pod(requests=TINY)).new) == 1


def test_zones_are_balanced_with_the_nodes_that_stand() -> None:
    """1,1,2, then five more make 3,3,3 without a new node."""
    cluster = Cluster()
    rules = {"labels": APP, "topology_spread": (spread(),), "requests": TINY}
    cluster.provision(*pending_pods(4, **rules))
    assert cluster.counts() == [1, 1, 2]
    done = cluster.provision(*pending_pods(5, **rules))
    assert cluster.counts() == [3, 3, 3]
    assert done.new == ()


def test_hosts_are_balanced_with_the_nodes_that_stand() -> None:
    """Four, then five more, each on its own."""
    cluster = Cluster()
    rules = {"labels": APP, "topology_spread": (spread(keys.HOSTNAME),), "requests": TINY}
    cluster.provision(*pending_pods(4, **rules))
    assert cluster.counts(keys.HOSTNAME) == [1] * 4
    cluster.provision(*pending_pods(5, **rules))
    assert cluster.counts(keys.HOSTNAME) == [1] * 9


def test_a_node_whose_taints_are_tolerated_is_used() -> None:
    cluster = Cluster()
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    cluster.taint(name, Taint("own", "", "NoSchedule"), initialized=True)
    tolerant = pending_pod(requests=TINY, tolerations=(Toleration("own", "Exists"),))
    assert cluster.provision(tolerant).plan.existing[0].node == name


def test_a_node_with_an_unknown_taint_is_not_used() -> None:
    cluster = Cluster()
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    cluster.taint(name, Taint("foo.com/taint", "tainted", "NoSchedule"), initialized=False)
    assert len(cluster.provision(pending_pod(requests=TINY)).new) == 1


STARTUP = Taint("foo.com/taint", "tainted", "NoSchedule")


def test_startup_taints_are_no_hindrance_before_initialization() -> None:
    """The node carries its startup taint and the one that says not ready."""
    cluster = Cluster([provisioner(startup_taints=(STARTUP,))])
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    cluster.taint(name, NOT_READY, initialized=False)
    assert cluster.provision(pending_pod(requests=TINY)).plan.existing[0].node == name


def test_a_startup_taint_after_initialization_is_a_taint() -> None:
    cluster = Cluster([provisioner(startup_taints=(STARTUP,))])
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    cluster.taint(name, initialized=True)
    assert len(cluster.provision(pending_pod(requests=TINY)).new) == 1


@pytest.mark.parametrize("taint", [NOT_READY, UNREACHABLE], ids=["not-ready", "unreachable"])
def test_taints_that_the_node_controller_takes_off_are_no_hindrance(taint: Taint) -> None:
    cluster = Cluster()
    (name,) = cluster.provision(pending_pod(requests=TINY)).nodes
    cluster.taint(name, taint, initialized=True)
    assert cluster.provision(pending_pod(requests=TINY)).plan.existing[0].node == name


@pytest.mark.parametrize(("seed", "template"), [(0, "default"), (1, "other"), (2, "default")])
def test_nodes_on_their_way_are_filled_before_new_ones_are_opened(seed: int, template: str) -> None:
    """After ten random batches no new node was opened while all of its pods had room on one that stood.

    Karpenter v0.27 asserts at most one node with a free cpu; a cheaper mix may leave more, so the rule is asserted.
    """
    chosen = random.Random(seed)
    cluster = Cluster([provisioner(provider_ref=template)], numbered_types(20), options=BRIEFLY)
    for _ in range(10):
        pods = [pending_pod(requests={"cpu": f"{chosen.randint(1, 12)}00m"}) for _ in range(chosen.randint(1, 30))]
        free = {name: room(cluster, name) for name in cluster.nodes}
        done = cluster.provision(*pods, initialized=bool(chosen.randint(0, 1)))
        assert done.left == set()
        for placement in done.plan.existing:
            taken = [each for each in pods if each.key in placement.pods]
            free[placement.node] -= sum(each.spec.requests["cpu"] for each in taken)
        opened = [each for each in pods if any(each.key in planned.pods for planned in done.new)]
        holders = [name for name in free if len(cluster.nodes[name].pods) < cluster.nodes[name].allocatable["pods"]]
        assert not [each.name for each in opened if any(free[name] >= each.spec.requests["cpu"] for name in holders)]


def room(cluster: Cluster, name: str) -> int:
    """Free millicores of a node."""
    standing = cluster.nodes[name]
    return standing.allocatable["cpu"] - sum(each.spec.requests["cpu"] for each in standing.pods)


def test_a_second_round_before_binding_launches_nothing() -> None:
    """The pods are still pending, their node is on its way."""
    cluster = Cluster()
    pods = pending_pods(2, requests=TINY)
    (name,) = cluster.provision(*pods, bind=False).nodes
    again = cluster.provision(*pods, bind=False)
    assert again.new == ()
    assert [(each.node, len(each.pods)) for each in again.plan.existing] == [(name, 2)]


def test_extended_resources_that_the_kubelet_zeroes_open_no_other_node() -> None:
    """Before initialization, the type stands in for what the kubelet reports as 0."""
    cluster = Cluster()
    pods = pending_pods(2, requests={GPU_A: 1})
    (name,) = cluster.provision(*pods, bind=False).nodes
    standing = cluster.nodes[name]
    of_type = standing.allocatable
    reported = type(of_type)({**of_type, GPU_A: 0})
    cluster.change(name, allocatable=filled(reported, of_type), node=replace(standing.node, allocatable=reported))
    assert cluster.provision(*pods, bind=False).new == ()
    assert cluster.nodes[name].node.labels[keys.INSTANCE_TYPE] == VENDOR_A


def test_zone_self_affinity_holds_in_a_second_round_before_binding() -> None:
    cluster = Cluster()
    pods = pending_pods(3, labels=APP, requests={"cpu": "1500m"}, required_pod_affinity=(near(keys.ZONE),))
    first = cluster.provision(*pods, bind=False)
    again = cluster.provision(*pods, bind=False)
    assert again.new == ()
    assert set(again.homes()) == set(first.homes())
    assert len(set(again.homes())) == 1


def test_nodes_of_other_origin_take_pods_that_kube_scheduler_would_bind_there() -> None:
    """Karpenter v0.27 never counts them as capacity, and launches a node that kube-scheduler then leaves empty."""
    cluster = Cluster()
    cluster.add(state_node(node=node(name="foreign", provisioner="", zone=ZONES[0])))
    assert cluster.provision(pending_pod(requests=TINY)).new == ()


def test_a_cordoned_node_takes_no_pods() -> None:
    """kube-scheduler's NodeUnschedulable."""
    cordoned = node(name="cordoned", unschedulable=True)
    unschedulable = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    cluster = Cluster()
    cluster.add(replace(state_node(node=cordoned), taints=(unschedulable,)))
    assert len(cluster.provision(pending_pod(requests=TINY)).new) == 1


def test_a_node_that_is_overfull_in_one_resource_takes_no_pod_that_asks_for_it() -> None:
    """Better than Karpenter v0.27, where a negative remainder of anything refuses every pod."""
    cluster = Cluster()
    full = state_node(node=node(name="n", zone=ZONE_1, allocatable={"cpu": "2", "memory": "0", "pods": 10}))
    cluster.add(full)
    no_memory, some_memory = pending_pod(requests=TINY), pending_pod(requests={"cpu": "10m", "memory": "1Mi"})
    done = cluster.provision(no_memory, some_memory)
    assert [each.pods for each in done.plan.existing] == [(no_memory.key,)]
    assert len(done.new) == 1


def test_a_larger_node_is_not_opened_for_what_two_that_stand_can_hold() -> None:
    """Room on several nodes counts together, pod by pod."""
    cluster = Cluster()
    cluster.provision(pending_pod(requests={"cpu": "1"}, node_selector={keys.INSTANCE_TYPE: DEFAULT}))
    cluster.provision(
        pending_pod(requests={"cpu": "2"}, node_selector={keys.INSTANCE_TYPE: DEFAULT, keys.ZONE: ZONE_2})
    )
    done = cluster.provision(*pending_pods(3, requests={"cpu": "1"}))
    assert done.new == ()
