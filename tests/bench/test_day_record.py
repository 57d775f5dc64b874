"""The figures of a day on a real control plane follow from what was seen of pods and machines."""

from __future__ import annotations

import pytest

from bench.control_plane.day_record import DayRecord
from bench.life.day import Day, Phase, shortened
from controller.core.api.frozen import EMPTY
from controller.core.cloud import InstanceType, Offering
from controller.core.scheduling.requirements import Requirements
from e2e.audit import Request

PRICE = 3.6
LARGE = InstanceType("m5.large", Requirements(), EMPTY, EMPTY, (Offering("a", "spot", PRICE),))
DAY = Day(
    "short", "r", "n", 100.0, (Phase("up", 0.0, {"web": 2}), Phase("down", 60.0, {"web": 1})), (), (), (), (LARGE,)
)


def machine(name: str, launched_at: float) -> dict[str, object]:
    return {
        "instanceId": name,
        "instanceType": "m5.large",
        "zone": "a",
        "capacityType": "spot",
        "launchedAt": launched_at,
    }


def test_machines_cost_from_launch_to_end_and_pods_wait_from_creation_to_binding() -> None:
    record = DayRecord(DAY)
    record.began = 1000.0
    for uid, created, bound in (("p1", 1001.0, 1011.0), ("p2", 1002.0, 1032.0), ("p3", 1041.0, 1043.0)):
        record.saw_pod(created, uid, "", gone=False)
        record.saw_pod(bound, uid, "node", gone=False)
        record.saw_pod(bound + 1, uid, "node", gone=False)
    record.saw_pod(1040.0, "p2", "node", gone=True)
    record.saw_pod(1061.0, "late", "", gone=False)
    record.saw_machines(1003.0, [machine("i-1", 1002.0)])
    record.sample(1003.0)
    record.saw_machines(1030.0, [machine("i-1", 1002.0), machine("i-2", 1028.0)])
    record.saw_machines(1080.0, [machine("i-2", 1028.0)])
    answers = [Request("create", "pods/eviction", "n", f"p{code}", code, "") for code in (201, 429, 429)]
    found = record.figures([*answers, Request("list", "pods", "", "", 200, "")], 7.0, 2**20)
    assert found["dollars_machines"] == pytest.approx(PRICE * (78.0 + 72.0) / 3600.0)
    assert (found["wait_p50"], found["wait_max"], found["never_bound"]) == (10.0, 30.0, 1)
    assert (found["evictions_accepted"], found["evictions_refused_429"], found["api_requests"]) == (1, 2, 4)
    assert found["pods_lost_beyond_scaling_down"] == 2, "four pods were made where two were asked for"
    assert (found["launched"], found["left_at_end"], found["timeline"]) == (2, 1, [(3.0, 1, PRICE, 1)])
    up, down = found["phases"]
    assert (up["machines_at_end"], up["price_at_end"], up["wait_max"]) == (2, 2 * PRICE, 30.0)
    assert (down["machines_at_end"], down["wait_max"], down["types_at_end"]) == (1, None, {"m5.large/spot": 1})
    assert up["dollars"] + down["dollars"] == pytest.approx(found["dollars_machines"])


def test_a_day_can_be_shortened() -> None:
    short = shortened(DAY, share=0.4, speed=10.0)
    assert (short.ends_at, [phase.at for phase in short.phases]) == (10.0, [0.0, 6.0])
    assert [dict(phase.replicas) for phase in short.phases] == [{"web": 1}, {"web": 1}]
