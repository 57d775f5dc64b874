"""Names of objects, for completion: one list of the kind alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.cli.inputs.objects import kube_client, read_objects
from controller.core.api.document import mapping, text
from controller.core.api.strict import Report
from controller.kube.resources import NODES, PODS, PROVISIONERS, SERVICES

RESOURCES = {"pod": PODS, "node": NODES, "provisioner": PROVISIONERS, "service": SERVICES}


def names_of(kind: str, flags: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names of a kind's objects in the cluster, or in the dump of `--from`; empty for other kinds.

    With a namespace, where they have one and it is not the default one. Raises KubeError, ValidationError.
    """
    resource = RESOURCES.get(kind)
    if resource is None:
        return
    if flags.get("file"):
        documents = [
            each.document for each in read_objects([flags["file"]], Report()).located if each.kind == resource.kind
        ]
    else:
        kube = kube_client(flags.get("kubeconfig") or "", flags.get("context") or "")
        documents = list(kube.list(resource))
    for document in documents:
        metadata = mapping(document.get("metadata"))
        namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
        yield f"{namespace}/{name}" if resource.namespaced and namespace not in ("", "default") else name
