"""Instance types as EC2 describes them, read into labels."""

from __future__ import annotations

import pytest

from controller.aws.api.type_info import DERIVED, parse_type
from controller.core.api import labels as keys
from tests.aws.catalog.test_capacity import _described, info

AWS = "karpenter.k8s.aws"


def test_g4dn_8xlarge_has_every_label_at_once() -> None:
    labels = info("g4dn.8xlarge").labels("us-east-1", pods=58)
    assert labels == {
        "node.kubernetes.io/instance-type": "g4dn.8xlarge",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "us-east-1",
        f"{AWS}/instance-hypervisor": "nitro",
        f"{AWS}/instance-encryption-in-transit-supported": "true",
        f"{AWS}/instance-category": "g",
        f"{AWS}/instance-generation": "4",
        f"{AWS}/instance-family": "g4dn",
        f"{AWS}/instance-size": "8xlarge",
        f"{AWS}/instance-cpu": "32",
        f"{AWS}/instance-memory": "131072",
        f"{AWS}/instance-network-bandwidth": "50000",
        f"{AWS}/instance-pods": "58",
        f"{AWS}/instance-local-nvme": "900",
        f"{AWS}/instance-gpu-name": "t4",
        f"{AWS}/instance-gpu-manufacturer": "nvidia",
        f"{AWS}/instance-gpu-count": "1",
        f"{AWS}/instance-gpu-memory": "16384",
        f"{AWS}/instance-accelerator-name": "t4",
        f"{AWS}/instance-accelerator-manufacturer": "nvidia",
        f"{AWS}/instance-accelerator-count": "1",
        f"{AWS}/instance-accelerator-memory": "16384",
    }


@pytest.mark.parametrize(
    ("name", "category", "generation"),
    [
        ("m5.large", "m", "5"),
        ("inf1.2xlarge", "inf", "1"),
        ("trn1.32xlarge", "trn", "1"),
        ("im4gn.large", "im", "4"),
        ("x2gd.large", "x", "2"),
        ("u-6tb1.112xlarge", "u", "1"),
        ("c7i-flex.large", "c", "7"),
        ("m5.metal", "m", "5"),
    ],
)
def test_category_and_generation_come_from_the_name(name: str, category: str, generation: str) -> None:
    labels = info(name).labels("r", 1)
    assert (labels[keys.INSTANCE_CATEGORY], labels[keys.INSTANCE_GENERATION]) == (category, generation)


@pytest.mark.parametrize(
    ("name", "mbps"),
    [
        ("m5.large", "750"),  # up to 10 Gigabit: the baseline counts
        ("c5n.18xlarge", "100000"),
        ("p4d.24xlarge", "400000"),  # 4x 100 Gigabit
        ("m6idn.32xlarge", "200000"),
        ("c4.large", "625"),  # "Moderate"
    ],
)
def test_network_bandwidth_is_what_a_node_can_count_on(name: str, mbps: str) -> None:
    assert info(name).labels("r", 1)[keys.INSTANCE_NETWORK_BANDWIDTH] == mbps


def test_inferentia_is_an_accelerator_of_aws() -> None:
    labels = info("inf1.2xlarge").labels("r", 1)
    assert labels[keys.INSTANCE_ACCELERATOR_NAME] == "inferentia"
    assert labels[keys.INSTANCE_ACCELERATOR_MANUFACTURER] == "aws"
    assert labels[keys.INSTANCE_ACCELERATOR_COUNT] == "1"
    assert keys.INSTANCE_GPU_NAME not in labels


def test_trainium_which_ec2_lists_elsewhere_is_one_too() -> None:
    assert info("trn1.2xlarge").labels("r", 1)[keys.INSTANCE_ACCELERATOR_NAME] == "trainium"


def test_bare_metal_has_an_empty_hypervisor_and_no_gpu_labels() -> None:
    labels = info("m5.metal").labels("r", 1)
    assert labels[keys.INSTANCE_HYPERVISOR] == ""
    assert not {key for key in labels if "gpu" in key}


def test_two_kinds_of_gpu_give_no_gpu_labels_because_none_would_be_true() -> None:
    gpus = [{"Name": n, "Manufacturer": "NVIDIA", "Count": 1, "MemoryInfo": {"SizeInMiB": 1}} for n in ("A", "B")]
    parsed = parse_type(_described()["m5.large"] | {"GpuInfo": {"Gpus": gpus}})
    assert keys.INSTANCE_GPU_NAME not in parsed.labels("r", 1)
    assert parsed.devices("NVIDIA") == 2


def test_every_type_that_is_described_can_be_read_and_has_only_well_known_labels() -> None:
    for name in _described():
        assert set(info(name).labels("us-east-1", 1)) <= DERIVED
