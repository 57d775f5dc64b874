"""Registration and initialization: what a joined node still lacks, and when it may take pods."""

from __future__ import annotations

from typing import Any

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    OPENS_WITH,
    PROVISIONER_NAME,
    TERMINATION_FINALIZER,
    ZONE,
)
from controller.core.api.node import Node
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.machines.node_documents import LAUNCH_TOKEN, missing_metadata, owner_reference
from controller.core.state.effective import CLOUD_CONTROLLER_TAINT


def joined(node: Node) -> bool:
    """Its kubelet registered: only a kubelet reports capacity."""
    return bool(node.capacity)


def needs_instance(node: Node) -> bool:
    """Whether the node registered by itself and lacks what only its instance tells: labels and the launch token.

    A command recognises its replacements by the token; without it, the node would count as empty.
    """
    unnamed = node.labels.get(INITIALIZED) != "true" and LAUNCH_TOKEN not in node.annotations
    return unnamed or any(key not in node.labels for key in (CAPACITY_TYPE, INSTANCE_TYPE, ZONE))


def not_initialized_because(node: Node, provisioner: Provisioner, expected: Resources = EMPTY) -> str:
    """Why the node is not initialized yet; empty when it is.

    It is when it runs pods (`runs_no_pods_because`) and is open to them (`opening`).
    """
    because = runs_no_pods_because(node, provisioner, expected)
    if not because and OPENS_WITH in node.annotations:
        return "it is opened to pods together with other nodes of its plan"
    return because


def runs_no_pods_because(node: Node, provisioner: Provisioner, expected: Resources = EMPTY) -> str:
    """Return why the node cannot run pods yet; empty when it can, also if it is not open to kube-scheduler.

    It can when Ready is True, none of the Provisioner's present startup taints is on it (key and effect), every
    resource in `expected` (capacity of its instance type; empty when the type is unknown) is allocatable
    (Karpenter v0.27's rule), and the cloud controller has taken its taint off (a rule of later versions).
    """
    if not node.ready:
        return "condition Ready is not True"
    if any((taint.key, taint.effect) == CLOUD_CONTROLLER_TAINT for taint in node.taints):
        return f"taint {':'.join(CLOUD_CONTROLLER_TAINT)} is still there"
    for startup in provisioner.startup_taints:
        if any((taint.key, taint.effect) == (startup.key, startup.effect) for taint in node.taints):
            return f"startup taint {startup.key}:{startup.effect} is still there"
    lacking = sorted(name for name, amount in expected.items() if amount > 0 and node.allocatable.get(name, 0) <= 0)
    return f"{', '.join(lacking)} not allocatable yet" if lacking else ""


def only_initializes(patch: dict[str, Any]) -> bool:
    """Return whether a patch adds the label `karpenter.sh/initialized`, and nothing else."""
    return patch == {"metadata": {"labels": {INITIALIZED: "true"}}}


def registration_patch(
    node: Node,
    provisioner: Provisioner,
    expected: Resources | None = EMPTY,
    from_instance: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One merge patch with all that the node lacks: finalizer, owner, labels of a self-registered node, initialized.

    `expected`: as `not_initialized_because` takes it; None: not known yet, and the node is not labelled initialized.
    `from_instance` is the document of `node_documents.node_document` when the instance was looked up. Empty: nothing to
    do.
    """
    wanted = from_instance or {
        "metadata": {
            "labels": {**provisioner.labels, PROVISIONER_NAME: provisioner.name},
            "annotations": dict(provisioner.annotations),
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [owner_reference(provisioner)],
        }
    }
    initialized = node.labels.get(INITIALIZED) == "true"
    if initialized:
        # What a user takes off a node that is in service stays off; the finalizer and the owner are ours.
        meta = wanted["metadata"]
        wanted = {"metadata": {key: meta[key] for key in ("finalizers", "ownerReferences")}}
    patch = missing_metadata(node, wanted)
    if not initialized and expected is not None and not not_initialized_because(node, provisioner, expected):
        patch.setdefault("metadata", {}).setdefault("labels", {})[INITIALIZED] = "true"
    return patch
