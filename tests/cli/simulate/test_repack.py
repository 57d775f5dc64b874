"""Packing anew: which nodes are thought away, and what happens to their pods."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cli.inputs.files import LocatedObject
from controller.cli.simulate.repack import repacked


def node(name: str, **labels: str) -> LocatedObject:
    return LocatedObject({"kind": "Node", "metadata": {"name": name, "labels": labels}}, "here")


def pod(name: str, on: str, owner: str = "ReplicaSet") -> LocatedObject:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u"}]
    spec = {"nodeName": on, "containers": []}
    document = {"kind": "Pod", "metadata": {"name": name, "ownerReferences": owners}, "spec": spec}
    return LocatedObject({**document, "status": {"phase": "Running"}}, "here")


PLACED = (
    node("ours", **{"karpenter.sh/provisioner-name": "default"}),
    node("group"),
    node("fargate", **{"eks.amazonaws.com/compute-type": "fargate"}),
    *(pod(f"on-{name}", name) for name in ("ours", "group", "fargate")),
    pod("daemon", "ours", "DaemonSet"),
)


@pytest.mark.parametrize(
    ("which", "nodes", "waiting"),
    [
        ("", {"ours", "group", "fargate"}, set()),
        ("ours", {"group", "fargate"}, {"on-ours"}),
        ("all", {"fargate"}, {"on-ours", "on-group"}),
    ],
)
def test_nodes_go_and_their_pods_wait_but_for_fargate_and_daemons(
    which: str, nodes: set[str], waiting: set[str]
) -> None:
    left = repacked(PLACED, which)
    assert {each.name for each in left if each.kind == "Node"} == nodes
    pods: list[Any] = [each.document for each in left if each.kind == "Pod"]
    assert {each["metadata"]["name"] for each in pods if "nodeName" not in each["spec"]} == waiting
