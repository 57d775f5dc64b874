"""What every cluster has from the start: its namespaces and the two system priority classes."""

from __future__ import annotations

import uuid

from sandbox.apiserver.admission.admission import SYSTEM_PRIORITIES
from sandbox.apiserver.api import API
from sandbox.apiserver.kinds import defaults
from sandbox.apiserver.storage.store import Obj

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_DESCRIPTIONS = {
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, "
    "but can be moved to another node if necessary.",
}


def create_initial_objects(api: API) -> None:
    """Creates what is missing (a state that was loaded has them already)."""
    for name in NAMESPACES:
        _ensure(api, "", "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name, value in SYSTEM_PRIORITIES.items():
        body = {
            "kind": "PriorityClass",
            "value": value,
            "description": _DESCRIPTIONS[name],
            "metadata": {"name": name, "generation": 1},
        }
        _ensure(api, "scheduling.k8s.io", "priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", **body})


def _ensure(api: API, group: str, plural: str, obj: Obj) -> None:
    resource = api.registry.get(group, "v1", plural)
    assert resource is not None
    if api.store.get(resource.storage_key, "", obj["metadata"]["name"]) is None:
        obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": api.now()}
        defaults.apply(resource, obj)
        api.store.create(resource.storage_key, obj)
