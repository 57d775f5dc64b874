"""Deletion: finalizers, preconditions, owners and dependents, collections, namespaces."""

from __future__ import annotations

from typing import Any

from tests.contract.builders import config_map, pod
from tests.contract.client import JSON_PATCH, Client, eventually


def owned(name: str, owner: dict[str, Any], *, block: bool = False) -> dict[str, Any]:
    """A ConfigMap that belongs to another."""
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    body = config_map(name)
    body["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": block}]
    return body


def held(name: str, *finalizers: str) -> dict[str, Any]:
    body = config_map(name)
    body["metadata"]["finalizers"] = list(finalizers)
    return body


def is_gone(api: Client, name: str) -> bool:
    return api.get(api.path("configmaps", name)).code == 404


def test_a_finalizer_holds_the_object(api: Client) -> None:
    api.post(api.path("configmaps"), held("a", "example.com/hold")).ok()
    deleted = api.delete(api.path("configmaps", "a")).ok()
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    again = api.delete(api.path("configmaps", "a")).ok()
    assert again["metadata"]["deletionTimestamp"] == deleted["metadata"]["deletionTimestamp"]
    api.patch(api.path("configmaps", "a"), {"metadata": {"finalizers": None}}).ok()
    assert is_gone(api, "a")


def test_the_last_of_two_finalizers_lets_go(api: Client) -> None:
    api.post(api.path("configmaps"), held("a", "example.com/one", "example.com/two")).ok()
    api.delete(api.path("configmaps", "a")).ok()
    path = api.path("configmaps", "a")
    api.patch(path, [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH).ok()
    assert api.get(path).ok()["metadata"]["finalizers"] == ["example.com/two"]
    api.patch(path, [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH).ok()
    assert is_gone(api, "a")


def test_the_watch_sees_a_held_deletion_as_modified_then_deleted(api: Client) -> None:
    start = api.get(api.path("configmaps")).ok()["metadata"]["resourceVersion"]
    api.post(api.path("configmaps"), held("a", "example.com/hold")).ok()
    api.delete(api.path("configmaps", "a")).ok()
    api.patch(api.path("configmaps", "a"), {"metadata": {"finalizers": []}}).ok()
    events = api.watch_until(api.path("configmaps"), 3, resourceVersion=start)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]


def test_no_finalizer_is_added_to_an_object_that_goes(api: Client) -> None:
    api.post(api.path("configmaps"), held("a", "example.com/hold")).ok()
    api.delete(api.path("configmaps", "a")).ok()
    patch = {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}
    status = api.patch(api.path("configmaps", "a"), patch).refused(422, "Invalid")
    assert "metadata.finalizers" in status["message"]
    api.patch(api.path("configmaps", "a"), {"metadata": {"finalizers": None}}).ok()


def test_deletion_preconditions(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a")).ok()
    path = api.path("configmaps", "a")
    other = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}
    status = api.delete(path, other).refused(409, "Conflict")
    assert "does not match the UID in record" in status["message"]
    api.delete(path, {"preconditions": {"resourceVersion": "1"}}).refused(409, "Conflict")
    metadata = obj["metadata"]
    api.delete(path, {"preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}).ok()
    assert is_gone(api, "a")


def test_dependents_go_after_their_owner(api: Client) -> None:
    owner = api.post(api.path("configmaps"), config_map("owner")).ok()
    api.post(api.path("configmaps"), owned("child", owner)).ok()
    api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Background"}).ok()
    assert is_gone(api, "owner")
    eventually(lambda: is_gone(api, "child"))


def test_dependents_of_dependents_go_too(api: Client) -> None:
    owner = api.post(api.path("configmaps"), config_map("owner")).ok()
    child = api.post(api.path("configmaps"), owned("child", owner)).ok()
    api.post(api.path("configmaps"), owned("grandchild", child)).ok()
    api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Background"}).ok()
    eventually(lambda: is_gone(api, "child") and is_gone(api, "grandchild"))


def test_foreground_deletion_waits_for_blocking_dependents(api: Client) -> None:
    owner = api.post(api.path("configmaps"), config_map("owner")).ok()
    child = owned("child", owner, block=True)
    child["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(api.path("configmaps"), child).ok()
    deleted = api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Foreground"}).ok()
    assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"]
    path = api.path("configmaps", "child")
    eventually(lambda: "deletionTimestamp" in api.get(path).ok()["metadata"])
    assert api.get(api.path("configmaps", "owner")).code == 200
    remaining = api.get(path).ok()["metadata"]["finalizers"]
    assert "example.com/hold" in remaining
    api.patch(path, {"metadata": {"finalizers": None}}).ok()
    eventually(lambda: is_gone(api, "owner"))


def test_orphans_stay_and_lose_their_reference(api: Client) -> None:
    owner = api.post(api.path("configmaps"), config_map("owner")).ok()
    api.post(api.path("configmaps"), owned("child", owner)).ok()
    eventually(lambda: api.get(api.path("configmaps", "child")).code == 200)
    api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Orphan"}).ok()
    eventually(lambda: is_gone(api, "owner"))
    assert "ownerReferences" not in api.get(api.path("configmaps", "child")).ok()["metadata"]


def test_a_dependent_of_an_absent_owner_goes(api: Client) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"}}
    api.post(api.path("configmaps"), owned("child", ghost)).ok()
    eventually(lambda: is_gone(api, "child"))


def test_deletecollection_takes_what_the_selector_matches(api: Client) -> None:
    for name, labels in (("a", {"on": "yes"}), ("b", {"on": "no"})):
        api.post(api.path("configmaps"), config_map(name, labels=labels)).ok()
    api.delete(api.path("configmaps"), labelSelector="on=yes").ok()
    assert (is_gone(api, "a"), is_gone(api, "b")) == (True, False)


def test_deletecollection_of_pods_is_graceful(api: Client) -> None:
    api.post(api.path("pods"), pod("bound", nodeName="n1")).ok()
    api.post(api.path("pods"), pod("free")).ok()
    api.delete(api.path("pods")).ok()
    left = api.get(api.path("pods")).ok()["items"]
    assert [item["metadata"]["name"] for item in left] == ["bound"]
    assert left[0]["metadata"]["deletionTimestamp"]
    api.delete(api.path("pods", "bound"), {"gracePeriodSeconds": 0}).ok()


def test_a_deleted_namespace_takes_its_content_along(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a")).ok()
    api.post(api.path("pods"), pod("p")).ok()
    deleted = api.delete(f"/api/v1/namespaces/{api.namespace}").ok()
    assert deleted["status"]["phase"] == "Terminating"
    eventually(lambda: api.get(f"/api/v1/namespaces/{api.namespace}").code == 404)
    assert api.get(api.path("configmaps")).ok()["items"] == []


def test_nothing_is_created_in_a_namespace_that_goes(api: Client) -> None:
    api.post(api.path("configmaps"), held("a", "example.com/hold")).ok()
    api.delete(f"/api/v1/namespaces/{api.namespace}").ok()
    status = api.post(api.path("configmaps"), config_map("b")).refused(403, "Forbidden")
    assert "because it is being terminated" in status["message"]
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    eventually(lambda: "deletionTimestamp" in api.get(api.path("configmaps", "a")).ok()["metadata"])
    api.patch(api.path("configmaps", "a"), {"metadata": {"finalizers": None}}).ok()


def test_nothing_is_evicted_in_a_namespace_that_goes(api: Client) -> None:
    """Nor bound; whoever drains a node is told that it is for this reason, not for a missing right."""
    api.post(api.path("configmaps"), held("a", "example.com/hold")).ok()
    waiting = pod("p")
    waiting["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(api.path("pods"), waiting).ok()
    api.delete(f"/api/v1/namespaces/{api.namespace}").ok()
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    status = api.post(f"{api.path('pods', 'p')}/eviction", eviction).refused(403, "Forbidden")
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    api.post(f"{api.path('pods', 'p')}/binding", binding).refused(403, "Forbidden")
    for plural, name in (("pods", "p"), ("configmaps", "a")):
        api.patch(api.path(plural, name), {"metadata": {"finalizers": None}}).ok()


def test_the_namespace_default_cannot_be_deleted(client: Client) -> None:
    client.delete("/api/v1/namespaces/default").refused(403, "Forbidden")


def test_a_node_with_a_finalizer_waits(client: Client) -> None:
    client.delete("/api/v1/nodes/node-final")
    body = {"metadata": {"name": "node-final", "finalizers": ["karpenter.sh/termination"]}}
    client.post("/api/v1/nodes", body).ok()
    assert client.delete("/api/v1/nodes/node-final").ok()["metadata"]["deletionTimestamp"]
    client.patch("/api/v1/nodes/node-final", {"metadata": {"finalizers": None}}).ok()
    client.get("/api/v1/nodes/node-final").refused(404, "NotFound")
