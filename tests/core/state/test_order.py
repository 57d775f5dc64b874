"""In whatever order and however often events come, the end is the same as one fresh list of what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from tests.core.state.changes import Object, at, listed
from tests.examples import examples
from tests.factories import node_object, pod_object, provisioner_object

KINDS = ("Node", "Pod", "Provisioner")
TAINT = {"key": "wait", "effect": "NoSchedule"}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], dict[str, dict[str, Object]], int]:
    """Writes as an API server takes them: every event, what there is at the end, and the last resource version."""
    events: list[Change] = []
    live: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
    version = 0
    for _ in range(draw(st.integers(1, 25))):
        version += 1
        kind, name = draw(st.sampled_from(KINDS)), draw(st.sampled_from("abc"))
        have = live[kind].get(name)
        if have is not None and draw(st.booleans()):
            del live[kind][name]
            events.append(Change(kind, ChangeType.DELETED, (at(have, version),)))
            continue
        uid = have["metadata"]["uid"] if have else f"{kind}-{name}-{version}"
        document = at(draw(documents(kind, name)), version, uid=uid)
        live[kind][name] = document
        type_ = ChangeType.MODIFIED if have else ChangeType.ADDED
        events.append(Change(kind, draw(st.sampled_from([type_, ChangeType.LEARNED])), (document,)))
    return events, live, version


@st.composite
def documents(draw: st.DrawFn, kind: str, name: str) -> Object:
    if kind == "Pod":
        node, phase = draw(st.sampled_from(["", "a", "b", "c"])), draw(st.sampled_from(["Running", "Failed"]))
        return pod_object(name=name, spec={"nodeName": node}, status={"phase": phase})
    if kind == "Node":
        labels = draw(
            st.sampled_from([{}, {keys.PROVISIONER_NAME: "a"}, {keys.PROVISIONER_NAME: "a", keys.INITIALIZED: "true"}])
        )
        return node_object(name=name, labels=labels, spec={"taints": [TAINT]})
    spec: dict[str, Any] = draw(st.sampled_from([{}, {"startupTaints": [TAINT]}]))
    return provisioner_object(name=name, spec=spec)


def fresh(live: dict[str, dict[str, Object]], version: int) -> Snapshot:
    cluster = Cluster(KINDS)
    for kind in KINDS:
        for change in listed(kind, *live[kind].values(), version=version):
            cluster.apply(change)
    return content(cluster.snapshot())


def content(snapshot: Snapshot) -> Snapshot:
    """Without what tells how we got there."""
    return replace(snapshot, version=0, synced=True)


@examples(80)
@given(histories(), st.data())
def test_any_order_and_any_repetition_of_events_ends_the_same(
    history: tuple[list[Change], dict[str, dict[str, Object]], int], data: st.DataObject
) -> None:
    events, live, version = history
    repeated = data.draw(st.lists(st.sampled_from(events), max_size=15))
    shuffled = data.draw(st.permutations(events + repeated))
    cluster = Cluster(KINDS)
    for change in shuffled:
        cluster.apply(change)
        if data.draw(st.booleans()):
            cluster.snapshot()
    assert content(cluster.snapshot()) == fresh(live, version)
    assert_sorted(cluster.snapshot())


@examples(80)
@given(histories(), st.data())
def test_a_list_in_the_middle_of_it_changes_nothing_about_that(
    history: tuple[list[Change], dict[str, dict[str, Object]], int], data: st.DataObject
) -> None:
    """Events from before, some of them lost; then the list; then events again, stale ones among them."""
    events, live, version = history
    before = data.draw(st.lists(st.sampled_from(events), max_size=20))
    stale = data.draw(st.lists(st.sampled_from(events), max_size=20))
    cluster = Cluster(KINDS)
    for change in before:
        cluster.apply(change)
    for kind in KINDS:
        for change in listed(kind, *live[kind].values(), version=version):
            cluster.apply(change)
    for change in stale:
        cluster.apply(change)
    assert content(cluster.snapshot()) == fresh(live, version)
    assert_sorted(cluster.snapshot())


def assert_sorted(snapshot: Snapshot) -> None:
    assert list(snapshot.nodes) == sorted(snapshot.nodes)
    assert list(snapshot.pods) == sorted(snapshot.pods)
    assert list(snapshot.provisioners) == sorted(snapshot.provisioners)
