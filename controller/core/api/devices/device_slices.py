"""ResourceSlices and DeviceClasses: how many devices the drivers of each node publish."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.document import Document, mapping, objects, text, whole
from controller.core.api.frozen import EMPTY, FrozenMap

_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
"""The driver in a DeviceClass's CEL expression, as all known drivers' classes have it."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass with the drivers that its selectors name."""

    name: str
    drivers: tuple[str, ...] = ()
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices that a driver publishes on a node; `node_name` is empty for those that are not of one node.

    A pool's slices of an older generation than its newest are out of date.
    """

    name: str
    driver: str
    pool: str
    generation: int
    node_name: str
    devices: int
    """How many, without those that have a taint (they are broken, or being repaired)."""
    resource_version: str = field(default="", compare=False)


def parse_device_class(obj: Document) -> DeviceClass:
    """Parse a DeviceClass."""
    meta = mapping(obj.get("metadata"))
    selectors = objects(mapping(obj.get("spec")).get("selectors"))
    expressions = (text(mapping(each.get("cel")).get("expression")) for each in selectors)
    drivers = {driver for expression in expressions for driver in _DRIVER.findall(expression)}
    return DeviceClass(text(meta.get("name")), tuple(sorted(drivers)), text(meta.get("resourceVersion")))


def parse_resource_slice(obj: Document) -> ResourceSlice:
    """Parse a ResourceSlice; v1beta1 has the members of a device under `basic`."""
    meta, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    pool = mapping(spec.get("pool"))
    devices = [mapping(each.get("basic")) or each for each in objects(spec.get("devices"))]
    return ResourceSlice(
        name=text(meta.get("name")),
        driver=text(spec.get("driver")),
        pool=text(pool.get("name")),
        generation=whole(pool.get("generation")),
        node_name=text(spec.get("nodeName")),
        devices=sum(not each.get("taints") for each in devices),
        resource_version=text(meta.get("resourceVersion")),
    )


def devices_by_node(
    slices: Mapping[str, ResourceSlice], classes: Mapping[str, DeviceClass], resources: Mapping[str, str]
) -> Mapping[str, FrozenMap[str, int]]:
    """Count the devices of the slices as extended resources, by node.

    resources: the extended resource of each DeviceClass. A class counts the devices of the drivers that it names, else
    of the driver of its own name.
    """
    newest: dict[tuple[str, str], int] = {}
    for each in slices.values():
        pool = (each.driver, each.pool)
        newest[pool] = max(each.generation, newest.get(pool, each.generation))
    drivers: dict[str, set[str]] = {}
    for name, resource in resources.items():
        known = classes.get(name)
        drivers.setdefault(resource, set()).update(known.drivers if known and known.drivers else (name,))
    counts: dict[str, dict[str, int]] = {}
    for each in slices.values():
        if not each.node_name or each.generation < newest[each.driver, each.pool]:
            continue
        for resource, theirs in drivers.items():
            if each.driver in theirs and each.devices:
                amounts = counts.setdefault(each.node_name, {})
                amounts[resource] = amounts.get(resource, 0) + each.devices
    return {name: FrozenMap(amounts) for name, amounts in counts.items()} if counts else EMPTY
