"""A new cluster: what is asked of pulumi-eks, and that its outputs feed the rest."""

from __future__ import annotations

import json
from typing import Any

import pulumi_eks
import pytest

from tests.components.engine import CLUSTER_GROUP, DECLARES, ISSUER, PRIVATE, VPC, Run, declared_once
from tests.components.package_schema import misfits
from tests.components.stacks import minimal

pytestmark = DECLARES

EVERYTHING: dict[str, Any] = {
    "version": "1.35",
    "subnetIds": list(PRIVATE),
    "publicAccessCidrs": ["203.0.113.0/24"],
    "logTypes": ["audit"],
    "secretsKeyArn": "arn:aws:kms:ap-northeast-2:111122223333:key/k",
    "deletionProtection": True,
    "adminPrincipalArns": ["arn:aws:iam::111122223333:role/team/Admin", "arn:aws:iam::111122223333:user/Admin"],
}


def declared(*, preview: bool = False, **create: Any) -> Run:
    cluster = {"name": "fresh", "create": {"version": "1.35", "subnetIds": list(PRIVATE), **create}}
    identity = {"path": "/team/", "permissionsBoundaryArn": "arn:aws:iam::111122223333:policy/B"}
    keys = minimal(cluster=cluster, identity=identity)
    return declared_once({f"nodeless:{name}": json.dumps(value) for name, value in keys.items()}, preview=preview)


@pytest.mark.parametrize("create", [{}, EVERYTHING], ids=["least", "everything"])
def test_what_is_asked_of_the_component_fits_its_packages_types(create: dict[str, Any]) -> None:
    inputs = declared(**create).one("cluster-eks").inputs
    assert len(inputs) >= 14
    assert misfits(pulumi_eks.ClusterArgs, inputs) == []


def test_a_wrong_name_a_wrong_type_and_a_wrong_resource_do_not_fit() -> None:
    wrong = {
        "nodeGroup": 1,
        "subnetIds": "subnet-1",
        "authenticationMode": "IAM",
        "serviceRole": "urn:pulumi:s::p::aws:iam/policy:Policy::x",
        "accessEntries": {"a": {"principal": "x"}},
        "deletionProtection": "yes",
    }
    assert [each.split(":")[0] for each in misfits(pulumi_eks.ClusterArgs, wrong)] == [
        "nodeGroup", "subnetIds", "authenticationMode", "serviceRole", "accessEntries.a.principal",
        "deletionProtection",
    ]  # fmt: skip


def test_it_has_no_nodes_no_add_ons_and_no_groups_of_its_own() -> None:
    inputs = declared().one("cluster-eks").inputs
    assert inputs["skipDefaultNodeGroup"] is inputs["skipDefaultSecurityGroups"] is inputs["useDefaultVpcCni"] is True
    assert inputs["kubeProxyAddonOptions"]["enabled"] is inputs["corednsAddonOptions"]["enabled"] is False
    assert "fargate" not in inputs, "the stack's own profiles, one after the other"
    assert inputs["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in inputs


def test_every_choice_of_the_stack_reaches_it() -> None:
    inputs = declared(**EVERYTHING).one("cluster-eks").inputs
    assert (inputs["authenticationMode"], inputs["createOidcProvider"], inputs["vpcId"]) == ("API", True, VPC)
    assert inputs["encryptionConfigKeyArn"] == EVERYTHING["secretsKeyArn"]
    assert (inputs["enabledClusterLogTypes"], inputs["publicAccessCidrs"]) == (["audit"], ["203.0.113.0/24"])
    assert inputs["deletionProtection"] is inputs["endpointPublicAccess"] is inputs["endpointPrivateAccess"] is True
    entries = inputs["accessEntries"]
    assert sorted(each["principalArn"] for each in entries.values()) == sorted(EVERYTHING["adminPrincipalArns"])
    for entry in entries.values():
        assert entry["accessPolicies"]["admin"]["policyArn"].endswith("AmazonEKSClusterAdminPolicy")


def test_its_role_is_the_stacks_with_path_and_boundary_and_whole_before_the_cluster() -> None:
    run = declared()
    role, cluster = run.one("cluster-control-plane-role"), run.one("cluster-eks")
    assert cluster.inputs["serviceRole"] == role.urn
    assert (role.inputs["path"], role.inputs["permissionsBoundary"][-2:]) == ("/team/", "/B")
    assert "cluster-control-plane-AmazonEKSClusterPolicy" in cluster.dependencies


def test_its_outputs_feed_the_rest() -> None:
    run = declared()
    kubeconfig = run.one("kubernetes").inputs["kubeconfig"]
    assert "https://NEW.gr7.ap-northeast-2.eks.amazonaws.com" in kubeconfig
    assert "bmV3" in kubeconfig
    assert run.one("discovery-security-group").inputs["resourceId"] == CLUSTER_GROUP
    trust = json.loads(run.one("controller-identity-role").inputs["assumeRolePolicy"])
    assert trust["Statement"][0]["Principal"]["Federated"].endswith(ISSUER.removeprefix("https://"))
    assert not run.of_type("aws:iam/openIdConnectProvider:OpenIdConnectProvider"), "the component's own"
    assert run.one("fargate-karpenter").inputs["clusterName"] == "fresh"


def test_a_preview_of_a_new_cluster_declares_the_same_resources() -> None:
    assert declared(preview=True).tree() == declared().tree()
