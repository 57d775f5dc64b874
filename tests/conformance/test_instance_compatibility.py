"""Which instance type a pod gets, and how pods share nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod
from tests.conformance.fixtures import (
    ARM,
    DEFAULT,
    GPU_A,
    GPU_B,
    SMALL,
    VENDOR_A,
    VENDOR_B,
    ZONE_1,
    ZONE_2,
    Cluster,
    fake_type,
    numbered_types,
    six_types,
    terms,
)
from tests.factories import pending_pod, pending_pods, pod_object, provisioner, requirement

TINY = {"cpu": "10m"}


def selecting(**chosen: str) -> Pod:
    """A tiny pod with a node selector; keys are given by their constants' names."""
    return pending_pod(requests=TINY, node_selector={getattr(keys, key): value for key, value in chosen.items()})


def test_what_no_type_can_hold_waits() -> None:
    assert Cluster().provision(pending_pod(requests={"cpu": "1000"})).new == ()


def test_two_architectures_are_two_nodes() -> None:
    done = Cluster().provision(selecting(ARCH="amd64"), selecting(ARCH="arm64"))
    assert len(done.new) == 2
    assert ARM in done.types


def test_a_type_and_an_architecture_that_contradict_each_other_are_refused() -> None:
    assert Cluster().provision(selecting(INSTANCE_TYPE=ARM, ARCH="amd64")).new == ()


def test_a_system_that_only_another_architecture_has_is_refused() -> None:
    catalog = (*six_types(), fake_type("ios", arch="arm64", os="ios"))
    assert Cluster(catalog=catalog).provision(selecting(OS="ios", ARCH="amd64")).new == ()


def test_a_size_that_only_another_architecture_has_is_refused() -> None:
    pool = provisioner(requirements=[requirement(keys.ARCH, "In", "amd64")])
    assert Cluster([pool]).provision(pending_pod(requests={"cpu": "14"})).new == ()


def test_two_operating_systems_are_two_nodes() -> None:
    catalog = (*six_types(), fake_type("windows", os="windows"))
    done = Cluster(catalog=catalog).provision(selecting(OS="linux"), selecting(OS="windows"))
    assert len(done.new) == 2
    assert "windows" in done.types


@pytest.mark.parametrize("key", [keys.INSTANCE_TYPE, "beta.kubernetes.io/instance-type"], ids=["stable", "beta"])
def test_two_instance_types_are_two_nodes(key: str) -> None:
    pods = [pending_pod(requests=TINY, node_selector={key: kind}) for kind in (SMALL, DEFAULT)]
    assert Cluster().provision(*pods).types == [DEFAULT, SMALL]


def test_two_zones_are_two_nodes() -> None:
    done = Cluster().provision(selecting(ZONE=ZONE_1), selecting(ZONE=ZONE_2))
    assert [planned.offering.zone for planned in done.new] == [ZONE_1, ZONE_2]


def test_two_extended_resources_are_two_nodes() -> None:
    pods = [pending_pod(requests={GPU_A: 1}), pending_pod(requests={GPU_B: 1})]
    assert Cluster().provision(*pods).types == [VENDOR_B, VENDOR_A]


def test_two_extended_resources_that_no_type_has_together_are_refused() -> None:
    assert Cluster().provision(pending_pod(requests={GPU_A: 1, GPU_B: 1})).new == ()


def test_labels_of_the_provider_select_types() -> None:
    """`size`, which no Provisioner names."""
    large, small = (pending_pod(requests=TINY, node_selector={"size": size}) for size in ("large", "small"))
    done = Cluster().provision(large, small)
    assert done.home(large, keys.INSTANCE_TYPE) == ARM
    assert done.home(small, keys.INSTANCE_TYPE) != ARM


def test_labels_of_the_provider_that_no_type_has_together_are_refused() -> None:
    contradiction = pending_pod(node_selector={"size": "large", keys.INSTANCE_TYPE: SMALL})
    other = pending_pod(required_node_affinity=terms([requirement("size", "In", "small")]), requests={"cpu": "15"})
    assert Cluster().provision(contradiction, other).new == ()


def test_exists_on_a_label_that_some_types_have_picks_one_of_them() -> None:
    waiting = pending_pod(required_node_affinity=terms([requirement("special", "Exists")]))
    assert Cluster().provision(waiting).types == [ARM]


