"""Fargate profiles and the log router of Fargate pods (EKS user guide, Fargate logging)."""

from __future__ import annotations

from typing import Any

from components.config.cluster import FargateConfig
from components.documents.account import Account
from components.documents.policy import Policy, allow, policy

Selector = dict[str, Any]

LOG_NAMESPACE = "aws-observability"
POD_EXECUTION_POLICY = "AmazonEKSFargatePodExecutionRolePolicy"


def profiles(config: FargateConfig, controller_namespace: str, *, in_fargate: bool) -> dict[str, list[Selector]]:
    """Selectors by profile name. `in_fargate`: the controller is placed there."""
    selectors: dict[str, list[Selector]] = {"kube-system": [{"namespace": "kube-system"}]}
    if in_fargate:
        selectors["karpenter"] = [{"namespace": controller_namespace}]
    for profile in config.profiles:
        selectors[profile.name] = [
            {"namespace": each.namespace, **({"labels": dict(each.labels)} if each.labels else {})}
            for each in profile.selectors
        ]
    return dict(sorted(selectors.items()))


def log_group(cluster: str) -> str:
    """Where the pods' logs go."""
    return f"/aws/eks/{cluster}/fargate"


def logging_policy(account: Account, cluster: str) -> Policy:
    """For the pod execution role: writing to that one log group."""
    actions = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
    return policy(allow("WritePodLogs", actions, [account.arn("logs", f"log-group:{log_group(cluster)}:*")]))


def logging_objects(region: str, cluster: str) -> dict[str, dict[str, Any]]:
    """The namespace and the ConfigMap that switch the log router on; at most 5,300 characters of filter and output."""
    output = "\n".join(
        (
            "[OUTPUT]",
            "    Name cloudwatch_logs",
            "    Match kube.*",
            f"    region {region}",
            f"    log_group_name {log_group(cluster)}",
            "    log_stream_prefix fargate-",
            "    auto_create_group false",
        )
    )
    filters = "\n".join(("[FILTER]", "    Name kubernetes", "    Match kube.*", "    Merge_Log On", "    Keep_Log Off"))
    return {
        "namespace": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": LOG_NAMESPACE, "labels": {LOG_NAMESPACE: "enabled"}},
        },
        "config-map": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "aws-logging", "namespace": LOG_NAMESPACE},
            "data": {"output.conf": output + "\n", "filters.conf": filters + "\n"},
        },
    }
