"""Read the answers of DescribeInstances: of each instance only the members that the controller reads.

botocore reads all of an instance's members, which takes about half a millisecond of processor time with a dozen tags:
this takes a fifth of that. An answer that is not as the EC2 API reference has it is left to botocore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from controller.aws.api.aws_times import timestamp

Member: TypeAlias = tuple[str, Callable[[ElementTree.Element], Any]]


def _text(element: ElementTree.Element) -> str:
    return element.text or ""


def _whole(element: ElementTree.Element) -> int:
    return int(_text(element))


def _structure(members: Mapping[str, Member]) -> Callable[[ElementTree.Element], dict[str, Any]]:
    """A reader of these members, by the name of their elements."""

    def read(element: ElementTree.Element) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for child in element:
            member = members.get(_name(child))
            if member is not None:
                found[member[0]] = member[1](child)
        return found

    return read


def _list(members: Mapping[str, Member]) -> Callable[[ElementTree.Element], list[dict[str, Any]]]:
    read = _structure(members)
    return lambda element: [read(item) for item in element]


def _name(element: ElementTree.Element) -> str:
    """The tag without the namespace of the API's version."""
    return element.tag.rpartition("}")[2]


MEMBERS: Final[Mapping[str, Member]] = {
    "instanceId": ("InstanceId", _text),
    "imageId": ("ImageId", _text),
    "instanceType": ("InstanceType", _text),
    "instanceLifecycle": ("InstanceLifecycle", _text),
    "spotInstanceRequestId": ("SpotInstanceRequestId", _text),
    "privateDnsName": ("PrivateDnsName", _text),
    "subnetId": ("SubnetId", _text),
    "launchTime": ("LaunchTime", lambda element: timestamp(_text(element))),
    "instanceState": ("State", _structure({"name": ("Name", _text)})),
    "placement": ("Placement", _structure({"availabilityZone": ("AvailabilityZone", _text)})),
    "cpuOptions": (
        "CpuOptions",
        _structure({"coreCount": ("CoreCount", _whole), "threadsPerCore": ("ThreadsPerCore", _whole)}),
    ),
    "groupSet": ("SecurityGroups", _list({"groupId": ("GroupId", _text)})),
    "tagSet": ("Tags", _list({"key": ("Key", _text), "value": ("Value", _text)})),
}
"""Of an instance, by the name of its element: its name in botocore's answers, and its reader."""

_RESERVATIONS: Final = _list({"instancesSet": ("Instances", _list(MEMBERS))})
REQUIRED: Final = frozenset({"InstanceId", "InstanceType", "State", "LaunchTime", "Placement"})
"""An answer with an instance that lacks one of these is left to botocore."""


def read_instances(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_rest: object) -> None:
    """Take the reservations out of an answer before botocore reads it: a handler of its event `before-parse`."""
    if response_dict["status_code"] != 200:
        return
    try:
        root = ElementTree.fromstring(response_dict["body"])  # noqa: S314 - see the import
        found = [child for child in root if _name(child) == "reservationSet"]
        reservations = _RESERVATIONS(found[0]) if _name(root) == "DescribeInstancesResponse" and len(found) == 1 else []
    except (ElementTree.ParseError, ValueError):
        return
    instances = [instance for each in reservations for instance in each.get("Instances", [{}])]
    if not instances or any(REQUIRED - instance.keys() for instance in instances):
        return
    root.remove(found[0])
    response_dict["body"] = ElementTree.tostring(root)
    customized_response_dict["Reservations"] = reservations
