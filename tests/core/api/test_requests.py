"""Effective requests are those of kube-scheduler 1.34."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.parse import parse_pod
from controller.core.api.podspec import pod_spec, spec_and_limits

Spec = dict[str, Any]


def container(
    cpu: str | None = None, memory: str | None = None, limits: Spec | None = None, **fields: Any
) -> dict[str, Any]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": requests, **({"limits": limits} if limits else {})}, **fields}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("rule", "spec", "expected"),
    [
        ("a pod without requests takes one pod's place", {"containers": [container()]}, {"pods": 1}),
        (
            "containers add up",
            {"containers": [container("1", "1Gi"), container("500m")]},
            {"cpu": 1500, "memory": 2**30},
        ),
        (
            "sums are exact and rounded up once: two of 0.4 millicores are one, not two",
            {"containers": [container("400u"), container("400u")]},
            {"cpu": 1},
        ),
        (
            "limits stand in for absent requests, resource by resource",
            {"containers": [container("1", limits={"cpu": "2", "memory": "1Gi"})]},
            {"cpu": 1000, "memory": 2**30},
        ),
        (
            "a request of zero is a request: the limit does not stand in",
            {"containers": [container("0", limits={"cpu": "2"})]},
            {},
        ),
        (
            "init containers count at their greatest",
            {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
            {"cpu": 3000},
        ),
        (
            "sidecars add to the containers",
            {"containers": [container("1")], "initContainers": [sidecar("500m")]},
            {"cpu": 1500},
        ),
        (
            "an init container runs beside the sidecars started before it",
            {"containers": [container("1")], "initContainers": [sidecar("1"), container("2"), sidecar("500m")]},
            {"cpu": 3000},
        ),
        (
            "an init container does not run beside sidecars started after it",
            {"containers": [container("100m")], "initContainers": [container("2"), sidecar("1")]},
            {"cpu": 2000},
        ),
        (
            "pod-level requests replace the sum of the containers",
            {"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000, "memory": 2**30},
        ),
        (
            "a pod-level limit stands in where no container asks",
            {"containers": [container("1")], "resources": {"limits": {"cpu": "4", "memory": "2Gi"}}},
            {"cpu": 1000, "memory": 2**31},
        ),
        (
            "pod-level resources are cpu, memory and huge pages alone",
            {
                "containers": [container("1")],
                "resources": {"requests": {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}},
            },
            {"cpu": 1000, "hugepages-2Mi": 4 * 2**20},
        ),
        (
            "overhead adds, on pod-level requests too",
            {
                "containers": [container("1")],
                "resources": {"requests": {"cpu": "2"}},
                "overhead": {"cpu": "250m", "memory": "120Mi"},
            },
            {"cpu": 2250, "memory": 120 * 2**20},
        ),
        (
            "extended resources are counts",
            {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]},
            {"nvidia.com/gpu": 2},
        ),
    ],
)
def test_effective_requests(rule: str, spec: Spec, expected: dict[str, int]) -> None:
    assert pod_spec(spec).requests == {"pods": 1, **expected}, rule


def test_a_malformed_quantity_is_listed_with_its_path_and_the_rest_is_kept() -> None:
    spec = pod_spec({"containers": [container("1", "1 Gi"), container("x1"), container("-1")], "overhead": {"cpu": []}})
    assert spec.requests == {"cpu": 1000, "pods": 1}
    assert [each.partition(":")[0] for each in spec.malformed] == [
        "spec.containers[0].resources.requests.memory",
        "spec.containers[1].resources.requests.cpu",
        "spec.containers[2].resources.requests.cpu",
        "spec.overhead.cpu",
    ]
    assert "write" in spec.malformed[0]


def limited(cpu: str, **fields: Any) -> dict[str, Any]:
    return container("100m", limits={"cpu": cpu}, **fields)


@pytest.mark.parametrize(
    ("rule", "spec", "expected"),
    [
        ("requests bound nothing", {"containers": [container("1", "1Gi")]}, {}),
        (
            "limits of containers and sidecars add up; a container without one adds nothing",
            {"containers": [limited("1"), container("1")], "initContainers": [limited("500m", restartPolicy="Always")]},
            {"cpu": 1500},
        ),
        (
            "an init container counts where it is the greatest moment",
            {"containers": [limited("1")], "initContainers": [limited("3")]},
            {"cpu": 3000},
        ),
        (
            "pod-level limits are the pod's, of the resources that may have one",
            {"containers": [limited("1")], "resources": {"limits": {"cpu": "4", "memory": "1Gi", "pods": "9"}}},
            {"cpu": 4000, "memory": 2**30},
        ),
        (
            "overhead comes on top of what is bounded, and bounds nothing else",
            {"containers": [limited("1")], "overhead": {"cpu": "250m", "memory": "120Mi"}},
            {"cpu": 1250},
        ),
    ],
)
def test_limits(rule: str, spec: Spec, expected: dict[str, int]) -> None:
    assert spec_and_limits(spec)[1] == {"pods": 1, **expected}, rule
    assert parse_pod({"metadata": {"name": "a"}, "spec": spec}).limits == {"pods": 1, **expected}


def test_pods_that_differ_in_limits_alone_are_scheduled_as_one() -> None:
    """Limits are kept apart from the spec: they split no class of replicas."""
    (one, small), (other, large) = (spec_and_limits({"containers": [limited(cpu)]}) for cpu in ("1", "2"))
    assert one is other
    assert (small["cpu"], large["cpu"]) == (1000, 2000)


def test_a_limit_that_cannot_be_read_is_reported_once_and_bounds_nothing() -> None:
    spec, limits = spec_and_limits({"containers": [limited("lots")]})
    assert [each.partition(":")[0] for each in spec.malformed] == ["spec.containers[0].resources.limits.cpu"]
    assert limits == {"pods": 1}


MILLIS = st.integers(0, 5000)


@settings(deadline=None)
@given(st.lists(MILLIS, max_size=4), st.lists(st.tuples(MILLIS, st.booleans()), max_size=5))
def test_init_containers_against_a_replay_of_the_start(containers: list[int], init: list[tuple[int, bool]]) -> None:
    """The peak over the start, replayed moment by moment, is what the pod asks for."""
    running, peak = 0, 0
    for millis, always in init:
        peak = max(peak, running + millis)
        running += millis if always else 0
    peak = max(peak, running + sum(containers))
    spec = {
        "containers": [container(f"{each}m") for each in containers],
        "initContainers": [sidecar(f"{m}m") if always else container(f"{m}m") for m, always in init],
    }
    assert pod_spec(spec).requests.get("cpu", 0) == peak
