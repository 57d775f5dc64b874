"""One region of the sandbox's AWS: its parts, wired, and which of them answers which action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import ec2_backends

from sandbox.aws.clock import Now, utc
from sandbox.aws.ec2.catalog import Catalog
from sandbox.aws.ec2.fleet import Fleets
from sandbox.aws.ec2.images import Image, Images
from sandbox.aws.ec2.instances import Delays, Instance, Instances
from sandbox.aws.ec2.interruption import Interruptions
from sandbox.aws.ec2.launch import Launcher, LaunchSpec, tags_for
from sandbox.aws.ec2.network import Network
from sandbox.aws.ec2.quotas import Quotas
from sandbox.aws.ec2.spot import SpotPrices
from sandbox.aws.ec2.volumes import Volumes
from sandbox.aws.eks import Clusters
from sandbox.aws.faults import Faults
from sandbox.aws.market.market import Market, PriceList
from sandbox.aws.market.pricing import Pricing
from sandbox.aws.seeded import Seeded
from sandbox.aws.ssm import PublicParameters
from sandbox.aws.wire import AwsError, Params
from sandbox.aws.zonal_shift import ManagedResources

Handler = Callable[[Params], Params | None]
"""Answers an action, or gives None to let moto answer."""

_ANY_REGION = {"pricing"}


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """What kind of AWS.

    `instance_types`: the region sells these alone, so that a controller that starts often reads little; empty: all.
    """

    region: str = "ap-northeast-2"
    cluster: str = "demo"
    kubernetes_version: str = "1.34"
    seed: int = 42
    delays: Delays = field(default_factory=Delays)
    instance_types: frozenset[str] = frozenset()


class World:
    """The state of one region and the handlers of its actions."""

    def __init__(self, settings: AwsSettings, account: str, now: Now) -> None:
        self.settings = settings
        self.account = account
        self.now = now
        self.seeded = Seeded(settings.seed)
        self.faults = Faults(now)
        self.catalog = Catalog(settings.region, settings.instance_types)
        self.market = Market(PriceList.load(settings.region), self.seeded, now())
        self.images = Images(settings.region, account, self.seeded)
        self.parameters = PublicParameters(settings.region, self.images.parameters())
        self.network = Network(account, settings.region)
        self.instances = Instances(settings.delays, self.network.release)
        self.volumes = Volumes(account, settings.region, self.instances)
        self.interruptions = Interruptions(account, settings.region, self.seeded)
        self.instances.on_state_change = self.interruptions.state_changed
        self.launcher = Launcher(self.network, self.catalog, self.images, self.instances, self.seeded)
        self.clusters = Clusters(account, settings.region)
        self.fleets = Fleets(
            self.network, self.catalog, self.market, self.launcher, self.instances, self.faults, self.seeded
        )
        self.quotas = Quotas(settings.region, account)
        self.zonal_shifts = ManagedResources()
        self._pricing = Pricing(settings.region, self.market, self.catalog.types)
        self._spot = SpotPrices(self.catalog, self.market)
        self._run_tokens: dict[str, Params] = {}
        self._handlers = self._wire()

    def handler(self, service: str, action: str, region: str) -> Handler | None:
        """Who answers; None: moto does."""
        if region != self.settings.region and service not in _ANY_REGION:
            return None
        return self._handlers.get((service, action))

    def state(self, instance: Instance) -> str:
        """An instance's state now."""
        return self.instances.state(instance, self.now())

    def _wire(self) -> Mapping[tuple[str, str], Handler]:
        def timed(action: Callable[[Params, float], Params]) -> Handler:
            return lambda params: action(params, self.now())

        ec2: dict[str, Handler] = {
            "CreateFleet": timed(self.fleets.create),
            "DescribeFleets": self.fleets.describe,
            "RunInstances": self._run_instances,
            "DescribeInstances": lambda params: self.instances.describe(params, self.now(), self.account),
            "TerminateInstances": timed(self.instances.terminate),
            "StopInstances": timed(self.instances.stop),
            "StartInstances": timed(self.instances.start),
            "DescribeVolumes": timed(self.volumes.describe),
            "DescribeInstanceTypes": self.catalog.describe_types,
            "DescribeInstanceTypeOfferings": self.catalog.describe_offerings,
            "DescribeImages": self.images.describe,
            "RegisterImage": lambda params: self.images.register(params, utc(self.now())),
            "DeregisterImage": self.images.deregister,
            "DescribeSpotPriceHistory": timed(self._spot.describe),
            "CreateTags": lambda params: self._tag(params, remove=False),
            "DeleteTags": lambda params: self._tag(params, remove=True),
        }
        ssm: dict[str, Handler] = {
            "GetParameter": self.parameters.get_parameter,
            "GetParameters": self.parameters.get_parameters,
            "GetParametersByPath": self.parameters.get_parameters_by_path,
        }
        return (
            {("ec2", name): handler for name, handler in ec2.items()}
            | {("ssm", name): handler for name, handler in ssm.items()}
            | {("pricing", "GetProducts"): self._pricing.get_products}
            | {("servicequotas", "GetServiceQuota"): self.quotas.get}
            | {("arc-zonal-shift", "GetManagedResource"): self.zonal_shifts.get}
            | {("arc-zonal-shift", "StartZonalShift"): timed(self.zonal_shifts.start)}
        )

    def _run_instances(self, params: Params) -> Params:
        """RunInstances, for machines that people start by hand. The same client token launches once."""
        token = params.get("ClientToken", "")
        if token in self._run_tokens:
            return self._run_tokens[token]
        template = params.get("LaunchTemplate")
        data: dict[str, Any] = dict(self.network.template(template).data) if template else {}
        data |= {key: value for key, value in params.items() if key not in {"TagSpecifications", "LaunchTemplate"}}
        lists = (data.get("TagSpecifications"), params.get("TagSpecifications"))
        zone = (data.get("Placement") or {}).get("AvailabilityZone") or min(
            self.catalog.zones(data.get("InstanceType", "")), default=""
        )
        subnet_id = data.get("SubnetId") or self.network.default_subnet_id(zone)
        if not subnet_id or not data.get("InstanceType"):
            raise AwsError("MissingParameter", "The request must contain the parameters InstanceType and SubnetId")
        market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
        spec = LaunchSpec(
            instance_type=data["InstanceType"], subnet_id=subnet_id, data=data, spot=market == "spot",
            tags=tags_for("instance", *lists), volume_tags=tags_for("volume", *lists),
            client_token=params.get("ClientToken", ""),
        )  # fmt: skip
        launched = [self.launcher.launch(spec, self.now()) for _ in range(params.get("MaxCount", 1))]
        answer: Params = {
            "ReservationId": launched[0].reservation_id, "OwnerId": self.account,
            "Instances": [instance.described(self.state(instance)) for instance in launched],
        }  # fmt: skip
        if token:
            self._run_tokens[token] = answer
        return answer

    def _tag(self, params: Params, *, remove: bool) -> Params | None:
        """CreateTags and DeleteTags of instances and images; what else is named in the call is moto's."""
        ids = params.get("Resources", [])
        ours = [i for i in ids if i.startswith(("i-", "ami-"))]
        if not ours:
            return None
        tags = {t["Key"]: t.get("Value", None if remove else "") for t in params.get("Tags", [])}
        reserved = [key for key in tags if key.startswith("aws:")]
        if reserved:
            raise AwsError(
                "InvalidParameterValue",
                f"Tag keys starting with 'aws:' are reserved for internal use: {', '.join(reserved)}",
            )
        targets = [self._taggable(resource_id) for resource_id in ours]
        for target in targets:
            _change(target, tags, remove=remove)
        others = [i for i in ids if i not in ours]
        if others:
            backend = ec2_backends[self.account][self.settings.region]
            if remove:
                backend.delete_tags(others, tags)  # None: whatever its value
            else:
                backend.create_tags(others, {key: value or "" for key, value in tags.items()})
        return {}

    def _taggable(self, resource_id: str) -> Instance | Image:
        if resource_id.startswith("ami-"):
            return self.images.get(resource_id)
        instance = self.instances.get(resource_id)
        if instance is None or self.now() < instance.seen_from:
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{resource_id}' does not exist")
        return instance


def _change(target: Instance | Image, tags: Mapping[str, str | None], *, remove: bool) -> None:
    """Add or replace tags; or remove those that have the value given, whatever they have when it is None."""
    if not remove:
        target.retag(target.tags | {key: value or "" for key, value in tags.items()})
        return
    target.retag({k: v for k, v in target.tags.items() if k not in tags or tags[k] not in (None, v)})
