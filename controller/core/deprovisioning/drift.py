"""Drift: nodes that would be launched otherwise today are replaced, one canary first.

The peer (v0.27) sees a changed AMI alone. Here each node carries, in annotations, a hash of what its Provisioner and
its node template said when it was launched; requirements are held against the node's labels, so that one which the
node satisfies anyway moves nothing. A node without hashes (launched before there were any, or adopted) gets the
present ones: nobody knows what it was launched from. As long as no node of a Provisioner is as it should be, one node
at a time is replaced: an AMI whose nodes do not join costs one replacement, not the fleet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from controller.core.api.labels import INSTANCE_AMI_ID, VOLUNTARY_DISRUPTION
from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import CloudInstance
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.records import recorded
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot

DRIFT: Final = "drift"
DRIFTED: Final = "drifted"
PROVISIONER_HASH: Final = "karpenter.sh/provisioner-hash"
TEMPLATE_HASH: Final = "karpenter.k8s.aws/nodetemplate-hash"
VERSION: Final = "v1"
"""Of the way that hashes are made: those of another version are made anew, and no node drifts for it."""

_OF_PROVISIONER: Final = ("labels", "annotations", "taints", "startup_taints", "kubelet")
_OF_TEMPLATE: Final = (
    "ami_family",
    "subnet_selector",
    "security_group_selector",
    "instance_profile",
    "launch_template",
    "user_data",
    "tags",
    "metadata_options",
    "block_device_mappings",
    "context",
    "detailed_monitoring",
)
"""The AMI selector is not among them: what it selects is compared."""


def hashes(provisioner: Provisioner, template: AWSNodeTemplate) -> dict[str, str]:
    """The annotations of a node that is launched now."""
    return {
        PROVISIONER_HASH: _hash(provisioner, _OF_PROVISIONER),
        TEMPLATE_HASH: _hash(template, _OF_TEMPLATE),
    }


def _hash(value: object, names: Iterable[str]) -> str:
    """Of the members that say something: a member that a later version adds changes no hash while it is not set."""
    text = json.dumps({name: plain for name in names if (plain := _plain(getattr(value, name)))}, sort_keys=True)
    return f"{VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _plain(value: object) -> Any:
    if is_dataclass(value):
        members = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {name: member for name, member in members.items() if member not in (None, "", {}, [])}
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    return value


def missing_hashes(node: Node, provisioner: Provisioner, template: AWSNodeTemplate) -> dict[str, str]:
    """Annotations that the node should get: those that it lacks, or has from another version."""
    have = node.annotations
    wanted = hashes(provisioner, template)
    return {key: value for key, value in wanted.items() if not have.get(key, "").startswith(f"{VERSION}-")}


def drift_reason(
    node: Node, provisioner: Provisioner, template: AWSNodeTemplate, images: Collection[str] | None
) -> str:
    """Why a node has drifted, empty when it has not. `images`: ids that are right now; None: nobody knows."""
    if node.annotations.get(VOLUNTARY_DISRUPTION) == DRIFTED:
        return f"annotation {VOLUNTARY_DISRUPTION}: {DRIFTED}"
    image = node.labels.get(INSTANCE_AMI_ID, "")
    if image and images and not template.launch_template and image not in images:
        return f"AMI {image} is not what AWSNodeTemplate {template.name} selects any more"
    wanted = hashes(provisioner, template)
    for key, what in ((TEMPLATE_HASH, f"AWSNodeTemplate {template.name}"), (PROVISIONER_HASH, "its Provisioner")):
        have = node.annotations.get(key, "")
        if have.startswith(f"{VERSION}-") and have != wanted[key]:
            return f"{what} changed since the node was launched"
    requirements = Requirements.of(provisioner.requirements)
    for name in requirements:
        if name in node.labels and not requirements[name].accepts(node.labels[name]):
            return f"label {name}={node.labels[name]} is not what its Provisioner requires any more"
    return ""


def network_reason(
    instance: CloudInstance, template: AWSNodeTemplate, subnets: Collection[str], groups: Collection[str]
) -> str:
    """Why an instance's network is not what its template selects now (ids), empty when it is, or when nobody knows.

    A selector finds something else without a change of its own when tags move: the hash does not see that.
    """
    if subnets and instance.subnet_id and instance.subnet_id not in subnets:
        return f"subnet {instance.subnet_id} is not what AWSNodeTemplate {template.name} selects any more"
    known = bool(groups and instance.security_group_ids) and not template.launch_template
    if known and set(groups) != set(instance.security_group_ids):
        have, wanted = ", ".join(instance.security_group_ids), ", ".join(sorted(groups))
        return f"security groups {have} are not what AWSNodeTemplate {template.name} selects any more: {wanted}"
    return ""


def due(drifted: Iterable[Candidate], everyone: Iterable[Candidate], snapshot: Snapshot) -> list[Candidate]:
    """Those that may be replaced now, the oldest first: one canary while no node of the Provisioner is as it should be.

    A canary that is under way is on record; one that failed is the caller's to remember.
    """
    by_age = sorted(drifted, key=lambda candidate: (candidate.node.node.created, candidate.name))
    names = {candidate.name for candidate in by_age}
    proven = {c.provisioner.name for c in everyone if c.name not in names and c.node.initialized and not c.node.leaving}
    trying = {
        node.provisioner_name
        for command in recorded(snapshot)
        if command.record.method == DRIFT
        for node in command.carriers
    }
    return [c for c in by_age if c.provisioner.name in proven or c.provisioner.name not in trying]
