"""Times in objects are the API server's, and so is what they are held against."""

from __future__ import annotations

import time

import pytest

from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import NODES
from controller.runtime.clock import ServerClock
from tests.kube.server import Server

NOON = 1_700_000_000.0


def ahead(clock: ServerClock) -> float:
    return clock.now() - time.time()


@pytest.mark.parametrize("wrong_seconds", [600.0, -3600.0])
def test_every_answer_puts_the_clock_right(server: Server, wrong_seconds: float) -> None:
    clock = ServerClock(lambda: time.time() + wrong_seconds)
    client = KubeClient(connect(server.kubeconfig), clock=clock)
    assert ahead(clock) == pytest.approx(wrong_seconds, abs=1.0)
    client.list(NODES)
    assert ahead(clock) == pytest.approx(0.0, abs=2.0)


@pytest.mark.parametrize(
    ("server_time", "took", "expected"),
    [
        (NOON + 1, 0.1, NOON),
        (NOON - 2, 0.1, NOON),
        (NOON + 60, 0.1, NOON + 60.55),
        (NOON - 60, 0.1, NOON - 59.45),
        (NOON + 60, 5.0, NOON),
    ],
)
def test_a_small_difference_and_a_slow_answer_say_nothing(server_time: float, took: float, expected: float) -> None:
    clock = ServerClock(lambda: NOON)
    clock.compare(server_time, took)
    assert clock.now() == pytest.approx(expected)


def test_a_machine_that_was_set_right_is_believed_again() -> None:
    machine = [NOON + 600.0]
    clock = ServerClock(lambda: machine[0])
    clock.compare(NOON, 0.0)
    machine[0] = NOON
    clock.compare(NOON, 0.0)
    assert clock.now() == NOON


def test_answers_within_a_second_of_each_other_do_not_make_time_jump() -> None:
    clock = ServerClock(lambda: NOON + 600.0)
    clock.compare(NOON, 0.0)
    before = clock.now()
    for late in (-1, 0, 1):
        clock.compare(NOON + late, 0.5)
    assert clock.now() == before
