"""The capacity rules for nodes of a Provisioner and its template, under the cluster's settings."""

from __future__ import annotations

from controller.aws.amifamily import family_of
from controller.aws.amifamily.family import AMIFamily
from controller.aws.catalog.capacity import DEFAULT_STORAGE_BYTES, CapacityRules
from controller.aws.catalog.shipped_tables import branch_interfaces
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.settings import Settings


def capacity_rules(settings: Settings, provisioner: Provisioner, template: AWSNodeTemplate) -> CapacityRules:
    """Return the rules. Raises NodeTemplateError for an unknown AMI family."""
    family = family_of(template)
    return CapacityRules(
        vm_memory_overhead=settings.vm_memory_overhead_percent,
        eni_limited_pods=settings.enable_eni_limited_pod_density,
        pod_eni=settings.enable_pod_eni,
        branch_interfaces=branch_interfaces(),
        storage_bytes=storage_bytes(template, family),
        kubelet=provisioner.kubelet,
        eni_limited_memory_overhead=family.eni_limited_memory_overhead,
        supports_pods_per_core=family.supports_pods_per_core,
        supports_eviction_soft=family.supports_eviction_soft,
        prefix_delegation=settings.enable_prefix_delegation,
        reserved_enis=settings.reserved_enis,
        instance_store=bool(settings.instance_store_policy) and family.supports_instance_store,
    )


def storage_bytes(template: AWSNodeTemplate, family: AMIFamily) -> int:
    """Return the size of the device that holds images, logs and emptyDirs:
    the family's data device, else the template's last one.

    DEFAULT_STORAGE_BYTES where the template sets no size: snapshots and an image's devices are not looked up.
    """
    mappings = template.block_device_mappings or ()
    if family.storage_device is None:
        sizes = [mapping.ebs.volume_size_bytes for mapping in mappings[-1:]]
    else:
        sizes = [m.ebs.volume_size_bytes for m in mappings if m.device_name == family.storage_device]
    return next((size for size in sizes if size is not None), DEFAULT_STORAGE_BYTES)
