"""How many addresses of its subnet a node takes: those of its pods, and what the VPC CNI keeps ready.

The CNI's defaults are assumed (WARM_ENI_TARGET=1, with prefixes WARM_PREFIX_TARGET=1): beside the interfaces that the
pods need it attaches one more, or one more prefix of 16. Source: amazon-vpc-cni-k8s, docs/eni-and-ip-target.md and
docs/prefix-and-ip-target.md. With custom networking (ENIConfig) these are addresses of the zone's subnet for pods, and
the node takes one of its own (`Subnets.for_pods`).
"""

from __future__ import annotations

from controller.core.cloud import Interfaces

PREFIX_ADDRESSES = 16
"""A delegated IPv4 prefix is a /28."""
LEAST_FREE = 2
"""A node's own address and one of a pod: with fewer, a subnet is of no use."""


def node_addresses(limits: Interfaces | None, pods: int) -> int:
    """Return the IPv4 addresses that a node with these interfaces takes for so many pods (None: one for each pod)."""
    pods = max(1, pods)
    if limits is None or limits.addresses < 2:
        return 1 + pods
    if limits.prefixes:
        wanted = -(-pods // PREFIX_ADDRESSES) + 1
        slots = limits.addresses - 1
        used = min(limits.most, -(-wanted // slots))
        return used + PREFIX_ADDRESSES * min(wanted, used * slots)
    return limits.addresses * min(limits.most, -(-pods // (limits.addresses - 1)) + 1)
