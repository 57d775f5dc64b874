"""Describe and terminate the cluster's EC2 instances; descriptions become CloudInstances."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from controller.aws.api import tags as tagging
from controller.aws.api.aws_errors import translated
from controller.aws.api.batcher import Batcher, Window
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import CloudInstance
from controller.errors import CloudError, InstanceNotFoundError
from controller.runtime.clock import Clock
from controller.runtime.metrics import SILENT, Recorder

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef

LIVE_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")
STAYING_STATES = ("pending", "running", "stopping", "stopped")
"""Live, and not terminating."""
LEAVING_STATES = frozenset({"shutting-down", "stopping", "stopped"})
"""Live, and not running any more."""

DESCRIBE_WINDOW = Window(idle_seconds=0.1)
TERMINATE_WINDOW = Window(idle_seconds=0.1)
TOKEN_WINDOW = Window(idle_seconds=0.035)
"""Precedes each launch: as short as Karpenter v0.27's window for CreateFleet."""

FILTER_VALUES = 200
"""Values of one filter at most (EC2 API reference)."""

_PROVIDER_ID = re.compile(r"^aws:///(?P<zone>[^/]+)/(?P<id>i-[0-9a-f]+)$")

TypeLabels = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""(instance type, tags) → labels that follow from the type."""


def instance_id(provider_id: str) -> str:
    """Return the id in a provider id. Raises ValueError for what is not `aws:///ZONE/i-...`."""
    match = _PROVIDER_ID.match(provider_id)
    if match is None:
        raise ValueError(f"{provider_id!r} is not a provider id of AWS (aws:///ZONE/INSTANCE-ID)")
    return match["id"]


class Instances:
    """Describes and terminates this cluster's instances. Safe for many threads."""

    def __init__(
        self,
        ec2: EC2Client,
        cluster_name: str,
        node_name_convention: str,
        type_labels: TypeLabels,
        clock: Clock,
        recorder: Recorder = SILENT,
    ) -> None:
        self._ec2 = ec2
        self._cluster_name = cluster_name
        self._by_resource_name = node_name_convention == "resource-name"
        self._type_labels = type_labels
        self._described: Batcher[str, CloudInstance | None] = Batcher(
            clock, DESCRIBE_WINDOW, self._find, "describe_instances", recorder
        )
        self._of_token: Batcher[str, CloudInstance | None] = Batcher(
            clock, TOKEN_WINDOW, self._find_by_token, "describe_instances_by_token", recorder
        )
        self._terminated: Batcher[str, None] = Batcher(
            clock, TERMINATE_WINDOW, self.terminate_all, "terminate_instances", recorder
        )

    def get(self, instance_id: str) -> CloudInstance:
        """Raises InstanceNotFoundError when it is terminated, unknown or not tagged as ours, and other CloudErrors."""
        instance = self.find(instance_id)
        if instance is None or instance.state not in LIVE_STATES:
            raise InstanceNotFoundError(f"Instance {instance_id} is terminated or unknown to EC2")
        if not instance.owned:
            tag = tagging.cluster_tag(self._cluster_name)
            raise InstanceNotFoundError(f"Instance {instance_id} exists without the tag {tag}=owned")
        return instance

    def find(self, instance_id: str) -> CloudInstance | None:
        """Return the instance by its bare id, in whatever state and with whatever tags; None when EC2 does not show it.

        Raises CloudErrors.
        """
        return self._described.call(instance_id)

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        """Return those whose instance EC2 shows by its bare id, in whatever state. Raises CloudErrors."""
        by_id = {instance_id(each): each for each in provider_ids if _PROVIDER_ID.match(each)}
        return frozenset(by_id[item.id] for item in self.shown(by_id.values()))

    def shown(self, provider_ids: Iterable[str]) -> tuple[CloudInstance, ...]:
        """Return the instances that EC2 shows by their bare ids, in any state, with any tags. Raises CloudErrors."""
        ids = sorted({instance_id(each) for each in provider_ids if _PROVIDER_ID.match(each)})
        parts = (ids[start : start + FILTER_VALUES] for start in range(0, len(ids), FILTER_VALUES))
        return tuple(item for part in parts for item in self._describe([{"Name": "instance-id", "Values": part}]))

    def by_token(self, token: str) -> CloudInstance | None:
        """Return the instance with this launch token that is not terminating: the oldest, should there be several."""
        return self._of_token.call(token)

    def launched(self) -> tuple[CloudInstance, ...]:
        """Return every live instance of this cluster that a Provisioner launched, sorted by launch time."""
        instances = self._describe_owned([{"Name": "tag-key", "Values": [keys.PROVISIONER_NAME]}], LIVE_STATES)
        return tuple(sorted(instances, key=lambda item: (item.launched_at, item.id)))

    def terminate(self, instance_id: str) -> None:
        """Raises InstanceNotFoundError when it is gone already, and other CloudErrors."""
        self._terminated.call(instance_id)

    def _find(self, ids: list[str]) -> dict[str, CloudInstance | CloudError | None]:
        by_id = {item.id: item for item in self._describe([{"Name": "instance-id", "Values": ids}])}
        return {one: by_id.get(one) for one in ids}

    def _find_by_token(self, tokens: list[str]) -> dict[str, CloudInstance | CloudError | None]:
        tagged = self._describe_owned([{"Name": f"tag:{tagging.LAUNCH_TOKEN}", "Values": tokens}], STAYING_STATES)
        by_token: dict[str, CloudInstance | CloudError | None] = dict.fromkeys(tokens)
        for item in sorted(tagged, key=lambda item: (item.launched_at, item.id), reverse=True):
            by_token[item.tags[tagging.LAUNCH_TOKEN]] = item
        return by_token

    def terminate_all(self, ids: list[str]) -> dict[str, CloudError | None]:
        """Terminate in one call; returns the error by id, None for those that are terminated. Raises CloudErrors.

        An id that EC2 does not know fails the whole call: then each is tried on its own.
        """
        try:
            leaving = set(self._terminate_call(ids))
        except InstanceNotFoundError as error:
            if len(ids) == 1:
                return {ids[0]: error}
            leaving = set()
        results: dict[str, CloudError | None] = {}
        for one in ids:
            if one in leaving:
                results[one] = None
            elif len(ids) > 1:
                results.update(self._terminate_alone(one))
            else:
                results[one] = CloudError(f"ec2:TerminateInstances did not answer for {one}; it is tried again")
        return results

    def _terminate_alone(self, instance_id: str) -> dict[str, CloudError | None]:
        try:
            return self.terminate_all([instance_id])
        except CloudError as error:
            return {instance_id: error}

    def _terminate_call(self, ids: list[str]) -> list[str]:
        """Return the ids that EC2 terminates."""
        with translated("ec2:TerminateInstances", ", ".join(ids[:5])):
            answer = self._ec2.terminate_instances(InstanceIds=ids)
        return [change.get("InstanceId", "") for change in answer["TerminatingInstances"]]

    def _describe_owned(self, filters: Sequence[FilterTypeDef], states: Sequence[str]) -> tuple[CloudInstance, ...]:
        """Return this cluster's instances, by its tag, that match. Raises CloudErrors."""
        owned: FilterTypeDef = {"Name": f"tag:{tagging.cluster_tag(self._cluster_name)}", "Values": ["owned"]}
        return self._describe([*filters, owned, {"Name": "instance-state-name", "Values": list(states)}])

    def _describe(self, wanted: Sequence[FilterTypeDef]) -> tuple[CloudInstance, ...]:
        """Return the account's instances that match, in whatever state. Raises CloudErrors."""
        with translated("ec2:DescribeInstances"):
            pages = self._ec2.get_paginator("describe_instances").paginate(Filters=wanted)
            return tuple(
                self._read(instance)
                for page in pages
                for reservation in page["Reservations"]
                for instance in reservation["Instances"]
            )

    def _read(self, instance: Mapping[str, Any]) -> CloudInstance:
        tags = tagging.as_dict(instance.get("Tags", []))
        zone = instance["Placement"]["AvailabilityZone"]
        spot = instance.get("InstanceLifecycle") == "spot" or bool(instance.get("SpotInstanceRequestId"))
        capacity_type = keys.SPOT if spot else keys.ON_DEMAND
        instance_type, image = instance["InstanceType"], instance.get("ImageId", "")
        labels = {
            **tagging.decode_labels(tags),
            **self._type_labels(instance_type, tags),
            keys.INSTANCE_TYPE: instance_type,
            keys.ZONE: zone,
            keys.CAPACITY_TYPE: capacity_type,
            keys.INSTANCE_AMI_ID: image,
            keys.PROVISIONER_NAME: tags.get(keys.PROVISIONER_NAME, ""),
        }
        dns_name = instance.get("PrivateDnsName", "").lower()
        return CloudInstance(
            id=instance["InstanceId"],
            provider_id=f"aws:///{zone}/{instance['InstanceId']}",
            node_name=instance["InstanceId"] if self._by_resource_name else dns_name,
            instance_type=instance_type,
            zone=zone,
            capacity_type=capacity_type,
            image_id=image,
            state=instance["State"]["Name"],
            launched_at=instance["LaunchTime"].timestamp(),
            provisioner_name=tags.get(keys.PROVISIONER_NAME, ""),
            tags=FrozenMap(tags),
            owned=tags.get(tagging.cluster_tag(self._cluster_name)) == "owned",
            labels=FrozenMap(dict(sorted(labels.items()))),
            subnet_id=instance.get("SubnetId", ""),
            security_group_ids=tuple(sorted(group["GroupId"] for group in instance.get("SecurityGroups", []))),
        )
