"""What add-ons may do in AWS."""

from __future__ import annotations

from components.documents.account import Account
from components.documents.policy import Policy, allow, policy

CLUSTER_TAG = "elbv2.k8s.aws/cluster"
"""The AWS Load Balancer Controller writes it on all that it makes."""

_LB_READS = (
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeCoipPools",
    "ec2:DescribeInstances",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcPeeringConnections",
    "ec2:DescribeVpcs",
    "ec2:GetCoipPoolUsage",
    "elasticloadbalancing:Describe*",
    "acm:DescribeCertificate",
    "acm:ListCertificates",
    "cognito-idp:DescribeUserPoolClient",
    "iam:GetServerCertificate",
    "iam:ListServerCertificates",
    "shield:DescribeProtection",
    "shield:GetSubscriptionState",
    "waf-regional:GetWebACL",
    "waf-regional:GetWebACLForResource",
    "wafv2:GetWebACL",
    "wafv2:GetWebACLForResource",
)
_LB_PROTECTIONS = (
    "shield:CreateProtection",
    "shield:DeleteProtection",
    "waf-regional:AssociateWebACL",
    "waf-regional:DisassociateWebACL",
    "wafv2:AssociateWebACL",
    "wafv2:DisassociateWebACL",
)
_LB_CHANGES = (
    "elasticloadbalancing:DeleteLoadBalancer",
    "elasticloadbalancing:DeleteTargetGroup",
    "elasticloadbalancing:DeregisterTargets",
    "elasticloadbalancing:ModifyLoadBalancerAttributes",
    "elasticloadbalancing:ModifyTargetGroup",
    "elasticloadbalancing:ModifyTargetGroupAttributes",
    "elasticloadbalancing:RegisterTargets",
    "elasticloadbalancing:SetIpAddressType",
    "elasticloadbalancing:SetSecurityGroups",
    "elasticloadbalancing:SetSubnets",
    "elasticloadbalancing:SetWebAcl",
)
_LB_LISTENERS = (
    "elasticloadbalancing:AddListenerCertificates",
    "elasticloadbalancing:DeleteListener",
    "elasticloadbalancing:DeleteRule",
    "elasticloadbalancing:ModifyListener",
    "elasticloadbalancing:ModifyListenerAttributes",
    "elasticloadbalancing:ModifyRule",
    "elasticloadbalancing:RemoveListenerCertificates",
)


def load_balancer_policy(account: Account, cluster: str) -> Policy:
    """For the AWS Load Balancer Controller (its installation guide, v2).

    Where we differ: what it changes or deletes must carry this cluster's tag, not merely any cluster's.
    """
    balancers = [account.arn("elasticloadbalancing", f"{kind}/*") for kind in ("loadbalancer", "targetgroup")]
    group, vpc = account.arn("ec2", "security-group/*"), account.arn("ec2", "vpc/*")
    mine = {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": cluster}}
    made = {"StringEquals": {f"aws:RequestTag/{CLUSTER_TAG}": cluster}}
    ingress = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    return policy(
        allow(
            "LinkServiceRole",
            ["iam:CreateServiceLinkedRole"],
            ["*"],
            {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        # Reads know no resources; web ACLs, protections and certificates are the user's, of any name.
        allow("Read", _LB_READS, ["*"]),
        allow("Protect", _LB_PROTECTIONS, ["*"]),
        # Rules are added to the nodes' groups as well, which are not its own.
        allow("OpenPorts", ingress, [group]),
        allow("CreateGroups", ["ec2:CreateSecurityGroup"], [vpc]),
        allow("CreateTaggedGroups", ["ec2:CreateSecurityGroup"], [group], made),
        allow(
            "TagNewGroups",
            ["ec2:CreateTags"],
            [group],
            {"StringEquals": {**made["StringEquals"], "ec2:CreateAction": "CreateSecurityGroup"}},
        ),
        allow("ChangeOwnGroups", ["ec2:CreateTags", "ec2:DeleteSecurityGroup", "ec2:DeleteTags"], [group], mine),
        allow(
            "CreateTagged",
            [f"elasticloadbalancing:Create{kind}" for kind in ("LoadBalancer", "TargetGroup")],
            balancers,
            made,
        ),
        allow(
            "TagNew",
            ["elasticloadbalancing:AddTags"],
            balancers,
            {
                "StringEquals": {
                    **made["StringEquals"],
                    "elasticloadbalancing:CreateAction": ["CreateLoadBalancer", "CreateTargetGroup"],
                }
            },
        ),
        allow("TagOwn", ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"], balancers, mine),
        allow("ChangeOwn", _LB_CHANGES, balancers, mine),
    )


def load_balancer_listener_policy(account: Account, cluster: str) -> Policy:
    """For the AWS Load Balancer Controller: listeners and rules. One policy with the rest would exceed IAM's size.

    Where we differ: the balancer of a new listener and the listener of a new rule carry this cluster's tag, and so does
    what is changed or deleted. The controller tags both kinds (its feature gate ListenerRulesTagging).
    """
    balancers = [account.arn("elasticloadbalancing", "loadbalancer/*")]
    listeners = [account.arn("elasticloadbalancing", f"{kind}/*") for kind in ("listener", "listener-rule")]
    own, tagged = {f"aws:ResourceTag/{CLUSTER_TAG}": cluster}, {f"aws:RequestTag/{CLUSTER_TAG}": cluster}
    return policy(
        allow("ListenOnOwn", ["elasticloadbalancing:CreateListener"], balancers, {"StringEquals": {**own, **tagged}}),
        allow("AddRulesToOwn", ["elasticloadbalancing:CreateRule"], listeners, {"StringEquals": {**own, **tagged}}),
        allow(
            "TagNewListeners",
            ["elasticloadbalancing:AddTags"],
            listeners,
            {
                "StringEquals": {
                    **tagged,
                    "elasticloadbalancing:CreateAction": ["CreateListener", "CreateRule"],
                }
            },
        ),
        allow(
            "ChangeOwnListeners",
            [*_LB_LISTENERS, "elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
            listeners,
            {"StringEquals": own},
        ),
    )


def external_dns_policy(account: Account, zone_id: str) -> Policy:
    """For ExternalDNS: one zone's records."""
    zone = f"arn:{account.partition}:route53:::hostedzone/{zone_id}"
    return policy(
        allow("ChangeRecords", ["route53:ChangeResourceRecordSets"], [zone]),
        # Listing knows no resources.
        allow(
            "ReadZones",
            ["route53:ListHostedZones", "route53:ListResourceRecordSets", "route53:ListTagsForResource"],
            ["*"],
        ),
    )
