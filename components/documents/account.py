"""Where the stack is: partition, account and region, and the ARNs that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

SUFFIXES = {"aws": "amazonaws.com", "aws-us-gov": "amazonaws.com", "aws-cn": "amazonaws.com.cn"}
"""DNS suffix of each partition's service endpoints (IAM user guide, AWS service principals)."""


@dataclass(frozen=True, slots=True)
class Account:
    """An AWS account in one region."""

    partition: str
    id: str
    region: str

    @property
    def dns_suffix(self) -> str:
        """Of service endpoints and of the few service principals that carry it."""
        return SUFFIXES[self.partition]

    def arn(self, service: str, resource: str) -> str:
        """An ARN in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.id}:{resource}"

    def iam_arn(self, resource: str) -> str:
        """An ARN of IAM, which knows no region."""
        return f"arn:{self.partition}:iam::{self.id}:{resource}"

    def role_arn(self, name: str, path: str = "/") -> str:
        """The ARN of a role of the account."""
        return self.iam_arn(f"role{path}{name}")

    def public_arn(self, service: str, resource: str) -> str:
        """An ARN of what AWS owns in this region: images, snapshots, public parameters."""
        return f"arn:{self.partition}:{service}:{self.region}::{resource}"

    def access_policy_arn(self, name: str) -> str:
        """An access policy of EKS."""
        return f"arn:{self.partition}:eks::aws:cluster-access-policy/{name}"

    def managed_policy_arn(self, name: str) -> str:
        """An AWS-managed policy."""
        return f"arn:{self.partition}:iam::aws:policy/{name}"
