"""Batches: many threads' calls become one, each gets its own answer, and a failure reaches everybody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from controller.aws.api.batcher import Batcher, Window
from controller.errors import CloudError, InstanceNotFoundError
from controller.runtime.clock import SystemClock
from controller.telemetry.registry import Metrics
from tests.manual_clock import ManualClock


class PatientClock(SystemClock):
    """The first batch waits until it is full, so that no timing decides the test; later ones close at once."""

    def __init__(self) -> None:
        self._seconds = 10.0

    def wait(self, event: threading.Event, seconds: float) -> bool:
        patience, self._seconds = self._seconds, 0.0
        return event.wait(patience)


def together(items: list[str], run: Callable[[list[str]], Mapping[str, str | CloudError]]) -> list[object]:
    """Ask for every item on a thread of its own, all in one batch; results or exceptions in order."""
    window = Window(idle_seconds=10, max_seconds=60, max_items=len(set(items)))
    batcher: Batcher[str, str] = Batcher(PatientClock(), window, run)

    def call(item: str) -> object:
        try:
            return batcher.call(item)
        except CloudError as error:
            return error

    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(call, items))


def test_items_of_one_batch_are_merged_without_repeats_and_each_caller_gets_its_own_result() -> None:
    seen: list[list[str]] = []

    def run(items: list[str]) -> dict[str, str | CloudError]:
        seen.append(sorted(items))
        return {item: f"answer {item}" for item in items}

    items = ["i-0", "i-0", "i-1", "i-1", "i-2", "i-2"]
    assert together(items, run) == [f"answer {item}" for item in items]
    assert ["i-0", "i-1", "i-2"] in seen
    assert all(len(batch) == len(set(batch)) for batch in seen)


def test_a_call_that_fails_fails_for_every_caller_with_an_error_of_its_own() -> None:
    def run(_items: list[str]) -> dict[str, str | CloudError]:
        raise CloudError("ec2:DescribeInstances: InternalError", "InternalError")

    results = together(["i-0", "i-1", "i-2"], run)
    assert [str(error) for error in results] == ["ec2:DescribeInstances: InternalError"] * 3
    assert all(isinstance(error, CloudError) and error.code == "InternalError" for error in results)
    assert len({id(error) for error in results}) == 3


def test_a_full_batch_waits_for_nobody() -> None:
    clock = ManualClock()
    before = clock.now()
    window = Window(idle_seconds=0.1, max_items=1)
    metrics = Metrics()
    batcher: Batcher[str, str] = Batcher(clock, window, lambda items: {item: item for item in items}, "mine", metrics)
    assert batcher.call("a") == "a"
    assert clock.now() == before
    page = metrics.page({}).body.decode()
    for measured in ('batch_size_sum{batcher="mine"} 1.0', 'batch_time_seconds_count{batcher="mine"} 1.0'):
        assert f"karpenter_cloudprovider_batcher_{measured}" in page


def test_one_items_error_is_its_callers_alone() -> None:
    def run(items: list[str]) -> dict[str, str | CloudError]:
        return {item: InstanceNotFoundError(f"{item} is gone") if item == "bad" else item for item in items}

    batcher = Batcher(ManualClock(), Window(), run)
    assert batcher.call("good") == "good"
    with pytest.raises(InstanceNotFoundError, match="bad is gone"):
        batcher.call("bad")


def test_an_answer_without_the_item_is_an_error_and_the_next_call_starts_a_new_batch() -> None:
    answers: list[dict[str, str | CloudError]] = [{}, {"a": "answer"}]
    batcher: Batcher[str, str] = Batcher(ManualClock(), Window(), lambda _items: answers.pop(0))
    with pytest.raises(CloudError, match="No result for a"):
        batcher.call("a")
    assert batcher.call("a") == "answer"


def test_a_batch_waits_for_the_idle_time_and_no_longer() -> None:
    clock = ManualClock()
    batcher: Batcher[str, str] = Batcher(clock, Window(idle_seconds=0.1), lambda items: {item: item for item in items})
    batcher.call("a")
    assert clock.waits == [0.1]


def test_calls_join_the_batch_that_waits_to_be_admitted() -> None:
    """Two fill it, and whoever comes third leads the next: that one is admitted when the first batch is full."""
    full, joining, batches = threading.Event(), list[Future[str]](), list[list[str]]()

    def admit() -> None:
        if joining:
            full.set()
            return
        joining.extend(pool.submit(batcher.call, item) for item in ("b", "c"))
        assert full.wait(10.0)

    def run(items: list[str]) -> dict[str, str | CloudError]:
        batches.append(items)
        return dict.fromkeys(items, "answer")

    batcher: Batcher[str, str] = Batcher(ManualClock(), Window(max_items=2), run, admit=admit)
    with ThreadPoolExecutor(2) as pool:
        assert batcher.call("a") == "answer"
        assert [each.result(10.0) for each in joining] == ["answer", "answer"]
    assert sorted(map(len, batches)) == [1, 2]
    assert ["a"] not in batches
