"""`simulate` and `explain` of pods with claims of devices (DRA): counted by the setting, or refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.cluster_files import WAITING
from tests.cli.conftest import TEMPLATE, Run, Write, answer, container, deployment, provisioner

G5 = ("karpenter.k8s.aws/instance-family", "In", ["g5"])
ON_DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}


def objects(classes: str) -> list[dict[str, Any]]:
    """Two pods that claim four GPUs each, with this value of the setting."""
    data = {"aws.clusterName": "shop", "deviceClasses": classes}
    return [
        TEMPLATE,
        provisioner("default", G5, ON_DEMAND),
        {"kind": "ConfigMap", "metadata": {"name": "karpenter-global-settings"}, "data": data},
        {
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpus", "namespace": "shop"},
            "spec": {"spec": {"devices": {"requests": [REQUEST]}}},
        },
        deployment(replicas=2, resourceClaims=CLAIMS),
    ]


@pytest.mark.parametrize(("classes", "exit_code"), [('{"gpu.nvidia.com": "nvidia.com/gpu"}', 0), ("{}", 3)])
def test_claims_are_simulated_by_the_setting(run: Run, write: Write, classes: str, exit_code: int) -> None:
    result = run("simulate", write(*objects(classes)), "-o", "json")
    assert result.exit_code == exit_code
    report = answer(result)
    assert [node["instanceType"] for node in report["nodes"]] == ([] if exit_code else ["g5.12xlarge"] * 2)
    assert exit_code == 0 or "setting deviceClasses" in str(report["unplaced"])
    assert "Ignored" not in str(report["notes"])


def test_a_claim_is_explained(run: Run, write: Write) -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [container()], "resourceClaims": CLAIMS},
        "status": {"conditions": [WAITING], "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]},
    }
    taken = {"kind": "ClusterDump", "taken": "2026-03-01T12:00:00Z", "objects": [*objects("{}")[:-1], pod]}
    explained = answer(run("explain", "pod", "shop/p", "--from", write(taken), "-o", "json"))
    assert explained["facts"]["claimsOfDevices"] == "gpu (ResourceClaim p-gpu-x)"
    why = explained["reasons"]["whyAndWhatWouldHelp"][0]
    assert "DeviceClass gpu.nvidia.com (request gpu of ResourceClaimTemplate shop/gpus) is not in the setting" in why
