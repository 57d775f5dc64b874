"""Launches of one moment that ask for the same are one CreateFleet call, each with an instance of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from controller.aws.launch.create_fleet import FleetAnswer, FleetError
from controller.aws.launch.fleet_merging import deal
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.cloud import CloudInstance, LaunchRequest
from controller.errors import CloudError, CloudThrottledError, InsufficientCapacityError
from controller.runtime.clock import SystemClock
from sandbox.aws.faults import Fault, Shortage
from tests.aws.conftest import Cloud, Types, let_threads_meet, merger, request

NONE_LEFT = FleetError("InsufficientInstanceCapacity", "none", "m5.large", "a")


class Together(SystemClock):
    """Batches stay open until so many launches are in them: no timing decides the test. Other waits take no time."""

    def __init__(self, provider: AWSProvider, launches: int) -> None:
        self._merger = merger(provider)
        self._left = launches

    def wait(self, event: threading.Event, seconds: float) -> bool:
        deadline = time.monotonic() + 10
        while self._waiting() < self._left and not event.is_set() and time.monotonic() < deadline:
            event.wait(0.002)
        self._left = 0
        return event.is_set()

    def _waiting(self) -> int:
        with self._merger._lock:
            batches = [batcher._open for batcher in self._merger._open.values()]
        return sum(len(batch.items) for batch in batches if batch is not None)


def launch_all(provider: AWSProvider, requests: list[LaunchRequest]) -> list[CloudInstance | CloudError]:
    """All at once; instances or errors in order."""
    merging = merger(provider)
    new = len([wanted for wanted in requests if wanted.token not in {ask.launch_token for ask in merging._lost}])
    merging._clock = Together(provider, new)
    merging._open.clear()
    let_threads_meet(provider)

    def call(wanted: LaunchRequest) -> CloudInstance | CloudError:
        try:
            return provider.create(wanted)
        except CloudError as error:
            return error

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(call, requests))


def ids(answers: list[CloudInstance | CloudError]) -> list[str]:
    assert all(isinstance(answer, CloudInstance) for answer in answers), answers
    return [answer.id for answer in answers if isinstance(answer, CloudInstance)]


@pytest.fixture
def same(types: Types) -> Callable[[int], list[LaunchRequest]]:
    """So many launches of the same, each for its own pods."""
    return lambda count: [request(types, names=("m5.large", "c5.large")) for _ in range(count)]


def test_launches_that_ask_for_the_same_are_one_call_and_each_gets_an_instance_of_its_own(
    cloud: Cloud, provider: AWSProvider, same: Callable[[int], list[LaunchRequest]]
) -> None:
    made = ids(launch_all(provider, same(5)))
    assert len(set(made)) == 5
    assert sorted(made) == sorted(i["instanceId"] for i in cloud.alive())
    (call,) = cloud.aws.calls.calls("CreateFleet")
    assert call.params["TargetCapacitySpecification"]["TotalTargetCapacity"] == 5


def test_launches_that_ask_for_something_else_are_calls_of_their_own(
    cloud: Cloud, provider: AWSProvider, types: Types
) -> None:
    names = (("m5.large",), ("c5.large",))
    ids(launch_all(provider, [request(types, names=names[index % 2]) for index in range(4)]))
    calls = cloud.aws.calls.calls("CreateFleet")
    assert [call.params["TargetCapacitySpecification"]["TotalTargetCapacity"] for call in calls] == [2, 2]


def test_who_asks_again_gets_what_it_was_dealt_and_nothing_is_launched_twice(
    cloud: Cloud, provider: AWSProvider, same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests = same(3)
    first = ids(launch_all(provider, requests))
    assert ids(launch_all(provider, requests)) == first
    assert len(cloud.alive()) == 3
    assert cloud.calls("CreateFleet") == 1


def test_a_launch_that_is_on_record_by_its_token_has_a_call_of_its_own_and_the_token_as_a_tag(
    cloud: Cloud, provider: AWSProvider, same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests = [replace(wanted, on_record=True) for wanted in same(2)]
    let_threads_meet(provider)
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(provider.create, requests))
    assert cloud.calls("CreateFleet") == 2
    assert [item.tags["karpenter.sh/launch-token"] for item in made] == [wanted.token for wanted in requests]


def test_what_a_fleet_lacks_is_asked_for_again_elsewhere_by_those_that_got_none(
    cloud: Cloud, provider: AWSProvider, types: Types
) -> None:
    cloud.aws.faults.add_shortage(Shortage(instanceType="m5.large", capacityType="spot", capacity=0))
    cloud.aws.faults.add_shortage(Shortage(instanceType="c5.large", capacityType="spot", capacity=2))
    names, kinds = ("m5.large", "c5.large"), (keys.SPOT, keys.ON_DEMAND)
    answers = launch_all(provider, [request(types, names=names, capacity_types=kinds) for _ in range(5)])
    assert len(set(ids(answers))) == 5
    said = [entry["offerings"] for entry in cloud.logs.entries if entry["event"] == "Offerings have no capacity"]
    told = [offering for offerings in said for offering in offerings]
    assert len(told) == len(set(told)), "each offering once, however many launches met it"


def test_a_merged_call_whose_answer_was_lost_is_repeated_as_it_was_and_launches_once(
    cloud: Cloud, provider: AWSProvider, same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests = same(3)
    cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="InternalError", after=True, times=4))
    failed = launch_all(provider, requests)
    assert [getattr(answer, "code", "") for answer in failed] == ["InternalError"] * 3
    assert len(cloud.alive()) == 3, "EC2 had done it"
    # The next plan has fewer of them, and company of its own: another call would be another fleet.
    again = ids(launch_all(provider, [*requests[:2], *same(2)]))
    assert set(again[:2]) < {i["instanceId"] for i in cloud.alive()}
    assert len(set(again)) == 4
    assert len(cloud.alive()) == 5


def test_throttled_launches_are_asked_for_again_together(
    cloud: Cloud, provider: AWSProvider, same: Callable[[int], list[LaunchRequest]]
) -> None:
    requests = same(3)
    cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="RequestLimitExceeded", times=4))
    assert {type(answer) for answer in launch_all(provider, requests)} == {CloudThrottledError}
    cloud.aws.calls.clear()
    ids(launch_all(provider, requests))
    assert cloud.calls("CreateFleet") == 1


def test_without_any_capacity_each_launch_is_told_so(
    cloud: Cloud, provider: AWSProvider, same: Callable[[int], list[LaunchRequest]]
) -> None:
    cloud.aws.faults.add_shortage(Shortage())
    answers = launch_all(provider, same(3))
    assert {type(answer) for answer in answers} == {InsufficientCapacityError}
    assert len({id(answer) for answer in answers}) == 3


@pytest.mark.parametrize(("given", "hands"), [(5, [1, 1, 1]), (3, [1, 1, 1]), (1, [1, 0, 0]), (0, [0, 0, 0])])
def test_instances_are_dealt_one_each_and_every_caller_hears_every_error(given: int, hands: list[int]) -> None:
    answer = FleetAnswer("fleet-1", tuple(f"i-{index}" for index in range(given)), (NONE_LEFT,))
    dealt = deal(answer, 3)
    assert [len(one.instance_ids) for one in dealt] == hands
    assert len({one for hand in dealt for one in hand.instance_ids}) == sum(hands)
    assert {one.errors for one in dealt} == {(NONE_LEFT,)}
    assert {one.given for one in dealt} == {given}
