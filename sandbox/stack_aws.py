"""AWS resources of a stack, made in the sandbox's AWS: what Pulumi's AWS provider does, for the types that stacks use.

Inputs and outputs have the provider's names. What the stack has made or imports is found and changed; what it creates
must not be there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import boto3
from botocore.exceptions import ClientError

Inputs = dict[str, Any]
Outputs = tuple[str, dict[str, Any]]
"""Id and properties."""

TAKEN = ("EntityAlreadyExists", "ResourceInUseException", "LimitExceeded", "InvalidInput", "QueueAlreadyExists")
"""How services say that it is there: the last but one for service-linked roles, LimitExceeded for a profile's role."""


EKS_CLUSTER = "eks:index:Cluster"
"""The component of pulumi-eks; its children are made by its plugin."""


class UnsupportedTypeError(Exception):
    """A stack declares what this sandbox cannot make."""


class AwsProvider:
    """Thread-safe, as boto3's clients are. `endpoint` None: as the environment says."""

    def __init__(self, region: str, endpoint: str | None = None) -> None:
        self.region = region
        session = boto3.Session(region_name=region)

        def client(service: str) -> Any:
            return session.client(service, endpoint_url=endpoint)  # type: ignore[call-overload]

        self._iam, self._ec2, self._eks = client("iam"), client("ec2"), client("eks")
        self._sqs, self._events, self._sts = client("sqs"), client("events"), client("sts")
        self._account: str = self._sts.get_caller_identity()["Account"]
        self._makers: dict[str, Callable[[Inputs], Outputs]] = {
            "aws:cloudwatch/eventRule:EventRule": self._event_rule,
            "aws:cloudwatch/eventTarget:EventTarget": self._event_target,
            "aws:ec2/tag:Tag": self._tag,
            "aws:eks/fargateProfile:FargateProfile": self._fargate_profile,
            "aws:iam/instanceProfile:InstanceProfile": self._instance_profile,
            "aws:iam/openIdConnectProvider:OpenIdConnectProvider": self._oidc_provider,
            "aws:iam/policy:Policy": self._policy,
            "aws:iam/role:Role": self._role,
            "aws:iam/rolePolicyAttachment:RolePolicyAttachment": self._attachment,
            "aws:iam/serviceLinkedRole:ServiceLinkedRole": self._service_linked_role,
            EKS_CLUSTER: self._eks_cluster,
            "aws:sqs/queue:Queue": self._queue,
            "aws:sqs/queuePolicy:QueuePolicy": self._queue_policy,
        }
        self._askers: dict[str, Callable[[Inputs], dict[str, Any]]] = {
            "aws:ec2/getSecurityGroups:getSecurityGroups": self._get_security_groups,
            "aws:ec2/getSubnet:getSubnet": self._get_subnet,
            "aws:ec2/getSubnets:getSubnets": self._get_subnets,
            "aws:ec2/getVpcs:getVpcs": self._get_vpcs,
            "aws:eks/getCluster:getCluster": self._get_cluster,
            "aws:eks/getClusters:getClusters": lambda _: {"id": region, "names": self._eks.list_clusters()["clusters"]},
            "aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider": self._get_oidc_provider,
            "aws:iam/getRole:getRole": self._get_role,
            "aws:iam/getInstanceProfile:getInstanceProfile": self._get_instance_profile,
            "aws:iam/getPolicy:getPolicy": self._get_policy,
            "aws:sqs/getQueue:getQueue": self._get_queue,
            "aws:cloudcontrol/getResource:getResource": self._get_fargate_profile,
            "aws:index/getCallerIdentity:getCallerIdentity": self._get_caller,
            "aws:index/getPartition:getPartition": lambda _: {"id": "aws", "partition": "aws"},
            "aws:index/getRegion:getRegion": lambda _: {"id": region, "name": region, "region": region},
        }

    def make(self, type_: str, inputs: Inputs, *, present: bool = True) -> Outputs:
        """Create it, or change what is `present`. Raises UnsupportedTypeError, and ClientError when AWS refuses."""
        if type_ not in self._makers:
            raise UnsupportedTypeError(f"the sandbox cannot make {type_}; leave it out of the stack")
        token = _PRESENT.set(present)
        try:
            return self._makers[type_](inputs)
        finally:
            _PRESENT.reset(token)

    def ask(self, token: str, arguments: Inputs) -> dict[str, Any]:
        """A look-up. Raises UnsupportedTypeError, and ClientError when there is no such thing."""
        if token not in self._askers:
            raise UnsupportedTypeError(f"the sandbox cannot answer {token}")
        return self._askers[token](arguments)

    def _arn(self, resource: str) -> str:
        return f"arn:aws:iam::{self._account}:{resource}"

    def _role(self, inputs: Inputs) -> Outputs:
        name = inputs["name"]
        trust, path = inputs["assumeRolePolicy"], inputs.get("path", "/")
        _unless_taken(lambda: self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, Path=path))
        self._iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust)
        self._iam.tag_role(RoleName=name, Tags=_tags(inputs))
        return name, {"arn": self._iam.get_role(RoleName=name)["Role"]["Arn"], "name": name}

    def _policy(self, inputs: Inputs) -> Outputs:
        name, path = inputs["name"], inputs.get("path", "/")
        _unless_taken(lambda: self._iam.create_policy(PolicyName=name, PolicyDocument=inputs["policy"], Path=path))
        arn = self._arn(f"policy{path}{name}")
        self._iam.tag_policy(PolicyArn=arn, Tags=_tags(inputs))
        return arn, {"arn": arn, "name": name}

    def _attachment(self, inputs: Inputs) -> Outputs:
        self._iam.attach_role_policy(RoleName=inputs["role"], PolicyArn=inputs["policyArn"])
        return f"{inputs['role']}-{inputs['policyArn']}", {}

    def _instance_profile(self, inputs: Inputs) -> Outputs:
        name = inputs["name"]
        _unless_taken(lambda: self._iam.create_instance_profile(InstanceProfileName=name, Path=inputs["path"]))
        _unless_taken(lambda: self._iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=inputs["role"]))
        return name, {"name": name, "arn": self._arn(f"instance-profile{inputs['path']}{name}")}

    def _service_linked_role(self, inputs: Inputs) -> Outputs:
        service = inputs["awsServiceName"]
        _unless_taken(lambda: self._iam.create_service_linked_role(AWSServiceName=service))
        for role in self._iam.list_roles(PathPrefix=f"/aws-service-role/{service}/")["Roles"]:
            self._iam.tag_role(RoleName=role["RoleName"], Tags=_tags(inputs))
        return service, {}

    def _oidc_provider(self, inputs: Inputs) -> Outputs:
        arn = self._arn(f"oidc-provider/{inputs['url'].removeprefix('https://')}")
        _unless_taken(
            lambda: self._iam.create_open_id_connect_provider(
                Url=inputs["url"],
                ClientIDList=inputs["clientIdLists"],
                ThumbprintList=["0" * 40],
                Tags=_tags(inputs),
            )
        )
        return arn, {"arn": arn}

    def _eks_cluster(self, inputs: Inputs) -> Outputs:
        """What pulumi-eks makes of it, but for access entries: the sandbox's API server knows no IAM."""
        name = inputs["name"]
        network = {"subnetIds": inputs["subnetIds"], "endpointPublicAccess": inputs["endpointPublicAccess"]}
        _unless_taken(
            lambda: self._eks.create_cluster(
                name=name, version=inputs["version"], roleArn=inputs["serviceRole"], resourcesVpcConfig=network
            )
        )
        made = self._eks.describe_cluster(name=name)["cluster"]
        issuer = made["identity"]["oidc"]["issuer"]
        if inputs.get("createOidcProvider"):
            self._oidc_provider({"url": issuer, "clientIdLists": ["sts.amazonaws.com"]})
        api = {"server": made["endpoint"], "certificate-authority-data": made["certificateAuthority"]["data"]}
        return name, {
            "kubeconfigJson": json.dumps({"clusters": [{"cluster": api}]}),
            "clusterSecurityGroupId": made["resourcesVpcConfig"].get("clusterSecurityGroupId", ""),
            "oidcProviderUrl": issuer,
        }

    def _tag(self, inputs: Inputs) -> Outputs:
        tags = [{"Key": inputs["key"], "Value": inputs["value"]}]
        self._ec2.create_tags(Resources=[inputs["resourceId"]], Tags=tags)
        return f"{inputs['resourceId']},{inputs['key']}", {}

    def _fargate_profile(self, inputs: Inputs) -> Outputs:
        cluster, name = inputs["clusterName"], inputs["fargateProfileName"]
        _unless_taken(
            lambda: self._eks.create_fargate_profile(
                fargateProfileName=name,
                clusterName=cluster,
                podExecutionRoleArn=inputs["podExecutionRoleArn"],
                subnets=inputs["subnetIds"],
                selectors=inputs["selectors"],
                tags=inputs.get("tags", {}),
            )
        )
        return f"{cluster}:{name}", {"fargateProfileName": name}

    def _queue(self, inputs: Inputs) -> Outputs:
        attributes = {
            "MessageRetentionPeriod": str(int(inputs["messageRetentionSeconds"])),
            "SqsManagedSseEnabled": str(bool(inputs.get("sqsManagedSseEnabled"))).lower(),
        }
        url = self._sqs.create_queue(QueueName=inputs["name"], Attributes=attributes)["QueueUrl"]
        self._sqs.tag_queue(QueueUrl=url, Tags=inputs.get("tags", {}))
        found = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        return url, {"arn": found["QueueArn"], "url": url, "name": inputs["name"]}

    def _queue_policy(self, inputs: Inputs) -> Outputs:
        self._sqs.set_queue_attributes(QueueUrl=inputs["queueUrl"], Attributes={"Policy": inputs["policy"]})
        return inputs["queueUrl"], {}

    def _event_rule(self, inputs: Inputs) -> Outputs:
        arn = self._events.put_rule(Name=inputs["name"], EventPattern=inputs["eventPattern"])["RuleArn"]
        return inputs["name"], {"arn": arn, "name": inputs["name"]}

    def _event_target(self, inputs: Inputs) -> Outputs:
        self._events.put_targets(Rule=inputs["rule"], Targets=[{"Id": inputs["targetId"], "Arn": inputs["arn"]}])
        return f"{inputs['rule']}-{inputs['targetId']}", {}

    def _get_caller(self, _: Inputs) -> dict[str, Any]:
        caller = self._sts.get_caller_identity()
        return {
            "id": caller["Account"],
            "accountId": caller["Account"],
            "arn": caller["Arn"],
            "userId": caller["UserId"],
        }

    def _get_cluster(self, arguments: Inputs) -> dict[str, Any]:
        found = self._eks.describe_cluster(name=arguments["name"])["cluster"]
        network = found["resourcesVpcConfig"]
        subnets = self._ec2.describe_subnets(SubnetIds=network["subnetIds"])["Subnets"]
        return {
            "id": found["name"],
            "name": found["name"],
            "version": found["version"],
            "endpoint": found["endpoint"],
            "certificateAuthorities": [{"data": found["certificateAuthority"]["data"]}],
            "identities": [{"oidcs": [{"issuer": found["identity"]["oidc"]["issuer"]}]}],
            "accessConfigs": [{"authenticationMode": found["accessConfig"]["authenticationMode"]}],
            "vpcConfig": {
                "vpcId": network.get("vpcId") or subnets[0]["VpcId"],
                "subnetIds": network["subnetIds"],
                "securityGroupIds": network.get("securityGroupIds", []),
                "clusterSecurityGroupId": network["clusterSecurityGroupId"],
            },
        }

    def _get_subnets(self, arguments: Inputs) -> dict[str, Any]:
        found = self._ec2.describe_subnets(Filters=_filters(arguments))["Subnets"]
        return {"id": self.region, "ids": [each["SubnetId"] for each in found]}

    def _get_subnet(self, arguments: Inputs) -> dict[str, Any]:
        found = self._ec2.describe_subnets(SubnetIds=[arguments["id"]])["Subnets"][0]
        return {
            "id": found["SubnetId"],
            "vpcId": found["VpcId"],
            "mapPublicIpOnLaunch": found["MapPublicIpOnLaunch"],
            "availabilityZone": found["AvailabilityZone"],
        }

    def _get_vpcs(self, arguments: Inputs) -> dict[str, Any]:
        wanted = [{"Name": f"tag:{name}", "Values": [value]} for name, value in (arguments.get("tags") or {}).items()]
        found = self._ec2.describe_vpcs(Filters=wanted)["Vpcs"]
        return {"id": self.region, "ids": [each["VpcId"] for each in found]}

    def _get_security_groups(self, arguments: Inputs) -> dict[str, Any]:
        found = self._ec2.describe_security_groups(Filters=_filters(arguments))["SecurityGroups"]
        return {"id": self.region, "ids": [each["GroupId"] for each in found]}

    def _get_oidc_provider(self, arguments: Inputs) -> dict[str, Any]:
        arn = self._arn(f"oidc-provider/{arguments['url'].removeprefix('https://')}")
        found = self._iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        return {"id": arn, "arn": arn, "tags": {each["Key"]: each["Value"] for each in found.get("Tags", [])}}

    def _get_role(self, arguments: Inputs) -> dict[str, Any]:
        found = self._iam.get_role(RoleName=arguments["name"])["Role"]
        return {"id": found["RoleName"], "arn": found["Arn"], "tags": _by_key(found.get("Tags", []))}

    def _get_instance_profile(self, arguments: Inputs) -> dict[str, Any]:
        found = self._iam.get_instance_profile(InstanceProfileName=arguments["name"])["InstanceProfile"]
        roles = [each["RoleName"] for each in found["Roles"]]
        return {"id": found["InstanceProfileName"], "roleName": roles[0] if roles else ""}

    def _get_policy(self, arguments: Inputs) -> dict[str, Any]:
        found = self._iam.get_policy(PolicyArn=arguments["arn"])["Policy"]
        return {"id": found["Arn"], "arn": found["Arn"], "tags": _by_key(found.get("Tags", []))}

    def _get_queue(self, arguments: Inputs) -> dict[str, Any]:
        url = self._sqs.get_queue_url(QueueName=arguments["name"])["QueueUrl"]
        return {"id": url, "url": url, "tags": self._sqs.list_queue_tags(QueueUrl=url).get("Tags", {})}

    def _get_fargate_profile(self, arguments: Inputs) -> dict[str, Any]:
        """Cloud Control's answer for the one type that the program asks it about."""
        cluster, name = arguments["identifier"].split("|")
        found = self._eks.describe_fargate_profile(clusterName=cluster, fargateProfileName=name)["fargateProfile"]
        tags = [{"Key": key, "Value": value} for key, value in found.get("tags", {}).items()]
        return {"id": arguments["identifier"], "properties": json.dumps({"Tags": tags})}


_PRESENT: ContextVar[bool] = ContextVar("present")


def _unless_taken(make: Callable[[], Any]) -> None:
    """What is present is kept; every other refusal is raised."""
    try:
        make()
    except ClientError as error:
        if not _PRESENT.get() or error.response["Error"]["Code"] not in TAKEN:
            raise


def _tags(inputs: Inputs) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in (inputs.get("tags") or {}).items()]


def _by_key(tags: list[dict[str, str]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in tags}


def _filters(arguments: Inputs) -> list[dict[str, Any]]:
    return [{"Name": each["name"], "Values": each["values"]} for each in arguments.get("filters", [])]
