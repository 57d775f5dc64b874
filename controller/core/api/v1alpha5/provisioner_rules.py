"""Read a `karpenter.sh/v1alpha5 Provisioner` strictly, with its defaults, and check its rules.

Rules are those of Karpenter v0.27's admission (`pkg/apis/v1alpha5/provisioner_validation.go`). We differ where it
accepts what can never work: a taint without an effect or with a value that no Node may have.
"""

from __future__ import annotations

from typing import Final

from controller.core.api import labels
from controller.core.api.document import Document, mapping, text
from controller.core.api.frozen import FrozenMap
from controller.core.api.names import label_value_error, qualified_name_error
from controller.core.api.node import Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.parse import readable_resources
from controller.core.api.pod import Resources, SelectorRequirement
from controller.core.api.provisioner import KUBELET_MEMBERS, Provisioner
from controller.core.api.quantity import resources
from controller.core.api.strict import MAX_INT64, Fields, Report
from controller.core.api.v1alpha5.disruption_rules import read_disruption
from controller.core.api.v1alpha5.kubelet_rules import read_kubelet
from controller.core.api.v1alpha5.metadata import Metadata, read_object
from controller.core.api.v1alpha5.nodetemplate_rules import INLINE_FIELDS, read_template
from controller.core.api.v1alpha5.provisioner_defaults import default_provisioner

SPEC_FIELDS: Final = (
    "annotations", "labels", "taints", "startupTaints", "requirements", "kubeletConfiguration", "provider",
    "providerRef", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "limits", "weight", "consolidation",
)  # fmt: skip
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MIN_WEIGHT: Final = 1
MAX_WEIGHT: Final = 100


def template_name(obj: Document) -> str:
    """Return the node template that the document names in spec.providerRef; empty for none."""
    return text(mapping(mapping(obj.get("spec")).get("providerRef")).get("name"))


def read_provisioner(report: Report, obj: Document) -> Provisioner:
    """Return the Provisioner with its defaults; every broken rule goes to the report."""
    meta, spec = read_object(report, default_provisioner(obj), SPEC_FIELDS)
    seen: dict[tuple[str, str], str] = {}
    inline_template, provider_ref = _provider(spec, meta)
    return Provisioner(
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        annotations=spec.string_map("annotations"),
        labels=_labels(spec),
        taints=_taints(spec, "taints", seen),
        startup_taints=_taints(spec, "startupTaints", seen),
        requirements=_requirements(spec),
        kubelet=read_kubelet(spec.child("kubeletConfiguration", KUBELET_MEMBERS)),
        inline_template=inline_template,
        provider_ref=provider_ref,
        disruption=read_disruption(spec, meta.annotations),
        limits=_limits(spec),
        weight=spec.integer("weight", MIN_WEIGHT, MAX_WEIGHT) or 0,
        object_annotations=meta.annotations,
        status_resources=readable_resources(mapping(obj.get("status")).get("resources")),
        deleted_at=meta.deleted_at,
        resource_version=meta.resource_version,
    )


def _provider(spec: Fields, meta: Metadata) -> tuple[AWSNodeTemplate | None, str | None]:
    """Return provider (deprecated, an inline template) and providerRef (the name of one); one of them must be set."""
    if spec.has("provider") and spec.has("providerRef"):
        spec.problem("provider", "both provider and providerRef are given", "keep providerRef, and drop provider")
    elif not spec.has("provider") and not spec.has("providerRef"):
        spec.problem("providerRef", "is missing", "name an AWSNodeTemplate: providerRef: {name: default}")
    inline: AWSNodeTemplate | None = None
    if spec.has("provider"):
        named = Metadata(meta.name, meta.uid, meta.generation)
        inline = read_template(spec.child("provider", INLINE_FIELDS), named)
    reference = spec.child("providerRef", ("name", "kind", "apiVersion"))
    name = reference.text("name")
    reference.text("kind")
    reference.text("apiVersion")
    if spec.has("providerRef") and isinstance(spec.raw("providerRef"), dict) and not name:
        reference.problem("name", "is missing", "name an AWSNodeTemplate")
    return inline, name


