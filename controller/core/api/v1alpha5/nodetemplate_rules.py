"""Read a `karpenter.k8s.aws/v1alpha1 AWSNodeTemplate`, or the inline provider, strictly and check its rules.

Rules are those of Karpenter v0.27's admission (its AWS provider's `pkg/apis/v1alpha1`). We differ where it accepts what
fails later: ids are matched whole, `aws::ids` is checked too, an empty selector selects nothing and is refused, and the
tags by which the controller knows its own instances cannot be overridden.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core.api.document import Document
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import RESERVED_TAG_PREFIX, protected_tag
from controller.core.api.nodetemplate import ID_KEYS, AWSNodeTemplate, BlockDevice, BlockDeviceMapping, MetadataOptions
from controller.core.api.quantity import NANO, units_ceil
from controller.core.api.strict import MAX_INT64, Fields, Report, amount_nanos
from controller.core.api.v1alpha5.metadata import Metadata, read_object

AMI_FAMILIES: Final = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom")
EBS_FIELDS: Final = (
    "deleteOnTermination", "encrypted", "iops", "kmsKeyID", "snapshotID", "throughput", "volumeSize", "volumeType",
)  # fmt: skip
VOLUME_TYPES: Final = ("standard", "io1", "io2", "gp2", "gp3", "sc1", "st1")
MIN_VOLUME_BYTES: Final = 10**9
MAX_VOLUME_BYTES: Final = 64 * 10**12

INLINE_FIELDS: Final = (
    "apiVersion", "kind", "amiFamily", "subnetSelector", "securityGroupSelector", "instanceProfile", "launchTemplate",
    "tags", "metadataOptions", "blockDeviceMappings", "context",
)  # fmt: skip

SPEC_FIELDS: Final = (*INLINE_FIELDS, "amiSelector", "userData", "detailedMonitoring")

_EXCLUDED_BY_LAUNCH_TEMPLATE: Final = (
    "securityGroupSelector", "metadataOptions", "amiFamily", "instanceProfile", "blockDeviceMappings", "userData",
    "amiSelector",
)  # fmt: skip


def read_node_template(report: Report, obj: Document) -> AWSNodeTemplate:
    """Return the node template; every broken rule goes to the report."""
    meta, spec = read_object(report, obj, SPEC_FIELDS)
    return read_template(spec, meta)


def read_template(spec: Fields, meta: Metadata) -> AWSNodeTemplate:
    """Return the template in `spec`; every broken rule goes to its report, with paths below the spec's own."""
    for artefact in ("apiVersion", "kind"):
        spec.text(artefact)
    family = _ami_family(spec)
    template = AWSNodeTemplate(
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        ami_family=family,
        ami_selector=_selector(spec, "amiSelector", "ami"),
        subnet_selector=_selector(spec, "subnetSelector", "subnet"),
        security_group_selector=_selector(spec, "securityGroupSelector", "sg"),
        instance_profile=spec.text("instanceProfile"),
        launch_template=spec.text("launchTemplate"),
        user_data=spec.text("userData"),
        tags=_tags(spec),
        metadata_options=_metadata_options(spec),
        block_device_mappings=_block_devices(spec),
        context=spec.text("context"),
        detailed_monitoring=spec.boolean("detailedMonitoring"),
        deleted_at=meta.deleted_at,
        resource_version=meta.resource_version,
    )
    _check_together(spec, template)
    return template


def _check_together(spec: Fields, template: AWSNodeTemplate) -> None:
    """Check which fields require or exclude each other."""
    if spec.has("launchTemplate"):
        remedy = "set it in the launch template, or drop launchTemplate"
        for name in _EXCLUDED_BY_LAUNCH_TEMPLATE:
            if spec.has(name) and not (name == "blockDeviceMappings" and not spec.raw(name)):
                spec.problem(name, "cannot be combined with launchTemplate", remedy)
    if not spec.has("subnetSelector"):
        spec.problem("subnetSelector", "is missing", "select subnets by tag or by aws-ids")
    if not spec.has("securityGroupSelector") and not spec.has("launchTemplate"):
        spec.problem("securityGroupSelector", "is missing", "select security groups by tag or by aws-ids")
    if template.ami_family == "Custom" and not spec.has("amiSelector"):
        spec.problem("amiSelector", "is missing", "amiFamily Custom needs an amiSelector")


def _ami_family(spec: Fields) -> str | None:
    """Return a family that the controller can boot."""
    written = spec.raw("amiFamily")
    if isinstance(written, str) and written.lower().startswith("windows"):
        families = ", ".join(AMI_FAMILIES)
        spec.problem("amiFamily", f"{written!r}: Windows nodes are not supported", f"use one of {families}")
        return None
    return spec.text("amiFamily", AMI_FAMILIES)


