"""Tags as the write-ahead record: what is written is read back, within EC2's limits."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from controller.aws.api.tags import (
    MAX_VALUE_CHARACTERS,
    decode_labels,
    encode_labels,
    launch_tags,
    pod_density_of,
    read_pod_density,
)
from controller.core.api.provisioner import KubeletConfiguration

_CHARACTERS = string.ascii_letters + string.digits + "-_."
_KEYS = st.text(_CHARACTERS + "/", min_size=1, max_size=120)
_VALUES = st.text(_CHARACTERS, max_size=63)


@given(st.dictionaries(_KEYS, _VALUES, max_size=30))
def test_labels_survive_the_tags_whatever_their_length(labels: dict[str, str]) -> None:
    written = encode_labels(labels)
    assert decode_labels(written) == labels
    assert all(len(value) <= MAX_VALUE_CHARACTERS for value in written.values())
    assert all(set(value) <= set(_CHARACTERS + "/=:") for value in written.values())


def test_tags_of_others_are_no_labels() -> None:
    assert decode_labels({"Name": "x", "karpenter.sh/node-labels": "nonsense"}) == {}


def test_the_pod_density_survives_and_a_family_without_pods_per_core_writes_none() -> None:
    kubelet = KubeletConfiguration(max_pods=20, pods_per_core=4)
    tags = {"karpenter.sh/pod-density": ":".join(f"{k}={v}" for k, v in pod_density_of(kubelet, True).items())}
    assert read_pod_density(tags) == kubelet
    assert pod_density_of(kubelet, supports_pods_per_core=False) == {"maxPods": 20}
    assert read_pod_density({}) == KubeletConfiguration()


def test_the_templates_tags_win_over_the_settings_and_ownership_wins_over_both() -> None:
    tags = launch_tags(
        cluster_name="demo",
        provisioner_name="default",
        settings_tags={"team": "settings", "cost": "settings", "karpenter.sh/launch-token": "forged"},
        template_tags={"team": "template", "kubernetes.io/cluster/demo": "shared"},
        labels={},
        pod_density={},
        subject="AWSNodeTemplate default",
    )
    assert tags == {
        "Name": "karpenter.sh/provisioner-name/default",
        "cost": "settings",
        "karpenter.sh/provisioner-name": "default",
        "kubernetes.io/cluster/demo": "owned",
        "team": "template",
    }
