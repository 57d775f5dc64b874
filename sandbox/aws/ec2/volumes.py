"""DescribeVolumes over both kinds of volumes: those launched with the sandbox's instances, and those made in moto.

A volume whose mapping says DeleteOnTermination=false outlives its instance, as `available`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends

from sandbox.aws import filters
from sandbox.aws.ec2.instances import Instances
from sandbox.aws.paging import page
from sandbox.aws.wire import AwsError, Params

_SIMPLE = {
    "volume-id": "VolumeId",
    "status": "State",
    "volume-type": "VolumeType",
    "availability-zone": "AvailabilityZone",
}
_ATTACHMENT = {"attachment.instance-id": "InstanceId", "attachment.device": "Device", "attachment.status": "State"}


class Volumes:
    """The volumes of one region."""

    def __init__(self, account: str, region: str, instances: Instances) -> None:
        self._ec2 = ec2_backends[account][region]
        self._instances = instances

    def describe(self, params: Params, now: float) -> Params:
        """DescribeVolumes: ids, filters, paging. Raises InvalidVolume.NotFound for an unknown id."""
        wanted = params.get("Filters", [])
        filters.check(wanted, lambda name: name in _SIMPLE or name in _ATTACHMENT)
        rows = [*self._of_instances(now), *self._of_moto()]
        ids = params.get("VolumeIds", [])
        known = {row["VolumeId"] for row in rows}
        missing = [volume_id for volume_id in ids if volume_id not in known]
        if missing:
            raise AwsError("InvalidVolume.NotFound", f"The volume '{missing[0]}' does not exist.")
        found = [
            row
            for row in rows
            if (not ids or row["VolumeId"] in ids)
            and filters.matches(row, wanted, _values, {t["Key"]: t["Value"] for t in row["Tags"]})
        ]
        some, token = page(found, params, default_size=None, error_code="InvalidNextToken")
        return {"Volumes": some, "NextToken": token}

    def _of_instances(self, now: float) -> Iterator[dict[str, Any]]:
        for instance in self._instances.all():
            terminated = self._instances.state(instance, now) == "terminated"
            for volume in instance.volumes:
                if not terminated:
                    yield volume
                elif not volume["Attachments"][0]["DeleteOnTermination"]:
                    yield volume | {"State": "available", "Attachments": []}

    def _of_moto(self) -> Iterator[dict[str, Any]]:
        for volume in self._ec2.describe_volumes():
            optional = {"Iops": volume.iops, "Throughput": volume.throughput, "KmsKeyId": volume.kms_key_id}
            zone = getattr(volume.zone, "name", volume.zone)
            yield {
                "VolumeId": volume.id, "Size": int(volume.size), "VolumeType": volume.volume_type,
                "State": volume.status, "Encrypted": bool(volume.encrypted), "AvailabilityZone": zone,
                "CreateTime": volume.create_time.replace(tzinfo=dt.UTC), "Attachments": [],
                "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in volume.get_tags()],
                **{key: value for key, value in optional.items() if value},
            }  # fmt: skip


def _values(row: dict[str, Any], name: str) -> list[str] | None:
    if name in _SIMPLE:
        return [str(row[_SIMPLE[name]])]
    return [str(attachment[_ATTACHMENT[name]]) for attachment in row["Attachments"]]
