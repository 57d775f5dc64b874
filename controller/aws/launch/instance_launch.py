"""One launch, from a LaunchRequest to a running instance: idempotent, and as persistent as EC2's bad days ask for.

EC2 answers a repeated client token with what it did the first time, for ever. So a launch is a row of attempts, each
with its own token, the same row in every process: an attempt whose instance is gone, or whose answer is a failure, is
done with, and the next one follows. A process that dies after CreateFleet leaves an instance that carries the launch
token as a tag; its successor finds it by the tag, or by the same answer to the same attempt, and launches no second.
Launches of one moment that ask for the same are one call (controller.aws.launch.fleet_merging).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from cachetools import LRUCache

from controller.aws.api.aws_errors import (
    FLEET_NOT_FOUND_CODES,
    NO_ADDRESSES,
    TEMPLATE_NOT_FOUND_CODES,
    TOKEN_MISMATCH_CODES,
    by_code,
)
from controller.aws.api.cluster_facts import ClusterFacts
from controller.aws.catalog.unavailable_offerings import UnavailableOfferings
from controller.aws.launch.create_fleet import (
    FleetAnswer,
    FleetError,
    FleetOverride,
    FleetRequest,
    client_token,
    create_fleet,
    fleet_created,
)
from controller.aws.launch.fleet_merging import Ask, FleetMerger
from controller.aws.launch.instances import STAYING_STATES, Instances
from controller.aws.launch.node_parameters import NodeParameters
from controller.aws.launch.offering_order import is_exotic, tiers
from controller.aws.launch.visibility import SEEN_DEADLINE_SECONDS, Sight, named
from controller.aws.launch.zone_balance import ZoneBalance
from controller.aws.network.subnets import Reservation, Subnets
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import SPOT
from controller.core.cloud import CloudInstance, LaunchRequest, PricedOffering
from controller.core.provisioning.flexibility import PRICE_SPREAD, SPOT_OFFERINGS, within_spread
from controller.errors import CloudError, InsufficientCapacityError, NodeTemplateError
from controller.runtime.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

MAX_ATTEMPTS = 8
"""In one call of `launch`; the next call goes on from there."""

FRESH_SECONDS = 300.0
"""An answer of a fleet elder than this is a repeated one. Generous: our clock and AWS's may differ by minutes."""

FLEXIBLE_TYPES = 5
"""Fewer types than this are a narrow choice for spot (Karpenter v0.27's threshold for its warning)."""

