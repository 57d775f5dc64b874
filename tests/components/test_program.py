"""The program over each committed stack: what is declared, in which order, and what the account refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pulumi.output import Unknown

from components.lookups.cluster_objects import STACK_ANNOTATION
from components.objects import KINDS
from sandbox.stack_kube import whole_numbers
from tests.components.engine import (
    CLUSTER_GROUP,
    DECLARES,
    PRIVATE,
    PUBLIC,
    USUAL,
    VPC,
    Cloud,
    Declared,
    Refusal,
    Run,
    declared_once,
    run_stack,
    warned,
)
from tests.components.golden import GOLDEN, document, run_of
from tests.components.stacks import ROOT, STACKS, minimal, raw_config

pytestmark = DECLARES

REMEDY = "look at the difference; if it is meant: uv run python -m tests.components.golden"


def config(**keys: Any) -> dict[str, str]:
    return {f"nodeless:{name}": json.dumps(value) for name, value in minimal(**keys).items()}


def refused(caplog: pytest.LogCaptureFixture, cloud: Cloud, **keys: Any) -> list[str]:
    """The errors with which the program ends."""
    caplog.clear()
    with pytest.raises(SystemExit) as ended:
        run_stack("test", config(**keys), cloud)
    assert ended.value.code == 32, "Pulumi adds an unhandled error to any other"
    return [record.message for record in caplog.records if record.levelname == "ERROR"]


def cluster(**changes: Any) -> dict[str, Any]:
    return {"aws:eks/getCluster:getCluster": {**USUAL["aws:eks/getCluster:getCluster"], **changes}}


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_declares_exactly_the_resources_of_its_golden_file(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    resources = document(run_of(name))
    assert sorted(resources) == sorted(golden), REMEDY
    for line, inputs in golden.items():
        assert resources[line] == inputs, f"{line}: {REMEDY}"


@pytest.mark.parametrize("name", STACKS)
def test_a_preview_declares_the_same_resources_while_nothing_exists_yet(name: str) -> None:
    preview = run_of(name, preview=True)
    assert preview.tree() == run_of(name).tree()
    profile = preview.one("nodes-instance-profile").inputs
    assert profile["role"] == f"KarpenterNodeRole-{stack_cluster(name)}", "unknown: a replacement, at one more policy"
    for policy in preview.of_type("aws:iam/policy:Policy"):
        assert not isinstance(policy.inputs["policy"], Unknown), policy.name
    assert preview.one("controller-settings").inputs == run_of(name).one("controller-settings").inputs


def stack_cluster(name: str) -> str:
    return str(json.loads(raw_config(name)["nodeless:cluster"])["name"])


def closure(run: Run, each: Declared) -> set[str]:
    """Names of all that comes before a resource: its dependencies, theirs, and its parents'."""
    by_name = {other.name: other for other in run.declared.values()}
    reached: set[str] = set()
    waiting = [each]
    while waiting:
        one = waiting.pop()
        for name in {*one.dependencies, *({one.parent} if one.parent in by_name else ())} - reached:
            reached.add(name)
            if name in by_name:
                waiting.append(by_name[name])
    return reached


@pytest.mark.parametrize("name", STACKS)
def test_provisioners_come_last_and_so_go_first(name: str) -> None:
    run = run_of(name)
    access = {"node-access-entry"} if run.of_type("aws:eks/accessEntry:AccessEntry") else set()
    needed = access | {
        "controller-deployment", "definitions-provisioners", "definitions-awsnodetemplates",
        "nodes-instance-profile", "nodes-AmazonEKSWorkerNodePolicy", "interruption-queue", "controller-settings",
        "controller-identity-role", "fargate-karpenter", "sweep-leftovers",
    }  # fmt: skip
    provisioners = run.of_type("kubernetes:karpenter.sh/v1alpha5:Provisioner")
    assert provisioners
    for each in provisioners:
        assert needed <= closure(run, each)
        annotations = {"pulumi.com/deletionPropagationPolicy": "foreground", STACK_ANNOTATION: f"nodeless/{name}"}
        assert each.inputs["metadata"]["annotations"] == annotations
    leftovers = run.one("sweep-leftovers")
    assert needed - {"sweep-leftovers"} <= closure(run, leftovers), "swept while roles and the controller still are"
    assert set(leftovers.inputs) == {"delete"}, "nothing runs before the stack goes"


