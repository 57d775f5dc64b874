"""Server-side apply: who owns which field, what is removed, what conflicts."""

from __future__ import annotations

from typing import Any

from tests.contract.builders import config_map, deployment
from tests.contract.client import APPLY, STRATEGIC, Client


def cm(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap to apply."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return {**body, "data": data} if data else body


def apply(
    api: Client, body: dict[str, Any], manager: str = "me", plural: str = "configmaps", group: str = "", **query: Any
) -> Any:
    """PATCH with an applied configuration."""
    return api.patch(api.path(plural, body["metadata"]["name"], group), body, APPLY, fieldManager=manager, **query)


def managers(obj: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """(manager, operation) → fields."""
    return {(m.get("manager", ""), m["operation"]): m["fieldsV1"] for m in obj["metadata"]["managedFields"]}


def test_apply_creates(api: Client) -> None:
    reply = apply(api, cm("a", x="1"))
    assert reply.code == 201
    assert reply.body["data"] == {"x": "1"}
    assert managers(reply.body)["me", "Apply"] == {"f:data": {"f:x": {}}}


def test_apply_again_is_200_and_changes_nothing(api: Client) -> None:
    first = apply(api, cm("a", x="1")).ok()
    again = apply(api, cm("a", x="1"))
    assert again.code == 200
    assert again.body["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_fields_that_are_no_longer_applied_are_removed(api: Client) -> None:
    apply(api, cm("a", x="1", y="2")).ok()
    assert apply(api, cm("a", y="2")).ok()["data"] == {"y": "2"}


def test_fields_of_others_stay(api: Client) -> None:
    apply(api, cm("a", x="1")).ok()
    both = apply(api, cm("a", y="2"), "other").ok()
    assert both["data"] == {"x": "1", "y": "2"}
    assert apply(api, cm("a"), "other").ok()["data"] == {"x": "1"}


def test_another_value_for_an_owned_field_is_a_conflict(api: Client) -> None:
    apply(api, cm("a", x="1")).ok()
    status = apply(api, cm("a", x="2"), "other").refused(409, "Conflict")
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.x"}
    ]
    assert 'conflict with "me": .data.x' in status["message"]


def test_the_same_value_is_shared(api: Client) -> None:
    apply(api, cm("a", x="1")).ok()
    shared = apply(api, cm("a", x="1"), "other").ok()
    assert {("me", "Apply"), ("other", "Apply")} <= set(managers(shared))
    assert apply(api, cm("a"), "me").ok()["data"] == {"x": "1"}


def test_force_takes_the_field_over(api: Client) -> None:
    apply(api, cm("a", x="1", y="1")).ok()
    obj = apply(api, cm("a", x="2"), "other", force="true").ok()
    assert obj["data"] == {"x": "2", "y": "1"}
    assert managers(obj)["me", "Apply"] == {"f:data": {"f:y": {}}}


def test_updates_own_what_they_change(api: Client) -> None:
    apply(api, cm("a", x="1")).ok()
    api.patch(api.path("configmaps", "a"), {"data": {"x": "9"}}, fieldManager="editor").ok()
    status = apply(api, cm("a", x="1")).refused(409, "Conflict")
    assert 'conflict with "editor" using v1' in status["details"]["causes"][0]["message"]
    assert apply(api, cm("a", x="1"), force="true").ok()["data"] == {"x": "1"}


def test_apply_needs_a_field_manager(api: Client) -> None:
    assert api.patch(api.path("configmaps", "a"), cm("a"), APPLY).code in (400, 422)


def test_applied_containers_are_merged_by_name(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    body = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}},
    }  # fmt: skip
    obj = apply(api, body, "me", "deployments", "apps").ok()
    assert {c["name"] for c in obj["spec"]["template"]["spec"]["containers"]} == {"main", "side"}
    fields = managers(obj)["me", "Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert fields['k:{"name":"side"}'] == {".": {}, "f:image": {}, "f:name": {}}
    del body["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
    again = apply(api, body, "me", "deployments", "apps").ok()
    assert [c["name"] for c in again["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_applied_finalizers_are_a_set(api: Client) -> None:
    body = cm("a")
    body["metadata"]["finalizers"] = ["example.com/one"]
    apply(api, body).ok()
    other = cm("a")
    other["metadata"]["finalizers"] = ["example.com/two"]
    obj = apply(api, other, "other").ok()
    assert set(obj["metadata"]["finalizers"]) == {"example.com/one", "example.com/two"}
    assert apply(api, cm("a"), "me").ok()["metadata"]["finalizers"] == ["example.com/two"]
    apply(api, cm("a"), "other").ok()


def test_scaling_takes_the_replicas_from_the_applier(api: Client) -> None:
    body = deployment("a", 1)
    apply(api, body, "me", "deployments", "apps").ok()
    path = api.path("deployments", "a", "apps")
    api.patch(f"{path}/scale", {"spec": {"replicas": 3}}, fieldManager="scaler").ok()
    apply(api, body, "me", "deployments", "apps").refused(409, "Conflict")
    del body["spec"]["replicas"]
    assert apply(api, body, "me", "deployments", "apps").ok()["spec"]["replicas"] == 3


def test_dry_run_apply(api: Client) -> None:
    apply(api, cm("a", x="1"), dryRun="All").ok()
    api.get(api.path("configmaps", "a")).refused(404, "NotFound")


def test_apply_on_an_object_that_was_created_otherwise(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a", x="1"), fieldManager="maker").ok()
    obj = apply(api, cm("a", y="2")).ok()
    assert obj["data"] == {"x": "1", "y": "2"}
    apply(api, cm("a", x="2")).refused(409, "Conflict")


def test_the_status_can_be_applied(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "status": {"readyReplicas": 1, "replicas": 1},
    }
    path = f"{api.path('deployments', 'a', 'apps')}/status"
    assert api.patch(path, body, APPLY, fieldManager="me").ok()["status"]["readyReplicas"] == 1


def test_managed_fields_can_be_taken_away(api: Client) -> None:
    apply(api, cm("a", x="1")).ok()
    patch: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    obj = api.patch(api.path("configmaps", "a"), patch, STRATEGIC).ok()
    assert ("me", "Apply") not in managers(obj) if "managedFields" in obj["metadata"] else True
