"""EC2 instances and their lives: pending → running → shutting-down → terminated → forgotten; how Describe shows them.

moto's own instances change state at once, stay listed for ever and cost 3-5 ms each to serialise, so the sandbox keeps
its own and leaves moto the rest of EC2. A state follows from the clock; nothing runs in the background. Sources: EC2
user guide "Instance lifecycle" (a terminated instance stays visible for about an hour), API reference of each action.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox.aws import filters
from sandbox.aws.clock import utc
from sandbox.aws.paging import page
from sandbox.aws.wire import AwsError, Params, Raw, list_item, members_xml, output_item

STATES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
_ID = re.compile(r"i-[0-9a-f]{8}([0-9a-f]{9})?")


@dataclass(frozen=True, slots=True)
class Delays:
    """How long each step of a life takes, in sandbox seconds. Describe doesn't know a new instance while `unseen`."""

    pending_seconds: float = 5.0
    shutting_down_seconds: float = 10.0
    stopping_seconds: float = 10.0
    forgotten_after_seconds: float = 3600.0
    unseen_seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Instance:
    """One instance. `entry` is its DescribeInstances entry less State, Tags and what else changes."""

    id: str
    reservation_id: str
    entry: dict[str, Any]
    launched_at: float
    seen_from: float
    runs_from: float
    tags: dict[str, str]
    user_data: str
    volumes: tuple[dict[str, Any], ...]
    spot: bool
    stop_requested_at: float | None = None
    reclaim_at: float | None = None
    """When EC2 takes a spot instance back."""
    terminate_requested_at: float | None = None
    reason: str = ""
    announced: str = ""
    """The state that was last announced as an event."""
    address_held: bool = True
    _xml: dict[str, str] = field(default_factory=dict)

    def state(self, now: float, delays: Delays) -> str:
        """The state's name at a time."""
        if self.terminate_requested_at is not None:
            return "shutting-down" if now < self.terminate_requested_at + delays.shutting_down_seconds else "terminated"
        if self.stop_requested_at is not None:
            return "stopping" if now < self.stop_requested_at + delays.stopping_seconds else "stopped"
        return "pending" if now < self.runs_from else "running"

    def retag(self, tags: dict[str, str]) -> None:
        """Give it these tags instead of those it has."""
        self.tags = tags
        self._xml.clear()

    def xml(self, state: str) -> str:
        """The members of its DescribeInstances entry, serialised; made once per state and set of tags."""
        if state not in self._xml:
            shape = list_item(output_item("DescribeInstances", "Reservations").members["Instances"])
            self._xml[state] = members_xml(shape, self.described(state))
        return self._xml[state]

    def described(self, state: str) -> dict[str, Any]:
        """Its DescribeInstances entry, in boto3's shape."""
        tags = [{"Key": key, "Value": value} for key, value in sorted(self.tags.items())]
        entry = self.entry | {"State": {"Code": STATES[state], "Name": state}, "Tags": tags}
        if self.reason:
            code, _, _ = self.reason.partition(":")
            entry |= {"StateTransitionReason": self.reason, "StateReason": {"Code": code, "Message": self.reason}}
        if state == "terminated":
            gone = {
                "PrivateIpAddress",
                "SubnetId",
                "VpcId",
                "NetworkInterfaces",
                "SecurityGroups",
                "BlockDeviceMappings",
            }
            entry = {key: value for key, value in entry.items() if key not in gone} | {"PrivateDnsName": ""}
        return entry


