"""The Node object of a launched instance, and what an existing Node lacks of it.

The controller creates the Node before the kubelet joins (as Karpenter v0.27 does), so that pods count on it at once. If
the kubelet registers first, the same document is used to add what the Node lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import (
    ATTACH_DETACH,
    BETA_LABELS,
    HOSTNAME,
    OPENS_WITH,
    PROVISIONER_NAME,
    TERMINATION_FINALIZER,
)
from controller.core.api.node import READY, Node, Taint
from controller.core.api.pod import OwnerReference
from controller.core.api.provisioner import Provisioner
from controller.core.api.timestamps import format_time
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import CloudInstance

LAUNCH_TOKEN = "karpenter.sh/launch-token"  # noqa: S105 - a tag and annotation key, nothing secret
"""Instance tag and Node annotation: the plan item that the node was launched for (`launching.launch_token`)."""

TTL_BY_NODES = ((100, 0), (500, 15), (1_000, 30), (2_000, 60))
"""Up to so many nodes in the cluster kube-controller-manager annotates each with this TTL, in seconds; with more nodes
it is MOST_TTL. Source: `ttlBoundaries` in kubernetes/pkg/controller/ttl, where a cluster grows; in one that shrinks the
TTL changes a little later."""
MOST_TTL = 300


def owner_reference(provisioner: Provisioner) -> dict[str, Any]:
    """Return the Node's only owner: deleting the Provisioner deletes its nodes, each through its finalizer."""
    return {
        "apiVersion": V1ALPHA5.pool.api_version,
        "kind": V1ALPHA5.pool.name,
        "name": provisioner.name,
        "uid": provisioner.uid,
        "blockOwnerDeletion": True,
    }


def taint_document(taint: Taint) -> dict[str, str]:
    """Return a taint as the API takes it: an empty value is left out."""
    document = {"key": taint.key, "effect": taint.effect}
    return {**document, "value": taint.value} if taint.value else document


def ttl_seconds(nodes: int) -> int:
    """Return the TTL with which kube-controller-manager annotates the nodes of a cluster of so many nodes, in seconds.

    A Node that is created with it is one that kube-controller-manager need not patch.
    """
    return next((seconds for most, seconds in TTL_BY_NODES if nodes <= most), MOST_TTL)


def node_labels(
    instance: CloudInstance, provisioner: Provisioner | None, planned: Mapping[str, str] = EMPTY
) -> dict[str, str]:
    """Return labels of the instance's Node; the cloud's take precedence, then the plan's, then the Provisioner's.

    The hostname is the node's name, as kubelets on EC2 report it, so that topology over hostnames counts the node at
    once. The beta labels are there, too: else others patch each new Node to add them.
    """
    own = provisioner.labels if provisioner else EMPTY
    name = provisioner.name if provisioner else instance.provisioner_name
    labels = {HOSTNAME: instance.node_name, **own, **planned, **instance.labels, PROVISIONER_NAME: name}
    return {**{beta: labels[key] for beta, key in BETA_LABELS.items() if key in labels}, **labels}


def node_document(
    instance: CloudInstance,
    provisioner: Provisioner,
    planned: Mapping[str, str] = EMPTY,
    token: str = "",
    marks: Mapping[str, str] = EMPTY,
    taints: Iterable[Taint] = (),
) -> dict[str, Any]:
    """Return the Node to create: labels, annotations, finalizer, owner, providerID, taints with the startup taints, and
    the condition Ready, which is False.

    `token` is the launch token; adopted instances have it as a tag. `marks` are further annotations, `taints` further
    taints. A Node that is opened later (`opening`) is created cordoned. The annotation that kubelets add is there
    already, so that none has to patch the Node when it joins.
    """
    annotations = {ATTACH_DETACH: "true", **provisioner.annotations, **marks}
    token = token or instance.tags.get(LAUNCH_TOKEN, "")
    if token:
        annotations[LAUNCH_TOKEN] = token
    every = [taint_document(taint) for taint in (*provisioner.taints, *provisioner.startup_taints, *taints)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance.node_name,
            "labels": dict(sorted(node_labels(instance, provisioner, planned).items())),
            "annotations": dict(sorted(annotations.items())),
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [owner_reference(provisioner)],
        },
        "spec": {
            "providerID": instance.provider_id,
            **({"taints": every} if every else {}),
            **({"unschedulable": True} if OPENS_WITH in marks else {}),
        },
        "status": {"conditions": [_not_registered(instance)]},
    }


def _not_registered(instance: CloudInstance) -> dict[str, str]:
    """Return the condition Ready of a node whose kubelet has not registered, False since the launch.

    The API server taints a new Node as not ready. kube-controller-manager would take this taint off a Node without a
    Ready condition, and set it again when the kubelet reports that it is not ready (ADR 87).
    """
    return {
        "type": READY,
        "status": "False",
        "reason": "KubeletNotRegistered",
        "message": "the instance was launched, and its kubelet has not registered yet",
        "lastTransitionTime": format_time(instance.launched_at),
    }


def missing_metadata(node: Node, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merge patch that gives `node` what it lacks of `wanted` (a Node document), or an empty dict.

    Labels and annotations that exist keep their value. A Node that exists is open to pods already, and stays so.
    Finalizers of others stay. The owner becomes the Provisioner alone (as in Karpenter v0.27). Taints are not added:
    the kubelet registered with them, and one that was removed since was removed on purpose. A patch that replaces a
    list carries the resourceVersion it was made from, so that a list that changed meanwhile is not overwritten.
    """
    meta = wanted["metadata"]
    patch: dict[str, Any] = {}
    for part, have in (("labels", node.labels), ("annotations", node.annotations)):
        lacking = {key: value for key, value in meta.get(part, {}).items() if key not in have and key != OPENS_WITH}
        if lacking:
            patch[part] = lacking
    patch |= _missing_lists(node, meta)
    document: dict[str, Any] = {"metadata": patch} if patch else {}
    provider_id = wanted.get("spec", {}).get("providerID", "")
    if provider_id and not node.provider_id:
        document["spec"] = {"providerID": provider_id}
    return document


def _missing_lists(node: Node, meta: Mapping[str, Any]) -> dict[str, Any]:
    lists: dict[str, Any] = {}
    finalizers = [name for name in meta.get("finalizers", ()) if name not in node.finalizers]
    if finalizers and node.deleted_at is None:  # the API server refuses new finalizers once deletion began
        lists["finalizers"] = [*node.finalizers, *finalizers]
    owners = meta.get("ownerReferences", ())
    expected = tuple(
        OwnerReference(owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]) for owner in owners
    )
    if expected and node.owners != expected:
        lists["ownerReferences"] = list(owners)
    if lists and node.resource_version:
        lists["resourceVersion"] = node.resource_version
    return lists
