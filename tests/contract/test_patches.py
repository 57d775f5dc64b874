"""The three patches: what merges, what is replaced, what is refused."""

from __future__ import annotations

from tests.contract.builders import config_map, deployment, pod
from tests.contract.client import JSON_PATCH, MERGE, STRATEGIC, Client


def test_merge_patch_sets_and_removes(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a", x="1", y="2")).ok()
    assert api.patch(api.path("configmaps", "a"), {"data": {"x": "3", "y": None}}, MERGE).ok()["data"] == {"x": "3"}


def test_merge_patch_replaces_lists(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    containers = [{"name": "other", "image": "b"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = api.patch(api.path("deployments", "a", "apps"), patch, MERGE).ok()
    assert [c["name"] for c in patched["spec"]["template"]["spec"]["containers"]] == ["other"]


def test_a_patch_with_a_stale_version_is_409(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    api.patch(api.path("configmaps", "a"), {"data": {"x": "2"}}).ok()
    stale = {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    api.patch(api.path("configmaps", "a"), stale).refused(409, "Conflict")


def test_a_patch_of_an_absent_object_is_404(api: Client) -> None:
    api.patch(api.path("configmaps", "a"), {"data": {}}).refused(404, "NotFound")


def test_json_patch_operations(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a", x="1", y="2")).ok()
    operations = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "9"},
        {"op": "remove", "path": "/data/y"},
        {"op": "add", "path": "/metadata/labels", "value": {"k": "v"}},
    ]
    patched = api.patch(api.path("configmaps", "a"), operations, JSON_PATCH).ok()
    assert patched["data"] == {"x": "9"}
    assert patched["metadata"]["labels"] == {"k": "v"}


def test_a_json_patch_test_that_fails_is_422(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    operations = [{"op": "test", "path": "/data/x", "value": "no"}]
    api.patch(api.path("configmaps", "a"), operations, JSON_PATCH).refused(422, "Invalid")


def test_a_json_patch_of_a_missing_path_is_422(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    api.patch(api.path("configmaps", "a"), [{"op": "remove", "path": "/data/no"}], JSON_PATCH).refused(422, "Invalid")


def test_strategic_merge_matches_containers_by_name(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    containers = [{"name": "main", "image": "new"}, {"name": "sidecar", "image": "s"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = api.patch(api.path("deployments", "a", "apps"), patch, STRATEGIC).ok()
    by_name = {c["name"]: c for c in patched["spec"]["template"]["spec"]["containers"]}
    assert by_name["main"]["image"] == "new"
    assert by_name["main"]["env"] == [{"name": "A", "value": "1"}]
    assert "sidecar" in by_name


def test_strategic_merge_deletes_an_item_on_request(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    env = [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "2"}]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": env}]}}}}
    patched = api.patch(api.path("deployments", "a", "apps"), patch, STRATEGIC).ok()
    assert patched["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}]


def test_strategic_merge_adds_to_finalizers(api: Client) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/one"]
    api.post(api.path("configmaps"), body).ok()
    path = api.path("configmaps", "a")
    patched = api.patch(path, {"metadata": {"finalizers": ["example.com/two"]}}, STRATEGIC).ok()
    assert set(patched["metadata"]["finalizers"]) == {"example.com/one", "example.com/two"}
    removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}
    assert api.patch(path, removal, STRATEGIC).ok()["metadata"]["finalizers"] == ["example.com/two"]
    api.patch(path, {"metadata": {"finalizers": None}}, MERGE).ok()


def test_strategic_merge_of_taints_replaces_the_list(client: Client) -> None:
    """Taints have a merge key in words only: the list is atomic, as `kubectl taint` assumes."""
    client.delete("/api/v1/nodes/node-patch")
    taints = [{"key": "a", "effect": "NoSchedule", "value": "1"}]
    client.post("/api/v1/nodes", {"metadata": {"name": "node-patch"}, "spec": {"taints": taints}}).ok()
    patched = client.patch(
        "/api/v1/nodes/node-patch", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, STRATEGIC
    ).ok()
    assert patched["spec"]["taints"] == [{"key": "b", "effect": "NoExecute"}]
    client.delete("/api/v1/nodes/node-patch").ok()


def test_strategic_merge_of_conditions_matches_by_type(client: Client) -> None:
    """So kubelet and controllers each write their own condition without reading the others."""
    client.delete("/api/v1/nodes/node-conditions")
    client.post("/api/v1/nodes", {"metadata": {"name": "node-conditions"}}).ok()
    path = "/api/v1/nodes/node-conditions/status"
    client.patch(
        path,
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}]}},
        STRATEGIC,
    ).ok()
    patched = client.patch(path, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC).ok()
    assert {c["type"]: c["status"] for c in patched["status"]["conditions"]} == {"Ready": "True", "Disk": "False"}
    client.delete("/api/v1/nodes/node-conditions").ok()


def test_retain_keys_drops_the_other_members_of_a_union(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    patched = api.patch(api.path("deployments", "a", "apps"), patch, STRATEGIC).ok()
    assert patched["spec"]["strategy"] == {"type": "Recreate"}


def test_an_unknown_patch_type_is_415(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a")).ok()
    api.patch(api.path("configmaps", "a"), {}, "application/json").refused(415, "UnsupportedMediaType")


def test_a_patch_cannot_rename(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a")).ok()
    assert api.patch(api.path("configmaps", "a"), {"metadata": {"name": "b"}}).code in (400, 422)


def test_most_of_a_pod_spec_cannot_be_changed(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    status = api.patch(api.path("pods", "a"), {"spec": {"nodeSelector": {"a": "b"}}}).refused(422, "Invalid")
    assert "pod updates may not change fields other than" in status["message"]


def test_tolerations_of_a_pod_can_be_added(api: Client) -> None:
    obj = api.post(api.path("pods"), pod("a")).ok()
    tolerations = [*obj["spec"]["tolerations"], {"key": "x", "operator": "Exists"}]
    assert (
        api.patch(api.path("pods", "a"), {"spec": {"tolerations": tolerations}}).ok()["spec"]["tolerations"]
        == tolerations
    )


def test_the_selector_of_a_deployment_cannot_be_changed(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a")).ok()
    patch = {"spec": {"selector": {"matchLabels": {"app": "b"}}}}
    status = api.patch(api.path("deployments", "a", "apps"), patch).refused(422, "Invalid")
    assert "spec.selector" in status["message"] or "selector" in status["message"]
