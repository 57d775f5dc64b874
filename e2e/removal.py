"""Remove what the sandbox's runner has made, the newest first, as `pulumi destroy` does; what a destroy keeps stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import boto3

from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import Resource

Removed = Mapping[str, Any]
"""A resource of the state: `id`, and `inputs`."""
KEPT: Final = (
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
    "aws:iam/serviceLinkedRole:ServiceLinkedRole",
    "pulumi:pulumi:Stack",
)
"""What the program retains, and the stack itself, of which nothing is there."""


class Remover:
    """Removes from AWS_ENDPOINT_URL's AWS and from an API server."""

    def __init__(self, kube: KubeClient, region: str) -> None:
        def client(service: str) -> Any:
            return boto3.client(service, region_name=region)  # type: ignore[call-overload]

        self._kube = kube
        self._iam, self._ec2, self._eks = client("iam"), client("ec2"), client("eks")
        self._sqs, self._events = client("sqs"), client("events")
        self._of_aws: dict[str, Callable[[str, dict[str, Any]], Any]] = {
            "aws:iam/role:Role": lambda name, _: self._iam.delete_role(RoleName=name),
            "aws:iam/policy:Policy": lambda arn, _: self._iam.delete_policy(PolicyArn=arn),
            "aws:iam/rolePolicyAttachment:RolePolicyAttachment": lambda _, given: self._iam.detach_role_policy(
                RoleName=given["role"], PolicyArn=given["policyArn"]
            ),
            "aws:iam/instanceProfile:InstanceProfile": self._instance_profile,
            "aws:iam/openIdConnectProvider:OpenIdConnectProvider": lambda arn, _: (
                self._iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
            ),
            "aws:ec2/tag:Tag": lambda _, given: self._ec2.delete_tags(
                Resources=[given["resourceId"]], Tags=[{"Key": given["key"]}]
            ),
            "aws:eks/fargateProfile:FargateProfile": lambda _, given: self._eks.delete_fargate_profile(
                clusterName=given["clusterName"], fargateProfileName=given["fargateProfileName"]
            ),
            "aws:sqs/queue:Queue": lambda url, _: self._sqs.delete_queue(QueueUrl=url),
            "aws:sqs/queuePolicy:QueuePolicy": lambda url, _: self._sqs.set_queue_attributes(
                QueueUrl=url, Attributes={"Policy": ""}
            ),
            "aws:cloudwatch/eventRule:EventRule": lambda name, _: self._events.delete_rule(Name=name),
            "aws:cloudwatch/eventTarget:EventTarget": lambda _, given: self._events.remove_targets(
                Rule=given["rule"], Ids=[given["targetId"]]
            ),
        }

    def remove(self, resources: Mapping[str, Removed]) -> None:
        """All of a state, by TYPE::NAME in the order in which they were made. Raises what AWS and Kubernetes refuse."""
        for key, each in reversed(list(resources.items())):
            type_ = key.partition("::")[0]
            if type_.startswith("kubernetes:") and type_ not in KEPT:
                self._object(each["inputs"])
            elif type_ not in KEPT:
                self._of_aws[type_](each["id"], each["inputs"])

    def _instance_profile(self, name: str, inputs: dict[str, Any]) -> None:
        self._iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=inputs["role"])
        self._iam.delete_instance_profile(InstanceProfileName=name)

    def _object(self, document: Mapping[str, Any]) -> None:
        group, _, version = document["apiVersion"].rpartition("/")
        kind, metadata = document["kind"], document["metadata"]
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        namespace = metadata.get("namespace", "")
        resource = Resource(group, version, plural.lower(), kind, namespaced=bool(namespace))
        try:
            self._kube.delete(resource, metadata["name"], namespace)
        except NotFoundError:  # it went with its namespace
            return
