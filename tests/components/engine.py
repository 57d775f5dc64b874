"""Runs the Pulumi program without an engine and records what it declares: parents, inputs, order, protection.

What this does not prove: that the AWS and Kubernetes providers accept the inputs.
"""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import pulumi
import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from pulumi.runtime import mocks, resource, rpc
from pulumi.runtime.proto import source_pb2
from pulumi.runtime.settings import get_root_resource
from pulumi.runtime.stack import Stack

from components.lookups.progress import READ_OUTPUTS
from tests.components.stacks import ROOT

ACCOUNT_ID = "111122223333"
VPC = "vpc-0123456789abcdef0"
PRIVATE = ("subnet-00000000000000001", "subnet-00000000000000002")
PUBLIC = "subnet-00000000000000003"
CLUSTERS = ("myeks", "nodeless-demo")
"""Those that exist, unless a test answers otherwise."""
CLUSTER_LOOKUP = "aws:eks/getCluster:getCluster"
CLUSTER_GROUP = "sg-0123456789abcdef0"
ISSUER = "https://oidc.eks.ap-northeast-2.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE"


DECLARES = pytest.mark.xdist_group("stack")
"""For tests that run the program: one worker imports what it needs, and keeps what it declared."""

LOOP = asyncio.new_event_loop()
"""Pulumi takes the thread's own, to which its root stack stays bound; asyncio.run in other tests leaves none."""

resource._get_stack_trace = source_pb2.StackTrace
"""The lines of the program that declare a resource go to the engine for messages: a quarter of the time of a run."""


@dataclass(frozen=True)
class Declared:
    """A resource that the program declared."""

    urn: str
    type: str
    name: str
    given: Any
    """The inputs as the engine gets them: a protobuf Struct."""
    parent: str
    dependencies: frozenset[str]
    provider: str
    protect: bool
    retained: bool
    aliases_at_root: bool
    """An earlier URN of it is at the stack's root."""
    import_id: str = ""
    delete_timeout: str = ""

    @cached_property
    def inputs(self) -> Mapping[str, Any]:
        """What it was declared with, references to resources as their URNs."""
        inputs: Mapping[str, Any] = rpc.deserialize_properties(_by_urn(self.given), keep_unknowns=True)
        return inputs

    @cached_property
    def shown(self) -> str:
        """The inputs as JSON, as the engine keeps them in plain text: secrets are left out."""
        return json.dumps(_without_secrets(json_format.MessageToDict(self.given)))

    @property
    def line(self) -> str:
        """Its types and name, as in its URN, without what is the same for all."""
        return self.urn.split("::", 2)[2].removeprefix("pulumi:pulumi:Stack$")


@dataclass(frozen=True)
class Refusal:
    """A look-up that the provider answers with an error, as it does where there is no such thing."""

    reason: str


@dataclass
class Cloud(mocks.Mocks):
    """Answers as AWS would. `answers` by token, over the usual ones."""

    region: str = "ap-northeast-2"
    answers: dict[str, Any] = field(default_factory=dict)
    preview: bool = False
    """Nothing exists yet: outputs are unknown that are not inputs."""

    def call(self, args: mocks.MockCallArgs) -> Any:
        answer = self.answers.get(args.token, USUAL.get(args.token))
        if args.token == CLUSTER_LOOKUP and args.token not in self.answers and args.args["name"] not in CLUSTERS:
            answer = Refusal("ResourceNotFoundException: No cluster found")
        if callable(answer):
            answer = answer(args.args)
        if isinstance(answer, Refusal):
            return {}, [("", answer.reason)]
        assert answer is not None, f"the program asks {args.token}, and nobody answers"
        return {**answer, **({"region": self.region} if args.token.endswith("getRegion") else {})}

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if self.preview:
            return "", dict(args.inputs)
        short = str(args.inputs.get("name") or args.name)
        outputs = {"arn": f"arn:aws:mock:{self.region}:{ACCOUNT_ID}:{args.typ}/{short}", "name": short}
        return f"{args.name}-id", {**outputs, **OUTPUTS.get(args.typ, {}), **args.inputs}


