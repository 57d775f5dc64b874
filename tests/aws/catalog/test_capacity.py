"""Capacity and overhead as formulas: the worked examples of Karpenter's tests and of the EKS bootstrap script."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from controller.aws.api.type_info import TypeInfo, parse_type
from controller.aws.catalog.capacity import (
    CapacityRules,
    capacity,
    eni_limited_pods,
    eviction_threshold,
    kube_reserved,
    memory_bytes,
    overhead,
    pod_capacity,
    reserved_millicores,
)
from controller.core.api.frozen import FrozenMap
from controller.core.api.provisioner import KubeletConfiguration
from sandbox.aws.ec2.catalog import Catalog

MIB, GIB = 2**20, 2**30
BOTTLEROCKET = {
    "eni_limited_memory_overhead": False,
    "supports_pods_per_core": False,
    "supports_eviction_soft": False,
}


@cache
def _described() -> dict[str, dict[str, Any]]:
    return Catalog("us-east-1").types


def info(name: str) -> TypeInfo:
    """An instance type as EC2 describes it."""
    return parse_type(_described()[name])


def kubelet(**fields: Any) -> CapacityRules:
    """Rules with a kubelet configuration and no VM overhead; maps are given as dicts."""
    maps: dict[str, Any] = {
        name: FrozenMap(value) if isinstance(value, dict) else value for name, value in fields.items()
    }
    return CapacityRules(vm_memory_overhead=0.0, kubelet=KubeletConfiguration(**maps))


def test_m5_large_with_defaults() -> None:
    have, kept = capacity(info("m5.large"), CapacityRules()), overhead(info("m5.large"), CapacityRules())
    left = {name: amount - kept.get(name, 0) for name, amount in have.items()}
    assert left == {"cpu": 1930, "memory": 6903 * MIB, "ephemeral-storage": 17 * GIB, "pods": 29}


@pytest.mark.parametrize(("memory_mib", "left_mib"), [(8192, 7577), (16384, 15155), (131072, 121241)])
def test_vm_overhead_is_a_share_rounded_up_to_whole_mebibytes(memory_mib: int, left_mib: int) -> None:
    assert memory_bytes(replace(info("m5.large"), memory_mib=memory_mib), 0.075) == left_mib * MIB


@pytest.mark.parametrize(
    ("vcpus", "millicores"),
    [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (32, 150), (48, 190), (64, 230), (96, 310), (128, 390)],
)
def test_reserved_cpu_follows_the_ladder(vcpus: int, millicores: int) -> None:
    assert reserved_millicores(vcpus) == millicores


@pytest.mark.parametrize(("name", "pods"), [("t3.large", 35), ("m5.large", 29), ("m5.xlarge", 58)])
def test_pods_by_the_eni_formula(name: str, pods: int) -> None:
    assert eni_limited_pods(info(name)) == pods


def test_of_several_network_cards_the_default_one_alone_counts() -> None:
    """m6idn.32xlarge as EC2 described it in 2023: two cards of 7 interfaces, 50 addresses each."""
    described = _described()["m6idn.32xlarge"]
    cards = [card | {"MaximumNetworkInterfaces": 7} for card in described["NetworkInfo"]["NetworkCards"]]
    network = described["NetworkInfo"] | {"MaximumNetworkInterfaces": 14, "NetworkCards": cards}
    assert eni_limited_pods(parse_type(described | {"NetworkInfo": network})) == 345


class TestPods:
    def test_max_pods_overrides_everything(self) -> None:
        rules = kubelet(max_pods=10)
        assert pod_capacity(info("m5.xlarge"), rules) == 10
        assert pod_capacity(info("m5.xlarge"), replace(rules, eni_limited_pods=False)) == 10

    def test_without_eni_limited_density_it_is_the_kubelets_110(self) -> None:
        assert pod_capacity(info("m5.large"), CapacityRules(eni_limited_pods=False)) == 110

    def test_pods_per_core_times_cores_is_an_upper_bound(self) -> None:
        assert pod_capacity(info("m5.xlarge"), kubelet(pods_per_core=4)) == 16
        assert pod_capacity(info("m5.xlarge"), kubelet(pods_per_core=4, max_pods=10)) == 10
        assert pod_capacity(info("m5.xlarge"), kubelet(pods_per_core=100)) == 58

    def test_bottlerocket_knows_no_pods_per_core(self) -> None:
        assert pod_capacity(info("m5.xlarge"), replace(kubelet(pods_per_core=1), **BOTTLEROCKET)) == 58  # type: ignore[arg-type]

    def test_zero_pods_per_core_means_none(self) -> None:
        assert pod_capacity(info("m5.xlarge"), replace(kubelet(pods_per_core=0), eni_limited_pods=False)) == 110


class TestReserved:
    def test_defaults_of_m5_xlarge(self) -> None:
        assert kube_reserved(info("m5.xlarge"), kubelet()) == {
            "cpu": 80,
            "memory": 893 * MIB,
            "ephemeral-storage": GIB,
        }

    def test_kube_reserved_is_overridden_key_by_key(self) -> None:
        reserved = kube_reserved(info("m5.xlarge"), kubelet(kube_reserved={"memory": "10Gi"}))
        assert reserved == {"cpu": 80, "memory": 10 * GIB, "ephemeral-storage": GIB}

    def test_system_reserved_comes_on_top(self) -> None:
        rules = kubelet(system_reserved={"cpu": "2", "memory": "20Gi", "ephemeral-storage": "10Gi"})
        plain = overhead(info("m5.xlarge"), kubelet())
        assert overhead(info("m5.xlarge"), rules) == {
            "cpu": plain["cpu"] + 2000,
            "memory": plain["memory"] + 20 * GIB,
            "ephemeral-storage": plain["ephemeral-storage"] + 10 * GIB,
        }

    @pytest.mark.parametrize(
        ("traits", "eni", "memory_mib"),
        [({}, True, 893), ({}, False, 893), (BOTTLEROCKET, True, 893), (BOTTLEROCKET, False, 1465)],
    )
    def test_memory_is_kept_for_the_eni_formulas_pods_or_for_the_real_ones_on_bottlerocket(
        self, traits: dict[str, bool], eni: bool, memory_mib: int
    ) -> None:
        rules = CapacityRules(eni_limited_pods=eni, **traits)  # type: ignore[arg-type]
        assert kube_reserved(info("m5.xlarge"), rules)["memory"] == memory_mib * MIB

    def test_a_quantity_that_cannot_be_read_is_an_error_that_names_it(self) -> None:
        with pytest.raises(ValueError, match="memory"):
            overhead(info("m5.xlarge"), kubelet(system_reserved={"memory": "lots"}))


class TestEviction:
    """m5.xlarge without VM overhead: 16384 MiB."""

    @pytest.mark.parametrize(
        ("fields", "memory_bytes"),
        [
            ({}, 100 * MIB),
            ({"eviction_hard": {"memory.available": "500Mi"}}, 500 * MIB),
            ({"eviction_hard": {"memory.available": "10%"}}, -(-16 * GIB // 10)),
            ({"eviction_hard": {"memory.available": "100%"}}, 0),
            ({"eviction_hard": {"nodefs.available": "5%"}}, 100 * MIB),
            ({"eviction_soft": {"memory.available": "500Mi"}}, 500 * MIB),
            ({"eviction_soft": {"memory.available": "10%"}}, -(-16 * GIB // 10)),
            ({"eviction_soft": {"memory.available": "50Mi"}}, 100 * MIB),
            ({"eviction_hard": {"memory.available": "1Gi"}, "eviction_soft": {"memory.available": "3Gi"}}, 3 * GIB),
            (
                {"eviction_hard": {"memory.available": "5%"}, "eviction_soft": {"memory.available": "2%"}},
                -(-16 * GIB // 20),
            ),
            (
                {"eviction_hard": {"memory.available": "10%"}, "eviction_soft": {"memory.available": "1Gi"}},
                -(-16 * GIB // 10),
            ),
        ],
    )
    def test_the_larger_of_hard_and_soft_counts(self, fields: dict[str, dict[str, str]], memory_bytes: int) -> None:
        assert eviction_threshold(info("m5.xlarge"), kubelet(**fields))["memory"] == memory_bytes

    def test_bottlerocket_has_no_soft_eviction(self) -> None:
        rules = kubelet(eviction_hard={"memory.available": "1Gi"}, eviction_soft={"memory.available": "10Gi"})
        assert eviction_threshold(info("m5.xlarge"), replace(rules, **BOTTLEROCKET))["memory"] == GIB  # type: ignore[arg-type]

    def test_a_tenth_of_the_storage_is_kept_by_default(self) -> None:
        assert eviction_threshold(info("m5.xlarge"), CapacityRules())["ephemeral-storage"] == 2 * GIB
        rules = replace(kubelet(eviction_soft={"nodefs.available": "20%"}), storage_bytes=100 * GIB)
        assert eviction_threshold(info("m5.xlarge"), rules)["ephemeral-storage"] == 20 * GIB


class TestDevices:
    @pytest.mark.parametrize(
        ("name", "resource", "count"),
        [
            ("g4dn.8xlarge", "nvidia.com/gpu", 1),
            ("p4d.24xlarge", "nvidia.com/gpu", 8),
            ("inf1.6xlarge", "aws.amazon.com/neuron", 4),
            ("trn1.32xlarge", "aws.amazon.com/neuron", 16),
        ],
    )
    def test_devices_are_resources(self, name: str, resource: str, count: int) -> None:
        assert capacity(info(name), CapacityRules())[resource] == count

    def test_gaudi_and_amd_gpus_have_names_of_their_own(self) -> None:
        gpus = {
            "Gpus": [{"Name": "Gaudi HL-205", "Manufacturer": "Habana", "Count": 8, "MemoryInfo": {"SizeInMiB": 32768}}]
        }
        gaudi = parse_type(_described()["m5.24xlarge"] | {"InstanceType": "dl1.24xlarge", "GpuInfo": gpus})
        assert capacity(gaudi, CapacityRules())["habana.ai/gaudi"] == 8
        amd = {
            "Gpus": [{"Name": "Radeon Pro V520", "Manufacturer": "AMD", "Count": 2, "MemoryInfo": {"SizeInMiB": 8192}}]
        }
        assert capacity(parse_type(_described()["m5.large"] | {"GpuInfo": amd}), CapacityRules())["amd.com/gpu"] == 2

    def test_a_type_without_devices_has_no_entry_for_them(self) -> None:
        assert set(capacity(info("m5.large"), CapacityRules())) == {"cpu", "memory", "ephemeral-storage", "pods"}

    def test_pod_eni_only_when_switched_on_and_only_on_types_that_can(self) -> None:
        branches = FrozenMap({"m5.large": 9})
        on = CapacityRules(pod_eni=True, branch_interfaces=branches)
        assert capacity(info("m5.large"), on)["vpc.amazonaws.com/pod-eni"] == 9
        assert "vpc.amazonaws.com/pod-eni" not in capacity(info("t3.large"), on)
        assert "vpc.amazonaws.com/pod-eni" not in capacity(info("m5.large"), replace(on, pod_eni=False))
