"""Which nodes consolidation removes, on clusters that users of Karpenter reported, and the better outcome."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.cloud import Offering
from tests import factories
from tests.core.deprovisioning.builders import (
    GPU,
    look,
    only,
    owner,
    removed,
    standing,
    types_of,
)


def test_all_empty_nodes_go_at_once() -> None:
    assert removed(look([standing("a", "c5.large"), standing("b", "c5.xlarge")])) == [["a"], ["b"]]


def test_a_node_goes_when_its_pods_fit_on_another() -> None:
    """The node with fewer pods, and not both for a new one of the same type."""
    half = {"cpu": "500m"}
    search = look([standing("a", "c5.large", half, half), standing("b", "c5.large", half)])
    assert removed(search) == [["b"]]
    assert only(search).action == "delete"


def test_a_dear_node_is_replaced_by_a_cheaper_one() -> None:
    command = only(look([standing("a", "c5.2xlarge", {"cpu": "1"})]))
    assert [node.offering.instance_type for node in command.replacements] == ["c5.large"]
    assert (command.price_before, command.price_after) == (0.4, 0.1)


def test_three_dear_nodes_become_one() -> None:
    search = look([standing(name, "c5.2xlarge", {"cpu": "500m"}) for name in "abc"])
    assert sum(map(len, removed(search))) >= 2
    assert sum(len(command.replacements) for command in search.commands) <= 1


def test_one_large_node_becomes_two_small_ones() -> None:
    """aws#5304: two nodes at 0.14 are cheaper than one at 0.49 (there 0.39); Karpenter never splits."""
    market = types_of(("m5dn.xlarge", "4", "16Gi", 0.14), ("m5dn.2xlarge", "8", "32Gi", 0.49))
    pods = [{"cpu": "3", "memory": "12Gi"}] * 2
    command = only(look([standing("a", "m5dn.2xlarge", *pods, types=market)], market))
    assert [node.offering.instance_type for node in command.replacements] == ["m5dn.xlarge"] * 2


def test_two_pods_of_one_gpu_get_an_instance_each_when_that_is_cheaper() -> None:
    """ks#1149, aws#5379: one g5.12xlarge was launched for both, at more than twice the price of two g5.xlarge."""
    market = tuple(
        factories.instance_type(
            name=name,
            cpu=cpu,
            memory=memory,
            extended={GPU: gpus},
            offered=(Offering(factories.ZONES[0], keys.ON_DEMAND, price),),
        )
        for name, cpu, memory, gpus, price in (
            ("g5.xlarge", "4", "16Gi", 1, 1.006),
            ("g5.12xlarge", "48", "192Gi", 4, 5.672),
        )
    )
    command = only(look([standing("a", "g5.12xlarge", *[{"cpu": "2", GPU: "1"}] * 2, types=market)], market))
    assert [node.offering.instance_type for node in command.replacements] == ["g5.xlarge"] * 2
    assert command.price_after == pytest.approx(2.012)


def test_nodes_of_the_wrong_shape_become_fewer_of_the_right_one() -> None:
    """ks#2150: 80 % of the memory and 30 % of the cpu of c types in use; the r type holds it for less."""
    market = types_of(("c6a.2xlarge", "8", "16Gi", 0.306), ("r6a.2xlarge", "8", "64Gi", 0.4536))
    nodes = [standing(f"n{i}", "c6a.2xlarge", {"cpu": "2", "memory": "12Gi"}, types=market) for i in range(8)]
    command = only(look(nodes, market))
    assert len(command.candidates) == 8
    assert command.price_after < 0.6 * command.price_before
    assert {node.offering.instance_type for node in command.replacements} == {"r6a.2xlarge"}


def test_many_small_nodes_become_few_cheaper_ones() -> None:
    """aws#7984, ks#3305: eight small nodes at twice the price of one."""
    market = types_of(("c6g.large", "2", "4Gi", 0.068), ("r6g.xlarge", "4", "32Gi", 0.2016))
    nodes = [standing(f"n{i}", "c6g.large", {"cpu": "400m", "memory": "3Gi"}, types=market) for i in range(8)]
    command = only(look(nodes, market))
    assert command.price_after == pytest.approx(0.2016)
    assert len(command.candidates) == 8


def test_a_fleet_of_small_spot_nodes_comes_back_to_what_a_fresh_pack_costs() -> None:
    """aws#9531: twice the nodes at the same load, most of them 2xlarge; Karpenter deletes single nodes, and few."""
    zone, families = factories.ZONES[0], [f"m{i}" for i in range(5, 15)]
    market = tuple(
        factories.instance_type(
            name=f"{family}.{size}", cpu=str(cpu), memory=f"{4 * cpu}Gi",
            offered=(Offering(zone, keys.SPOT, 0.012 * cpu + number / 1e4),),
        )
        for number, family in enumerate(families)
        for size, cpu in (("2xlarge", 8), ("4xlarge", 16))
    )  # fmt: skip
    spot = owner(requirements=[factories.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    pod = {"cpu": "4500m", "memory": "9Gi"}
    nodes = [
        standing(f"n{i:02}", f"{families[i % 10]}.2xlarge", pod, types=market, capacity_type=keys.SPOT)
        for i in range(36)
    ]
    command = only(look(nodes, market, [spot]))
    assert len(command.candidates) == 36
    assert len(command.replacements) == 12, "three pods a 4xlarge"
    assert command.price_after < 0.7 * command.price_before


def test_a_pending_pod_that_nobody_can_place_does_not_stop_consolidation() -> None:
    """Karpenter v0.27 stops consolidating the whole cluster."""
    stuck = factories.pending_pod(requests={"cpu": "500"})
    assert removed(look([standing("a", "c5.2xlarge", {"cpu": "1"})], pending=[stuck])) == [["a"]]


def test_a_pending_pod_that_would_share_the_replacement_does_not_stop_consolidation() -> None:
    """Its own node is provisioning's to launch, in a moment; the replacement is for the pods of the node that goes."""
    waits = factories.pending_pod(requests={"cpu": "900m"})
    command = only(look([standing("a", "c5.2xlarge", {"cpu": "1"})], pending=[waits]))
    assert [node.offering.instance_type for node in command.replacements] == ["c5.large"]
    assert waits.key not in command.replacements[0].pods


def test_free_room_on_nodes_that_are_not_ours_is_used() -> None:
    stranger = standing("managed", "c5.2xlarge", provisioner="")
    command = only(look([standing("a", "c5.large", {"cpu": "1"}), stranger]))
    assert command.action == "delete"


def test_a_pod_that_nobody_owns_is_moved_like_any_other() -> None:
    """It holds its node no more than others do (whoever made it accepted that it may be evicted)."""
    orphan = factories.running_pod(node="b", owner=None, requests={"cpu": "500m"})
    half = {"cpu": "500m"}
    assert removed(look([standing("a", "c5.large", half, half), standing("b", "c5.large", pods=[orphan])])) == [["b"]]
