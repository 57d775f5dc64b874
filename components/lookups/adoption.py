"""What exists already under the stack's names: refused at preview, all at once, or imported with `adopt`.

The engine imports what is not in its state yet and leaves the option alone for what is: so a stack whose state was lost
and one that follows a guide's objects go the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.documents.named import (
    ADDON,
    ENTRY,
    FARGATE,
    LOG_GROUP,
    POLICY,
    PROFILE,
    QUEUE,
    REPOSITORY,
    ROLE,
    Named,
)
from components.lookups.cluster_objects import STACK_ANNOTATION
from components.lookups.queries import or_none
from controller.core.api.strict import Report

STACK_TAG = "nodeless:stack"
"""Tag on all that a stack makes under a name, and on what an account has once: which stack made it."""
LOST = "the state was lost, or the last `up` failed: take over what is there with `adopt: true` for one `up`"
NOT_ANNOTATED = ("Patch", ":Release", ":CustomResourceDefinition")
"""Types of Kubernetes resources that are no objects of one stack: others' objects, charts, and what outlives stacks."""
KINDS = {
    ROLE: "role",
    PROFILE: "instance profile",
    POLICY: "policy",
    QUEUE: "queue",
    FARGATE: "Fargate profile",
    ENTRY: "access entry",
    ADDON: "add-on",
    LOG_GROUP: "log group",
    REPOSITORY: "repository",
}


@dataclass(frozen=True, slots=True)
class Found:
    """Something that exists."""

    id: str
    """As the provider imports it."""
    stack: str
    """Which stack made it; empty: none."""

    @classmethod
    def tagged(cls, id_: str, tags: Mapping[str, str] | None) -> Found:
        """Of these tags."""
        return cls(id_, (tags or {}).get(STACK_TAG, ""))


def existing(
    names: Iterable[Named], stack_tag: str, *, adopt: bool, lost: bool = False, report: Report
) -> dict[str, str]:
    """Ids to import by logical name; without `adopt` none, and what others made is a problem each.

    `lost`: the stack's state tells of no finished `up`, so that what the stack itself made is in the way as well.
    """
    imported: dict[str, str] = {}
    stacks: dict[str, str] = {}
    for each in names:
        found = or_none(lambda each=each: _FIND[each.type](each.name, stacks))  # type: ignore[misc]
        if found is None:
            continue
        stacks[each.name] = found.stack
        if adopt:
            imported[each.logical] = found.id
        elif found.stack != stack_tag:
            whose = f"stack {found.stack} made it" if found.stack else "this stack did not make it"
            remedy = "use another name here, leave it out, or take it over with `adopt: true`"
            report.add(each.path, f"{KINDS[each.type]} {each.name} exists, and {whose}", remedy)
        elif lost:
            message = f"{KINDS[each.type]} {each.name} exists with this stack's tag, and its state has no finished `up`"
            report.add(each.path, message, LOST)
    return imported


def tagging_and_importing(stack_tag: str, imported: Mapping[str, str]) -> pulumi.ResourceTransformation:
    """Tag what has a name, and annotate objects, as this stack's; import what `imported` has an id for."""

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        props: Any = args.props
        if args.type_ in KINDS:
            values = props if isinstance(props, dict) else props.__dict__
            values["tags"] = {**(values.get("tags") or {}), STACK_TAG: stack_tag}
        elif args.type_.startswith("kubernetes:") and not args.type_.endswith(NOT_ANNOTATED):
            values = props if isinstance(props, dict) else props.__dict__
            if (metadata := values.get("metadata")) is not None:  # None: an object that is only read
                annotations = {**(metadata.get("annotations") or {}), STACK_ANNOTATION: stack_tag}
                values["metadata"] = {**metadata, "annotations": annotations}
        if args.name not in imported:
            return pulumi.ResourceTransformationResult(props, args.opts)
        opts = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(import_=imported[args.name]))
        return pulumi.ResourceTransformationResult(props, opts)

    return transform


def _role(name: str, _: Mapping[str, str]) -> Found:
    return Found.tagged(name, aws.iam.get_role(name=name).tags)


def _profile(name: str, stacks: Mapping[str, str]) -> Found:
    """Its look-up tells no tags: it is of the stack whose role is in it."""
    return Found(name, stacks.get(aws.iam.get_instance_profile(name=name).role_name, ""))


def _policy(arn: str, _: Mapping[str, str]) -> Found:
    return Found.tagged(arn, aws.iam.get_policy(arn=arn).tags)


def _queue(name: str, _: Mapping[str, str]) -> Found:
    queue = aws.sqs.get_queue(name=name)
    return Found.tagged(queue.url, queue.tags)


def _fargate_profile(name: str, _: Mapping[str, str]) -> Found:
    """The provider has no look-up of its own for them; Cloud Control reads any type."""
    found = aws.cloudcontrol.get_resource(type_name="AWS::EKS::FargateProfile", identifier=name.replace(":", "|", 1))
    tags = json.loads(found.properties).get("Tags", [])
    return Found.tagged(name, {each["Key"]: each["Value"] for each in tags})


def _access_entry(name: str, _: Mapping[str, str]) -> Found:
    cluster, principal = name.split(":", 1)
    return Found.tagged(name, aws.eks.get_access_entry(cluster_name=cluster, principal_arn=principal).tags)


def _addon(name: str, _: Mapping[str, str]) -> Found:
    cluster, addon = name.split(":", 1)
    return Found.tagged(name, aws.eks.get_addon(cluster_name=cluster, addon_name=addon).tags)


def _log_group(name: str, _: Mapping[str, str]) -> Found:
    return Found.tagged(name, aws.cloudwatch.get_log_group(name=name).tags)


def _repository(name: str, _: Mapping[str, str]) -> Found:
    return Found.tagged(name, aws.ecr.get_repository(name=name).tags)


_FIND: dict[str, Callable[[str, Mapping[str, str]], Found]] = {
    ROLE: _role,
    PROFILE: _profile,
    POLICY: _policy,
    QUEUE: _queue,
    FARGATE: _fargate_profile,
    ENTRY: _access_entry,
    ADDON: _addon,
    LOG_GROUP: _log_group,
    REPOSITORY: _repository,
}
