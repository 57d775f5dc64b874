"""Zonal shifts: which zones are being left, by what ARC answers, and what follows for launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.aws.provider import AWSProvider
from controller.cli.check.check_aws import AwsCheck
from controller.cli.check.findings import Level
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.state.snapshot import Snapshot
from controller.errors import InsufficientCapacityError
from sandbox.aws.faults import Fault
from tests.aws.conftest import SETTINGS, Cloud, available, make_due, provisioner, request, template

A, B = "ap-northeast-2a", "ap-northeast-2b"
ZONES = {"ap-northeast-2a", "ap-northeast-2b", "ap-northeast-2c", "ap-northeast-2d"}


class Shifted:
    """The sandbox's cluster as ARC knows it."""

    def __init__(self, cloud: Cloud, provider: AWSProvider) -> None:
        self.cloud, self.provider = cloud, provider
        self.arn = provider.identity().cluster_arn
        self.resources = cloud.aws.world.zonal_shifts.resources
        subnets = cloud.aws.client("ec2").describe_subnets()["Subnets"]
        self.ids = {each["AvailabilityZone"]: each["AvailabilityZoneId"] for each in subnets}

    def shift(self, zone: str, seconds: float = 600.0, **fields: Any) -> dict[str, Any]:
        """A shift by hand, as ARC describes it."""
        until = datetime.fromtimestamp(self.cloud.clock.now() + seconds, UTC)
        return {"awayFrom": self.ids[zone], "appliedStatus": "APPLIED", "expiryTime": until} | fields

    def left(self) -> set[str]:
        """Zones that are being left, once the next read was due."""
        make_due(self.provider, "zonal shifts")
        self.provider.refresh()
        return set(self.provider.zones_left())


@pytest.fixture
def shifted(cloud: Cloud, provider: AWSProvider) -> Iterator[Shifted]:
    made = Shifted(cloud, provider)
    yield made
    made.resources.clear()


def test_a_shift_that_is_applied_leaves_its_zone_until_it_expires_and_an_autoshift_until_aws_ends_it(
    shifted: Shifted,
) -> None:
    assert shifted.left() == set(), "not registered"
    assert shifted.cloud.events("warning") == []
    waiting = shifted.shift(B, appliedStatus="NOT_APPLIED")
    shifted.resources[shifted.arn] = {"zonalShifts": [shifted.shift(A), waiting]}
    assert shifted.left() == {A}
    shifted.cloud.clock.advance(601)
    assert set(shifted.provider.zones_left()) == set(), "expired, with or without an answer"
    autoshift = {"awayFrom": shifted.ids[B], "appliedStatus": "APPLIED", "startTime": datetime.now(UTC)}
    shifted.resources[shifted.arn] = {"autoshifts": [autoshift]}
    assert shifted.left() == {B}
    shifted.cloud.clock.advance(7200)
    assert shifted.left() == {B}
    shifted.resources[shifted.arn] = {}
    assert shifted.left() == set()


def test_its_zone_sells_nothing_at_once_and_launches_go_elsewhere_until_it_is_over(shifted: Shifted) -> None:
    provider = shifted.provider
    shifted.resources[shifted.arn] = {"zonalShifts": [shifted.shift(A)]}
    before = provider.instance_types(provisioner(), template())
    assert shifted.left() == {A}
    assert available(provider, "m5.large", keys.ON_DEMAND) == {zone: zone != A for zone in ZONES}
    launched = provider.create(request(before, names=["m5.large"], capacity_types=[keys.ON_DEMAND], zones=[A, B]))
    assert launched.zone == B, "a plan that was made before"
    with pytest.raises(InsufficientCapacityError):
        provider.create(request(before, names=["m5.large"], capacity_types=[keys.ON_DEMAND], zones=[A]))
    closed = provider.template_status(template()).closed_subnets
    assert {zone for subnet, zone in provider.template_status(template()).subnets or () if subnet in closed} == {A}
    shifted.cloud.clock.advance(601)
    assert all(available(provider, "m5.large", keys.ON_DEMAND).values())


def test_a_template_whose_only_zone_is_being_left_says_what_it_waits_for(shifted: Shifted) -> None:
    subnet = next(s for s, zone in shifted.provider.template_status(template()).subnets or () if zone == A)
    shifted.resources[shifted.arn] = {"zonalShifts": [shifted.shift(A)]}
    assert shifted.left() == {A}
    with pytest.raises(InsufficientCapacityError, match="the end of the zonal shift"):
        shifted.provider.instance_types(provisioner(), template(subnet_selector=FrozenMap({"aws-ids": subnet})))


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (Fault(service="arc-zonal-shift", code="AccessDeniedException"), set()),
        (Fault(service="arc-zonal-shift", code="ValidationException"), set()),
        (Fault(service="arc-zonal-shift", code="ThrottlingException"), {A}),
        (Fault(service="arc-zonal-shift", drop=True), {A}),
    ],
)
def test_a_refusal_ends_what_was_known_and_no_answer_leaves_it_and_each_is_one_warning(
    shifted: Shifted, fault: Fault, left: set[str]
) -> None:
    shifted.resources[shifted.arn] = {"zonalShifts": [shifted.shift(A)]}
    assert shifted.left() == {A}
    shifted.cloud.aws.faults.add(fault)
    calls = shifted.cloud.calls("GetManagedResource")
    for _ in range(2):
        assert shifted.left() == left
        assert shifted.provider.instance_types(provisioner(), template())
    assert shifted.cloud.calls("GetManagedResource") == calls + 2, "no retries: it is asked each minute"
    assert shifted.cloud.events("warning") == ["Zonal shifts cannot be read"]


def test_they_are_read_once_a_minute_and_not_at_all_where_the_setting_is_off(
    cloud: Cloud, shifted: Shifted, loaded: AWSProvider
) -> None:
    make_due(shifted.provider, "zonal shifts")
    for _ in range(3):
        shifted.provider.refresh()
    assert cloud.calls("GetManagedResource") == 1
    cloud.clock.advance(61)
    shifted.provider.refresh()
    assert cloud.calls("GetManagedResource") == 2
    off = cloud.restarted(loaded, replace(SETTINGS, zonal_shift=False))
    make_due(off, "zonal shifts")
    off.refresh()
    assert cloud.calls("GetManagedResource") == 2


@pytest.mark.parametrize(
    ("away", "code", "level", "said"),
    [
        (False, "", Level.OK, "none leaves a zone"),
        (True, "", Level.WARNING, "a zonal shift leaves apne2-az1"),
        (True, "AccessDeniedException", Level.WARNING, "arc-zonal-shift:GetManagedResource"),
    ],
)
def test_nodeless_check_says_which_zone_is_being_left(
    shifted: Shifted, away: bool, code: str, level: Level, said: str
) -> None:
    shifted.resources[shifted.arn] = {"zonalShifts": [shifted.shift(A)] if away else []}
    if code:
        shifted.cloud.aws.faults.add(Fault(service="arc-zonal-shift", code=code))
    check = AwsCheck(shifted.cloud.clients, shifted.provider, SETTINGS, Snapshot(node_templates={"d": template()}))
    (finding,) = check.zonal_shift()
    assert finding.level is level
    assert said in finding.text
    closed = [each for each in check.templates() if "is closed" in each.text]
    assert len(closed) == (away and not code)