class Instances:
    """All instances of one region, by id in order of launch. `release` gives a terminated one's address back."""

    def __init__(self, delays: Delays, release: Callable[[Instance], None]) -> None:
        self.delays = delays
        self.on_state_change: Callable[[Instance, str, float], None] = lambda _instance, _state, _now: None
        self._release = release
        self._by_id: dict[str, Instance] = {}

    def add(self, instance: Instance) -> None:
        """A newly launched instance."""
        self._by_id[instance.id] = instance

    def sweep(self, now: float) -> None:
        """Do what is due: reclaim, announce new states, free addresses of the terminated, forget them in the end."""
        for instance in list(self._by_id.values()):
            if instance.reclaim_at is not None and now >= instance.reclaim_at:
                self.end(instance, instance.reclaim_at, "Server.SpotInstanceTermination: Spot instance termination")
            state = self.state(instance, now)
            if state != instance.announced:
                instance.announced = state
                self.on_state_change(instance, state, now)
            if state == "terminated" and instance.terminate_requested_at is not None:
                self._bury(instance, now - instance.terminate_requested_at - self.delays.shutting_down_seconds)

    def _bury(self, instance: Instance, terminated_seconds: float) -> None:
        if instance.address_held:
            instance.address_held = False
            self._release(instance)
        if terminated_seconds >= self.delays.forgotten_after_seconds:
            del self._by_id[instance.id]

    def all(self) -> tuple[Instance, ...]:
        """Every instance that is not forgotten, the unseen ones too."""
        return tuple(self._by_id.values())

    def get(self, instance_id: str) -> Instance | None:
        """By id; None for an unknown one."""
        return self._by_id.get(instance_id)

    def state(self, instance: Instance, now: float) -> str:
        """The state's name."""
        return instance.state(now, self.delays)

    def describe(self, params: Params, now: float, account: str) -> Params:
        """DescribeInstances: ids, filters, paging; an instance appears `unseen_seconds` after its launch."""
        wanted = params.get("Filters", [])
        filters.check(wanted, _known_filter)
        ids = params.get("InstanceIds", [])
        if ids and params.get("MaxResults"):
            raise AwsError(
                "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"
            )
        candidates = self._named(ids, now) if ids else [i for i in self._by_id.values() if now >= i.seen_from]
        found = [i for i in candidates if filters.matches((i, self.state(i, now)), wanted, _filter_values, i.tags)]
        some, token = page(found, params, default_size=None, error_code="InvalidNextToken")
        reservation = output_item("DescribeInstances", "Reservations")
        reservations = [
            Raw(members_xml(reservation, {
                "ReservationId": i.reservation_id, "OwnerId": account, "Groups": [],
                "Instances": [Raw(i.xml(self.state(i, now)))],
            }))
            for i in some
        ]  # fmt: skip
        return {"Reservations": reservations, "NextToken": token}

    def terminate(self, params: Params, now: float) -> Params:
        """TerminateInstances: all or, when one id is unknown, none; a repeat is fine."""
        chosen = self._named(params.get("InstanceIds", []), now)
        changes = []
        for instance in chosen:
            before = self.state(instance, now)
            self.end(instance, now, "Client.UserInitiatedShutdown: User initiated shutdown")
            changes.append(_change(instance.id, before, self.state(instance, now)))
        return {"TerminatingInstances": changes}

    def stop(self, params: Params, now: float) -> Params:
        """StopInstances."""
        changes = []
        for instance in self._named(params.get("InstanceIds", []), now):
            before = self.state(instance, now)
            if before in {"shutting-down", "terminated"}:
                raise AwsError(
                    "IncorrectInstanceState",
                    f"The instance '{instance.id}' is not in a state from which it can be stopped.",
                )
            if instance.spot:
                raise AwsError(
                    "UnsupportedOperation",
                    f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time "
                    "Spot Instance request.",
                )
            instance.stop_requested_at = instance.stop_requested_at or now
            changes.append(_change(instance.id, before, self.state(instance, now)))
        return {"StoppingInstances": changes}

    def start(self, params: Params, now: float) -> Params:
        """StartInstances: pending again for as long as a launch takes."""
        changes = []
        for instance in self._named(params.get("InstanceIds", []), now):
            before = self.state(instance, now)
            if before not in {"stopped", "running", "pending"}:
                raise AwsError(
                    "IncorrectInstanceState",
                    f"The instance '{instance.id}' is not in a state from which it can be started.",
                )
            if before == "stopped":
                instance.stop_requested_at = None
                instance.runs_from = now + self.delays.pending_seconds
            changes.append(_change(instance.id, before, self.state(instance, now)))
        return {"StartingInstances": changes}

    def end(self, instance: Instance, now: float, reason: str) -> None:
        """Begin to shut an instance down, whoever asked; the first reason stays."""
        if instance.terminate_requested_at is None:
            instance.terminate_requested_at = now
            instance.reason = reason
            instance.retag(instance.tags)

    def _named(self, ids: Iterable[str], now: float) -> list[Instance]:
        ids = list(dict.fromkeys(ids))
        if not ids:
            raise AwsError("MissingParameter", "The request must contain the parameter InstanceId")
        malformed = [i for i in ids if not _ID.fullmatch(i)]
        if malformed:
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{malformed[0]}"')
        found = {i: self._by_id.get(i) for i in ids}
        missing = [i for i, instance in found.items() if instance is None or now < instance.seen_from]
        if len(missing) == 1:
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{missing[0]}' does not exist")
        if missing:
            raise AwsError("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(missing)}' do not exist")
        return [instance for instance in found.values() if instance is not None]


