"""Which labels are the users' own to set, and what older names mean."""

from __future__ import annotations

import pytest

from controller.core.api import labels
from controller.core.api.v1alpha5 import V1ALPHA5


@pytest.mark.parametrize(
    "key", ["team", "example.com/x", "xkubernetes.io/x", "kops.k8s.io/x", *sorted(labels.WELL_KNOWN)]
)
def test_users_may_set(key: str) -> None:
    assert not labels.restricted_label(key)


@pytest.mark.parametrize(
    "key",
    [
        *(
            "kubernetes.io/x",
            "a.kubernetes.io/x",
            "k8s.io/x",
            "karpenter.sh/x",
            "karpenter.k8s.aws/x",
            "x.kops.k8s.io/x",
        ),
        *(labels.HOSTNAME, V1ALPHA5.keys.emptiness_timestamp, labels.INSTANCE_AMI_ID, labels.INITIALIZED),
    ],
)
def test_reserved(key: str) -> None:
    assert labels.restricted_label(key)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("beta.kubernetes.io/arch", labels.ARCH),
        ("failure-domain.beta.kubernetes.io/zone", labels.ZONE),
        ("topology.ebs.csi.aws.com/zone", labels.ZONE),
        ("team", "team"),
    ],
)
def test_older_names(old: str, new: str) -> None:
    assert labels.normalize_label(old) == new


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("karpenter.k8s.aws/instance-type", labels.INSTANCE_TYPE),
        ("kubernetes.io/zone", labels.ZONE),
        ("instance-type", labels.INSTANCE_TYPE),
        ("karpenter.sh/capacity-typ", labels.CAPACITY_TYPE),
        ("kubernetes.io/hostname", ""),
        ("example.com/zone", ""),
        ("team", ""),
    ],
)
def test_a_key_that_is_likely_misspelt_is_told_apart_from_one_of_the_users_own(key: str, meant: str) -> None:
    assert labels.near_well_known(key) == meant
