"""The program deployed into the sandbox: AWS resources are really made there, objects really applied."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import boto3
import pytest
from click.testing import CliRunner

from controller.operator.options import Options
from controller.settings import Settings
from sandbox.demo.story import connected
from sandbox.environment import Environment, EnvironmentSettings, start
from sandbox.stack import main, stack_config
from sandbox.stack_aws import AwsProvider, UnsupportedTypeError
from sandbox.stack_kube import Container, controller_container, whole_numbers
from sandbox.world.client import ApiError
from tests.components.engine import DECLARES, LOOP
from tests.components.stacks import ROOT

pytestmark = DECLARES

CLUSTER = "nodeless-demo"
REFUSED = 32
"""Exit code of the program where it has said why."""


def aws(environment: Environment, service: str) -> Any:
    variables = environment.aws_environment
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=environment.aws_endpoint,
        region_name=variables["AWS_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def read(environment: Environment, path: str) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with connected(environment) as client:
            return await client.request("GET", path)

    return asyncio.run(ask())


def deploy_here(deployed: Environment) -> tuple[int, str]:
    """Run `python -m sandbox.stack` in this process, which has read the packages already: exit code and output."""
    options = ["--kubeconfig", str(deployed.kubeconfig), "--webhook-port", str(deployed.webhook_port)]
    asyncio.set_event_loop(LOOP)
    ended = CliRunner().invoke(main, options, env=deployed.aws_environment)
    return ended.exit_code, ended.output


def answers(url: str) -> bool:
    """Whether all is well there; a controller that has just started may not be ready yet."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except HTTPError:
        return False


async def create(environment: Environment, path: str, body: dict[str, Any]) -> None:
    async with connected(environment) as client:
        await client.request("POST", path, body=body)


def container(environment: Environment) -> Container:
    async def ask() -> Container:
        async with connected(environment) as client:
            return await controller_container(client)

    return asyncio.run(ask())


def the_nodes_role_its_policies_and_its_profile_are_in_iam(deployed: Environment) -> None:
    iam = aws(deployed, "iam")
    attached = iam.list_attached_role_policies(RoleName=f"KarpenterNodeRole-{CLUSTER}")["AttachedPolicies"]
    assert {each["PolicyName"] for each in attached} == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryReadOnly",
        "AmazonSSMManagedInstanceCore",
    }
    profile = iam.get_instance_profile(InstanceProfileName=f"KarpenterNodeInstanceProfile-{CLUSTER}")
    assert [each["RoleName"] for each in profile["InstanceProfile"]["Roles"]] == [f"KarpenterNodeRole-{CLUSTER}"]


def the_controllers_role_trusts_its_service_account_of_the_clusters_real_issuer(deployed: Environment) -> None:
    issuer = aws(deployed, "eks").describe_cluster(name=CLUSTER)["cluster"]["identity"]["oidc"]["issuer"]
    role = aws(deployed, "iam").get_role(RoleName=f"KarpenterControllerRole-{CLUSTER}")["Role"]
    equals = role["AssumeRolePolicyDocument"]["Statement"][0]["Condition"]["StringEquals"]
    assert equals[f"{issuer.removeprefix('https://')}:sub"] == "system:serviceaccount:karpenter:karpenter"
    account = read(deployed, "/api/v1/namespaces/karpenter/serviceaccounts/karpenter")
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == role["Arn"]