def _limits(spec: Fields) -> Resources | None:
    limits = spec.child("limits", ("resources",))
    quantities = limits.quantities("resources")
    return resources(quantities) if limits.has("resources") else None


def _labels(spec: Fields) -> FrozenMap[str, str]:
    """Return the labels; keys must be qualified names that users may set, values label values."""
    values = spec.string_map("labels")
    for path, key, _ in spec.entries("labels"):
        _check_label_key(spec.report, path, key)
        if key in values and (wrong := label_value_error(values[key])):
            spec.report.add(path, wrong)
    return values


def _check_label_key(report: Report, path: str, key: str) -> None:
    if key == labels.PROVISIONER_NAME:
        report.add(path, f"{key} is set by the controller", "take it out")
    elif wrong := qualified_name_error(key):
        report.add(path, wrong)
    elif labels.restricted_label(key):
        report.add(path, f"{key} is reserved", _instead_of(key))


def _instead_of(key: str) -> str:
    """Return what a user who wrote a reserved key may have meant."""
    stable = labels.normalize_label(key)
    if stable != key:
        return f"use {stable}"
    near = labels.near_well_known(key)
    return f"did you mean {near!r}?" if near else "use a domain of your own"


def _taints(spec: Fields, name: str, seen: dict[tuple[str, str], str]) -> tuple[Taint, ...]:
    """Return taints with a valid key, value and effect; no pair of key and effect twice.

    `seen` has those of taints and startupTaints so far, with their paths.
    """
    taints: list[Taint] = []
    for fields in spec.objects(name, ("key", "value", "effect", "timeAdded")):
        key, value, effect = fields.text("key"), fields.text("value") or "", fields.text("effect", EFFECTS)
        fields.text("timeAdded")
        if not key:
            fields.problem("key", "is missing", "a taint needs a key")
        elif wrong := qualified_name_error(key):
            fields.problem("key", wrong)
        if wrong := label_value_error(value):
            fields.problem("value", wrong)
        if not fields.has("effect"):
            fields.problem("effect", "is missing", f"use one of {', '.join(EFFECTS)}")
        if not key or not effect:
            continue
        if (key, effect) in seen:
            spec.report.add(
                fields.path, f"repeats key {key} and effect {effect} of {seen[key, effect]}", "keep one of them"
            )
        seen.setdefault((key, effect), fields.path)
        taints.append(Taint(key, value, effect))
    return tuple(taints)


def _requirements(spec: Fields) -> tuple[SelectorRequirement, ...]:
    """Return the requirements, whose keys users must be allowed to set.

    Contradictory and repeated keys are accepted, as in v0.27: events of pending pods report that no node meets them.
    """
    requirements: list[SelectorRequirement] = []
    for fields in spec.objects("requirements", ("key", "operator", "values")):
        key, operator, values = fields.text("key"), fields.text("operator", OPERATORS), fields.strings("values")
        if not key:
            fields.problem("key", "is missing", "a requirement needs a label key")
        else:
            _check_label_key(spec.report, fields.at("key"), labels.normalize_label(key))
        if not fields.has("operator"):
            fields.problem("operator", "is missing", f"use one of {', '.join(OPERATORS)}")
        for index, value in enumerate(values):
            if wrong := label_value_error(value):
                spec.report.add(f"{fields.at('values')}[{index}]", wrong)
        if operator:
            _check_values(fields, operator, values)
        requirements.append(SelectorRequirement(key or "", operator or "", values))
    return tuple(requirements)


def _check_values(fields: Fields, operator: str, values: tuple[str, ...]) -> None:
    """Check that In has at least one value, and Gt and Lt exactly one, an integer of 0 or more."""
    given = fields.raw("values") or ()
    if not isinstance(given, (list, tuple)):
        return  # which is a problem already
    if operator == "In" and not given:
        fields.problem("values", "In needs at least one value", "add one, or use Exists")
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            fields.problem("values", f"{operator} needs exactly one value, not {len(given)}", 'such as ["2"]')
        elif values and not (values[0].isascii() and values[0].isdecimal() and int(values[0]) <= MAX_INT64):
            fields.report.add(
                f"{fields.at('values')}[0]", f"{operator} compares integers, not {values[0]!r}", "write 0 or more"
            )
