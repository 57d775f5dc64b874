"""Watches: what is sent, from where on, and how they end."""

from __future__ import annotations

from typing import Any

from tests.contract.builders import config_map, pod, pod_template
from tests.contract.client import Client


def changes(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def version(api: Client, plural: str = "configmaps") -> str:
    return str(api.get(api.path(plural)).ok()["metadata"]["resourceVersion"])


def test_a_watch_replays_what_came_after_its_version(api: Client) -> None:
    path, start = api.path("configmaps"), version(api)
    created = api.post(path, config_map("a")).ok()
    changed = api.patch(api.path("configmaps", "a"), {"data": {"x": "1"}}).ok()
    api.delete(api.path("configmaps", "a")).ok()
    events = api.watch_until(path, 3, resourceVersion=start)
    assert changes(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"] == created
    assert events[1]["object"] == changed
    assert int(events[2]["object"]["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


def test_a_watch_without_version_starts_with_what_there_is(api: Client) -> None:
    api.post(api.path("secrets"), {"metadata": {"name": "a"}}).ok()
    events = api.watch_until(api.path("secrets"), 1, fieldSelector="metadata.name=a")
    assert changes(events) == [("ADDED", "a")]


def test_a_watch_ends_after_its_timeout(api: Client) -> None:
    assert list(api.watch(api.path("leases", group="coordination.k8s.io"), seconds=1)) == []


def test_other_namespaces_are_not_seen(api: Client) -> None:
    start = version(api, "secrets")
    api.post("/api/v1/namespaces/default/secrets", {"metadata": {"generateName": "other-"}}).ok()
    api.post(api.path("secrets"), {"metadata": {"name": "mine"}}).ok()
    assert changes(api.watch_until(api.path("secrets"), 1, resourceVersion=start)) == [("ADDED", "mine")]


def test_selector_transitions_are_additions_and_deletions(api: Client) -> None:
    path, start = api.path("configmaps"), version(api)
    api.post(path, config_map("a", labels={"on": "no"})).ok()
    api.patch(api.path("configmaps", "a"), {"metadata": {"labels": {"on": "yes"}}}).ok()
    api.patch(api.path("configmaps", "a"), {"data": {"x": "1"}}).ok()
    last = api.patch(api.path("configmaps", "a"), {"metadata": {"labels": {"on": "no"}}}).ok()
    events = api.watch_until(path, 3, resourceVersion=start, labelSelector="on=yes")
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    gone = events[2]["object"]["metadata"]
    assert gone["resourceVersion"] == last["metadata"]["resourceVersion"]
    assert gone["labels"] == {"on": "yes"}


def test_field_selector_transitions(api: Client) -> None:
    start = version(api, "pods")
    api.post(api.path("pods"), pod("a")).ok()
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    api.post(f"{api.path('pods', 'a')}/binding", binding).ok()
    waiting = api.watch_until(api.path("pods"), 2, resourceVersion=start, fieldSelector="spec.nodeName=")
    assert [event["type"] for event in waiting] == ["ADDED", "DELETED"]


def test_a_version_that_is_compacted_is_an_error_event_410(api: Client) -> None:
    path = api.path("podtemplates")
    api.post(path, pod_template("a")).ok()
    start = version(api, "podtemplates")
    for value in ("y", "z"):
        api.patch(api.path("podtemplates", "a"), {"metadata": {"labels": {"x": value}}}).ok()
    api.compact()
    events = api.watch_until(path, 1, resourceVersion=start)
    assert [event["type"] for event in events] == ["ERROR"]
    status = events[0]["object"]
    assert (status["code"], status["reason"], status["kind"]) == (410, "Expired", "Status")


def test_a_list_at_a_version_that_is_compacted_is_410(api: Client) -> None:
    path = api.path("podtemplates")
    for name in ("a", "b"):
        api.post(path, pod_template(name)).ok()
    first = api.get(path, limit=1).ok()
    start = first["metadata"]["resourceVersion"]
    api.patch(api.path("podtemplates", "a"), {"metadata": {"labels": {"x": "y"}}}).ok()
    api.compact()
    api.get(path, resourceVersion=start, resourceVersionMatch="Exact").refused(410, "Expired")
    api.get(path, limit=1, **{"continue": first["metadata"]["continue"]}).refused(410, "Expired")


def test_a_watch_goes_on_over_a_compaction(api: Client) -> None:
    path = api.path("podtemplates")
    start = version(api, "podtemplates")
    api.compact()
    api.post(path, pod_template("a")).ok()
    assert changes(api.watch_until(path, 1, resourceVersion=start)) == [("ADDED", "a")]


def test_a_version_that_is_no_number_is_refused(api: Client) -> None:
    (event,) = api.watch_until(api.path("configmaps"), 1, resourceVersion="abc")
    assert event["object"]["code"] == 500
    assert 'Invalid value: "abc"' in event["object"]["message"]


def test_initial_events_end_with_an_annotated_bookmark(api: Client) -> None:
    """WatchList (KEP-3157): a list as a stream."""
    api.post(api.path("secrets"), {"metadata": {"name": "a"}}).ok()
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    events = api.watch_until(api.path("secrets"), 2, fieldSelector="metadata.name=a", **query)
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events[1]["object"]["kind"] == "Secret"


def test_a_watch_of_one_name(api: Client) -> None:
    """What kubectl get NAME -w and kubectl wait do."""
    start = version(api)
    for name in ("a", "b"):
        api.post(api.path("configmaps"), config_map(name)).ok()
    events = api.watch_until(api.path("configmaps"), 1, resourceVersion=start, fieldSelector="metadata.name=b")
    assert changes(events) == [("ADDED", "b")]