REMEMBERED_LAUNCHES = 10_000
NO_REASON = FleetError("UnfulfillableCapacity", "the fleet gave neither an instance nor a reason")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What one CreateFleet came to."""

    instance: CloudInstance | None = None
    errors: tuple[FleetError, ...] = ()
    fresh: bool = True
    """It tells of now; otherwise it is the story of an earlier attempt, and the next one is due."""


class InstanceLauncher:
    """Launches instances. Safe for many threads."""

    def __init__(
        self,
        *,
        ec2: EC2Client,
        clock: Clock,
        logger: structlog.typing.FilteringBoundLogger,
        instances: Instances,
        subnets: Subnets,
        parameters: NodeParameters,
        unavailable: UnavailableOfferings,
        stop: threading.Event,
        price_tolerance: float = PRICE_SPREAD,
        spot_offerings: int = SPOT_OFFERINGS,
        balance: ZoneBalance | None = None,
    ) -> None:
        """`price_tolerance`: alternatives dearer than the cheapest left by over this share are not sent along.
        `spot_offerings`: so many are sent for spot where there are, up to twice that.
        `balance`: prefer the zones with fewest instances; None: EC2 and the prices choose.
        """
        self._price_tolerance = price_tolerance
        self._spot_offerings = spot_offerings
        self._balance = balance
        self._ec2 = ec2
        self._clock = clock
        self._log = logger
        self._instances = instances
        self._subnets = subnets
        self._parameters = parameters
        self._unavailable = unavailable
        self._sight = Sight(instances, clock, stop)
        self._lock = threading.Lock()
        self._done_attempts: LRUCache[str, int] = LRUCache(REMEMBERED_LAUNCHES)
        self._gates: LRUCache[str, threading.Lock] = LRUCache(REMEMBERED_LAUNCHES)
        self._given: LRUCache[str, str] = LRUCache(REMEMBERED_LAUNCHES)
        """Launch token → instance, of this process's launches: one of a merged call has no tag to be found by."""
        self._merger = FleetMerger(clock, self._create)
        self._mask_lock = threading.Lock()
        self._advised: LRUCache[tuple[str, frozenset[str]], bool] = LRUCache(REMEMBERED_LAUNCHES)

    def launch(self, request: LaunchRequest, cluster: ClusterFacts) -> CloudInstance:
        """The instance of the request's token. Raises as CloudProvider.create."""
        with self._lock:
            gate = self._gates.setdefault(request.token, threading.Lock())
        with gate:
            return self._found(request.token) or self._launch(request, cluster)

    def _found(self, token: str) -> CloudInstance | None:
        """What was launched for the token before, by this process or another, if it stays."""
        with self._lock:
            known = self._given.get(token)
        if known is None:
            found = self._instances.by_token(token)
            known = found.id if found is not None else None
        instance = None if known is None else self._sight.instance(known)
        return named(instance) if instance is not None and instance.state in STAYING_STATES else None

    def _launch(self, request: LaunchRequest, cluster: ClusterFacts) -> CloudInstance:
        for tier in tiers(request.offerings, lambda name: is_exotic(request.instance_types[name])):
            instance = self._launch_tier(request, tier, cluster)
            if instance is not None:
                self._advise(request, instance)
                return instance
        raise InsufficientCapacityError(self._refusal(request))

    def _launch_tier(
        self, request: LaunchRequest, tier: Sequence[PricedOffering], cluster: ClusterFacts
    ) -> CloudInstance | None:
        """Attempts until an instance is there (returned), or none of the tier's offerings is left (None)."""
        for number in range(MAX_ATTEMPTS):
            sent = self._sendable(request, tier, self._price_tolerance * 2**number)
            if not sent:
                return None
            attempt = self._attempt(request, sent, cluster)
            if attempt.fresh:
                self._mask(sent, attempt.errors)
            if attempt.instance is not None:
                instance = named(attempt.instance)
                self._unavailable.clear(instance.capacity_type, instance.instance_type, instance.zone)
                if self._balance is not None and attempt.fresh:
                    self._balance.launched(request.provisioner.name, instance.zone)
                return instance
            if attempt.fresh:
                _raise_unless_capacity(request, attempt.errors)
        return None

    def _sendable(
        self, request: LaunchRequest, tier: Sequence[PricedOffering], tolerance: float
    ) -> list[PricedOffering]:
        """What of a tier is not out of capacity, has a subnet, costs no share more than the cheapest such, and balances
        the zones if that is wanted."""
        _, masked = self._unavailable.active()
        zones = self._subnets.zones(request.template)
        left = [o for o in tier if (o.capacity_type, o.instance_type, o.zone) not in masked and o.zone in zones]
        if not left:
            return []
        sent = within_spread(left, tolerance, self._spot_offerings)
        return sent if self._balance is None else self._balance.fewest(request.provisioner.name, sent)

    def _attempt(self, request: LaunchRequest, offerings: Sequence[PricedOffering], cluster: ClusterFacts) -> _Attempt:
        number = self._next_attempt(request.token)
        tags = self._parameters.launch_tags(request)
        overrides, reservation = self._overrides(request, offerings, cluster)
        used: set[str] = set()
        try:
            answer = self._send(request, overrides, tags, number)
            attempt = self._judge(request, number, answer)
            if attempt.instance is not None:
                used = {o.subnet_id for o in overrides if o.offering.zone == attempt.instance.zone}
            return attempt
        except InsufficientCapacityError as error:
            return _Attempt(errors=(FleetError(error.code, str(error)),))
        except CloudError as error:
            if error.code not in TOKEN_MISMATCH_CODES:
                raise
            return self._sent_before(request, number)
        finally:
            self._subnets.release(reservation, used)

    def _overrides(
        self, request: LaunchRequest, offerings: Sequence[PricedOffering], cluster: ClusterFacts
    ) -> tuple[list[FleetOverride], Reservation]:
        """Each offering with its subnet and launch template. Raises NodeTemplateError when that leaves none."""
        types = [request.instance_types[name] for name in sorted({o.instance_type for o in offerings})]
        templates = self._parameters.launch_templates(request, offerings[0].capacity_type, types, cluster)
        addresses: dict[str, int] = {}
        for offering in offerings:
            pods = request.instance_types[offering.instance_type].capacity.get("pods", 1)
            addresses[offering.zone] = min(pods, addresses.get(offering.zone, pods))
        subnets, reservation = self._subnets.reserve(request.template, addresses)
        overrides = [
            FleetOverride(offering, subnets[offering.zone].id, templates[offering.instance_type])
            for offering in offerings
            if offering.zone in subnets and offering.instance_type in templates
        ]
        if not overrides:
            self._subnets.release(reservation)
            raise NodeTemplateError(
                f"AWSNodeTemplate {request.template.name}: no subnet in zones {', '.join(sorted(addresses))}; "
                "spec.subnetSelector has changed since the plan was made, or its cache is stale; the next plan sees it"
            )
        return overrides, reservation

    def _send(
        self, request: LaunchRequest, overrides: Sequence[FleetOverride], tags: Mapping[str, str], number: int
    ) -> FleetAnswer:
        """CreateFleet, in one call with whoever asks for the same, unless the launch is on record by its token."""
        sent = FleetRequest(
            subject=f"Provisioner {request.provisioner.name}",
            capacity_type=overrides[0].offering.capacity_type,
            overrides=tuple(overrides),
            tags=FrozenMap(tags),
            context=request.template.context,
        )
        ask = Ask(request.token, client_token(request.token, number))
        return self._merger.launch_alone(sent, ask) if request.on_record else self._merger.launch(sent, ask)

    def _create(self, request: FleetRequest, launch_token: str, token: str, instances: int) -> FleetAnswer:
        """One call; a launch template that somebody deleted is made again, once."""
        document = request.document(launch_token, token, instances)
        try:
            return create_fleet(self._ec2, document, request.subject)
        except CloudError as error:
            names = {override.launch_template for override in request.overrides}
            if error.code not in TEMPLATE_NOT_FOUND_CODES or not self._parameters.restore(names):
                raise
        return create_fleet(self._ec2, document, request.subject)

    def _judge(self, request: LaunchRequest, number: int, answer: FleetAnswer) -> _Attempt:
        """Whether the answer is an instance that lives, a failure of now, or an old story."""
        if not answer.instance_ids:
            self._finish(request.token, number)
            reasons = answer.errors or (() if answer.given else (NO_REASON,))
            return _Attempt(errors=reasons, fresh=self._fresh(answer))
        with self._lock:
            self._given[request.token] = answer.instance_ids[0]
        instance = self._sight.instance(answer.instance_ids[0])
        if instance is not None and instance.state in STAYING_STATES:
            return _Attempt(instance=instance, errors=answer.errors, fresh=self._launched_now(instance))
        if instance is None and self._fresh(answer, forgotten=False):
            raise CloudError(
                f"Instance {answer.instance_ids[0]} was launched for Provisioner {request.provisioner.name}, but EC2 "
                f"does not show it after {SEEN_DEADLINE_SECONDS:.0f} s; the same launch is looked at again"
            )
        self._finish(request.token, number)
        return _Attempt(fresh=False)

    def _sent_before(self, request: LaunchRequest, number: int) -> _Attempt:
        """An earlier process used this attempt's token for other offerings: what it launched, if anything, is ours."""
        found = self._sight.of_token(request.token)
        if found is None:
            self._finish(request.token, number)
        return _Attempt(instance=found, fresh=False)

    def _fresh(self, answer: FleetAnswer, *, forgotten: bool = True) -> bool:
        """Whether the answer is to this very request; one whose age is not known counts as such.

        `forgotten` is what a fleet counts as that EC2 does not know: new (or not yet known), or long gone.
        """
        if not answer.fleet_id:
            return True
        try:
            created = fleet_created(self._ec2, answer.fleet_id)
        except CloudError as error:
            if error.code in FLEET_NOT_FOUND_CODES:
                return forgotten
            self._log.debug("Age of a fleet is not known", fleet=answer.fleet_id, error=str(error))
            return True
        return created is None or self._clock.now() - created <= FRESH_SECONDS

    def _launched_now(self, instance: CloudInstance) -> bool:
        return self._clock.now() - instance.launched_at <= FRESH_SECONDS

    def _mask(self, offerings: Sequence[PricedOffering], errors: Sequence[FleetError]) -> None:
        """Offerings that EC2 has none of are left out from now on; an error that names none speaks of all.

        One launch at a time, so that of many that learn the same one says it.
        """
        with self._mask_lock:
            self._mask_in_turn(offerings, errors)

    def _mask_in_turn(self, offerings: Sequence[PricedOffering], errors: Sequence[FleetError]) -> None:
        _, before = self._unavailable.active()
        masked: dict[str, str] = {}
        for error in errors:
            if error.code == NO_ADDRESSES and error.subnet_id:
                if self._subnets.exhaust(error.subnet_id):
                    self._log.warning("Subnet has no free addresses", subnet=error.subnet_id)
            elif error.capacity:
                for offering in filter(error.speaks_of, offerings):
                    key = (offering.capacity_type, offering.instance_type, offering.zone)
                    self._unavailable.mark(*key, error.code)
                    if key not in before:
                        masked["/".join(key)] = error.code
        if masked:
            self._log.info("Offerings have no capacity", offerings=masked)

    def _advise(self, request: LaunchRequest, instance: CloudInstance) -> None:
        """Say it, once, when on-demand was bought for want of choice among spot types."""
        spot_types = {o.instance_type for o in request.offerings if o.capacity_type == SPOT}
        narrow = (request.provisioner.name, frozenset(spot_types))
        if instance.capacity_type != SPOT and 0 < len(spot_types) < FLEXIBLE_TYPES and narrow not in self._advised:
            self._advised[narrow] = True
            self._log.warning(
                "On-demand was launched although spot is allowed; with more instance types spot is had more often",
                provisioner=request.provisioner.name,
                instance=instance.id,
                spot_types=sorted(spot_types),
                recommended=FLEXIBLE_TYPES,
            )

    def _next_attempt(self, token: str) -> int:
        with self._lock:
            return self._done_attempts.get(token, -1) + 1

    def _finish(self, token: str, number: int) -> None:
        """Never send this attempt's token again."""
        with self._lock:
            self._given.pop(token, None)
            self._done_attempts[token] = max(number, self._done_attempts.get(token, -1))

    def _refusal(self, request: LaunchRequest) -> str:
        reasons = {
            self._unavailable.reason((o.capacity_type, o.instance_type, o.zone)) or "not tried to the end"
            for o in request.offerings
        }
        return (
            f"Provisioner {request.provisioner.name}: none of {len(request.offerings)} offerings has capacity "
            f"({', '.join(sorted(reasons))}); allow more instance types, zones or capacity types"
        )


def _raise_unless_capacity(request: LaunchRequest, errors: Sequence[FleetError]) -> None:
    """Raise the first error that is not about capacity, if there is one: other offerings would meet it too."""
    for error in errors:
        if not error.capacity:
            subject = f"ec2:CreateFleet for Provisioner {request.provisioner.name}"
            raise by_code(
                error.code,
                f"{subject}: {error.code}: {error.message}",
                "ec2:CreateFleet, ec2:RunInstances and iam:PassRole",
            )
