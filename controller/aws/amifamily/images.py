"""Which image an instance type boots: from the family's SSM parameters, or from spec.amiSelector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from controller.aws.amifamily import family_of
from controller.aws.amifamily.family import AMIFamily, ImageAlias
from controller.aws.api.aws_errors import translated
from controller.aws.api.ttl_cache import Cache
from controller.aws.api.type_info import ARCHITECTURES
from controller.aws.network.selector_filters import shown
from controller.core.api import labels as keys
from controller.core.api.nodetemplate import ID_KEYS, AWSNodeTemplate, comma_list, has_al2
from controller.core.cloud import InstanceType
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.errors import NodeTemplateError
from controller.runtime.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef
    from mypy_boto3_ssm import SSMClient

CACHE_SECONDS = 300.0
DEFAULT_OWNERS = ("self", "amazon")


@dataclass(frozen=True, slots=True)
class Image:
    """An AMI, and the requirements of the instance types that it is for."""

    id: str
    name: str = ""
    created: str = ""
    """ISO 8601, as EC2 writes it; empty when it does not say."""
    requirements: Requirements = field(default_factory=Requirements)


class Images:
    """Images of node templates. Safe for many threads."""

    def __init__(self, ec2: EC2Client, ssm: SSMClient, clock: Clock) -> None:
        self._ec2 = ec2
        self._ssm = ssm
        self._parameters: Cache[str, str | None] = Cache(clock, CACHE_SECONDS)
        self._selected: Cache[tuple[tuple[str, str], ...], tuple[Image, ...]] = Cache(clock, CACHE_SECONDS)

    def by_type(
        self, template: AWSNodeTemplate, version: str, instance_types: Iterable[InstanceType]
    ) -> dict[str, str]:
        """Return the image id by instance type name; types that no image is for are left out.

        Raises NodeTemplateError when no type gets an image, and other CloudErrors.
        """
        images = self.of(template, version)
        types = tuple(instance_types)
        ids = {item.name: image.id for item in types if (image := first_match(images, item.requirements)) is not None}
        if not ids:
            family = family_of(template, version).name
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: no image of family {family} is for instance types "
                f"{', '.join(sorted(item.name for item in types)[:5])}; allow other types in the Provisioner, "
                "or name images for them in spec.amiSelector"
            )
        return ids

    def of(self, template: AWSNodeTemplate, version: str) -> tuple[Image, ...]:
        """Return the template's images in order of preference, at least one.

        By spec.amiSelector: newest first, only the newest for each set of requirements. Else by the family's SSM
        parameters for the Kubernetes version. Raises NodeTemplateError when there is none, and other CloudErrors.
        """
        if not template.ami_selector:
            return self._by_alias(template, family_of(template, version), version)
        key = tuple(sorted(template.ami_selector.items()))
        images = self._selected.get(key, lambda: self._describe(template))
        if not images:
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: spec.amiSelector {shown(template.ami_selector)} matches no image; "
                "correct the selector, or name the owner in aws::owners (the default is self and amazon)"
            )
        return images

    def _by_alias(self, template: AWSNodeTemplate, family: AMIFamily, version: str) -> tuple[Image, ...]:
        if not family.aliases:
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: family {family.name} has no image of its own; set spec.amiSelector"
            )
        images = tuple(
            Image(id=image_id, requirements=alias.requirements)
            for alias in family.aliases
            if (image_id := self._parameter(template, alias, version)) is not None
        )
        if not images:
            missing = family.aliases[0].parameters[0].format(version=version)
            other = "AL2023" if family.name == "AL2" and not has_al2(version) else "another one"
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: AWS publishes no {family.name} image for Kubernetes {version} "
                f"(SSM parameter {missing} does not exist); set spec.amiFamily to {other}, or set spec.amiSelector"
            )
        return images

    def _parameter(self, template: AWSNodeTemplate, alias: ImageAlias, version: str) -> str | None:
        for pattern in alias.parameters:
            name = pattern.format(version=version)
            value = self._parameters.get(name, partial(self._get_parameter, name, template))
            if value is not None:
                return value
        return None

    def _get_parameter(self, name: str, template: AWSNodeTemplate) -> str | None:
        try:
            with translated("ssm:GetParameter", f"{name} of AWSNodeTemplate {template.name}"):
                return self._ssm.get_parameter(Name=name)["Parameter"]["Value"]
        except NodeTemplateError as error:
            if error.code == "ParameterNotFound":
                return None
            raise

    def _describe(self, template: AWSNodeTemplate) -> tuple[Image, ...]:
        filters, owners = image_filters(template.ami_selector)
        with translated("ec2:DescribeImages", f"AWSNodeTemplate {template.name}"):
            pages = self._ec2.get_paginator("describe_images").paginate(Filters=filters, Owners=owners)
            images = [parse_image(image) for page in pages for image in page["Images"]]
        return newest_only(images)


def first_match(images: Iterable[Image], requirements: Requirements) -> Image | None:
    return next((image for image in images if not image.requirements.conflicts(requirements)), None)


def image_filters(selector: Mapping[str, str]) -> tuple[list[FilterTypeDef], list[str]]:
    """Return the EC2 filters and owners of an amiSelector; owners are self and amazon unless it names ids or owners."""
    filters: list[FilterTypeDef] = []
    owners: list[str] = []
    with_ids = False
    for key, value in sorted(selector.items()):
        if key in ID_KEYS:
            filters.append({"Name": "image-id", "Values": comma_list(value)})
            with_ids = True
        elif key == "aws::name":
            filters.append({"Name": "name", "Values": [value]})
        elif key == "aws::owners":
            owners = comma_list(value)
        elif value == "*":
            filters.append({"Name": "tag-key", "Values": [key]})
        else:
            filters.append({"Name": f"tag:{key}", "Values": [value]})
    return filters, owners or ([] if with_ids else list(DEFAULT_OWNERS))


def parse_image(image: Mapping[str, Any]) -> Image:
    """Read one entry of DescribeImages; tags with well-known label keys are requirements beside its architecture."""
    wanted = [
        Requirement.of(tag["Key"], "In", (tag["Value"],))
        for tag in image.get("Tags", ())
        if keys.normalize_label(tag["Key"]) in keys.WELL_KNOWN
    ]
    architecture = image.get("Architecture", "")
    wanted.append(Requirement.of(keys.ARCH, "In", (ARCHITECTURES.get(architecture, architecture),)))
    return Image(image["ImageId"], image.get("Name", ""), image.get("CreationDate", ""), Requirements(wanted))


def newest_only(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return the newest image for each set of requirements, newest first (undated last; ties by name and id)."""
    newest: dict[Requirements, Image] = {}
    for image in sorted(images, key=lambda i: (i.created, i.name, i.id), reverse=True):
        newest.setdefault(image.requirements, image)
    return tuple(newest.values())
