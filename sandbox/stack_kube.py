"""Kubernetes objects of a stack, applied to the sandbox's API by server-side apply, as Pulumi's provider does.

There is no Fargate on this machine: the controller's Deployment is applied without replicas, and the sandbox starts
its container as a process, with the command, arguments and environment that the Deployment says. Nor is there a network
to Services: a webhook's `clientConfig.service` becomes a url on loopback, and nothing else of it changes.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from sandbox.demo.apply import address
from sandbox.world.client import ApiClient, Connection
from sandbox.world.resources import DEPLOYMENTS

MANAGER = "pulumi-kubernetes"
APPLY = "application/apply-patch+yaml"
CONTROLLER = ("karpenter", "karpenter")
"""Namespace and name of the controller's Deployment."""
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
ROLLOUT_SECONDS = 60.0
CONTROLLER_DEPLOYED = "waiting for the controller"
"""What the stack's process prints when there is a Deployment to run, for whoever plays Fargate."""
UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True, slots=True)
class Container:
    """What a Deployment says that runs: the image's own command has `args` after it."""

    args: tuple[str, ...]
    environment: dict[str, str]


def apply_object(
    kubeconfig: Path, document: dict[str, Any], webhook_port: int = 0, *, present: bool = True
) -> dict[str, Any]:
    """Apply one object; returns it as the server has it. Raises ApiError and KeyError.

    `present`: it may be there already; otherwise it is created, and one of its name is an error.
    `webhook_port` is where the controller's webhook listens on this machine.
    """
    document = whole_numbers(document)
    if document["kind"] in WEBHOOKS:
        document = {**document, "webhooks": [on_loopback(hook, webhook_port) for hook in document["webhooks"]]}
    return asyncio.run(_apply(kubeconfig, document, present=present))


def on_loopback(hook: dict[str, Any], port: int) -> dict[str, Any]:
    """A webhook as the stack has it, reached by url instead of by its Service."""
    config = dict(hook["clientConfig"])
    if (service := config.pop("service", None)) is not None:
        config["url"] = f"https://127.0.0.1:{port}{service.get('path', '/')}"
    return {**hook, "clientConfig": config}


def is_controller(document: dict[str, Any]) -> bool:
    """Whether it is the controller's Deployment."""
    metadata = document["metadata"]
    return document["kind"] == "Deployment" and (metadata.get("namespace"), metadata["name"]) == CONTROLLER


def await_controller(kubeconfig: Path, configurations: Sequence[dict[str, Any]]) -> None:
    """Wait, as Pulumi's provider does, for the Deployment: here it is up when its webhooks answer as they are asked.

    Raises TimeoutError.
    """
    asyncio.run(_await_webhooks(kubeconfig, configurations))


async def _await_webhooks(kubeconfig: Path, configurations: Sequence[dict[str, Any]]) -> None:
    async with ApiClient(Connection.from_kubeconfig(kubeconfig), MANAGER) as client:
        deadline = time.monotonic() + ROLLOUT_SECONDS
        waiting = list(configurations)
        while waiting:
            found = await client.request("GET", await _path(client, waiting[0]))
            if all([await _answers(hook["clientConfig"]) for hook in found["webhooks"]]):
                waiting.pop(0)
            elif time.monotonic() > deadline:
                name = waiting[0]["metadata"]["name"]
                raise TimeoutError(f"no controller serves {name} with a certificate of its caBundle")
            else:
                await asyncio.sleep(0.1)


async def _answers(config: dict[str, Any]) -> bool:
    """Whether a server with a certificate of the caBundle listens at the url."""
    if not config.get("caBundle"):
        return False
    url = urlsplit(config["url"])
    trust = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
    try:
        _, writer = await asyncio.open_connection(url.hostname, url.port, ssl=trust)
    except OSError:
        return False
    writer.close()
    return True


async def _apply(kubeconfig: Path, document: dict[str, Any], *, present: bool) -> dict[str, Any]:
    if is_controller(document):
        document = {**document, "spec": {**document["spec"], "replicas": 0}}
    async with ApiClient(Connection.from_kubeconfig(kubeconfig), MANAGER) as client:
        path = await _path(client, document)
        if not present:
            collection = path.rpartition("/")[0]
            await client.request("POST", f"{collection}?fieldManager={MANAGER}&dryRun=All", body=document)
        applied = f"{path}?fieldManager={MANAGER}&force=true"
        return await client.request("PATCH", applied, body=document, content_type=APPLY)


async def _path(client: ApiClient, document: dict[str, Any]) -> str:
    metadata = document["metadata"]
    plural, namespaced = await address(client, document["apiVersion"], document["kind"])
    root = "/api/v1" if document["apiVersion"] == "v1" else f"/apis/{document['apiVersion']}"
    scope = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
    return f"{root}{scope}/{plural}/{metadata['name']}"


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