def test_does_not_exist_on_a_label_that_some_types_have_avoids_them() -> None:
    waiting = pending_pod(required_node_affinity=terms([requirement("special", "DoesNotExist")]))
    planned = Cluster().provision(waiting).only
    assert ARM not in {offering.instance_type for offering in (planned.offering, *planned.alternatives)}


@pytest.mark.parametrize("memory", ["100M", "2000M"], ids=["little", "much"])
def test_a_pod_that_fits_the_smallest_type_gets_it(memory: str) -> None:
    assert Cluster().provision(pending_pod(requests={"memory": memory})).types == [SMALL]


def test_small_pods_share_the_smallest_type() -> None:
    assert Cluster().provision(*pending_pods(5, requests={"memory": "10M"})).types == [SMALL]


def default_only() -> Cluster:
    return Cluster(catalog=[each for each in six_types() if each.name == DEFAULT])


def test_pods_fill_nodes_before_new_ones_are_opened() -> None:
    """40 pods of 1.8G, two a node of 4Gi."""
    assert default_only().provision(*pending_pods(40, requests={"memory": "1.8G"})).types == [DEFAULT] * 20


def test_small_pods_fill_the_gaps_that_large_ones_leave() -> None:
    """Another 20 pods of 400M need no more nodes."""
    pods = [*pending_pods(40, requests={"memory": "1.8G"}), *pending_pods(20, requests={"memory": "400M"})]
    done = default_only().provision(*pods)
    assert done.types == [DEFAULT] * 20
    assert done.left == set()


def test_a_pod_too_large_for_what_is_left_gets_a_node_of_its_size() -> None:
    """4G fill the default type; a further 1.2G take the small one."""
    pods = [pending_pod(requests={"memory": "4G"}), pending_pod(requests={"memory": "1.2G"})]
    assert Cluster(catalog=six_types()[:2]).provision(*pods).types == [DEFAULT, SMALL]


def test_zero_of_an_unknown_resource_is_no_matter() -> None:
    assert Cluster().provision(pending_pod(requests={"foo.com/weird-resources": 0})).types == [SMALL]


def test_more_memory_than_any_type_has_is_refused() -> None:
    assert Cluster().provision(pending_pod(requests={"memory": "2Ti"})).new == ()


def test_nodes_hold_no_more_pods_than_their_type_allows() -> None:
    """25 pods of next to nothing, memory written as 1m (a thousandth of a byte), five a node."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1m", "memory": "1m"}}}
    pods = [parse_pod(pod_object(spec={"containers": [container]})) for _ in range(25)]
    cluster = Cluster(catalog=[each for each in six_types() if each.name == SMALL])
    done = cluster.provision(*pods)
    assert Counter(len(planned.pods) for planned in done.new) == Counter({5: 5})


def with_init(requests: dict[str, Any]) -> Pod:
    init = [{"name": "init", "resources": {"requests": requests}}]
    return parse_pod(pod_object(requests={"cpu": "1", "memory": "10M"}, spec={"initContainers": init}))


def test_init_containers_count_where_they_are_larger() -> None:
    assert Cluster().provision(with_init({"cpu": "2", "memory": "1Gi"})).types == [DEFAULT]


def test_an_init_container_too_large_for_any_type_is_refused() -> None:
    assert Cluster().provision(with_init({"memory": "1Ti"})).new == ()


def test_all_types_that_would_do_are_offered_and_the_cheapest_is_planned() -> None:
    """The fixture's "large" costs least."""
    catalog = [
        fake_type(name, cpu=cpu, memory=f"{cpu}Gi", price=price)
        for name, cpu, price in (("small", 1, 3.0), ("medium", 2, 2.0), ("large", 4, 1.0))
    ]
    planned = Cluster(catalog=catalog).provision(pending_pod(requests={"cpu": "1m", "memory": "1Mi"})).only
    assert planned.offering.instance_type == "large"
    offered = {offering.instance_type for offering in (planned.offering, *planned.alternatives)}
    assert offered == {"small", "medium", "large"}


def test_a_hundred_types_are_told_apart() -> None:
    """Karpenter v0.27's InstanceTypes(n): a pod of n cpu gets the least type that has them."""
    cluster = Cluster(catalog=numbered_types(100))
    for cpu in (1, 7, 42, 98):
        assert cluster.provision(pending_pod(requests={"cpu": cpu}), bind=False).types == [f"fake-it-{cpu + 1}"]
        cluster.nodes.clear()
