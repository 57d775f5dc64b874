"""User data of every family, byte for byte (golden/, written anew with UPDATE_GOLDEN=1), and what it refuses."""

from __future__ import annotations

import os
import tomllib
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.aws.amifamily import FAMILIES, family_of
from controller.aws.amifamily.al2023 import NODE_CONFIG
from controller.aws.amifamily.eks_bootstrap import quoted
from controller.aws.amifamily.family import Bootstrap
from controller.aws.api.cluster_facts import ClusterFacts
from controller.aws.launch.node_parameters import kubelet_labels, max_pods
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import KubeletConfiguration
from controller.errors import NodeTemplateError

GOLDEN = Path(__file__).parent / "golden"
CLUSTER = ClusterFacts("demo", "https://api.demo", "Q0E=", "1.34", service_cidr="172.20.0.0/16", dns_ip="172.20.0.10")
EVERYTHING = KubeletConfiguration(
    cluster_dns=("10.0.100.10",),
    container_runtime="containerd",
    max_pods=40,
    pods_per_core=4,
    system_reserved=FrozenMap({"memory": "100Mi", "cpu": "500m"}),
    kube_reserved=FrozenMap({"memory": "200Mi", "cpu": "100m"}),
    eviction_hard=FrozenMap({"nodefs.available": "10%", "memory.available": "5%"}),
    eviction_soft=FrozenMap({"memory.available": "8%"}),
    eviction_soft_grace_period=FrozenMap({"memory.available": "2m"}),
    eviction_max_pod_grace_period=60,
    image_gc_high_threshold_percent=80,
    image_gc_low_threshold_percent=50,
    cpu_cfs_quota=False,
)
SCRIPT = '#!/bin/bash\necho "before the node joins"\n'
MIME = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/cloud-config; charset="us-ascii"

packages: [htop]

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "mine"

--BOUNDARY--
"""
TOML = """[settings.host-containers.admin]
enabled = true

[settings.kubernetes]
cluster-name = "not-this-one"
allowed-unsafe-sysctls = ["net.core.somaxconn"]
server-tls-bootstrap = true

[settings.kubernetes.node-labels]
"dropped" = "yes"

[settings.kubernetes.eviction-hard]
"memory.available" = "12%"

[settings.ntp]
time-servers = ["169.254.169.123"]
"""
NODE_CONFIG_OF_THE_USER = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      shutdownGracePeriod: 30s
"""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "al2-plain": ("AL2", {}),
    "al2-everything": ("AL2", {"kubelet": EVERYTHING, "max_pods": 40, "custom": SCRIPT}),
    "al2-mime": ("AL2", {"custom": MIME}),
    "al2023-plain": ("AL2023", {}),
    "al2023-everything": ("AL2023", {"kubelet": EVERYTHING, "max_pods": 40, "custom": SCRIPT}),
    "al2023-node-config": ("AL2023", {"custom": NODE_CONFIG_OF_THE_USER}),
    "bottlerocket-plain": ("Bottlerocket", {}),
    "bottlerocket-everything": ("Bottlerocket", {"kubelet": EVERYTHING, "max_pods": 40, "custom": TOML}),
    "ubuntu-plain": ("Ubuntu", {}),
    "custom": ("Custom", {"custom": SCRIPT, "kubelet": EVERYTHING}),
}


def bootstrap(**fields: Any) -> Bootstrap:
    """A node of cluster `demo` with a label and a taint of each kind."""
    defaults: dict[str, Any] = {
        "subject": "AWSNodeTemplate default",
        "cluster": CLUSTER,
        "kubelet": KubeletConfiguration(),
        "labels": FrozenMap(kubelet_labels({"team": "a"}, "default", "spot")),
        "taints": (Taint("dedicated", "gpu"), Taint("cilium", "", "NoExecute")),
    }
    return Bootstrap(**defaults | fields)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    family, fields = CASES[name]
    written = FAMILIES[family].user_data(bootstrap(**fields))
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(written)
    assert written == file.read_text()


def parts(user_data: str) -> list[tuple[str, str]]:
    """(content type, body) of a MIME document, as cloud-init would see it."""
    message = message_from_string(user_data)
    assert message.is_multipart()
    assert not message.defects
    return [(part.get_content_type(), str(part.get_payload())) for part in message.walk() if not part.is_multipart()]


class TestShellFamilies:
    def test_the_users_parts_come_first_and_ours_last(self) -> None:
        read = parts(FAMILIES["AL2"].user_data(bootstrap(custom=MIME)))
        assert [kind for kind, _ in read] == ["text/cloud-config", "text/x-shellscript", "text/x-shellscript"]
        assert "packages: [htop]" in read[0][1]
        assert "/etc/eks/bootstrap.sh 'demo'" in read[2][1]

    def test_ipv6_dns_makes_an_ipv6_node(self) -> None:
        written = FAMILIES["AL2"].user_data(bootstrap(kubelet=KubeletConfiguration(cluster_dns=("fd4e::a",))))
        assert "--ip-family ipv6" in written
        assert "--dns-cluster-ip 'fd4e::a'" in written

    def test_a_users_line_that_looks_like_our_boundary_does_not_cut_the_document(self) -> None:
        read = parts(FAMILIES["AL2"].user_data(bootstrap(custom="#!/bin/bash\necho\n--//\necho more\n")))
        assert len(read) == 2
        assert "echo more" in read[0][1]

    def test_carriage_returns_are_removed_because_the_shell_would_choke_on_them(self) -> None:
        assert "\r" not in FAMILIES["AL2"].user_data(bootstrap(custom="#!/bin/bash\r\necho\r\n"))

    def test_quotes_in_a_label_cannot_break_out_of_the_command_line(self) -> None:
        with pytest.raises(NodeTemplateError, match="cannot be part of user data"):
            bootstrap(labels=FrozenMap({"a": "x' ; reboot '"}))
        assert quoted("x' ; reboot '") == "'x'\"'\"' ; reboot '\"'\"''"

    @pytest.mark.parametrize("text", ["MIME-Version: 1.0\n\nno parts", "Content-Type: multipart/mixed\n\nno boundary"])
    def test_a_mime_document_that_cannot_be_read_is_refused(self, text: str) -> None:
        with pytest.raises(
            NodeTemplateError, match=r"AWSNodeTemplate default: spec\.userData begins as a MIME document"
        ):
            FAMILIES["AL2"].user_data(bootstrap(custom=text))


