"""The cluster's EC2 instances: which there are, what their user data says, how big their types are.

Machines know themselves without the EC2 API, so the list comes through the sandbox AWS's own door
(`/sandbox/instances`):
kubelets neither appear in the log of AWS calls nor suffer from the faults that are scripted for the controller.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import boto3
import orjson
import urllib3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from sandbox.world.clock import WorldClock
from sandbox.world.machines.capacity import MachineShape

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

OWNED_TAG = "kubernetes.io/cluster/"
ALIVE = ("pending", "running")

log = logging.getLogger(__name__)


class CloudError(Exception):
    """The sandbox AWS did not answer, or not with what was asked for."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as it is now."""

    instance_id: str
    instance_type: str
    state: str
    zone: str
    region: str
    private_ip: str
    private_dns_name: str
    capacity_type: str
    user_data: str = ""
    """Decoded."""
    disk_gib: int = 20
    """The largest volume: the node's ephemeral storage."""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def provider_id(self) -> str:
        """spec.providerID of its Node."""
        return f"aws:///{self.zone}/{self.instance_id}"


class Cloud(Protocol):
    """What the machines' side asks of AWS. Blocking, called on threads; every method may raise CloudError."""

    def instances(self) -> list[Instance]:
        """All instances of the cluster, terminated ones as long as they are shown."""

    def shape(self, instance_type: str) -> MachineShape:
        """The instance type in numbers."""

    def create_volume(self, zone: str, size_gib: int, volume_type: str, tags: dict[str, str]) -> str:
        """Make an EBS volume; its id."""

    def delete_volume(self, volume_id: str) -> None:
        """Delete an EBS volume; one that is gone already is no error."""


class SandboxCloud:
    """The sandbox AWS at `endpoint_url`."""

    def __init__(self, endpoint_url: str, region: str, cluster_name: str = "") -> None:
        settings = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=5, read_timeout=30)
        self._ec2: EC2Client = boto3.client(
            "ec2", endpoint_url=endpoint_url, region_name=region, config=settings,
            aws_access_key_id="kubelets", aws_secret_access_key="kubelets",  # noqa: S106 any key will do there
        )  # fmt: skip
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5, read=30))
        self._url = f"{endpoint_url.rstrip('/')}/sandbox/instances"
        self._region = region
        self._cluster_name = cluster_name
        self._shapes: dict[str, MachineShape] = {}

    def instances(self) -> list[Instance]:
        """See `Cloud`."""
        try:
            answer = self._http.request("GET", self._url)
            rows = orjson.loads(answer.data)["instances"]
            return [self._instance(row) for row in rows if self._is_ours(row["tags"])]
        except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError) as error:
            raise CloudError(f"GET {self._url}: {error!r}") from error

    def _is_ours(self, tags: dict[str, str]) -> bool:
        if self._cluster_name:
            return f"{OWNED_TAG}{self._cluster_name}" in tags
        return any(key.startswith(OWNED_TAG) for key in tags)

    def _instance(self, row: dict[str, Any]) -> Instance:
        return Instance(
            instance_id=row["instanceId"],
            instance_type=row["instanceType"],
            state=row["state"],
            zone=row["zone"],
            region=self._region,
            private_ip=row["privateIpAddress"],
            private_dns_name=row["privateDnsName"],
            capacity_type=row["capacityType"],
            user_data=_decoded(row["userData"] or ""),
            disk_gib=max((volume["sizeGiB"] for volume in row["volumes"]), default=20),
            tags=row["tags"],
        )

    def shape(self, instance_type: str) -> MachineShape:
        """See `Cloud`."""
        if instance_type not in self._shapes:
            # "Any" because the literal type of InstanceType lists only types known when the stubs were made.
            names: Any = [instance_type]
            try:
                rows = self._ec2.describe_instance_types(InstanceTypes=names)["InstanceTypes"]
            except (ClientError, BotoCoreError) as error:
                raise CloudError(str(error)) from error
            self._shapes[instance_type] = MachineShape.parse(rows[0])
        return self._shapes[instance_type]

    def create_volume(self, zone: str, size_gib: int, volume_type: str, tags: dict[str, str]) -> str:
        """See `Cloud`."""
        kind: Any = volume_type
        specification: Any = {"ResourceType": "volume", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
        try:
            made = self._ec2.create_volume(
                AvailabilityZone=zone, Size=size_gib, VolumeType=kind, TagSpecifications=[specification]
            )
        except (ClientError, BotoCoreError) as error:
            raise CloudError(str(error)) from error
        return made["VolumeId"]

    def delete_volume(self, volume_id: str) -> None:
        """See `Cloud`."""
        try:
            self._ec2.delete_volume(VolumeId=volume_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidVolume.NotFound":
                raise CloudError(str(error)) from error
        except BotoCoreError as error:
            raise CloudError(str(error)) from error


@functools.lru_cache(maxsize=64)
def _decoded(user_data: str) -> str:
    return base64.b64decode(user_data).decode(errors="replace")


class InstanceFeed:
    """The latest list, and a call for each instance whose state changed (None: no longer listed)."""

    def __init__(self, cloud: Cloud, clock: WorldClock, poll_seconds: float) -> None:
        self.cloud = cloud
        self.known: dict[str, Instance] = {}
        self.polled = asyncio.Event()
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._handlers: list[Callable[[str, Instance | None], None]] = []

    def add_handler(self, handler: Callable[[str, Instance | None], None]) -> None:
        """Call `handler(instance_id, instance)` on every change."""
        self._handlers.append(handler)

    def alive(self, instance_id: str) -> bool:
        """Whether EC2 shows the instance as pending or running."""
        instance = self.known.get(instance_id)
        return instance is not None and instance.state in ALIVE

    async def run(self) -> None:
        """Poll for ever; an AWS that does not answer changes nothing, and is logged once."""
        failing = False
        while True:
            try:
                found = await asyncio.to_thread(self.cloud.instances)
            except CloudError as error:
                if not failing:
                    log.warning("AWS does not answer, asking on: %s", error)
                failing = True
            else:
                failing = False
                self._take_over({instance.instance_id: instance for instance in found})
                self.polled.set()
            await self._clock.sleep(self._poll_seconds)

    def _take_over(self, found: dict[str, Instance]) -> None:
        before, self.known = self.known, found
        for instance_id in [*found, *(before.keys() - found.keys())]:
            if found.get(instance_id) != before.get(instance_id):
                for handler in self._handlers:
                    handler(instance_id, found.get(instance_id))
