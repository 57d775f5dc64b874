"""Launches of one moment that ask for the same are one CreateFleet call, each with an instance of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from controller.aws.api.batcher import Window
from controller.aws.launch.create_fleet import FleetAnswer, FleetError
from controller.aws.launch.fleet_merging import deal
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.cloud import CloudInstance, LaunchRequest
from controller.errors import CloudError, CloudThrottledError, InsufficientCapacityError
from sandbox.aws.faults import Fault, Shortage
from tests.aws.conftest import Cloud, Types, request
from tests.manual_clock import ManualClock

GATHER_SECONDS = 1000.0
"""On the sandbox's clock: far above every other wait of a launch."""
NONE_LEFT = FleetError("InsufficientInstanceCapacity", "none", "m5.large", "a")


class GatheringClock:
    """The sandbox's clock; but as many batches as `patient` says wait in real time until they are full.

    So no timing decides which launches come together. Later batches, which may never be full, close after a moment.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.now, self.monotonic = clock.now, clock.monotonic
        self.patient = 0

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if seconds < GATHER_SECONDS / 2:
            return self._clock.wait(event, seconds)
        self.patient -= 1
        return event.wait(10.0 if self.patient >= 0 else 0.3)


class Launches:
    """A provider that gathers `size` equal launches into each CreateFleet call."""

    def __init__(self, cloud: Cloud, loaded: AWSProvider, size: int) -> None:
        self._clock = GatheringClock(cloud.clock)
        window = Window(GATHER_SECONDS, GATHER_SECONDS, size)
        self._provider = cloud.restarted(loaded, clock=self._clock, fleet_window=window)

    def all(self, requests: list[LaunchRequest], *, calls: int = 1) -> list[CloudInstance | CloudError]:
        """Launch all at once, first in so many calls; instances or errors in order."""
        self._clock.patient = calls
        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(self._launch, requests))

    def _launch(self, wanted: LaunchRequest) -> CloudInstance | CloudError:
        try:
            return self._provider.create(wanted)
        except CloudError as error:
            return error


@pytest.fixture
def gathered(cloud: Cloud, loaded: AWSProvider) -> Callable[[int], Launches]:
    return lambda size: Launches(cloud, loaded, size)


def ids(answers: list[CloudInstance | CloudError]) -> list[str]:
    assert all(isinstance(answer, CloudInstance) for answer in answers), answers
    return [answer.id for answer in answers if isinstance(answer, CloudInstance)]


@pytest.fixture
def same(types: Types) -> Callable[[int], list[LaunchRequest]]:
    """So many launches of the same, each for its own pods."""
    return lambda count: [request(types, names=("m5.large", "c5.large")) for _ in range(count)]


def test_launches_that_ask_for_the_same_are_one_call_and_each_gets_an_instance_of_its_own(
    cloud: Cloud, gathered: Callable[[int], Launches], same: Callable[[int], list[LaunchRequest]]
) -> None:
    made = ids(gathered(5).all(same(5)))
    assert len(set(made)) == 5
    assert sorted(made) == sorted(i["instanceId"] for i in cloud.alive())
    (call,) = cloud.aws.calls.calls("CreateFleet")
    assert call.params["TargetCapacitySpecification"]["TotalTargetCapacity"] == 5


def test_launches_that_ask_for_something_else_are_calls_of_their_own(
    cloud: Cloud, gathered: Callable[[int], Launches], types: Types
) -> None:
    names = (("m5.large",), ("c5.large",))
    ids(gathered(2).all([request(types, names=names[index % 2]) for index in range(4)], calls=2))
    calls = cloud.aws.calls.calls("CreateFleet")
    assert [call.params["TargetCapacitySpecification"]["TotalTargetCapacity"] for call in calls] == [2, 2]


def test_who_asks_again_gets_what_it_was_dealt_and_nothing_is_launched_twice(
    cloud: Cloud, gathered: Callable[[int], Launches], same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests, launches = same(3), gathered(3)
    first = ids(launches.all(requests))
    assert ids(launches.all(requests)) == first
    assert len(cloud.alive()) == 3
    assert cloud.calls("CreateFleet") == 1


def test_a_launch_that_is_on_record_by_its_token_has_a_call_of_its_own_and_the_token_as_a_tag(
    cloud: Cloud, gathered: Callable[[int], Launches], same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests = [replace(wanted, on_record=True) for wanted in same(2)]
    made = gathered(2).all(requests)
    assert cloud.calls("CreateFleet") == 2
    tokens = [item.tags["karpenter.sh/launch-token"] for item in made if isinstance(item, CloudInstance)]
    assert tokens == [wanted.token for wanted in requests]


def test_what_a_fleet_lacks_is_asked_for_again_elsewhere_by_those_that_got_none(
    cloud: Cloud, gathered: Callable[[int], Launches], types: Types
) -> None:
    cloud.aws.faults.add_shortage(Shortage(instanceType="m5.large", capacityType="spot", capacity=0))
    cloud.aws.faults.add_shortage(Shortage(instanceType="c5.large", capacityType="spot", capacity=2))
    names, kinds = ("m5.large", "c5.large"), (keys.SPOT, keys.ON_DEMAND)
    answers = gathered(5).all([request(types, names=names, capacity_types=kinds) for _ in range(5)])
    assert len(set(ids(answers))) == 5
    said = [entry["offerings"] for entry in cloud.logs.entries if entry["event"] == "Offerings have no capacity"]
    told = [offering for offerings in said for offering in offerings]
    assert len(told) == len(set(told)), "each offering once, however many launches met it"


def test_a_merged_call_whose_answer_was_lost_is_repeated_as_it_was_and_launches_once(
    cloud: Cloud, gathered: Callable[[int], Launches], same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests, launches = same(3), gathered(3)
    cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="InternalError", after=True, times=4))
    failed = launches.all(requests)
    assert [getattr(answer, "code", "") for answer in failed] == ["InternalError"] * 3
    assert len(cloud.alive()) == 3, "EC2 had done it"
    # The next plan has fewer of them, and company of its own: another call would be another fleet.
    again = ids(launches.all([*requests[:2], *same(3)]))
    assert set(again[:2]) < {i["instanceId"] for i in cloud.alive()}
    assert len(set(again)) == 5
    assert len(cloud.alive()) == 6


def test_throttled_launches_are_asked_for_again_together(
    cloud: Cloud, gathered: Callable[[int], Launches], same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests, launches = same(3), gathered(3)
    cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="RequestLimitExceeded", times=4))
    assert {type(answer) for answer in launches.all(requests)} == {CloudThrottledError}
    cloud.aws.calls.clear()
    ids(launches.all(requests))
    assert cloud.calls("CreateFleet") == 1


def test_without_any_capacity_each_launch_is_told_so(
    cloud: Cloud, gathered: Callable[[int], Launches], same: Callable[[int], list[LaunchRequest]]
) -> None:
    cloud.aws.faults.add_shortage(Shortage())
    answers = gathered(3).all(same(3))
    assert {type(answer) for answer in answers} == {InsufficientCapacityError}
    assert len({id(answer) for answer in answers}) == 3
    assert cloud.calls("DescribeFleets") <= cloud.calls("CreateFleet"), "the age of a fleet is asked for once"


@pytest.mark.parametrize(("given", "hands"), [(5, [1, 1, 1]), (3, [1, 1, 1]), (1, [1, 0, 0]), (0, [0, 0, 0])])
def test_instances_are_dealt_one_each_and_every_caller_hears_every_error(given: int, hands: list[int]) -> None:
    answer = FleetAnswer("fleet-1", tuple(f"i-{index}" for index in range(given)), (NONE_LEFT,))
    dealt = deal(answer, 3)
    assert [len(one.instance_ids) for one in dealt] == hands
    assert len({one for hand in dealt for one in hand.instance_ids}) == sum(hands)
    assert {one.errors for one in dealt} == {(NONE_LEFT,)}
    assert {one.given for one in dealt} == {given}