class TestAL2023:
    def test_the_node_config_is_what_nodeadm_reads(self) -> None:
        ((kind, body),) = parts(FAMILIES["AL2023"].user_data(bootstrap(kubelet=EVERYTHING, max_pods=40)))
        assert kind == NODE_CONFIG
        spec = yaml.safe_load(body)["spec"]
        assert spec["cluster"] == {
            "name": "demo",
            "apiServerEndpoint": "https://api.demo",
            "certificateAuthority": "Q0E=",
            "cidr": "172.20.0.0/16",
        }
        assert spec["kubelet"]["config"]["maxPods"] == 40
        assert spec["kubelet"]["config"]["registerWithTaints"] == [
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {"key": "cilium", "value": "", "effect": "NoExecute"},
        ]

    def test_a_runtime_that_it_does_not_have_is_refused(self) -> None:
        with pytest.raises(NodeTemplateError, match="AL2023 runs containerd alone, not 'dockerd'"):
            FAMILIES["AL2023"].user_data(bootstrap(kubelet=KubeletConfiguration(container_runtime="dockerd")))


class TestBottlerocket:
    def test_ours_win_unknown_keys_and_other_sections_stay_and_labels_are_replaced(self) -> None:
        settings = tomllib.loads(FAMILIES["Bottlerocket"].user_data(bootstrap(custom=TOML)))["settings"]
        kubernetes = settings["kubernetes"]
        assert kubernetes["cluster-name"] == "demo"
        assert kubernetes["server-tls-bootstrap"] is True
        assert kubernetes["allowed-unsafe-sysctls"] == ["net.core.somaxconn"]
        assert kubernetes["eviction-hard"] == {"memory.available": "12%"}
        assert "dropped" not in kubernetes["node-labels"]
        assert kubernetes["node-taints"] == {"dedicated": ["gpu:NoSchedule"], "cilium": [":NoExecute"]}
        assert settings["ntp"] == {"time-servers": ["169.254.169.123"]}
        assert settings["host-containers"]["admin"]["enabled"] is True

    def test_two_taints_of_one_key_both_stay(self) -> None:
        taints = (Taint("a", "1"), Taint("a", "2", "NoExecute"))
        written = tomllib.loads(FAMILIES["Bottlerocket"].user_data(bootstrap(taints=taints)))
        assert written["settings"]["kubernetes"]["node-taints"] == {"a": ["1:NoSchedule", "2:NoExecute"]}

    @pytest.mark.parametrize("text", ["not = [toml", "settings = 5", "[settings]\nkubernetes = 5"])
    def test_what_is_not_toml_is_refused(self, text: str) -> None:
        with pytest.raises(NodeTemplateError, match=r"AWSNodeTemplate default: spec\.userData"):
            FAMILIES["Bottlerocket"].user_data(bootstrap(custom=text))


class TestCustom:
    def test_the_users_text_goes_through_byte_for_byte(self) -> None:
        text = "\r\n  anything \t"
        assert FAMILIES["Custom"].user_data(bootstrap(custom=text)) == text
        assert FAMILIES["Custom"].user_data(bootstrap(custom=None)) == ""


class TestFamilyOf:
    def test_the_default_is_al2_where_eks_has_it_and_al2023_from_then_on(self) -> None:
        versions = ("1.27", "1.32", "1.33", "1.100", "2.1", "")
        defaults = [family_of(AWSNodeTemplate(name="t"), version).name for version in versions]
        assert defaults == ["AL2", "AL2", "AL2023", "AL2023", "AL2023", "AL2023"]
        assert family_of(AWSNodeTemplate(name="t", ami_family="AL2"), "1.34").name == "AL2"

    @pytest.mark.parametrize(
        ("family", "why"), [("Windows2022", "Windows nodes are not run"), ("AL3", "not supported")]
    )
    def test_others_are_refused_with_those_that_can_be_had(self, family: str, why: str) -> None:
        with pytest.raises(NodeTemplateError, match=f"{why}.*AL2, AL2023, Bottlerocket, Ubuntu, Custom"):
            family_of(AWSNodeTemplate(name="t", ami_family=family))


class TestKubelet:
    def test_max_pods_is_told_when_set_or_when_the_eni_formula_is_off(self) -> None:
        assert max_pods(KubeletConfiguration(), eni_limited=True) is None
        assert max_pods(KubeletConfiguration(), eni_limited=False) == 110
        assert max_pods(KubeletConfiguration(max_pods=9), eni_limited=False) == 9

    def test_labels_that_a_kubelet_may_not_give_itself_are_left_to_the_node_object(self) -> None:
        labels = {"team": "a", "node.kubernetes.io/x": "1", "kops.k8s.io/group": "g", "foo.kubernetes.io/x": "1"}
        assert kubelet_labels(labels, "default", "spot") == {
            keys.CAPACITY_TYPE: "spot",
            keys.PROVISIONER_NAME: "default",
            "node.kubernetes.io/x": "1",
            "team": "a",
        }
