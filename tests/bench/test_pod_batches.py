"""Pods read together are the pods that are read one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.pod_batches import AT_ONCE, PodsByKey, parse_pods
from controller.core.api.document import Document
from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod
from controller.core.api.replicas import Pods
from tests.factories import pod_object

CLAIM = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}
PENDING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
SPECS = (
    {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
    {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}], "nodeName": "node-1"},
    {"containers": [], "volumes": [CLAIM]},
    "no spec",
)
METAS: tuple[dict[str, Any], ...] = (
    {"generation": 1},
    {"labels": {"app": "web"}},
    {"labels": {"app": "api"}},
    {"annotations": {"app": "web"}},
    {"annotations": {"app": "api"}},
    {"ownerReferences": [OWNER], "namespace": "other"},
    {"ownerReferences": [OWNER], "namespace": "another"},
    {"ownerReferences": [{**OWNER, "uid": "v"}], "namespace": "other"},
    {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"},
    {"creationTimestamp": "2026-01-01T00:00:01Z", "resourceVersion": "2"},
    {"creationTimestamp": None},
    {"deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 3},
    {"deletionTimestamp": "2026-01-01T00:00:01Z", "generation": 3},
    {"name": 7},
)
RUNS = st.lists(
    st.tuples(st.sampled_from(SPECS), st.sampled_from(METAS), st.sampled_from([None, {}, PENDING]), st.integers(1, 3)),
    max_size=8,
)


def documents(runs: list[tuple[Any, dict[str, Any], Any, int]]) -> list[Document]:
    """Runs of pods that have the same spec, metadata and status, and names of their own."""
    pods: list[Document] = []
    for spec, meta, status, count in runs:
        for _ in range(count):
            own = {"name": f"pod-{len(pods)}", "namespace": "default", "uid": f"uid-{len(pods)}", **meta}
            rest = {} if status is None else {"status": status}
            pods.append({"metadata": own, "spec": spec, **rest})
    return pods


@settings(max_examples=120, deadline=None, derandomize=True)
@given(RUNS)
def test_every_pod_is_what_it_is_when_read_alone(runs: list[tuple[Any, dict[str, Any], Any, int]]) -> None:
    every = documents(runs)
    read = parse_pods(every)
    assert len(read) == len(every)
    assert Counter(read) == Counter(map(parse_pod, every))
    assert sorted(pod.resource_version for pod in read) == sorted(parse_pod(each).resource_version for each in every)
    for group in read.groups:
        ages = [pod.created for pod in group.pods]
        assert (group.name, group.ages) == (min(pod.name for pod in group.pods), (min(ages), max(ages)))


@pytest.mark.parametrize("one", METAS, ids=lambda meta: next(iter(meta)))
def test_whatever_differs_tells_documents_apart(one: dict[str, Any]) -> None:
    """A value, or a field where another has as many."""
    for other in METAS:
        every = documents([(SPECS[0], one, PENDING, 2), (SPECS[0], other, PENDING, 2)])
        assert Counter(parse_pods(every)) == Counter(map(parse_pod, every)), other


@pytest.mark.parametrize("status", [PENDING, {"phase": "Succeeded"}], ids=["pending", "ended"])
@pytest.mark.parametrize("spec", SPECS[:3], ids=["small", "large", "bound"])
def test_spec_and_status_tell_documents_apart(spec: Any, status: Any) -> None:
    every = documents([(SPECS[0], METAS[0], PENDING, 2), (spec, METAS[0], status, 2)])
    assert Counter(parse_pods(every)) == Counter(map(parse_pod, every))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(RUNS)
def test_pods_that_are_asked_for_by_their_group_are_those_asked_for_one_by_one(runs: list[Any]) -> None:
    """Whether groups come from documents or from pods that somebody made."""
    alone = list(map(parse_pod, documents(runs)))
    for pods in (parse_pods(documents(runs)), Pods.of(alone)):
        assert Counter(pods.only(_waits)) == Counter(filter(_waits, alone))
        assert list(PodsByKey(pods)) == sorted({pod.key for pod in alone})
        assert all(PodsByKey(pods)[pod.key].key == pod.key for pod in alone)
    assert list(Pods.of(alone)) == alone == Pods.of(alone)


def _waits(pod: Pod) -> bool:
    return not pod.node_name and not pod.owners


@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "one deployment after the other"])
def test_only_the_first_pod_of_a_template_is_parsed(in_turn: bool) -> None:
    """Over several blocks of documents; ages may differ."""
    parsed = []

    def parse(document: Document) -> Pod:
        parsed.append(document)
        return parse_pod(document)

    count = 2 * AT_ONCE + 10
    every = [
        pod_object(name=f"{number}", labels={"app": f"app-{number % 3 if in_turn else number * 3 // count}"})
        for number in range(count)
    ]
    read = parse_pods(every, parse)
    assert [len(parsed), len(read.groups), len(read)] == [3, 3, count]
