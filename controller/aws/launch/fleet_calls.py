"""Resolve subnets, launch templates and tags of a fleet request, and send it; equal requests become one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from controller.aws.api.aws_errors import FLEET_NOT_FOUND_CODES, TEMPLATE_NOT_FOUND_CODES
from controller.aws.api.batcher import Window
from controller.aws.api.cluster_facts import ClusterFacts
from controller.aws.api.ttl_cache import Cache
from controller.aws.launch.create_fleet import (
    FleetAnswer,
    FleetOverride,
    FleetRequest,
    client_token,
    create_fleet,
    fleet_created,
)
from controller.aws.launch.fleet_merging import Ask, FleetMerger
from controller.aws.launch.launch_pace import LaunchPace
from controller.aws.launch.node_parameters import NodeParameters
from controller.aws.network.node_addresses import node_addresses
from controller.aws.network.subnets import Reservation, Subnets
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import LaunchRequest, PricedOffering
from controller.errors import CloudError, NodeTemplateError
from controller.runtime.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

FRESH_SECONDS = 300.0
"""A fleet or instance older than this was launched by an earlier call. Generous: clocks may differ by minutes."""


@dataclass(frozen=True, slots=True)
class PreparedFleet:
    """A request ready to send, and the subnet addresses that are reserved for it."""

    request: FleetRequest
    reservation: Reservation


class FleetCalls:
    """Prepares and sends fleet requests. Safe for many threads."""

    def __init__(
        self,
        ec2: EC2Client,
        clock: Clock,
        logger: structlog.typing.FilteringBoundLogger,
        parameters: NodeParameters,
        subnets: Subnets,
        window: Window,
        pace: LaunchPace,
    ) -> None:
        self._ec2 = ec2
        self._pace = pace
        self._clock = clock
        self._log = logger
        self._parameters = parameters
        self._subnets = subnets
        self._merger = FleetMerger(clock, self._create, pace.limited(window), pace.admit)
        self._created: Cache[str, float | None] = Cache(clock, FRESH_SECONDS)

    def prepare(
        self, request: LaunchRequest, offerings: Sequence[PricedOffering], cluster: ClusterFacts
    ) -> PreparedFleet:
        """Give each offering a subnet and a launch template. Whoever prepares a fleet must release it.

        Raises NodeTemplateError when that leaves no offering, and other CloudErrors.
        """
        tags = self._parameters.launch_tags(request)
        types = [request.instance_types[name] for name in sorted({o.instance_type for o in offerings})]
        templates = self._parameters.launch_templates(request, offerings[0].capacity_type, types, cluster)
        addresses: dict[str, int] = {}
        for offering in offerings:
            kind = request.instance_types[offering.instance_type]
            taken = node_addresses(kind.interfaces, request.requests.get("pods", 1))
            addresses[offering.zone] = min(taken, addresses.get(offering.zone, taken))
        subnets, reservation = self._subnets.reserve(request.template, addresses)
        overrides = tuple(
            FleetOverride(offering, subnets[offering.zone].id, templates[offering.instance_type])
            for offering in offerings
            if offering.zone in subnets and offering.instance_type in templates
        )
        if not overrides:
            self._subnets.release(reservation)
            raise NodeTemplateError(
                f"AWSNodeTemplate {request.template.name}: no subnet in zones {', '.join(sorted(addresses))}; "
                "spec.subnetSelector has changed since the plan was made, or its cache is stale; the next plan sees it"
            )
        subject, context = f"Provisioner {request.provisioner.name}", request.template.context
        fleet = FleetRequest(subject, overrides[0].offering.capacity_type, overrides, FrozenMap(tags), context)
        return PreparedFleet(fleet, reservation)

    def release(self, fleet: PreparedFleet, zone: str = "") -> None:
        """Give back the addresses that were reserved, but for those in the zone where an instance was launched."""
        used = {override.subnet_id for override in fleet.request.overrides if override.offering.zone == zone}
        self._subnets.release(fleet.reservation, used)

    def send(self, request: LaunchRequest, fleet: PreparedFleet, attempt: int) -> FleetAnswer:
        """Call CreateFleet, merged with equal requests unless the launch is on record by its token."""
        ask = Ask(request.token, client_token(request.token, attempt))
        launch = self._merger.launch_alone if request.on_record else self._merger.launch
        return launch(fleet.request, ask)

    def is_new(self, answer: FleetAnswer, *, unknown: bool = True) -> bool:
        """Return whether this call created the fleet, as opposed to an earlier call with its client token;
        True if in doubt.

        `unknown`: the result for a fleet that EC2 does not know, which may be very new or very old.
        """
        if not answer.fleet_id:
            return True
        try:
            created = self._created.get(answer.fleet_id, lambda: fleet_created(self._ec2, answer.fleet_id))
        except CloudError as error:
            if error.code in FLEET_NOT_FOUND_CODES:
                return unknown
            self._log.debug("Age of a fleet is not known", fleet=answer.fleet_id, error=str(error))
            return True
        return created is None or self._clock.now() - created <= FRESH_SECONDS

    def _create(self, request: FleetRequest, launch_token: str, token: str, instances: int) -> FleetAnswer:
        """Make one call, which was admitted; a launch template that somebody deleted is created again, once."""
        document = request.document(launch_token, token, instances)
        self._pace.take(instances)
        try:
            return create_fleet(self._ec2, document, request.subject)
        except CloudError as error:
            names = {override.launch_template for override in request.overrides}
            if error.code not in TEMPLATE_NOT_FOUND_CODES or not self._parameters.restore(names):
                raise
        self._pace.admit()
        return create_fleet(self._ec2, document, request.subject)
