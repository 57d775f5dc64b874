"""The batch window: 1 s idle, 10 s at most, a waiting pod counts again after 10 s (Karpenter v0.27's defaults)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.core.provisioning.batch_window import BatchTimes, BatchWindow

TIMES = BatchTimes(idle_seconds=1.0, max_seconds=10.0, retrigger_seconds=10.0)


def test_nothing_waiting_opens_no_window() -> None:
    assert BatchWindow().observe(5.0, [], TIMES).closes_at(TIMES) is None


def test_the_first_trigger_opens_a_window_that_closes_after_the_idle_time() -> None:
    assert BatchWindow().observe(5.0, ["a"], TIMES).closes_at(TIMES) == 6.0


def test_a_trigger_that_is_known_does_not_restart_the_idle_time() -> None:
    window = BatchWindow().observe(5.0, ["a"], TIMES).observe(5.9, ["a"], TIMES)
    assert window.closes_at(TIMES) == 6.0


def test_a_further_trigger_restarts_the_idle_time() -> None:
    window = BatchWindow().observe(5.0, ["a"], TIMES).observe(5.9, ["a", "b"], TIMES)
    assert window.closes_at(TIMES) == 6.9


def test_a_stream_of_triggers_closes_at_the_maximum() -> None:
    window, names = BatchWindow(), []
    for step in range(30):
        names.append(str(step))
        window = window.observe(5.0 + step * 0.5, names, TIMES)
    assert window.closes_at(TIMES) == 15.0


def test_a_stream_of_triggers_that_are_enough_for_a_plan_closes_the_idle_time_after_it_began() -> None:
    times, names, window = replace(TIMES, enough=20, enough_each=20), list[str](), BatchWindow()
    for step in range(8):
        names += [f"{step}-{number}" for number in range(5)]
        window = window.observe(5.0 + step * 0.4, names, times)
        assert window.closes_at(times) == (5.0 + step * 0.4 + 1.0 if len(names) < 20 else 6.0)


def test_a_burst_of_many_workloads_is_waited_for_until_each_has_many_pods() -> None:
    times, names = replace(TIMES, enough=20, enough_each=10), [str(number) for number in range(25)]
    window = BatchWindow().observe(5.0, names[:20], times).observe(5.5, names, times)
    assert window.closes_at(times, workloads=2) == 6.0
    assert window.closes_at(times, workloads=3) == 6.5


def test_pods_of_earlier_batches_are_not_counted_among_those_that_are_enough() -> None:
    times, early = replace(TIMES, enough=20, enough_each=20), [f"early-{number}" for number in range(30)]
    window = BatchWindow().observe(5.0, early, times).closed()
    window = window.observe(6.0, [*early, "a"], times).observe(6.5, [*early, "a", "b"], times)
    assert window.closes_at(times) == 7.5


def test_after_a_batch_the_same_pods_open_no_window_until_they_have_waited() -> None:
    window = BatchWindow().observe(5.0, ["a"], TIMES).closed()
    assert window.observe(7.0, ["a"], TIMES).closes_at(TIMES) is None
    assert window.observe(7.0, ["a"], TIMES).wait_seconds(7.0, TIMES) == 8.0
    assert window.observe(15.0, ["a"], TIMES).closes_at(TIMES) == 16.0


def test_a_new_pod_opens_the_next_window_at_once() -> None:
    window = BatchWindow().observe(5.0, ["a"], TIMES).closed()
    assert window.observe(7.0, ["a", "b"], TIMES).closes_at(TIMES) == 8.0


def test_a_pod_with_a_node_on_its_way_counts_again_only_after_the_node_had_time_to_take_it() -> None:
    window = BatchWindow().observe(5.0, ["a"], TIMES).closed()
    window = window.observe(15.0, ["a"], TIMES, {"a", "gone"})
    assert window.closes_at(TIMES) is None
    assert window.observe(24.0, ["a"], TIMES).closes_at(TIMES) is None
    assert window.observe(25.0, ["a"], TIMES).closes_at(TIMES) == 26.0


def test_a_failed_launch_makes_its_pods_count_as_new() -> None:
    window = BatchWindow().observe(5.0, ["a", "b"], TIMES).closed().forget(["a"])
    assert window.observe(5.1, ["a", "b"], TIMES).closes_at(TIMES) == 6.1


def test_pods_that_are_gone_close_the_window_without_a_batch() -> None:
    window = BatchWindow().observe(5.0, ["a"], TIMES).observe(5.5, [], TIMES)
    assert window.closes_at(TIMES) is None
    assert not window.seen


@given(st.lists(st.tuples(st.floats(0, 2), st.sets(st.sampled_from("abcdef"))), max_size=30))
def test_a_window_never_lasts_longer_than_the_maximum_and_its_close_is_idle_after_the_last_trigger(
    looks: list[tuple[float, set[str]]],
) -> None:
    window, now = BatchWindow(), 0.0
    for step, waiting in looks:
        now += step
        window = window.observe(now, waiting, TIMES)
        closes = window.closes_at(TIMES)
        if closes is not None:
            assert window.opened_at is not None
            assert closes <= window.opened_at + TIMES.max_seconds
            assert closes <= window.last_trigger_at + TIMES.idle_seconds
            if now >= closes:
                window = window.closed()