class Recorder(mocks.MockMonitor):
    """A monitor that keeps every registration as it came."""

    def __init__(self, answers: mocks.Mocks) -> None:
        super().__init__(answers)
        self.declared: dict[str, Declared] = {}

    def RegisterResource(self, request: Any) -> Any:
        answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type == "pulumi:pulumi:Stack":
            return answer
        self.declared[answer.urn] = Declared(
            urn=answer.urn,
            type=request.type,
            name=request.name,
            given=request.object,
            parent=request.parent.split("::")[-1],
            dependencies=frozenset(each.split("::")[-1] for each in request.dependencies),
            provider=request.provider,
            protect=request.protect,
            retained=request.retainOnDelete,
            aliases_at_root=any(each.spec.noParent for each in request.aliases),
            import_id=request.importId,
            delete_timeout=request.customTimeouts.delete,
        )
        return answer


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(member) for member in value]
    if not isinstance(value, dict):
        return value
    if value.get(rpc._special_sig_key) == rpc._special_secret_sig:
        return "[secret]"
    return {name: _without_secrets(member) for name, member in value.items()}


def _by_urn(inputs: Any) -> Any:
    """The inputs, a protobuf Struct, with each reference to a resource as that resource's URN."""
    plain = type(inputs)()
    plain.CopyFrom(inputs)
    for name, value in inputs.fields.items():
        members = value.struct_value.fields
        if rpc._special_sig_key in members and members[rpc._special_sig_key].string_value == rpc._special_resource_sig:
            plain.fields[name].string_value = members["urn"].string_value
    return plain


@dataclass(frozen=True)
class Run:
    """What a run of the program declared."""

    declared: Mapping[str, Declared]
    outputs: Mapping[str, Any]

    def of_type(self, type_: str) -> list[Declared]:
        """Sorted by name."""
        return sorted((each for each in self.declared.values() if each.type == type_), key=lambda each: each.name)

    def one(self, name: str) -> Declared:
        """By its logical name."""
        named = [each for each in self.declared.values() if each.name == name]
        assert len(named) == 1, f"{len(named)} resources are called {name}"
        return named[0]

    def tree(self) -> list[str]:
        """Every resource under its parents, as a line of a golden file."""
        return sorted(each.line for each in self.declared.values())


def run(program: Callable[[], None], cloud: Cloud | None = None, *, preview: bool = False, stack: str = "test") -> Run:
    """Run a program that declares resources."""
    answers = replace(cloud or Cloud(), preview=preview)
    recorder = Recorder(answers)
    asyncio.set_event_loop(LOOP)
    mocks.set_mocks(answers, project="nodeless", stack=stack, preview=preview, monitor=recorder)
    outputs: dict[str, Any] = {}

    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def body() -> pulumi.Output[None]:
        root = get_root_resource()
        assert isinstance(root, Stack)
        root._transformations = []
        root.outputs.clear()  # the process has one root stack, whose exports would pile up
        program()
        return pulumi.Output.from_input(dict(root.outputs)).apply(outputs.update)

    body()
    return Run(recorder.declared, outputs)