def _change(instance_id: str, before: str, after: str) -> dict[str, Any]:
    state = {"CurrentState": after, "PreviousState": before}
    return {"InstanceId": instance_id} | {key: {"Code": STATES[name], "Name": name} for key, name in state.items()}


_SIMPLE_FILTERS = {
    "instance-id": "InstanceId", "instance-type": "InstanceType", "image-id": "ImageId", "subnet-id": "SubnetId",
    "vpc-id": "VpcId", "private-dns-name": "PrivateDnsName", "private-ip-address": "PrivateIpAddress",
    "architecture": "Architecture", "instance-lifecycle": "InstanceLifecycle", "client-token": "ClientToken",
    "spot-instance-request-id": "SpotInstanceRequestId", "root-device-type": "RootDeviceType", "key-name": "KeyName",
    "root-device-name": "RootDeviceName", "virtualization-type": "VirtualizationType",
}  # fmt: skip
_OTHER_FILTERS = {"instance-state-name", "instance-state-code", "availability-zone", "launch-time", "reservation-id",
                  "iam-instance-profile.arn", "instance.group-id", "instance.group-name", "monitoring-state", "tenancy",
                  "metadata-options.http-tokens"}  # fmt: skip


def _known_filter(name: str) -> bool:
    return name in _SIMPLE_FILTERS or name in _OTHER_FILTERS


def _filter_values(item: tuple[Instance, str], name: str) -> list[str] | None:
    instance, state = item
    entry = instance.entry
    if name in _SIMPLE_FILTERS:
        value = entry.get(_SIMPLE_FILTERS[name])
        return [value] if value else []
    match name:
        case "instance-state-name":
            return [state]
        case "instance-state-code":
            return [str(STATES[state])]
        case "availability-zone":
            return [entry["Placement"]["AvailabilityZone"]]
        case "launch-time":
            return [utc(instance.launched_at).strftime("%Y-%m-%dT%H:%M:%S.000Z")]
        case "reservation-id":
            return [instance.reservation_id]
        case "iam-instance-profile.arn":
            return [entry["IamInstanceProfile"]["Arn"]] if "IamInstanceProfile" in entry else []
        case "instance.group-id":
            return [group["GroupId"] for group in entry["SecurityGroups"]]
        case "instance.group-name":
            return [group["GroupName"] for group in entry["SecurityGroups"]]
        case "monitoring-state":
            return [entry["Monitoring"]["State"]]
        case "tenancy":
            return [entry["Placement"]["Tenancy"]]
        case "metadata-options.http-tokens":
            return [entry["MetadataOptions"]["HttpTokens"]]
        case _:
            return None
