"""What containers do in the sandbox, by what their pods say."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.world.machines.containers import asked_stop_seconds, exit_code, readiness_seconds, run_seconds
from sandbox.world.resources import Obj
from tests.sandbox.world.builders import pod


def _pod(annotations: dict[str, str] | None = None, policy: str = "Never", **container: Any) -> Obj:
    made = pod(containers=[{"name": "main", "image": "busybox", **container}], restartPolicy=policy)
    made["metadata"]["annotations"] = annotations or {}
    return made


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (_pod(policy="Always"), None),
        (_pod(policy="Always", command=["sleep", "5"]), None),
        (_pod(), 3.0),
        (_pod(command=["sh", "-c", "echo hi; sleep 7.5"]), 7.5),
        (_pod({"sandbox/run-seconds": "2"}, policy="Always"), 2.0),
    ],
    ids=["a service", "a service that sleeps", "a job that says nothing", "a job that sleeps", "annotated"],
)
def test_how_long_containers_run(candidate: Obj, expected: float | None) -> None:
    assert run_seconds(candidate, job_seconds=3.0) == expected


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [(_pod(), 0), (_pod(command=["false"]), 1), (_pod(args=["sh", "-c", "exit 42"]), 42),
     (_pod({"sandbox/exit-code": "9"}), 9)],
)  # fmt: skip
def test_how_they_end(candidate: Obj, expected: int) -> None:
    assert exit_code(candidate) == expected


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (_pod(), 0.0),
        (_pod({"sandbox/stop-seconds": "4"}), 4.0),
        (_pod(lifecycle={"preStop": {"sleep": {"seconds": 6}}}), 6.0),
        (_pod(lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "sleep 15"]}}}), 15.0),
    ],
)
def test_how_long_they_take_to_stop(candidate: Obj, expected: float) -> None:
    assert asked_stop_seconds(candidate) == expected


def test_readiness_waits_for_the_slowest_probe() -> None:
    assert readiness_seconds(_pod(readinessProbe={"initialDelaySeconds": 12})) == 12.0
