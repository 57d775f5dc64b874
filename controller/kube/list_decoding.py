"""Decode lists and watch events: each object separately, and of pods only the fields that are read.

A list's items stay raw bytes until each is decoded, so that one malformed object does not fail the others. A pod is
about 7 kB of JSON of which scheduling reads a tenth; the decoder skips the rest (managedFields, container states,
environments, probes) without creating Python objects.

Fields of any form, such as the parameters of a ResourceClaim's driver, may be nested thousands deep, which the decoder
refuses for the whole list. Such an answer is read without what is nested more than MOST_DEPTH deep: nothing that the
controller reads is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

import msgspec

from controller.kube.resources import PODS, Resource

T = TypeVar("T")
Decode: TypeAlias = Callable[[bytes | msgspec.Raw], Mapping[str, Any]]

MOST_DEPTH: Final = 100
"""Objects and lists within each other that are read, those of the list or event around them included."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)
"""Text, as brackets in it are none, and brackets."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class RawList(msgspec.Struct):
    """A page of a list; `items` are undecoded."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _ObjectMeta(TypedDict, total=False):
    name: str
    namespace: str
    generateName: str
    uid: str
    resourceVersion: str
    creationTimestamp: str | None
    deletionTimestamp: str | None
    deletionGracePeriodSeconds: int | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    ownerReferences: list[Any] | None
    finalizers: list[str] | None


class _Container(TypedDict, total=False):
    name: str
    resources: Any
    ports: Any
    restartPolicy: str


class _PodSpec(TypedDict, total=False):
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    volumes: Any
    nodeName: str
    nodeSelector: Any
    affinity: Any
    topologySpreadConstraints: Any
    tolerations: Any
    overhead: Any
    resources: Any
    priority: Any
    priorityClassName: str
    preemptionPolicy: str
    schedulerName: str
    schedulingGates: Any
    resourceClaims: Any
    schedulingGroup: Any
    workloadRef: Any
    terminationGracePeriodSeconds: Any
    hostNetwork: bool
    os: Any


class _ContainerStatus(TypedDict, total=False):
    name: str
    resources: Any
    allocatedResources: Any


class _PodStatus(TypedDict, total=False):
    phase: str
    reason: str
    message: str
    containerStatuses: list[_ContainerStatus] | None
    initContainerStatuses: list[_ContainerStatus] | None
    conditions: Any
    nominatedNodeName: str
    resourceClaimStatuses: Any


class PodDocument(TypedDict, total=False):
    """The fields of a pod that `controller.core.api.parse.parse_pod` reads; those of type Any are kept whole."""

    apiVersion: str
    kind: str
    metadata: _ObjectMeta
    spec: _PodSpec
    status: _PodStatus


_LIST = msgspec.json.Decoder(RawList)
_ANY = msgspec.json.Decoder(dict[str, Any])
_POD = msgspec.json.Decoder(PodDocument)


def decode_list(body: bytes) -> RawList:
    """A page of a list. Raises msgspec.MsgspecError when the body is not a list."""
    return at_any_depth(_LIST.decode, body)


def decode_object(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    """An object with every field. Raises msgspec.MsgspecError when it is not a JSON object."""
    return at_any_depth(_ANY.decode, raw)


def at_any_depth(decode: Callable[[bytes | msgspec.Raw], T], body: bytes | msgspec.Raw) -> T:
    """Decode, without what is nested too deep to be decoded. Raises msgspec.MsgspecError."""
    try:
        return decode(body)
    except RecursionError:
        return decode(without_depths(bytes(body)))


def without_depths(body: bytes) -> bytes:
    """The JSON with null in place of each object or list that is nested more than MOST_DEPTH deep."""
    kept: list[bytes] = []
    depth = begins_at = 0
    for token in _TOKEN.finditer(body):
        if body[token.start()] in b"[{":
            depth += 1
            if depth == MOST_DEPTH + 1:
                kept += body[begins_at : token.start()], b"null"
        elif body[token.start()] in b"]}":
            if depth == MOST_DEPTH + 1:
                begins_at = token.end()
            depth -= 1
    return b"".join([*kept, body[begins_at:]])


def _decode_pod(raw: bytes | msgspec.Raw) -> Mapping[str, Any]:
    try:
        return at_any_depth(_POD.decode, raw)
    except msgspec.ValidationError:
        return decode_object(raw)  # the parser reports the unexpected type


def decoder_of(resource: Resource) -> Decode:
    """The decoder for a resource's objects in lists and watches."""
    return _decode_pod if resource == PODS else decode_object
