"""The stack by the sandbox's runner: the steps that Pulumi's engine goes through, and what is there already.

What is there is refused at preview, all at once, and then there is the documented way on.
The states are those of docs/guides/adopting.md: a guide followed by hand, eksctl, Karpenter's CloudFormation template,
Karpenter 0.27 by Helm, a stack that was destroyed, a state file that was lost. The sandbox's runner runs the stack's
program, against the sandbox's AWS and API server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PROVISIONERS, Resource
from e2e.runner import RefusedError, SandboxRunner
from e2e.steps import install_and_change, up_after_destroy
from sandbox import apiserver, aws
from sandbox.aws import AwsSettings
from sandbox.environment import CLUSTER, NAMESPACE, REGION
from sandbox.stack import ROOT

TAG = {"Key": "nodeless:stack", "Value": "nodeless/local"}
NODE_ROLE, PROFILE = f"KarpenterNodeRole-{CLUSTER}", f"KarpenterNodeInstanceProfile-{CLUSTER}"
CONTROLLER_ROLE = f"KarpenterControllerRole-{CLUSTER}"
NOBODY = json.dumps({"Version": "2012-10-17", "Statement": []})
ALL = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]})
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
HELM = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "karpenter", "meta.helm.sh/release-namespace": NAMESPACE},
}


class Place:
    """An account with the cluster in it, its API server, and the runner."""

    def __init__(self, kubeconfig: Path) -> None:
        self.runner = SandboxRunner(kubeconfig)
        self.kube = KubeClient(connect(str(kubeconfig)))
        self.iam, self.sqs = boto3.client("iam", region_name=REGION), boto3.client("sqs", region_name=REGION)

    def refused(self, **keys: Any) -> set[str]:
        """The keys that the refusal names; nothing is made by then."""
        before = self.runner.recorded()
        with pytest.raises(RefusedError) as refusal:
            self.runner.up(**keys)
        assert self.runner.recorded() == before
        assert all("adopt: true" in each for each in refusal.value.problems)
        return {each.partition(":")[0] for each in refusal.value.problems}

    def role(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.iam.get_role(RoleName=name)["Role"]
        return found

    def made_by_hand(self, *roles: str) -> None:
        """Roles, and the profile of nodes with the first in it."""
        for name in roles:
            self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=NOBODY)
        self.iam.create_instance_profile(InstanceProfileName=PROFILE)
        self.iam.add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=roles[0])

    def definitions(self, **metadata: Any) -> dict[str, str]:
        """Install the CRDs as another installer did; their uids by name."""
        for path in sorted((ROOT / "crds").glob("*.yaml")):
            document = yaml.safe_load(path.read_text())
            self.kube.create(
                CUSTOM_RESOURCE_DEFINITIONS, {**document, "metadata": {**document["metadata"], **metadata}}
            )
        return self.uids()

    def uids(self) -> dict[str, str]:
        found = self.kube.list(CUSTOM_RESOURCE_DEFINITIONS)
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    settings = AwsSettings(cluster=CLUSTER, region=REGION)
    kubeconfig = tmp_path / "kubeconfig"
    with aws.serve(settings, installed=False) as cloud, apiserver.serve(kubeconfig=kubeconfig):
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        yield Place(kubeconfig)


def test_the_steps_that_the_engine_goes_through(place: Place) -> None:
    said: list[str] = []
    install_and_change(place.runner, said.append)
    assert (
        said[-1]
        == "one Provisioner changed: kubernetes:karpenter.sh/v1alpha5:Provisioner::provisioning-provisioner-default"
    )


def test_a_guide_followed_by_hand(place: Place) -> None:
    place.made_by_hand(NODE_ROLE, CONTROLLER_ROLE)
    place.iam.put_role_policy(RoleName=CONTROLLER_ROLE, PolicyName="guide", PolicyDocument=ALL)
    names = {"identity.nodeRoleName", "identity.instanceProfileName", "identity.controllerRoleName"}
    assert place.refused() == names
    assert TAG not in place.role(NODE_ROLE).get("Tags", [])
    place.runner.up(adopt=True)
    for name in (NODE_ROLE, CONTROLLER_ROLE):
        assert TAG in place.role(name)["Tags"]
        assert place.role(name)["AssumeRolePolicyDocument"]["Statement"], "what the stack says"
    left = place.iam.list_role_policies(RoleName=CONTROLLER_ROLE)["PolicyNames"]
    assert left == ["guide"], "the page says that it stays, and to delete it"
    assert place.runner.up(), "without the key the stack is its own from now on"


def test_eksctl(place: Place) -> None:
    place.made_by_hand(NODE_ROLE, f"{CLUSTER}-karpenter")
    place.kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    account = {
        "name": "karpenter",
        "annotations": {"eks.amazonaws.com/role-arn": place.role(f"{CLUSTER}-karpenter")["Arn"]},
        "labels": {"app.kubernetes.io/managed-by": "eksctl"},
    }
    place.kube.create(ACCOUNTS, {"metadata": account}, NAMESPACE)
    assert place.refused() == {"identity.nodeRoleName", "identity.instanceProfileName", "controller.namespace"}
    place.runner.up(adopt=True)
    taken = place.kube.get(ACCOUNTS, "karpenter", NAMESPACE)
    assert taken["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == place.role(CONTROLLER_ROLE)["Arn"]
    assert TAG not in place.role(f"{CLUSTER}-karpenter").get("Tags", []), "eksctl's own role is eksctl's"


def test_karpenters_cloudformation_template(place: Place) -> None:
    place.made_by_hand(NODE_ROLE)
    place.iam.create_policy(PolicyName=f"KarpenterControllerPolicy-{CLUSTER}", PolicyDocument=ALL)
    place.sqs.create_queue(QueueName=CLUSTER)
    refused = place.refused()
    assert refused >= {"identity.nodeRoleName", "identity.instanceProfileName", "interruption.queueName"}
    own = {"nodeRoleName": "our-nodes", "instanceProfileName": "our-profile", "controllerRoleName": "our-controller"}
    place.runner.up(identity=own, interruption={"queueName": "our-queue"})
    assert TAG in place.role("our-nodes")["Tags"]
    assert TAG not in place.role(NODE_ROLE).get("Tags", [])
    queue = place.sqs.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
    assert "nodeless:stack" not in place.sqs.list_queue_tags(QueueUrl=queue).get("Tags", {})


def test_karpenter_by_helm_whose_definitions_are_left_alone_and_taken_over_later(place: Place) -> None:
    uids = place.definitions(**HELM)
    spec = {"providerRef": {"name": "default"}, "limits": {"resources": {"cpu": "10"}}}
    kinds = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"}
    kept = place.kube.create(PROVISIONERS, {**kinds, "metadata": {"name": "in-use"}, "spec": spec})
    place.kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    settings = {"metadata": {"name": "karpenter-global-settings", **HELM}, "data": {"aws.clusterName": CLUSTER}}
    place.kube.create(CONFIG_MAPS, settings, NAMESPACE)
    off = {"manageCrds": False}
    with pytest.raises(RefusedError) as refusal:
        place.runner.up(controller=off)
    assert [each.partition(";")[0] for each in refusal.value.problems] == [
        f"controller.namespace: Namespace {NAMESPACE} exists in the cluster, and this stack did not make it",
        f"controller.namespace: ConfigMap {NAMESPACE}/karpenter-global-settings exists in the cluster, "
        f"and Helm release {NAMESPACE}/karpenter made it",
    ]
    place.runner.up(controller=off, adopt=True)
    for each in place.kube.list(CUSTOM_RESOURCE_DEFINITIONS):
        assert each["metadata"]["labels"] == HELM["labels"], "not touched"
    taken = place.kube.get(CONFIG_MAPS, "karpenter-global-settings", NAMESPACE)
    assert taken["data"]["aws.interruptionQueueName"] == CLUSTER
    made = place.runner.up()
    assert [each for each in made if "CustomResourceDefinition" in each]
    assert place.uids() == uids
    assert place.kube.get(PROVISIONERS, "in-use")["metadata"]["uid"] == kept["metadata"]["uid"]


def test_a_stack_that_was_destroyed(place: Place) -> None:
    """What a destroy keeps, the CRDs and the spot role with the stack's tag, needs no key."""

    def roles() -> set[str]:
        return {each["RoleName"] for each in place.iam.list_roles()["Roles"]}

    others = roles()
    place.runner.up()
    before, kept = set(json.loads(place.runner.recorded())), place.uids()

    def nothing_is_left() -> None:
        assert roles() - others == {"AWSServiceRoleForEC2Spot"}
        assert "QueueUrls" not in place.sqs.list_queues()
        assert place.kube.list(PROVISIONERS) == []
        assert NAMESPACE not in [each["metadata"]["name"] for each in place.kube.list(NAMESPACES)]

    up_after_destroy(place.runner, nothing_is_left, lambda _: None)
    assert place.uids() == kept, "with the definitions their objects would go"
    assert set(json.loads(place.runner.recorded())) == before
    assert place.runner.plan() == []


def test_a_state_file_that_was_lost(place: Place) -> None:
    place.runner.up()
    made = set(json.loads(place.runner.recorded()))
    roles = {each["RoleName"] for each in place.iam.list_roles()["Roles"]}
    place.runner.lose_state()
    refused = place.refused()
    assert refused >= {"identity.nodeRoleName", "interruption.queueName", "controller.namespace", "provisioners"}
    place.runner.up(adopt=True)
    assert set(json.loads(place.runner.recorded())) == made
    assert {each["RoleName"] for each in place.iam.list_roles()["Roles"]} == roles, "nothing is made twice"
