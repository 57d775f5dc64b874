"""Drift: nodes that would be launched differently today are replaced, one canary first.

Karpenter v0.27 detects a changed AMI only. Here each node carries, in annotations, a hash of its Provisioner and of its
node template as they were when it was launched; requirements are checked against the node's labels, so that a changed
requirement that the node meets replaces nothing. A node without hashes (adopted, or launched by an older version) gets
the present ones, since what it was launched from is not known. While all nodes of a Provisioner have drifted, one at a
time is replaced (the canary), so that an AMI whose nodes do not join costs one replacement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol

from controller.core.api.labels import INSTANCE_AMI_ID
from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import CloudInstance
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.due_replacement import DueReplacement
from controller.core.deprovisioning.method import MethodInput, NodeAnnotations, Proposal
from controller.core.deprovisioning.records import recorded_commands
from controller.core.deprovisioning.removal_command import DRIFT
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot

DRIFTED: Final = "drifted"
"""The annotation's value, and the reason in disruption budgets."""
PROVISIONER_HASH: Final = "karpenter.sh/provisioner-hash"
TEMPLATE_HASH: Final = "karpenter.k8s.aws/nodetemplate-hash"
VERSION: Final = "v1"
"""Version of the hash function: a hash of another version is replaced, and no node drifts by it."""

_PROVISIONER_FIELDS: Final = ("labels", "annotations", "taints", "startup_taints", "kubelet")
_TEMPLATE_FIELDS: Final = (
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
"""Without the AMI selector: the AMIs that it selects are compared."""


class NodeChecks(Protocol):
    """Compares nodes with what would be launched today."""

    def reason(self, candidate: Candidate, snapshot: Snapshot) -> str:
        """Return why the node has drifted; empty when it has not, or that is not known."""

    def missing_hashes(self, candidate: Candidate, snapshot: Snapshot) -> Mapping[str, str]:
        """Annotations that the node should get."""


class Drift:
    """The method."""

    name = DRIFT

    def __init__(self, checks: NodeChecks) -> None:
        self._checks = checks
        self._replacement = DueReplacement(DRIFT, DRIFTED)

    def wanted(self, candidate: Candidate, snapshot: Snapshot, _now: float) -> bool:
        """Return whether the node has drifted."""
        return bool(self._checks.reason(candidate, snapshot))

    def decide(self, given: MethodInput) -> Proposal:
        """Replace the first drifted node that may be removed, and annotate nodes with the hashes that they lack."""
        snapshot = given.snapshot
        reasons = {each.name: self._checks.reason(each, snapshot) for each in given.candidates}
        drifted = [candidate for candidate in given.candidates if reasons[candidate.name]]
        due = due_nodes(drifted, given.candidates, snapshot)
        proposal = self._replacement.decide(given, due, lambda candidate: reasons[candidate.name])
        missing = ((each.node, self._checks.missing_hashes(each, snapshot)) for each in given.candidates)
        return replace(proposal, annotations=tuple(NodeAnnotations(node, keys) for node, keys in missing if keys))


def hashes(provisioner: Provisioner, template: AWSNodeTemplate) -> dict[str, str]:
    """Return the annotations of a node that is launched now."""
    return {
        PROVISIONER_HASH: _hash(_PROVISIONER_FIELDS, tuple(getattr(provisioner, name) for name in _PROVISIONER_FIELDS)),
        TEMPLATE_HASH: _hash(_TEMPLATE_FIELDS, tuple(getattr(template, name) for name in _TEMPLATE_FIELDS)),
    }


@lru_cache(maxsize=1024)
def _hash(names: tuple[str, ...], values: tuple[object, ...]) -> str:
    """Hash those of the named fields that are set, so that a field added later changes no hash while it is unset.

    Every node is compared at every pass, and thousands have the same few Provisioners and templates.
    """
    text = json.dumps(
        {name: plain for name, value in zip(names, values, strict=True) if (plain := _plain(value))}, sort_keys=True
    )
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
    """Return hashes that the node lacks, or has from another version of the hash function."""
    have = node.annotations
    wanted = hashes(provisioner, template)
    return {key: value for key, value in wanted.items() if not have.get(key, "").startswith(f"{VERSION}-")}


def as_launched(node: Node, provisioner: Provisioner, template: AWSNodeTemplate) -> bool:
    """Return whether the node's hashes are those of the Provisioner and the template as they are now."""
    return all(node.annotations.get(key) == value for key, value in hashes(provisioner, template).items())


def drift_reason(
    node: Node, provisioner: Provisioner, template: AWSNodeTemplate, images: Collection[str] | None
) -> str:
    """Return why a node has drifted, or "". images: AMI ids that its template selects; None: not known."""
    key = V1ALPHA5.keys.voluntary_disruption
    if node.annotations.get(key) == DRIFTED:
        return f"annotation {key}: {DRIFTED}"
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
    """Return why an instance's subnet or security groups (ids) are not those that its template selects.

    Empty if they are, or if that is not known. What a selector matches changes with tags in AWS, which no hash covers.
    """
    if subnets and instance.subnet_id and instance.subnet_id not in subnets:
        return f"subnet {instance.subnet_id} is not what AWSNodeTemplate {template.name} selects any more"
    known = bool(groups and instance.security_group_ids) and not template.launch_template
    if known and set(groups) != set(instance.security_group_ids):
        have, wanted = ", ".join(instance.security_group_ids), ", ".join(sorted(groups))
        return f"security groups {have} are not what AWSNodeTemplate {template.name} selects any more: {wanted}"
    return ""


def due_nodes(drifted: Iterable[Candidate], everyone: Iterable[Candidate], snapshot: Snapshot) -> list[Candidate]:
    """Return drifted nodes that may be replaced now, the oldest first: one canary where all of a Provisioner's have.

    A canary is under way while a drift command of the Provisioner is on record; back-off handles one that failed.
    """
    by_age = sorted(drifted, key=lambda candidate: (candidate.node.node.created, candidate.name))
    names = {candidate.name for candidate in by_age}
    proven = {c.provisioner.name for c in everyone if c.name not in names and c.node.initialized and not c.node.leaving}
    trying = {
        node.provisioner_name
        for command in recorded_commands(snapshot)
        if command.record.method == DRIFT
        for node in command.carriers
    }
    return [c for c in by_age if c.provisioner.name in proven or c.provisioner.name not in trying]
