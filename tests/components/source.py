"""What the controller's source code calls: AWS actions, and Kubernetes verbs on resources.

The commands for people (controller/cli) act with their user's own rights, and are read apart.

Read from the syntax tree, so that a call added tomorrow is asked for tomorrow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import boto3

from controller.kube import resources
from controller.kube.resources import CLUSTER_STATE, PODS, Resource, device_resources
from tests.source_trees import ROOT, syntax_trees

SERVICES = ("ec2", "eks", "ssm", "pricing", "sqs", "arc-zonal-shift")
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


COMMANDS = ROOT / "controller" / "cli"


def _modules(*, commands: bool = False) -> Iterator[tuple[Path, ast.Module]]:
    """The controller's modules, or the commands' and those of controller/kube whose functions they import."""
    shared = _called_by_commands() if commands else frozenset[str]()
    for path, tree in syntax_trees("controller").items():
        if path.is_relative_to(COMMANDS) is commands or _module_name(path) in shared:
            yield path, tree


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def _called_by_commands() -> frozenset[str]:
    """Modules of controller/kube that a command imports a function of: constants and classes call nothing by that."""
    trees = (tree for path, tree in syntax_trees("controller").items() if path.is_relative_to(COMMANDS))
    imports = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return frozenset(
        node.module
        for node in imports
        if node.module and node.module.startswith("controller.kube.") and any(a.name.islower() for a in node.names)
    )


@cache
def _calls(tree: ast.Module) -> tuple[ast.Call, ...]:
    """Calls of methods."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(call for call in calls if isinstance(call.func, ast.Attribute))


def _imported(tree: ast.AST) -> set[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in nodes if node.module == "controller.kube.resources" for alias in node.names}


@cache
def _operations(service: str) -> dict[str, str]:
    """boto3's method → the API's operation, which IAM's action is called after."""
    client = boto3.client(service, region_name="us-east-1")  # type: ignore[call-overload]
    operations: dict[str, str] = client.meta.method_to_api_mapping
    return operations


@cache
def aws_actions() -> frozenset[str]:
    """Every action that a boto3 client is asked for, such as ec2:CreateFleet."""
    actions = set()
    for call in (call for _, tree in _modules() for call in _calls(tree)):
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
        service = name.lstrip("_").replace("_", "-")
        if service not in SERVICES:
            continue
        operations = _operations(service)
        method = call.func.attr
        if method == "get_paginator":
            assert isinstance(call.args[0], ast.Constant)
            method = str(call.args[0].value)
        if method in operations:
            # IAM knows no batches: they need the action of one.
            actions.add(f"{service}:{operations[method].removesuffix('Batch')}")
    return frozenset(actions)


@cache
def kube_calls() -> set[KubeCall]:
    """Every verb that the Kubernetes client is asked for, and the watches of the cluster state."""
    watched = (*CLUSTER_STATE, *device_resources("v1"))
    return {KubeCall(r.group, r.plural, verb) for r in watched for verb in ("list", "watch")} | _calls_of()


def command_calls() -> set[KubeCall]:
    """What the commands for people ask the Kubernetes client for, themselves or by a module of controller/kube."""
    return _calls_of(commands=True)


def _calls_of(*, commands: bool = False) -> set[KubeCall]:
    known = {name: value for name, value in vars(resources).items() if isinstance(value, Resource)}
    wanted: set[KubeCall] = set()
    for path, tree in _modules(commands=commands):
        generic = [known[name] for name in _imported(tree) & set(known)]
        for call in _calls(tree):
            assert isinstance(call.func, ast.Attribute)
            if call.func.attr == "evict":
                wanted.add(KubeCall(PODS.group, "pods/eviction", "create"))
            if call.func.attr not in _VERBS or not call.args or not isinstance(call.args[0], ast.Name):
                continue
            name = call.args[0].id
            # A variable stands for any resource that its module knows; the client's own modules know none.
            chosen = generic if name == "resource" and path.parent.name != "kube" else [known.get(name)]
            sub = next((k.value for k in call.keywords if k.arg == "subresource"), None)
            suffix = f"/{sub.value!s}" if isinstance(sub, ast.Constant) else ""
            for each in filter(None, chosen):
                wanted |= {KubeCall(each.group, each.plural + suffix, verb) for verb in _VERBS[call.func.attr]}
    return wanted
