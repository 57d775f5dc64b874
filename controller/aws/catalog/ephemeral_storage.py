"""The ephemeral storage of a node: the size of the device that holds images, logs and emptyDirs."""

from __future__ import annotations

from controller.aws.amifamily.family import AMIFamily
from controller.aws.catalog.capacity import DEFAULT_STORAGE_BYTES
from controller.core.api.nodetemplate import AWSNodeTemplate


def storage_bytes(template: AWSNodeTemplate, family: AMIFamily) -> int:
    """The template's size of the family's data device (of the last device where the family has none of its own).

    20 GiB when the template does not say: neither a device without a size (it takes its snapshot's, which is not known
    here) nor an image's own devices are looked up.
    """
    mappings = template.block_device_mappings or ()
    if family.storage_device is None:
        sizes = [mapping.ebs.volume_size_bytes for mapping in mappings[-1:]]
    else:
        sizes = [m.ebs.volume_size_bytes for m in mappings if m.device_name == family.storage_device]
    return next((size for size in sizes if size is not None), DEFAULT_STORAGE_BYTES)
