"""CreateFleet stays within the account's token buckets, of requests and of instances."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from controller.aws.api.batcher import Window
from controller.aws.launch.launch_pace import LaunchPace
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.settings import Settings
from sandbox.aws.faults import Shortage
from tests.aws.conftest import SETTINGS, Cloud, Types, request
from tests.manual_clock import ManualClock


def exceeded(taken: list[tuple[float, int]], size: int, per_second: float) -> int:
    """How many calls, as (time, tokens), a bucket that is full at first would have refused."""
    tokens, before, refused = float(size), taken[0][0], 0
    for at, count in taken:
        tokens, before = min(float(size), tokens + (at - before) * per_second), at
        if tokens + 1e-6 < count:
            refused += 1
        else:
            tokens -= count
    return refused


@pytest.mark.parametrize("instances", [1, 40, 100])
def test_no_call_exceeds_the_buckets_and_none_waits_longer_than_it_must(instances: int) -> None:
    clock = ManualClock()
    settings = Settings("c", create_fleet_bucket=(50, 5.0), launch_bucket=(100, 20.0))
    pace, taken, began = LaunchPace(settings, clock, threading.Event()), list[tuple[float, int]](), clock.monotonic()
    for _ in range(200):
        pace.admit()
        pace.take(instances)
        taken.append((clock.monotonic(), instances))
    assert exceeded([(at, 1) for at, _ in taken], 50, 5.0) == 0
    assert exceeded(taken, 100, 20.0) == 0
    least = max((200 - 50) / 5.0, (200 * instances - 100) / 20.0)
    assert clock.monotonic() - began == pytest.approx(least)


def test_merged_calls_ask_for_no_more_than_the_bucket_holds_and_no_bucket_is_no_limit() -> None:
    clock, window = ManualClock(), Window(max_items=1000)
    small = LaunchPace(Settings("c", launch_bucket=(300, 2.0)), clock, threading.Event())
    assert small.limited(window).max_items == 300
    free = LaunchPace(Settings("c", create_fleet_bucket=None), clock, threading.Event())
    assert free.limited(window) is window
    free.admit()
    free.take(10_000)
    assert not clock.waits


def test_launches_of_many_shapes_with_capacity_running_out_stay_within_the_buckets(
    cloud: Cloud, loaded: AWSProvider, types: Types
) -> None:
    """Against EC2's own record of calls: two pools give one instance each, and every launch gets one in the end."""
    for name in ("m5.large", "c5.large"):
        cloud.aws.faults.add_shortage(Shortage(instanceType=name, capacityType="spot", capacity=1))
    provider = cloud.restarted(loaded, replace(SETTINGS, create_fleet_bucket=(3, 0.5), launch_bucket=(4, 1.0)))
    names, kinds = ("m5.large", "c5.large"), (keys.SPOT, keys.ON_DEMAND)
    wanted = [request(types, names=names, capacity_types=kinds, on_record=True) for _ in range(8)]
    made = [provider.create(each) for each in wanted]
    assert len({instance.id for instance in made}) == 8
    calls = [(call.at, 1) for call in cloud.aws.calls.calls("CreateFleet")]
    assert len(calls) >= 8
    assert exceeded(calls, 3, 0.5) == 0
    assert exceeded(calls, 4, 1.0) == 0
