"""What each AMI family's user data makes of a kubelet."""

from __future__ import annotations

import pytest

from sandbox.world.machines.capacity import MachineShape, allocatable, capacity, pod_limit, reserved_millicores
from sandbox.world.machines.userdata import KubeletOptions, UserDataError, parse_user_data

BOOTSTRAP = """#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://x' --b64-cluster-ca 'Y2E=' \\
--use-max-pods false \\
--container-runtime containerd \\
--kubelet-extra-args '--node-labels=a=1,b=2 --register-with-taints=k=v:NoSchedule,e:NoExecute --max-pods=20 \
--kube-reserved=cpu=100m,memory=1Gi --eviction-hard=memory.available<5%'
"""
MIME = f"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "the user's own part"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

{BOOTSTRAP}
--//--
"""
NODEADM = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: demo, apiServerEndpoint: "https://x", cidr: 10.0.0.0/16}
  kubelet:
    config:
      maxPods: 20
      registerWithTaints: [{key: k, value: v, effect: NoSchedule}, {key: e, effect: NoExecute}]
      kubeReserved: {cpu: 100m, memory: 1Gi}
      evictionHard: {memory.available: 5%}
    flags: ["--node-labels=a=1,b=2"]
--//--
"""
BOTTLEROCKET = """
[settings.kubernetes]
cluster-name = "demo"
api-server = "https://x"
max-pods = 20
[settings.kubernetes.node-labels]
a = "1"
b = "2"
[settings.kubernetes.node-taints]
k = ["v:NoSchedule"]
e = [":NoExecute"]
[settings.kubernetes.kube-reserved]
cpu = "100m"
memory = "1Gi"
[settings.kubernetes.eviction-hard]
"memory.available" = "5%"
"""


@pytest.mark.parametrize("text", [BOOTSTRAP, MIME, NODEADM, BOTTLEROCKET], ids=["script", "mime", "nodeadm", "toml"])
def test_each_family_says_the_same(text: str) -> None:
    """Labels, taints, max-pods, reservations and thresholds, in whatever notation."""
    options = parse_user_data(text)
    assert options.cluster_name == "demo"
    assert options.labels == {"a": "1", "b": "2"}
    assert options.taints == ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "e", "effect": "NoExecute"})
    assert options.max_pods == 20
    assert options.kube_reserved == {"cpu": "100m", "memory": "1Gi"}
    assert options.eviction_hard == {"memory.available": "5%"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no bootstrap.sh call"),
        ("#!/bin/bash\necho hello", "no bootstrap.sh call"),
        ("/etc/eks/bootstrap.sh --apiserver-endpoint x", "names no cluster"),
        ("/etc/eks/bootstrap.sh demo --kubelet-extra-args '--register-with-taints=k=v'", "not key=value:effect"),
        ("/etc/eks/bootstrap.sh demo --kubelet-extra-args 'unclosed", "can't be split"),
        ("[settings.kubernetes]\ncluster-name = ", "can't be read"),
        ("[settings.kubernetes]\nmax-pods = 3", "cluster-name is missing"),
        ("kind: NodeConfig\nspec: [", "can't be read"),
    ],
)
def test_user_data_that_joins_nothing_says_why(text: str, message: str) -> None:
    with pytest.raises(UserDataError, match=message):
        parse_user_data(text)


M5_LARGE = MachineShape("m5.large", "amd64", 2, 8 * 1024**3, 29, {})
PLAIN = KubeletOptions("AmazonLinux2", "demo")


def test_a_node_reports_less_memory_than_its_type_has() -> None:
    """The kernel keeps 5 %; kube-reserved (11 Mi x 29 + 255 Mi) and the 100 Mi eviction threshold come off that."""
    total = capacity(M5_LARGE, PLAIN, disk_gib=20)
    assert total["memory"] == "7969177Ki"
    assert total["ephemeral-storage"] == "20959212Ki"
    free = allocatable(M5_LARGE, PLAIN, total)
    assert int(free["memory"].removesuffix("Ki")) == 7969177 - (11 * 29 + 255 + 100) * 1024
    assert free["cpu"] == "1930m"
    assert free["ephemeral-storage"] == "18242267956"
    assert free["pods"] == "29"


def test_reservations_and_thresholds_of_the_user_data_replace_the_defaults() -> None:
    """kube-reserved per resource, system-reserved on top, eviction thresholds also in percent of capacity."""
    options = parse_user_data(
        "/etc/eks/bootstrap.sh demo --kubelet-extra-args '--kube-reserved=memory=1Gi --system-reserved=cpu=200m "
        "--eviction-hard=memory.available<10%'"
    )
    free = allocatable(M5_LARGE, options, {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "20Gi", "pods": "29"})
    assert free["cpu"] == f"{2000 - 70 - 200}m"
    assert free["memory"] == f"{(8 * 1024 - 1024) * 1024 - 838861}Ki"


@pytest.mark.parametrize(("vcpus", "expected"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (48, 190), (96, 310)])
def test_reserved_cpu_ladder(vcpus: int, expected: int) -> None:
    """6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the rest."""
    assert reserved_millicores(vcpus) == expected


def test_pods_per_core_only_lowers_the_limit() -> None:
    options = parse_user_data("/etc/eks/bootstrap.sh demo --kubelet-extra-args '--pods-per-core=3'")
    assert pod_limit(M5_LARGE, options) == 6


def test_pods_of_the_default_network_card_and_devices_of_a_type() -> None:
    """DescribeInstanceTypes: interfaces of the default card count; GPUs of all entries add up."""
    shape = MachineShape.parse(
        {
            "InstanceType": "p4d.24xlarge",
            "VCpuInfo": {"DefaultVCpus": 96},
            "MemoryInfo": {"SizeInMiB": 1179648},
            "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
            "NetworkInfo": {
                "MaximumNetworkInterfaces": 60,
                "Ipv4AddressesPerInterface": 50,
                "DefaultNetworkCardIndex": 0,
                "NetworkCards": [{"NetworkCardIndex": i, "MaximumNetworkInterfaces": 15} for i in range(4)],
            },
            "GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA", "Count": 8}]},
        }
    )
    assert (shape.eni_pods, shape.devices) == (15 * 49 + 2, {"nvidia.com/gpu": 8})
