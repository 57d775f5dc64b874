"""Kubernetes objects of a stack, applied to the sandbox's API by server-side apply, as Pulumi's provider does.

There is no Fargate on this machine: the controller's Deployment is applied without replicas, and the sandbox starts
its container as a process, with the command, arguments and environment that the Deployment says.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.demo.apply import address
from sandbox.world.client import ApiClient, Connection
from sandbox.world.resources import DEPLOYMENTS

MANAGER = "pulumi-kubernetes"
APPLY = "application/apply-patch+yaml"
CONTROLLER = ("karpenter", "karpenter")
"""Namespace and name of the controller's Deployment."""
UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True, slots=True)
class Container:
    """What a Deployment says that runs: the image's own command has `args` after it."""

    args: tuple[str, ...]
    environment: dict[str, str]


def apply_object(kubeconfig: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Apply one object; returns it as the server has it. Raises ApiError and KeyError."""
    return asyncio.run(_apply(kubeconfig, whole_numbers(document)))


async def _apply(kubeconfig: Path, document: dict[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    if document["kind"] == "Deployment" and (metadata.get("namespace"), metadata["name"]) == CONTROLLER:
        document = {**document, "spec": {**document["spec"], "replicas": 0}}
    async with ApiClient(Connection.from_kubeconfig(kubeconfig), MANAGER) as client:
        plural, namespaced = await address(client, document["apiVersion"], document["kind"])
        root = "/api/v1" if document["apiVersion"] == "v1" else f"/apis/{document['apiVersion']}"
        scope = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        path = f"{root}{scope}/{plural}/{metadata['name']}?fieldManager={MANAGER}&force=true"
        return await client.request("PATCH", path, body=document, content_type=APPLY)


async def controller_container(client: ApiClient) -> Container:
    """The controller's container as its Deployment says. Raises ApiError when it is not deployed."""
    namespace, name = CONTROLLER
    deployment = await client.get(DEPLOYMENTS, namespace, name)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    fields = {"metadata.namespace": namespace, "metadata.name": f"{name}-0"}
    environment = {each["name"]: _value(each, container, fields) for each in container.get("env", [])}
    return Container(tuple(container["args"]), environment)


async def write_controller_kubeconfig(client: ApiClient, kubeconfig: Path, target: Path) -> None:
    """Write `kubeconfig` anew with the token of the controller's own ServiceAccount: it may do what its role allows.

    Raises ApiError where the API server issues no tokens.
    """
    namespace, name = CONTROLLER
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86_400}}
    answer = await client.request("POST", path, body=request)
    document = yaml.safe_load(kubeconfig.read_text())
    current = next(each for each in document["contexts"] if each["name"] == document["current-context"])
    document["users"] = [{"name": name, "user": {"token": answer["status"]["token"]}}]
    current["context"]["user"] = name
    target.write_text(yaml.safe_dump(document))
    target.chmod(0o600)


def _value(entry: dict[str, Any], container: dict[str, Any], fields: dict[str, str]) -> str:
    """A variable's value, as the kubelet makes it out."""
    source = entry.get("valueFrom")
    if source is None:
        return str(entry.get("value", ""))
    if "fieldRef" in source:
        return fields[source["fieldRef"]["fieldPath"]]
    kind, _, resource = source["resourceFieldRef"]["resource"].partition(".")
    return str(_bytes(container["resources"][kind][resource]))


def _bytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([KMG]i)?", quantity).groups(default="")  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


def whole_numbers(value: Any) -> Any:
    """Pulumi's wire knows floating-point numbers alone: 2.0 is 2 again."""
    if isinstance(value, dict):
        return {key: whole_numbers(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [whole_numbers(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