def the_queue_takes_events_of_the_four_rules_alone(deployed: Environment) -> None:
    sqs, events = aws(deployed, "sqs"), aws(deployed, "events")
    url = sqs.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    rules = {each["Arn"]: each["Name"] for each in events.list_rules()["Rules"]}
    senders = json.loads(attributes["Policy"])["Statement"][0]["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert sorted(senders) == sorted(rules)
    assert len(rules) == 4
    for name in rules.values():
        (target,) = events.list_targets_by_rule(Rule=name)["Targets"]
        assert target["Arn"] == attributes["QueueArn"]


def the_applied_settings_and_the_deployment_are_what_the_controller_reads(deployed: Environment) -> None:
    config_map = read(deployed, "/api/v1/namespaces/karpenter/configmaps/karpenter-global-settings")
    settings = Settings.parse(config_map["data"])
    assert (settings.cluster_name, settings.interruption_queue_name) == (CLUSTER, CLUSTER)
    said = container(deployed)
    assert said.args[0] == "run"
    options = Options.parse(said.environment)
    assert (options.system_namespace, options.pod_name) == ("karpenter", "karpenter-0")
    assert options.memory_limit_bytes == 2**30


def provisioners_pass_the_api_servers_schema_and_nobody_plays_fargate(deployed: Environment) -> None:
    provisioner = read(deployed, "/apis/karpenter.sh/v1alpha5/provisioners/default")
    assert provisioner["spec"]["limits"]["resources"]["cpu"] in (1000, "1000")
    assert read(deployed, "/apis/apps/v1/namespaces/karpenter/deployments/karpenter")["spec"]["replicas"] == 0


def its_webhook_was_there_before_the_first_provisioner(deployed: Environment) -> None:
    made = read(deployed, "/apis/karpenter.sh/v1alpha5/provisioners/default")
    assert "kubernetes.io/arch" in [each["key"] for each in made["spec"]["requirements"]], "a default"
    bad = {**made, "metadata": {"name": "bad"}, "spec": {**made["spec"], "labels": {"kubernetes.io/hostname": "x"}}}
    with pytest.raises(ApiError, match=r"Provisioner \"bad\" is invalid: spec.labels"):
        asyncio.run(create(deployed, "/apis/karpenter.sh/v1alpha5/provisioners", bad))


def it_takes_its_log_levels_from_the_stack(deployed: Environment) -> None:
    assert '"Log levels are set"' in deployed.children["controller"].log.read_text()


def it_says_where_metrics_decisions_and_probes_are(deployed: Environment) -> None:
    ports, deadline = deployed.ports(), time.monotonic() + 30
    pages = {"metrics": ("metrics", "decisions"), "health-probe": ("healthz", "readyz")}
    for url in [f"http://localhost:{ports[what]}/{path}" for what, paths in pages.items() for path in paths]:
        while not answers(url):
            assert time.monotonic() < deadline, url
            time.sleep(0.1)


def declared(document: Any) -> Any:
    """The object without what the controller writes meanwhile: a Provisioner's status, its writers and its version."""
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def deploying_again_changes_no_object(deployed: Environment) -> None:
    paths = (
        "/apis/karpenter.sh/v1alpha5/provisioners/default",
        "/api/v1/namespaces/karpenter/configmaps/karpenter-global-settings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/karpenter",
    )
    before = [declared(read(deployed, path)) for path in paths]
    code, output = deploy_here(deployed)
    assert code == 0, output
    assert int(output.splitlines()[-1].split()[1]) > 40
    assert [declared(read(deployed, path)) for path in paths] == before


def test_an_override_goes_over_one_member_of_a_key() -> None:
    config = stack_config(ROOT / "stacks" / "Pulumi.local.yaml", {"nodeless:cluster": {"kubeconfig": "/k"}})
    assert json.loads(config["nodeless:cluster"]) == {"name": CLUSTER, "kubeconfig": "/k"}
    assert config["aws:region"] == "ap-northeast-2"


def test_numbers_of_the_wire_are_whole_again_and_fractions_stay() -> None:
    assert json.dumps(whole_numbers({"a": [2.0, 2.5, True, None], "b": None})) == '{"a": [2, 2.5, true, null]}'


def a_type_that_the_sandbox_cannot_make_is_said_by_name(deployed: Environment) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in deployed.aws_environment.items():
            patch.setenv(name, value)
        provider = AwsProvider("ap-northeast-2")
        with pytest.raises(UnsupportedTypeError, match="aws:rds/instance:Instance"):
            provider.make("aws:rds/instance:Instance", {})


def a_new_cluster_is_what_pulumi_eks_makes(deployed: Environment) -> None:
    subnets = [each["SubnetId"] for each in aws(deployed, "ec2").describe_subnets()["Subnets"]][:2]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in deployed.aws_environment.items():
            patch.setenv(name, value)
        asked = {"name": "fresh", "version": "1.34", "serviceRole": "arn:aws:iam::123456789012:role/r"}
        network = {"subnetIds": subnets, "endpointPublicAccess": False, "createOidcProvider": True}
        _, outputs = AwsProvider("ap-northeast-2").make("eks:index:Cluster", {**asked, **network})
    there = aws(deployed, "eks").describe_cluster(name="fresh")["cluster"]
    (api,) = json.loads(outputs["kubeconfigJson"])["clusters"]
    assert api["cluster"]["server"] == there["endpoint"]
    providers = aws(deployed, "iam").list_open_id_connect_providers()["OpenIDConnectProviderList"]
    assert any(each["Arn"].endswith(outputs["oidcProviderUrl"].removeprefix("https://")) for each in providers)


def what_a_guide_left_is_refused_until_it_is_adopted(deployed: Environment, caplog: pytest.LogCaptureFixture) -> None:
    name, iam = f"KarpenterNodeRole-{CLUSTER}", aws(deployed, "iam")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument='{"Version": "2012-10-17", "Statement": []}')
    assert deploy_here(deployed)[0] == REFUSED
    assert f"identity.nodeRoleName: role {name} exists, and this stack did not make it" in caplog.text
    assert not iam.list_policies(Scope="Local")["Policies"], "nothing is made"
    secret = ["--set", "nodeless:controller={env: {TOKEN: the-secret}}", "--secret", "nodeless:controller"]
    assert deployed.deploy_stack("local", options=["--set", "nodeless:adopt=true", *secret]) > 40
    role = iam.get_role(RoleName=name)["Role"]
    assert {"Key": "nodeless:stack", "Value": "nodeless/local"} in role["Tags"]
    assert role["AssumeRolePolicyDocument"]["Statement"], "what the stack says"


def secrets_reach_the_container_and_no_state_file(deployed: Environment) -> None:
    assert container(deployed).environment["TOKEN"] == "the-secret"
    state = (deployed.kubeconfig.parent / "local.state.json").read_text()
    assert "the-secret" not in state
    assert "[secret]" in state


CHECKS = (
    secrets_reach_the_container_and_no_state_file,
    a_new_cluster_is_what_pulumi_eks_makes,
    the_nodes_role_its_policies_and_its_profile_are_in_iam,
    the_controllers_role_trusts_its_service_account_of_the_clusters_real_issuer,
    the_queue_takes_events_of_the_four_rules_alone,
    the_applied_settings_and_the_deployment_are_what_the_controller_reads,
    provisioners_pass_the_api_servers_schema_and_nobody_plays_fargate,
    a_type_that_the_sandbox_cannot_make_is_said_by_name,
    its_webhook_was_there_before_the_first_provisioner,
    it_takes_its_log_levels_from_the_stack,
    it_says_where_metrics_decisions_and_probes_are,
    deploying_again_changes_no_object,
)


def test_the_stack_is_really_there(tmp_path: Path, subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture) -> None:
    """One sandbox for all checks: starting it is what takes time."""
    with start(EnvironmentSettings(tmp_path / "state")) as deployed:
        what_a_guide_left_is_refused_until_it_is_adopted(deployed, caplog)
        for check in CHECKS:
            with subtests.test(check.__name__.replace("_", " ")):
                check(deployed)
        deployed.children["controller"].kill()  # its last calls are no part of this
