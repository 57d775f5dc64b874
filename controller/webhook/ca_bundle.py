"""Write the caBundle of the webhook configurations, by which the API server trusts the webhook's certificate.

The stack creates the configurations; the controller writes only this field of each webhook in them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from controller.core.api.document import mapping, objects
from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

CONFIGURATIONS: Final = (
    (MUTATING_WEBHOOKS, "defaulting.webhook.karpenter.k8s.aws"),
    (VALIDATING_WEBHOOKS, "validation.webhook.karpenter.k8s.aws"),
    (VALIDATING_WEBHOOKS, "validation.webhook.karpenter.sh"),
)
"""The stack's webhook configurations; the names are Karpenter v0.27's."""


def write_trust(kube: KubeClient, authorities: bytes) -> list[str]:
    """Write `authorities` into every configuration that lacks them; return kind and name of each. Raises KubeError.

    A configuration that does not exist is skipped.
    """
    written = []
    for resource, name, document in _lacking(kube, authorities):
        hooks = [
            {"name": each.get("name"), "clientConfig": {"caBundle": _bundle(authorities)}}
            for each in objects(document.get("webhooks"))
        ]
        kube.patch(resource, name, {"webhooks": hooks}, kind="strategic")
        written.append(f"{resource.kind} {name}")
    return written


def _lacking(kube: KubeClient, authorities: bytes) -> Iterator[tuple[Resource, str, dict[str, Any]]]:
    for resource, name in CONFIGURATIONS:
        try:
            document = kube.get(resource, name)
        except NotFoundError:
            continue
        bundles = {mapping(each.get("clientConfig")).get("caBundle") for each in objects(document.get("webhooks"))}
        if bundles - {_bundle(authorities)}:
            yield resource, name, document


def _bundle(authorities: bytes) -> str:
    return base64.b64encode(authorities).decode()