def run_stack(
    name: str,
    config: Mapping[str, str],
    cloud: Cloud | None = None,
    *,
    preview: bool = False,
    secret_keys: Sequence[str] = (),
) -> Run:
    """Run __main__.py with a stack's configuration, of which `secret_keys` hold a secret."""

    def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")

    pulumi.runtime.set_all_config(dict(config), list(secret_keys))
    try:
        return run(program, cloud, preview=preview, stack=name)
    finally:
        pulumi.runtime.set_all_config({}, [])


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings, but for the one of a cluster that nobody may look into, as in the usual world."""
    said = [each.message for each in caplog.records if each.levelname == "WARNING"]
    return [each for each in said if not each.startswith("the cluster was not asked")]


def declared_once(config: Mapping[str, str], *, preview: bool = False, secret_keys: Sequence[str] = ()) -> Run:
    """Run the stack `test` in the usual world, once for all tests that ask for the same; so it logs once."""
    return _declared_once(json.dumps(dict(config), sort_keys=True), preview, tuple(secret_keys))


@cache
def _declared_once(config: str, preview: bool, secret_keys: tuple[str, ...]) -> Run:
    return run_stack("test", json.loads(config), preview=preview, secret_keys=secret_keys)


def _subnet(args: Mapping[str, Any]) -> dict[str, Any]:
    zone = f"ap-northeast-2{'abc'[int(args['id'][-1], 16) % 3]}"
    return {"id": args["id"], "vpcId": VPC, "mapPublicIpOnLaunch": args["id"] == PUBLIC, "availabilityZone": zone}


USUAL: dict[str, Any] = {
    "aws:index/getRegion:getRegion": {"id": "r", "name": "r"},
    "aws:index/getPartition:getPartition": {"partition": "aws", "dnsSuffix": "amazonaws.com", "id": "aws"},
    "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": ACCOUNT_ID, "arn": "a", "id": "a", "userId": "u"},
    "aws:eks/getClusters:getClusters": {"names": list(CLUSTERS), "id": "r"},
    "aws:eks/getCluster:getCluster": {
        "name": "myeks",
        "version": "1.34",
        "endpoint": "https://EXAMPLE.gr7.ap-northeast-2.eks.amazonaws.com",
        "certificateAuthorities": [{"data": "Y2E="}],
        "identities": [{"oidcs": [{"issuer": ISSUER}]}],
        "vpcConfig": {
            "vpcId": VPC,
            "subnetIds": [*PRIVATE, PUBLIC],
            "clusterSecurityGroupId": CLUSTER_GROUP,
            "securityGroupIds": [],
        },
        "accessConfigs": [{"authenticationMode": "API_AND_CONFIG_MAP"}],
    },
    "aws:eks/getClusterAuth:getClusterAuth": Refusal("AccessDenied: this role may not look into the cluster"),
    READ_OUTPUTS: {"name": "organization/nodeless/test", "outputs": {"clusterName": "myeks"}},
    "aws:ec2/getVpcs:getVpcs": {"ids": [VPC], "id": "r"},
    "aws:ec2/getSubnets:getSubnets": {"ids": [*PRIVATE, PUBLIC], "id": "r"},
    "aws:ec2/getSubnet:getSubnet": _subnet,
    "aws:ec2/getSecurityGroups:getSecurityGroups": {"ids": [], "id": "r"},
    "aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider": Refusal("NoSuchEntity: no such provider"),
    "aws:iam/getRole:getRole": Refusal("NoSuchEntity: no such role"),
    "aws:iam/getInstanceProfile:getInstanceProfile": Refusal("NoSuchEntity: no such profile"),
    "aws:iam/getPolicy:getPolicy": Refusal("no matching IAM Policy found"),
    "aws:sqs/getQueue:getQueue": Refusal("AWS.SimpleQueueService.NonExistentQueue: The queue does not exist"),
    "aws:cloudcontrol/getResource:getResource": Refusal("couldn't find resource"),
    "aws:eks/getAccessEntry:getAccessEntry": Refusal("ResourceNotFoundException: no such entry"),
    "aws:eks/getAddon:getAddon": Refusal("ResourceNotFoundException: no such add-on"),
    "aws:cloudwatch/getLogGroup:getLogGroup": Refusal("couldn't find resource"),
    "aws:ecr/getRepository:getRepository": Refusal("RepositoryNotFoundException: no such repository"),
    "aws:ecr/getAuthorizationToken:getAuthorizationToken": {"userName": "AWS", "password": "secret", "id": "r"},
}

OUTPUTS: dict[str, dict[str, Any]] = {
    "eks:index:Cluster": {
        "kubeconfigJson": json.dumps(
            {
                "clusters": [
                    {
                        "cluster": {
                            "server": "https://NEW.gr7.ap-northeast-2.eks.amazonaws.com",
                            "certificate-authority-data": "bmV3",
                        }
                    }
                ]
            }
        ),
        "clusterSecurityGroupId": CLUSTER_GROUP,
        "oidcProviderUrl": ISSUER,
    },
    "aws:ecr/repository:Repository": {
        "repositoryUrl": f"{ACCOUNT_ID}.dkr.ecr.ap-northeast-2.amazonaws.com/nodeless/test",
        "registryId": ACCOUNT_ID,
    },
    "docker-build:index:Image": {
        "ref": f"{ACCOUNT_ID}.dkr.ecr.ap-northeast-2.amazonaws.com/nodeless/test@sha256:{'0' * 64}"
    },
    "aws:sqs/queue:Queue": {"url": f"https://sqs.ap-northeast-2.amazonaws.com/{ACCOUNT_ID}/test"},
}
