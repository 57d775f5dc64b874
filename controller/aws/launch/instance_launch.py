"""Launch one instance for a LaunchRequest: idempotent, and tried again with other offerings when capacity is short.

EC2 answers a repeated client token with the outcome of the first call, without a time limit. So a launch is a sequence
of attempts, each with its own token, the same sequence in every process: an attempt whose instance is gone, or whose
answer is a failure, is finished, and the next one follows. A process that dies after CreateFleet leaves an instance
that carries the launch token as a tag; its successor finds it by the tag, or by the same answer to the same attempt,
and launches no second one. Equal launches at the same time are one call (controller.aws.launch.fleet_merging).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog
from cachetools import LRUCache

from controller.aws.api.aws_errors import TOKEN_MISMATCH_CODES, by_code
from controller.aws.api.cluster_facts import ClusterFacts
from controller.aws.launch.create_fleet import FleetAnswer, FleetError
from controller.aws.launch.fleet_calls import FRESH_SECONDS, FleetCalls
from controller.aws.launch.instances import STAYING_STATES, Instances
from controller.aws.launch.offering_choice import OfferingChoice, is_exotic, tiers
from controller.aws.launch.visibility import VISIBLE_DEADLINE_SECONDS, named, wait_until_visible
from controller.core.api.labels import SPOT
from controller.core.cloud import CloudInstance, LaunchRequest, PricedOffering
from controller.errors import CloudError, InsufficientCapacityError
from controller.runtime.clock import Clock

MAX_ATTEMPTS = 8
"""In one call of `launch`; the next call continues with the attempt after them."""

FLEXIBLE_TYPES = 5
"""Fewer types than this are a narrow choice for spot (Karpenter v0.27's threshold for its warning)."""

REMEMBERED_LAUNCHES = 10_000
NO_REASON = FleetError("UnfulfillableCapacity", "the fleet gave neither an instance nor a reason")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The outcome of one CreateFleet."""

    instance: CloudInstance | None = None
    errors: tuple[FleetError, ...] = ()
    new: bool = True
    """This call produced the outcome; otherwise EC2 repeated an earlier one, and the next attempt is due."""


class InstanceLauncher:
    """Launches instances. Safe for many threads."""

    def __init__(
        self,
        instances: Instances,
        choice: OfferingChoice,
        fleets: FleetCalls,
        clock: Clock,
        logger: structlog.typing.FilteringBoundLogger,
        stop: threading.Event,
    ) -> None:
        self._instances = instances
        self._choice = choice
        self._fleets = fleets
        self._clock = clock
        self._log = logger
        self._stop = stop
        self._lock = threading.Lock()
        self._token_locks: LRUCache[str, threading.Lock] = LRUCache(REMEMBERED_LAUNCHES)
        self._finished: LRUCache[str, int] = LRUCache(REMEMBERED_LAUNCHES)
        """Launch token → number of its last attempt that is not sent again."""
        self._launched: LRUCache[str, str] = LRUCache(REMEMBERED_LAUNCHES)
        """Launch token → instance id, of this process: an instance of a merged call has no tag to be found by."""
        self._advised: LRUCache[tuple[str, int], bool] = LRUCache(REMEMBERED_LAUNCHES)

    def launch(self, request: LaunchRequest, cluster: ClusterFacts) -> CloudInstance:
        """Return the instance of the request's token. Raises as CloudProvider.create."""
        with self._lock:
            token_lock = self._token_locks.setdefault(request.token, threading.Lock())
        with token_lock:
            return self._launched_before(request.token) or self._launch(request, cluster)

    def _launched_before(self, token: str) -> CloudInstance | None:
        """Return the instance launched for the token by any process; None without one, or if it terminates."""
        with self._lock:
            instance_id = self._launched.get(token)
        if instance_id is None:
            tagged = self._instances.by_token(token)
            if tagged is None:
                return None
            instance_id = tagged.id
        instance = self._visible(instance_id)
        return named(instance) if instance is not None and instance.state in STAYING_STATES else None

    def _visible(self, instance_id: str) -> CloudInstance | None:
        return wait_until_visible(partial(self._instances.find, instance_id), self._clock, self._stop)

    def _launch(self, request: LaunchRequest, cluster: ClusterFacts) -> CloudInstance:
        for tier in tiers(request.offerings, lambda name: is_exotic(request.instance_types[name])):
            instance = self._launch_tier(request, tier, cluster)
            if instance is not None:
                self._advise(request, instance)
                return instance
        raise InsufficientCapacityError(self._choice.refusal(request))

    def _launch_tier(
        self, request: LaunchRequest, tier: Sequence[PricedOffering], cluster: ClusterFacts
    ) -> CloudInstance | None:
        """Send attempts until one yields an instance; None when the tier has no offering left to ask for."""
        for failed_attempts in range(MAX_ATTEMPTS):
            offerings = self._choice.sendable(request, tier, failed_attempts)
            if not offerings:
                return None
            attempt = self._attempt(request, offerings, cluster)
            if attempt.new:
                self._choice.mask(offerings, attempt.errors)
            if attempt.instance is not None:
                instance = named(attempt.instance)
                self._choice.launched(request, instance, new=attempt.new)
                return instance
            if attempt.new:
                _raise_unless_capacity(request, attempt.errors)
        return None

    def _attempt(self, request: LaunchRequest, offerings: Sequence[PricedOffering], cluster: ClusterFacts) -> _Attempt:
        with self._lock:
            number = self._finished.get(request.token, -1) + 1
        fleet = self._fleets.prepare(request, offerings, cluster)
        zone = ""
        try:
            attempt = self._judge(request, number, self._fleets.send(request, fleet, number))
            zone = attempt.instance.zone if attempt.instance is not None else ""
            return attempt
        except InsufficientCapacityError as error:
            return _Attempt(errors=(FleetError(error.code, str(error)),))
        except CloudError as error:
            if error.code not in TOKEN_MISMATCH_CODES:
                raise
            return self._sent_before(request, number)
        finally:
            self._fleets.release(fleet, zone)

    def _judge(self, request: LaunchRequest, number: int, answer: FleetAnswer) -> _Attempt:
        """Classify an answer: a live instance, a new failure, or the repeated outcome of an earlier attempt."""
        if not answer.instance_ids:
            self._finish(request.token, number)
            reasons = answer.errors or (() if answer.given else (NO_REASON,))
            return _Attempt(errors=reasons, new=self._fleets.is_new(answer))
        instance_id = answer.instance_ids[0]
        with self._lock:
            self._launched[request.token] = instance_id
        instance = self._visible(instance_id)
        if instance is not None and instance.state in STAYING_STATES:
            new = self._clock.now() - instance.launched_at <= FRESH_SECONDS
            return _Attempt(instance=instance, errors=answer.errors, new=new)
        if instance is None and self._fleets.is_new(answer, unknown=False):
            raise CloudError(
                f"Instance {instance_id} was launched for Provisioner {request.provisioner.name}, but EC2 does not "
                f"show it after {VISIBLE_DEADLINE_SECONDS:.0f} s; the same launch is looked at again"
            )
        self._finish(request.token, number)
        return _Attempt(new=False)

    def _sent_before(self, request: LaunchRequest, number: int) -> _Attempt:
        """Take what an earlier process launched, if anything, by this attempt's token with other offerings."""
        by_token = partial(self._instances.by_token, request.token)
        instance = wait_until_visible(by_token, self._clock, self._stop)
        if instance is None:
            self._finish(request.token, number)
        return _Attempt(instance=instance, new=False)

    def _finish(self, token: str, number: int) -> None:
        """Never send this attempt's token again."""
        with self._lock:
            self._launched.pop(token, None)
            self._finished[token] = max(number, self._finished.get(token, -1))

    def _advise(self, request: LaunchRequest, instance: CloudInstance) -> None:
        """Warn once per generation of a Provisioner when on-demand was launched and few spot types were allowed."""
        spot_types = {o.instance_type for o in request.offerings if o.capacity_type == SPOT}
        narrow = (request.provisioner.name, request.provisioner.generation)
        if instance.capacity_type != SPOT and 0 < len(spot_types) < FLEXIBLE_TYPES and narrow not in self._advised:
            self._advised[narrow] = True
            self._log.warning(
                "On-demand instance launched although spot is allowed; more instance types make spot likelier",
                provisioner=request.provisioner.name,
                instance=instance.id,
                spot_types=sorted(spot_types),
                recommended=FLEXIBLE_TYPES,
            )


def _raise_unless_capacity(request: LaunchRequest, errors: Sequence[FleetError]) -> None:
    """Raise the first error that is not about capacity, if any: other offerings would fail with it too."""
    for error in errors:
        if not error.capacity:
            subject = f"ec2:CreateFleet for Provisioner {request.provisioner.name}"
            raise by_code(
                error.code,
                f"{subject}: {error.code}: {error.message}",
                "ec2:CreateFleet, ec2:RunInstances and iam:PassRole",
            )
