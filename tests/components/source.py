"""What the controller's source code calls: AWS actions, and Kubernetes verbs on resources.

Read from the syntax tree, so that a call added tomorrow is asked for tomorrow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.kube import resources
from controller.kube.resources import CLUSTER_STATE, PODS, Resource
from tests.components.stacks import ROOT

SERVICES = ("ec2", "eks", "ssm", "pricing", "sqs")
_VERBS = {
    "get": ("get",),
    "list": ("list",),
    "list_all": ("list",),
    "create": ("create",),
    "update": ("update",),
    "patch": ("patch",),
    "delete": ("delete",),
    "watch": ("watch",),
}


@dataclass(frozen=True, order=True)
class KubeCall:
    """A verb on a resource, as RBAC names them: "pods/eviction"."""

    group: str
    resource: str
    verb: str


def _trees(folder: Path) -> Iterator[ast.AST]:
    for path in sorted(folder.rglob("*.py")):
        yield ast.parse(path.read_text(), str(path))


def _calls() -> Iterator[ast.Call]:
    for tree in _trees(ROOT / "controller"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield node


def aws_actions() -> set[str]:
    """Every action that a boto3 client is asked for, such as ec2:CreateFleet."""
    found = set()
    for call in _calls():
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
        service = name.lstrip("_")
        if service not in SERVICES:
            continue
        method = call.func.attr
        if method == "get_paginator":
            assert isinstance(call.args[0], ast.Constant)
            method = str(call.args[0].value)
        found.add(f"{service}:{''.join(part.capitalize() for part in method.split('_'))}")
    return found


def kube_calls() -> set[KubeCall]:
    """Every verb that the Kubernetes client is asked for, and the watches of the cluster state."""
    known = {name: value for name, value in vars(resources).items() if isinstance(value, Resource)}
    found = {KubeCall(each.group, each.plural, verb) for each in CLUSTER_STATE for verb in ("list", "watch")}
    for call in _calls():
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "evict":
            found.add(KubeCall(PODS.group, "pods/eviction", "create"))
        if call.func.attr not in _VERBS or not call.args or not isinstance(call.args[0], ast.Name):
            continue
        resource = known.get(call.args[0].id)
        if resource is None:
            continue
        sub = next((k.value for k in call.keywords if k.arg == "subresource"), None)
        plural = f"{resource.plural}/{sub.value!s}" if isinstance(sub, ast.Constant) else resource.plural
        found |= {KubeCall(resource.group, plural, verb) for verb in _VERBS[call.func.attr]}
    return found