@pytest.mark.parametrize("name", STACKS)
def test_whoever_acts_as_a_role_comes_after_all_its_policies(name: str) -> None:
    run = run_of(name)
    users = {
        "nodes-instance-profile": "nodes-",
        "controller-deployment": "controller-identity-",
        "fargate-karpenter": "fargate-identity-",
        "node-access-entry": "nodes-",
        "vpc-cni-addon": "vpc-cni-identity-",
        "load-balancer-controller-release": "load-balancer-controller-identity-",
        "cluster-eks": "cluster-control-plane-",
    }
    there = {each.name for each in run.declared.values()}
    attached = [each.name for each in run.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")]
    for user, role in users.items():
        policies = {each for each in attached if each.startswith(role)}
        if user in there:
            assert policies, role
            assert policies <= closure(run, run.one(user)), user


def test_a_destroy_waits_as_long_as_drains_may_take() -> None:
    def waits(grace: str | None, own: str | None) -> str:
        annotations = {"karpenter.sh/termination-grace-period": own} if own else {}
        spec = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
        keys = config(
            settings={"terminationGracePeriod": grace},
            nodeTemplates=[{"name": "a", "spec": spec}],
            provisioners=[{"name": "a", "annotations": annotations, "spec": {"providerRef": {"name": "a"}}}],
        )
        return run_stack("test", keys).one("provisioning-provisioner-a").delete_timeout

    assert waits("2h", None) == "10800s", "and an hour"
    assert waits("2h", "30m") == "5400s", "its own wins"
    assert waits(None, None) == "86400s"


def test_what_others_wrote_is_overwritten_and_maps_change_in_place_but_only_kept_objects_may_be_there_before() -> None:
    run = run_of("dev")
    ours, kept = run.one("kubernetes").inputs, run.one("kubernetes-kept").inputs
    for provider in (ours, kept):
        assert (provider["enablePatchForce"], provider["enableConfigMapMutable"]) == ("true", "true")
    assert (ours["upsertExistingObjects"], kept["upsertExistingObjects"]) == ("false", "true")
    by_kept = {each.type for each in run.declared.values() if "::kubernetes-kept::" in each.provider}
    assert {each.split(":")[-1] for each in by_kept} == {"CustomResourceDefinition"}


def test_nobody_waits_for_endpoints_of_a_deployment_that_comes_beside_its_service() -> None:
    run = run_of("dev")
    annotations = run.one("controller-service").inputs["metadata"]["annotations"]
    assert annotations["pulumi.com/skipAwait"] == "true"
    assert "controller-deployment" not in closure(run, run.one("controller-service"))


@pytest.mark.parametrize("name", STACKS)
def test_pods_of_the_system_come_after_their_fargate_profiles(name: str) -> None:
    run = run_of(name)
    assert "fargate-karpenter" in closure(run, run.one("controller-deployment"))
    for addon in run.of_type("aws:eks/addon:Addon") + run.of_type("kubernetes:helm.sh/v3:Release"):
        assert "fargate-kube-system" in closure(run, addon)
    profiles = run.of_type("aws:eks/fargateProfile:FargateProfile")
    for before, after in pairwise(profiles):
        assert before.name in closure(run, after), "EKS takes one change of profiles at a time"


@pytest.mark.parametrize("name", STACKS)
def test_definitions_stay_when_the_stack_goes_and_are_those_of_the_repository(name: str) -> None:
    definitions = run_of(name).of_type("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")
    assert all(each.retained for each in definitions)
    files = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    assert [each.inputs["spec"] for each in definitions] == [each["spec"] for each in files]


@pytest.mark.parametrize("name", STACKS)
def test_every_kubernetes_object_goes_to_the_stacks_cluster_and_no_other(name: str) -> None:
    for each in run_of(name).declared.values():
        if each.type.startswith("kubernetes:"):
            assert "pulumi:providers:kubernetes::kubernetes" in each.provider, each.name


@pytest.fixture(scope="module")
def _schemas_read_once() -> Iterator[None]:
    """kubernetes_validate reads the definitions of a version again for each object: 0.02 s of CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


@pytest.mark.usefixtures("_schemas_read_once")
@pytest.mark.parametrize("version", ["1.27", "1.34"])
@pytest.mark.parametrize("name", STACKS)
def test_every_kubernetes_object_keeps_to_its_schema_with_no_unknown_field(name: str, version: str) -> None:
    checked = 0
    for each in run_of(name).declared.values():
        known = not (version == "1.27" and each.inputs.get("kind", "").startswith("ValidatingAdmissionPolicy"))
        if each.type.startswith("kubernetes:") and each.inputs.get("kind") in KINDS and known:
            kubernetes_validate.validate(whole_numbers(dict(each.inputs)), version, strict=True)
            checked += 1
    assert checked >= 15


def test_outputs_name_what_the_next_steps_need_and_the_kubeconfig_is_secret() -> None:
    outputs = run_of("dev").outputs
    assert set(outputs) == {
        "clusterName", "nodeRoleArn", "instanceProfileName", "controllerRoleArn", "interruptionQueueName",
        "kubeconfig", "next",
    }  # fmt: skip
    assert outputs["next"][0] == "aws eks update-kubeconfig --name myeks --region ap-northeast-2"


def test_what_an_account_has_once_is_made_when_missing_and_kept_when_it_is_ours() -> None:
    def names(cloud: Cloud) -> set[str]:
        return {each.name for each in run_stack("test", config(), cloud).declared.values()}

    once = {"oidc-provider", "spot-role"}
    assert once <= {each.name for each in declared_once(config()).declared.values()}

    def existing(tags: dict[str, str]) -> Cloud:
        def role(args: Mapping[str, Any]) -> Any:
            return found if args["name"] == "AWSServiceRoleForEC2Spot" else Refusal("NoSuchEntity: no such role")

        found = {"arn": "arn", "tags": tags}
        provider = "aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider"
        return Cloud(answers={provider: found, "aws:iam/getRole:getRole": role})

    assert once <= names(existing({"nodeless:stack": "nodeless/test"})), "a second `up` would delete them"
    assert not once & names(existing({}))


def test_public_subnets_are_left_out_unless_asked_for() -> None:
    def tagged(**discovery: Any) -> set[str]:
        run = declared_once(config(**({"discovery": discovery} if discovery else {})))
        return {each.inputs["resourceId"] for each in run.of_type("aws:ec2/tag:Tag")}

    assert PUBLIC not in tagged()
    assert PUBLIC in tagged(publicSubnets=True)
    assert CLUSTER_GROUP in tagged()
    assert "sg-0fedcba9876543210" in tagged(securityGroup="sg-0fedcba9876543210")


def new_cluster(*subnet_ids: str) -> dict[str, Any]:
    return {"name": "new", "create": {"version": "1.30", "subnetIds": list(subnet_ids)}}


@pytest.mark.parametrize("where", [{"name": "myeks"}, new_cluster(*PRIVATE)], ids=["existing", "new"])
def test_subnets_are_found_by_the_name_of_the_vpc_and_by_tags_in_an_existing_and_a_new_cluster(
    where: dict[str, Any],
) -> None:
    asked: list[dict[str, str]] = []

    def subnets(args: Mapping[str, Any]) -> dict[str, Any]:
        asked.append({each["name"]: each["values"][0] for each in args["filters"]})
        return {"ids": [PRIVATE[1], PUBLIC], "id": "r"}

    cloud = Cloud(answers={"aws:ec2/getSubnets:getSubnets": subnets})
    keys = config(cluster=where, discovery={"vpcName": "myeks-VPC", "subnetTags": {"tier": "nodes*"}})
    run = run_stack("test", keys, cloud)
    assert asked == [{"vpc-id": VPC, "tag:tier": "nodes*"}]
    assert [each.inputs["resourceId"] for each in run.of_type("aws:ec2/tag:Tag") if "subnet" in each.name] == [
        PRIVATE[1]
    ]


def test_a_vpc_that_is_not_the_clusters_or_is_not_there_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    def said(*ids: str) -> list[str]:
        caplog.clear()
        cloud = Cloud(answers={"aws:ec2/getVpcs:getVpcs": {"ids": list(ids), "id": "r"}})
        return refused(caplog, cloud, discovery={"vpcName": "lab"})

    assert said() == ["discovery.vpcName: no VPC is called 'lab'; it is the value of the VPC's tag Name"]
    assert said("vpc-other") == [f"discovery.vpcName: 'lab' is vpc-other; the cluster is in {VPC}"]


def test_the_subnets_of_a_new_cluster_are_there_in_one_vpc_and_two_zones(caplog: pytest.LogCaptureFixture) -> None:
    def subnet(args: Mapping[str, Any]) -> Any:
        if args["id"].endswith("9"):
            return Refusal("InvalidSubnetID.NotFound: no such subnet")
        vpc = "vpc-other" if args["id"].endswith("8") else VPC
        return {"id": args["id"], "vpcId": vpc, "mapPublicIpOnLaunch": False, "availabilityZone": "ap-northeast-2a"}

    subnets = [f"subnet-0000000000000000{digit}" for digit in "1289"]
    cloud = Cloud(answers={"aws:ec2/getSubnet:getSubnet": subnet})
    keys = {"discovery": {"subnetIds": subnets[:1]}, "fargate": {"subnetIds": subnets[:1]}}
    assert refused(caplog, cloud, cluster=new_cluster(*subnets), **keys) == [
        f"cluster.create.subnetIds: {subnets[2]} is in vpc-other; the cluster is in {VPC}",
        f"cluster.create.subnetIds: there is no subnet {subnets[3]}",
        "cluster.create.subnetIds: are all in zone ap-northeast-2a; EKS wants two zones at least",
    ]


def test_the_group_of_a_node_group_comes_from_its_launch_template() -> None:
    answers = {
        "aws:eks/getNodeGroup:getNodeGroup": {"launchTemplates": [{"id": "lt-1"}], "subnetIds": []},
        "aws:ec2/getLaunchTemplate:getLaunchTemplate": {"vpcSecurityGroupIds": ["sg-7"], "networkInterfaces": []},
    }
    run = run_stack("test", config(discovery={"securityGroup": "nodeGroup/ng"}), Cloud(answers=answers))
    assert run.one("discovery-security-group").inputs["resourceId"] == "sg-7"


def test_a_cluster_without_access_entries_gets_the_role_merged_into_aws_auth() -> None:
    run = run_stack("test", config(), Cloud(answers=cluster(accessConfigs=[{"authenticationMode": "CONFIG_MAP"}])))
    patch = run.one("node-access-aws-auth")
    assert patch.retained, "giving the field up would lock everybody out"
    assert "KarpenterNodeRole-myeks" in patch.inputs["data"]["mapRoles"]
    assert not run.of_type("aws:eks/accessEntry:AccessEntry")


def test_everything_that_does_not_fit_the_account_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    def subnet(args: Mapping[str, Any]) -> dict[str, Any]:
        other = args["id"] == "subnet-0aaaaaaaaaaaaaaaa"
        return {"id": args["id"], "vpcId": "vpc-other" if other else VPC, "mapPublicIpOnLaunch": True}

    answers = {
        **cluster(accessConfigs=[{"authenticationMode": "CONFIG_MAP"}]),
        "aws:ec2/getSubnet:getSubnet": subnet,
        "aws:ec2/getSecurityGroups:getSecurityGroups": {"ids": ["sg-0bbbbbbbbbbbbbbbb"], "id": "r"},
    }
    keys: dict[str, Any] = {
        "discovery": {"subnetIds": ["subnet-0aaaaaaaaaaaaaaaa"]},
        "identity": {"nodeJoin": "accessEntry"},
    }
    assert refused(caplog, Cloud(answers=answers), **keys) == [
        f"discovery.subnetIds: subnet-0aaaaaaaaaaaaaaaa is in vpc-other; the cluster is in {VPC}",
        "fargate.subnetIds: the cluster has no private subnet; name private subnets of its VPC",
        f"discovery.securityGroup: sg-0bbbbbbbbbbbbbbbb would be tagged beside {CLUSTER_GROUP}; untag it, or choose it "
        "here",
        "identity.nodeJoin: the cluster authenticates by the ConfigMap alone; use `awsAuth`, or raise its "
        "authentication mode",
    ]


def test_a_cluster_that_is_not_there_or_has_no_oidc_issuer_is_said_with_a_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    missing = {"aws:eks/getCluster:getCluster": Refusal("ResourceNotFoundException: No cluster found for name: myek")}
    assert refused(caplog, Cloud(answers=missing), cluster={"name": "myek"}) == [
        "cluster.name: there is no EKS cluster 'myek' in ap-northeast-2; did you mean 'myeks'?"
    ]
    assert refused(caplog, Cloud(answers=cluster(identities=[]))) == [
        "cluster.name: cluster 'myeks' has no OIDC issuer; pods need it to take IAM roles"
    ]


def test_a_broken_configuration_declares_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert refused(caplog, Cloud(), cluster={"name": "my eks"}, nope={})[0].startswith("nope: unknown key")


def test_a_look_up_that_fails_for_another_reason_is_no_absence() -> None:
    denied = {"aws:iam/getRole:getRole": Refusal("AccessDenied: not authorized to perform iam:GetRole")}
    with pytest.raises(Exception, match="AccessDenied"):
        run_stack("test", config(), Cloud(answers=denied))


def test_the_governments_partition_reaches_every_arn() -> None:
    answers = {"aws:index/getPartition:getPartition": {"partition": "aws-us-gov", "dnsSuffix": "amazonaws.com"}}
    run = run_stack("test", config(), Cloud(region="us-gov-west-1", answers=answers))
    for each in run.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment"):
        assert not str(each.inputs["policyArn"]).startswith("arn:aws:iam::aws:"), each.name
    document = json.loads(run.one("controller-identity-role").inputs["assumeRolePolicy"])
    assert document["Statement"][0]["Principal"]["Federated"].startswith("arn:aws-us-gov:iam::")


def test_roles_of_clusters_with_a_long_common_beginning_have_names_of_their_own() -> None:
    def roles(name: str) -> set[str]:
        identity = {each: f"{each}-{name[-5:]}" for each in ("nodeRoleName", "controllerRoleName")}
        profile = {"podExecutionRoleName": f"fargate-{name[-5:]}"}
        cluster = {**new_cluster(*PRIVATE), "name": name}
        keys = config(cluster=cluster, identity=identity, fargate=profile, addons={"ebsCsi": {}})
        return {each.inputs["name"] for each in run_stack("test", keys).of_type("aws:iam/role:Role")}

    blue, green = roles("c" * 70 + "-blue1"), roles("c" * 70 + "-green")
    assert len(blue) == len(green) == 5
    assert not blue & green
    assert all(len(name) <= 64 for name in blue | green)


def test_a_wide_scope_of_termination_is_said_at_preview(caplog: pytest.LogCaptureFixture) -> None:
    def said(**identity: str) -> list[str]:
        caplog.clear()
        run_stack("test", config(identity=identity), preview=True)
        return warned(caplog)

    (any_,) = said(terminateScope="any")
    assert any_.startswith("identity.terminateScope: 'any' lets the controller's role terminate every instance")
    (by_name,) = said(terminateScope="name", terminateNamePattern="*web*")
    assert "whose Name matches '*web*', whoever made it; use `owned`" in by_name
    assert said(terminateScope="owned") == said() == []


def test_al2_is_said_at_preview_where_eks_has_no_image_of_it(caplog: pytest.LogCaptureFixture) -> None:
    selectors = {each: {"karpenter.sh/discovery": "myeks"} for each in ("subnetSelector", "securityGroupSelector")}

    def of(version: str, **spec: Any) -> list[str]:
        caplog.clear()
        templates = [{"name": "old", "spec": {**selectors, **spec}}]
        run_stack("test", config(nodeTemplates=templates), Cloud(answers=cluster(version=version)), preview=True)
        return warned(caplog)

    (said,) = of("1.33", amiFamily="AL2")
    assert said.startswith("AWSNodeTemplate old: EKS has no AL2 image for Kubernetes 1.33")
    assert of("1.32", amiFamily="AL2") == of("1.34", amiFamily="AL2023") == of("1.34") == []
    assert of("1.34", amiFamily="AL2", amiSelector={"aws-ids": "ami-0123456789abcdef0"}) == []


def test_the_vpc_cni_has_a_role_of_its_own_and_the_nodes_lose_its_policy() -> None:
    def policies(run: Run, role: str) -> set[str]:
        attached = run.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
        return {each.inputs["policyArn"].rsplit("/")[-1] for each in attached if each.inputs["role"] == role}

    own = run_stack("test", config(addons={"vpcCni": {}}))
    assert "AmazonEKS_CNI_Policy" not in policies(own, "KarpenterNodeRole-myeks")
    assert policies(own, "vpc-cni-myeks") == {"AmazonEKS_CNI_Policy"}
    addon = own.one("vpc-cni-addon")
    assert addon.inputs["serviceAccountRoleArn"].endswith("/vpc-cni-myeks")
    trust = json.loads(own.one("vpc-cni-identity-role").inputs["assumeRolePolicy"])
    (subject,) = {v for k, v in trust["Statement"][0]["Condition"]["StringEquals"].items() if k.endswith(":sub")}
    assert subject == "system:serviceaccount:kube-system:aws-node"
    without = declared_once(config())
    assert "AmazonEKS_CNI_Policy" in policies(without, "KarpenterNodeRole-myeks"), "aws-node acts as the node there"


def test_the_guard_of_the_webhooks_is_there_where_kubernetes_has_such_policies() -> None:
    def guards(version: str, **controller: Any) -> set[str]:
        keys = config(controller={**minimal()["controller"], **controller})
        names = run_stack("test", keys, Cloud(answers=cluster(version=version))).declared.values()
        return {each.name for each in names if "webhook-guard" in each.name}

    assert guards("1.30") == guards("1.34") == {"controller-webhook-guard", "controller-webhook-guard-binding"}
    assert guards("1.29") == guards("1.34", webhook=False) == set()
