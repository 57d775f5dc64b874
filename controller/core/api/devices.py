"""Devices (DRA): ResourceClaims and their templates, DeviceClasses, and the ResourceSlices that drivers publish.

What a claim asks for is read as far as it is a number of devices of a class. Everything else (CEL selectors, shares of
a device) names the field in `uncountable`: which devices it means is known only where they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.document import Document, mapping, node_selector_terms, objects, text, whole
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import NodeSelectorTerm

_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
"""The driver in a DeviceClass's CEL expression, as all known drivers' classes have it."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One way to satisfy a request of a claim: `count` devices of a DeviceClass, unless a field is `uncountable`."""

    name: str
    """As results of an allocation name it: REQUEST, or REQUEST/SUBREQUEST."""
    device_class: str
    count: int = 1
    uncountable: str = ""


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What a claim asks for: each of `requests` by one of its alternatives, the first that can be had."""

    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    constrained: bool = False
    """Devices must have attributes in common, or differ in them (`constraints`)."""


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    namespace: str
    name: str
    spec: ClaimSpec
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices that a claim has been given."""

    requests: tuple[str, ...] = ()
    """The name of the request, for each device; devices for administrators, which others use too, are left out."""
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    """Nodes that can reach the devices (terms are ORed); None: all."""

    @property
    def node_name(self) -> str:
        """The node that has the devices; empty if they are not of one node."""
        fields = [each for term in self.node_terms or () for each in term.match_fields]
        names = {
            name for each in fields if (each.key, each.operator) == ("metadata.name", "In") for name in each.values
        }
        return names.pop() if len(names) == 1 else ""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A ResourceClaim; `allocation` is None until kube-scheduler has chosen its devices."""

    namespace: str
    name: str
    spec: ClaimSpec
    allocation: Allocation | None = None
    resource_version: str = field(default="", compare=False)


def parse_resource_claim(obj: Document) -> ResourceClaim:
    meta, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    allocation = status.get("allocation")
    return ResourceClaim(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        spec=_claim_spec(mapping(obj.get("spec"))),
        allocation=_allocation(allocation) if isinstance(allocation, dict) else None,
        resource_version=text(meta.get("resourceVersion")),
    )


def parse_resource_claim_template(obj: Document) -> ResourceClaimTemplate:
    meta = mapping(obj.get("metadata"))
    return ResourceClaimTemplate(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        spec=_claim_spec(mapping(mapping(obj.get("spec")).get("spec"))),
        resource_version=text(meta.get("resourceVersion")),
    )


def _claim_spec(spec: Document) -> ClaimSpec:
    devices = mapping(spec.get("devices"))
    return ClaimSpec(
        requests=tuple(_alternatives(each) for each in objects(devices.get("requests"))),
        constrained=bool(devices.get("constraints")),
    )


def _alternatives(request: Document) -> tuple[DeviceRequest, ...]:
    """Parse a request's alternatives, in order of preference. In v1beta1 it has the fields of `exactly` itself."""
    name = text(request.get("name"))
    if request.get("firstAvailable"):
        return tuple(_request(f"{name}/{text(each.get('name'))}", each) for each in objects(request["firstAvailable"]))
    return (_request(name, mapping(request.get("exactly")) or request),)


def _request(name: str, value: Mapping[str, object]) -> DeviceRequest:
    device_class, mode = text(value.get("deviceClassName")), text(value.get("allocationMode")) or "ExactCount"
    uncountable = next((field for field in ("selectors", "capacity", "adminAccess") if value.get(field)), "")
    if mode != "ExactCount":
        uncountable = f"allocationMode {mode}"
    if not device_class:
        uncountable = "no deviceClassName"
    return DeviceRequest(name, device_class, max(1, whole(value.get("count"), 1)), uncountable)


def _allocation(allocation: Document) -> Allocation:
    results = objects(mapping(allocation.get("devices")).get("results"))
    selector = allocation.get("nodeSelector")
    return Allocation(
        requests=tuple(text(each.get("request")) for each in results if each.get("adminAccess") is not True),
        node_terms=node_selector_terms(selector) if isinstance(selector, dict) else None,
    )


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
        for resource, names in drivers.items():
            if each.driver in names and each.devices:
                amounts = counts.setdefault(each.node_name, {})
                amounts[resource] = amounts.get(resource, 0) + each.devices
    return {name: FrozenMap(amounts) for name, amounts in counts.items()} if counts else EMPTY