def _selector(spec: Fields, name: str, id_prefix: str) -> FrozenMap[str, str]:
    """Return a selector with at least one entry, no empty key or value, and ids of the right kind."""
    selector = spec.string_map(name)
    if isinstance(spec.raw(name), dict) and not spec.raw(name):
        spec.problem(name, "is empty: it selects nothing", 'add a tag, such as karpenter.sh/discovery: "name"')
    for path, key, value in spec.entries(name):
        if not key:
            spec.report.add(path, "has an empty key", "write a tag's key or aws-ids")
        if value == "":
            spec.report.add(path, "has an empty value", 'write "*" for any value')
        if key in ID_KEYS and isinstance(value, str) and value:
            _check_ids(spec.report, path, value, id_prefix)
    return selector


def _check_ids(report: Report, path: str, value: str, prefix: str) -> None:
    for each in value.split(","):
        if not re.fullmatch(f"{prefix}-[0-9a-z]+", each.strip(), re.ASCII):
            report.add(path, f"{each.strip()!r} is not an id of the form {prefix}-...", "separate ids by commas")


def _tags(spec: Fields) -> FrozenMap[str, str]:
    """Return tags without an empty key, and without those that only the controller or AWS may set."""
    for path, key, _ in spec.entries("tags"):
        if not key:
            spec.report.add(path, "has an empty key", "write a key")
        elif protected_tag(key):
            owner = "AWS" if key.lower().startswith(RESERVED_TAG_PREFIX) else "the controller"
            spec.report.add(path, f"{key} is reserved to {owner}", "take it out, or use another key")
    return spec.string_map("tags")


def _metadata_options(spec: Fields) -> MetadataOptions:
    options = spec.child(
        "metadataOptions", ("httpEndpoint", "httpProtocolIPv6", "httpPutResponseHopLimit", "httpTokens")
    )
    return MetadataOptions(
        http_endpoint=options.text("httpEndpoint", ("enabled", "disabled")),
        http_protocol_ipv6=options.text("httpProtocolIPv6", ("enabled", "disabled")),
        http_put_response_hop_limit=options.integer("httpPutResponseHopLimit", 1, 64),
        http_tokens=options.text("httpTokens", ("optional", "required")),
    )


def _block_devices(spec: Fields) -> tuple[BlockDeviceMapping, ...] | None:
    """Devices, each with a name and an ebs. None when the field is absent: the AMI family's own devices hold."""
    if not spec.has("blockDeviceMappings"):
        return None
    devices: list[BlockDeviceMapping] = []
    for fields in spec.objects("blockDeviceMappings", ("deviceName", "ebs")):
        name = fields.text("deviceName")
        if not name:
            fields.problem("deviceName", "is missing", "name the device, such as /dev/xvda")
        if not fields.has("ebs"):
            fields.problem("ebs", "is missing", "describe the volume: ebs: {volumeSize: 20Gi}")
            continue
        devices.append(BlockDeviceMapping(name or "", _ebs(fields)))
    return tuple(devices)


def _ebs(mapping: Fields) -> BlockDevice:
    ebs = mapping.child("ebs", EBS_FIELDS)
    return BlockDevice(
        delete_on_termination=ebs.boolean("deleteOnTermination"),
        encrypted=ebs.boolean("encrypted"),
        iops=ebs.integer("iops", 0, MAX_INT64),
        kms_key_id=ebs.text("kmsKeyID"),
        snapshot_id=ebs.text("snapshotID"),
        throughput=ebs.integer("throughput", 0, MAX_INT64),
        volume_size_bytes=_volume_bytes(ebs),
        volume_type=ebs.text("volumeType", VOLUME_TYPES),
    )


def _volume_bytes(ebs: Fields) -> int | None:
    path = ebs.at("volumeSize")
    if not ebs.has("volumeSize"):
        if not ebs.has("snapshotID"):
            ebs.report.add(path, "is missing", "give volumeSize, or a snapshotID whose size then holds")
        return None
    amount = amount_nanos(ebs.report, path, ebs.raw("volumeSize"))
    if amount is None:
        return None
    if not MIN_VOLUME_BYTES * NANO <= amount <= MAX_VOLUME_BYTES * NANO:
        ebs.report.add(path, f"{ebs.raw('volumeSize')!r} is out of range", "it must be from 1G to 64T")
        return None
    return units_ceil(amount)
