"""Settings of a Provisioner and node template that are valid and yet have no effect.

Karpenter v0.27 silently ignored settings that the user data of an AMI family cannot express.
"""

from __future__ import annotations

from controller.aws.amifamily.family import AMIFamily
from controller.core.api.frozen import EMPTY
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import KUBELET_MEMBERS, KubeletConfiguration, Provisioner
from controller.settings import Settings


def ignored_fields(kubelet: KubeletConfiguration, family: AMIFamily) -> tuple[str, ...]:
    """Return the members that are set and do not reach nodes of the family, sorted."""
    ignored = family.ignored_kubelet_fields
    if ignored == ("*",):
        ignored = tuple(KUBELET_MEMBERS)
    return tuple(sorted(name for name in ignored if getattr(kubelet, KUBELET_MEMBERS[name]) not in (None, (), EMPTY)))


def advice(
    provisioner: Provisioner, template: AWSNodeTemplate, family: AMIFamily, settings: Settings
) -> tuple[str, ...]:
    """Return one sentence for each setting without effect, with the remedy."""
    sentences = []
    where = f"AWSNodeTemplate {template.name} (amiFamily {family.name})"
    fields = ignored_fields(provisioner.kubelet, family)
    own = template.launch_template
    if own is not None and provisioner.kubelet != KubeletConfiguration():
        sentences.append(
            f"spec.kubeletConfiguration does not reach nodes of AWSNodeTemplate {template.name}: they boot with the "
            f"user data of its own launch template {own}; set it there"
        )
    elif fields:
        remedy = "set them in its userData" if family.name == "Custom" else "remove them, or use another family"
        sentences.append(
            f"spec.kubeletConfiguration: {', '.join(fields)}: {where} has no place for these and ignores them; {remedy}"
        )
    if settings.instance_store_policy and not family.supports_instance_store and own is None:
        sentences.append(
            f"aws.instanceStorePolicy {settings.instance_store_policy} has no effect on {where}: its user data cannot "
            "set up the disks; use AL2 or AL2023"
        )
    return tuple(sentences)
