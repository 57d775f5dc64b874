"""CreateFleet of type `instant`, as EC2 does it and moto does not.

Pools are tried by the allocation strategy at the market's prices; MaxPrice, insufficient capacity and other refusals
become `Errors`; fleets may be partial; client tokens are idempotent.

Sources: EC2 API reference CreateFleet; EC2 user guide "Configure an EC2 Fleet of type instant" and fleet quotas.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.aws.clock import utc
from sandbox.aws.ec2.allocation import ON_DEMAND_STRATEGIES, SPOT_STRATEGIES, Candidate, order
from sandbox.aws.ec2.catalog import Catalog
from sandbox.aws.ec2.instances import Instance, Instances
from sandbox.aws.ec2.launch import Launcher, LaunchSpec, tags_for
from sandbox.aws.ec2.network import Network, Template
from sandbox.aws.faults import Faults
from sandbox.aws.market.market import Market, Pool
from sandbox.aws.seeded import Seeded
from sandbox.aws.wire import AwsError, Params

MAX_CONFIGS, MAX_OVERRIDES = 50, 300


@dataclass(frozen=True, slots=True)
class _Option:
    """One override, resolved: what the fleet may launch."""

    template: Template
    override: dict[str, Any]
    instance_type: str
    subnet_id: str
    zone: str
    candidate: Candidate
    max_price: float | None


@dataclass(slots=True)
class _Outcome:
    launched: list[tuple[_Option, list[Instance]]]
    errors: list[tuple[_Option, AwsError]]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """A fleet that was created, for DescribeFleets and for its client token."""

    request_hash: str
    answer: Params
    client_token: str
    tags: dict[str, str]
    created_at: float


class Fleets:
    """CreateFleet and DescribeFleets; remembers client tokens."""

    def __init__(
        self,
        network: Network,
        catalog: Catalog,
        market: Market,
        launcher: Launcher,
        instances: Instances,
        faults: Faults,
        seeded: Seeded,
    ) -> None:
        self._network = network
        self._catalog = catalog
        self._market = market
        self._launcher = launcher
        self._instances = instances
        self._faults = faults
        self._seeded = seeded
        self._by_token: dict[str, _Fleet] = {}
        self._by_id: dict[str, _Fleet] = {}

    def create(self, params: Params, now: float) -> Params:
        """CreateFleet. Raises AwsError for a request that is refused as a whole."""
        token = params.get("ClientToken")
        request_hash = hashlib.sha256(json.dumps(params, sort_keys=True, default=str).encode()).hexdigest()
        if token and token in self._by_token:
            if self._by_token[token].request_hash != request_hash:
                raise AwsError(
                    "IdempotentParameterMismatch",
                    "The request uses the same client token as a previous, but non-identical request.",
                )
            return self._by_token[token].answer
        answer = self._create(params, now)
        fleet = self._by_id[answer["FleetId"]] = _Fleet(
            request_hash, answer, token or "", tags_for("fleet", params.get("TagSpecifications")), now
        )
        if token:
            self._by_token[token] = fleet
        return answer

    def describe(self, params: Params) -> Params:
        """DescribeFleets. Instant fleets are shown only when their ids are given, as EC2 does it."""
        ids = params.get("FleetIds") or []
        missing = [fleet_id for fleet_id in ids if fleet_id not in self._by_id]
        if missing:
            raise AwsError("InvalidFleetId.NotFound", f"The fleet ID '{', '.join(missing)}' does not exist")
        return {"Fleets": [_entry(self._by_id[fleet_id]) for fleet_id in ids]}

    def _create(self, params: Params, now: float) -> Params:
        spot, strategy, target = _target(params)
        options = self._options(params, spot, now)
        fleet_id = self._seeded.uuid("fleet")
        fleet_id = f"fleet-{fleet_id}"
        outcome = _Outcome([], [])
        by_index = {option.candidate.index: option for option in options}
        ranked = [by_index[c.index] for c in order([o.candidate for o in options], strategy)]
        missing = float(target)
        for option in ranked:
            if missing <= 0:
                break
            missing -= self._fill(option, missing, params, fleet_id, spot, now, outcome)
        self._enforce_minimum(params, spot, target - missing, outcome, now)
        return self._answer(fleet_id, spot, outcome)

    def _fill(
        self, option: _Option, missing: float, params: Params, fleet_id: str, spot: bool, now: float, outcome: _Outcome
    ) -> float:
        """Launch from one pool until the target is met or the pool refuses; gives the units launched."""
        pool = Pool(option.instance_type, option.zone, "spot" if spot else "on-demand")
        filled, launched = 0.0, []
        while filled < missing:
            try:
                self._check_capacity(option, pool)
                launched.append(self._launch(option, params, fleet_id, spot, now))
            except AwsError as error:
                outcome.errors.append((option, error))
                break
            self._faults.taken(pool)
            filled += option.candidate.weight
        if launched:
            outcome.launched.append((option, launched))
        return filled

    def _check_capacity(self, option: _Option, pool: Pool) -> None:
        if option.zone not in self._catalog.zones(option.instance_type):
            raise AwsError(
                "InvalidFleetConfiguration",
                f"Your requested instance type ({option.instance_type}) is not supported in your requested "
                f"Availability Zone ({option.zone}).",
            )
        subnet_zone = self._network.subnet(option.subnet_id).availability_zone
        if subnet_zone != option.zone:
            raise AwsError(
                "InvalidParameterCombination",
                f"The Availability Zone '{option.zone}' does not match the zone '{subnet_zone}' of subnet "
                f"'{option.subnet_id}'.",
            )
        usage = self._catalog.types[option.instance_type].get("SupportedUsageClasses", [])
        if pool.capacity_type not in usage:
            raise AwsError(
                "UnfulfillableCapacity",
                f"The instance type {option.instance_type} does not support {pool.capacity_type} capacity.",
            )
        if pool.capacity_type == "spot" and option.max_price is not None and option.candidate.price > option.max_price:
            raise AwsError(
                "SpotMaxPriceTooLow",
                f"Your Spot request price of {option.max_price:g} is lower than the minimum required Spot request "
                f"fulfillment price of {option.candidate.price:g}.",
            )
        shortage = self._faults.shortage(pool)
        if shortage is not None:
            raise shortage

    def _launch(self, option: _Option, params: Params, fleet_id: str, spot: bool, now: float) -> Instance:
        data = option.template.data
        lists = (data.get("TagSpecifications"), params.get("TagSpecifications"))
        own = {
            "aws:ec2:fleet-id": fleet_id,
            "aws:ec2launchtemplate:id": option.template.id,
            "aws:ec2launchtemplate:version": str(option.template.version),
        }
        spec = LaunchSpec(
            instance_type=option.instance_type, subnet_id=option.subnet_id, data=data, spot=spot,
            tags=tags_for("instance", *lists) | own, volume_tags=tags_for("volume", *lists),
            client_token=params.get("ClientToken", ""),
        )  # fmt: skip
        return self._launcher.launch(spec, now)

    def _enforce_minimum(self, params: Params, spot: bool, filled: float, outcome: _Outcome, now: float) -> None:
        minimum = (params.get("SpotOptions" if spot else "OnDemandOptions") or {}).get("MinTargetCapacity") or 0
        if filled >= minimum:
            return
        for _, instances in outcome.launched:
            for instance in instances:
                self._instances.end(
                    instance, now, "Server.MinTargetCapacity: the fleet's minimum target capacity was not reached"
                )
        outcome.launched.clear()

    def _options(self, params: Params, spot: bool, now: float) -> list[_Option]:
        options = list(self._resolve(params, spot, now))
        pools: set[tuple[str, str]] = set()
        for option in options:
            pool = (option.instance_type, option.zone)
            if pool in pools:
                raise AwsError("InvalidFleetConfig", "The fleet configuration contains duplicate instance pools.")
            pools.add(pool)
        return options

    def _resolve(self, params: Params, spot: bool, now: float) -> Iterator[_Option]:
        index = 0
        total_limit = (params.get("SpotOptions") or {}).get("MaxTotalPrice") if spot else None
        for config in _configs(params):
            template = self._network.template(config.get("LaunchTemplateSpecification") or {})
            for override in config.get("Overrides") or [{}]:
                yield self._option(template, override, index, spot, total_limit, now)
                index += 1

    def _option(
        self, template: Template, override: dict[str, Any], index: int, spot: bool, limit: str | None, now: float
    ) -> _Option:
        if override.get("InstanceRequirements") or template.data.get("InstanceRequirements"):
            raise AwsError(
                "UnsupportedOperation", "The sandbox does not serve InstanceRequirements; name instance types"
            )
        instance_type = override.get("InstanceType") or template.data.get("InstanceType")
        if not instance_type:
            raise AwsError("InvalidFleetConfig", "The fleet configuration names no instance type.")
        if instance_type not in self._catalog.types:
            raise AwsError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
        zone = override.get("AvailabilityZone") or (override.get("Placement") or {}).get("AvailabilityZone")
        subnet_id = override.get("SubnetId") or (self._network.default_subnet_id(zone) if zone else None)
        if not subnet_id:
            raise AwsError(
                "InvalidFleetConfig", f"No subnet is given for {instance_type} and zone {zone} has no default subnet."
            )
        zone = zone or self._network.subnet(subnet_id).availability_zone
        pool = Pool(instance_type, zone, "spot" if spot else "on-demand")
        candidate = Candidate(
            index=index,
            price=self._market.price(pool, now) or float("inf"),
            depth=self._market.depth(pool),
            priority=override.get("Priority"),
            weight=float(override.get("WeightedCapacity") or 1.0),
        )
        max_price = override.get("MaxPrice") or limit
        return _Option(
            template, override, instance_type, subnet_id, zone, candidate, float(max_price) if max_price else None
        )

    def _answer(self, fleet_id: str, spot: bool, outcome: _Outcome) -> Params:
        lifecycle = "spot" if spot else "on-demand"
        instances = [
            {
                "LaunchTemplateAndOverrides": _described(option),
                "Lifecycle": lifecycle,
                "InstanceIds": [instance.id for instance in launched],
                "InstanceType": option.instance_type,
            }
            for option, launched in outcome.launched
        ]
        errors = [
            {
                "LaunchTemplateAndOverrides": _described(option),
                "Lifecycle": lifecycle,
                "ErrorCode": error.code,
                "ErrorMessage": error.message,
            }
            for option, error in outcome.errors
        ]
        return {"FleetId": fleet_id, "Errors": errors, "Instances": instances}


def _target(params: Params) -> tuple[bool, str, int]:
    """(spot?, allocation strategy, units wanted); raises AwsError for what EC2 refuses."""
    if params.get("Type", "maintain") != "instant":
        raise AwsError("UnsupportedOperation", "The sandbox serves fleets of type instant only")
    specification = params.get("TargetCapacitySpecification") or {}
    target = specification.get("TotalTargetCapacity")
    if target is None:
        raise AwsError(
            "MissingParameter", "The request must contain the parameter TargetCapacitySpecification.TotalTargetCapacity"
        )
    if target < 1:
        raise AwsError("InvalidTargetCapacitySpecification", "The total target capacity must be above 0.")
    if specification.get("SpotTargetCapacity") and specification.get("OnDemandTargetCapacity"):
        raise AwsError("UnsupportedOperation", "The sandbox does not mix spot and on-demand capacity in one fleet")
    kind = specification.get("DefaultTargetCapacityType") or "on-demand"
    if kind not in {"spot", "on-demand"}:
        raise AwsError("InvalidParameterValue", f"Invalid value '{kind}' for DefaultTargetCapacityType")
    spot = kind == "spot"
    options = params.get("SpotOptions" if spot else "OnDemandOptions") or {}
    strategy = options.get("AllocationStrategy") or "lowest-price"
    if strategy not in (SPOT_STRATEGIES if spot else ON_DEMAND_STRATEGIES):
        raise AwsError("InvalidParameterValue", f"Invalid value '{strategy}' for AllocationStrategy")
    return spot, strategy, int(target)


def _configs(params: Params) -> list[dict[str, Any]]:
    configs: list[dict[str, Any]] = params.get("LaunchTemplateConfigs") or []
    if not configs:
        raise AwsError("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
    overrides = sum(len(config.get("Overrides") or [{}]) for config in configs)
    if len(configs) > MAX_CONFIGS or overrides > MAX_OVERRIDES:
        raise AwsError(
            "InvalidFleetConfig",
            f"A fleet takes at most {MAX_CONFIGS} launch templates and {MAX_OVERRIDES} overrides; got "
            f"{len(configs)} and {overrides}.",
        )
    return configs


def _entry(fleet: _Fleet) -> dict[str, Any]:
    """The DescribeFleets entry. Its errors and instances have another shape than CreateFleet's, with the same keys."""
    launched = fleet.answer["Instances"]
    return {
        "FleetId": fleet.answer["FleetId"],
        "CreateTime": utc(fleet.created_at),
        "FleetState": "active",
        "ActivityStatus": "fulfilled" if launched else "error",
        "Type": "instant",
        "ClientToken": fleet.client_token,
        "FulfilledCapacity": float(sum(len(group["InstanceIds"]) for group in launched)),
        "Instances": launched,
        "Errors": fleet.answer["Errors"],
        "Tags": [{"Key": key, "Value": value} for key, value in fleet.tags.items()],
    }


def _described(option: _Option) -> dict[str, Any]:
    specification = {"LaunchTemplateId": option.template.id, "Version": str(option.template.version)}
    return {"LaunchTemplateSpecification": specification, "Overrides": option.override}
