"""Quantities and effective requests, in kube-scheduler's integers."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.world.scheduling.quantity import millis, value
from sandbox.world.scheduling.requests import pod_requests


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1000), ("100m", 100), ("0.1", 100), ("1.0005", 1001), ("2e3m", None), (2, 2000)]
)
def test_cpu_is_counted_in_millicores_rounded_up(text: str, expected: int | None) -> None:
    """MilliValue rounds up; an exponent and a suffix together are no quantity."""
    if expected is None:
        with pytest.raises(ValueError, match="not a Kubernetes quantity"):
            millis(text)
    else:
        assert millis(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1Ki", 1024),
        ("1k", 1000),
        ("2.95Gi", 3167538381),
        ("3167538380800m", 3167538381),
        ("1e3", 1000),
        ("1E", 10**18),
    ],
)
def test_other_resources_are_counted_in_units_rounded_up(text: str, expected: int) -> None:
    """Value rounds up: 2.95Gi is 3167538380.8 bytes."""
    assert value(text) == expected


def _container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **fields}


@pytest.mark.parametrize(
    ("spec", "millicores"),
    [
        ({"containers": [_container("1"), _container("500m")]}, 1500),
        ({"containers": [_container("1")], "initContainers": [_container("2"), _container("1500m")]}, 2000),
        ({"containers": [_container("1")], "initContainers": [_container("1", restartPolicy="Always")]}, 2000),
        (
            {
                "containers": [_container("1")],
                "initContainers": [_container("1", restartPolicy="Always"), _container("2")],
            },
            3000,
        ),
        (
            {
                "containers": [_container("1")],
                "initContainers": [_container("2"), _container("1", restartPolicy="Always")],
            },
            2000,
        ),
        ({"containers": [_container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [_container("1")], "resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
    ],
    ids=["sum", "init peak", "sidecar", "sidecar before init", "sidecar after init", "overhead", "pod level", "limit"],
)
def test_effective_cpu_request(spec: dict[str, Any], millicores: int) -> None:
    """App containers and sidecars add up; init containers need the peak, sidecars started before them included."""
    assert pod_requests(spec)["cpu"] == millicores
