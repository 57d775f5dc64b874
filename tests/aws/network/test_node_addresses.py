"""Addresses that a node takes: what the VPC CNI attaches for its pods, and keeps ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.aws.network.node_addresses import node_addresses
from controller.core.cloud import Interfaces

M5_LARGE, M5_24XLARGE = Interfaces(3, 10), Interfaces(15, 50)


@pytest.mark.parametrize(
    ("interfaces", "pods", "addresses"),
    [
        (M5_LARGE, 1, 20),  # one interface for the pod, one kept ready
        (M5_LARGE, 9, 20),
        (M5_LARGE, 10, 30),
        (M5_LARGE, 27, 30),  # it has no fourth interface
        (M5_24XLARGE, 1, 100),
        (replace(M5_LARGE, prefixes=True), 1, 33),  # a prefix, one kept ready, and the node's own
        (replace(M5_LARGE, prefixes=True), 17, 49),
        (replace(M5_LARGE, prefixes=True), 110, 129),  # seven prefixes and one: still one interface
        (None, 5, 6),  # of a type whose interfaces are not known: what is certain
    ],
)
def test_addresses_of_a_node(interfaces: Interfaces | None, pods: int, addresses: int) -> None:
    assert node_addresses(interfaces, pods) == addresses
